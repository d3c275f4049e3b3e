"""Laws that users bring: of inputs, as windows or as a series, and of the noise.

A law draws from the random numbers of one client, and from no others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation.foreign import call, real
from psofed.streams.contract import BLOCK
from psofed.streams.synthetic import Drawn, Laws, windows

Array = NDArray[Any]
DEPENDENT = 0.3  # correlation of neighbours, of hundreds, that chance does not give
GROWN = 5.0  # times: the inputs of a series whose law stays are not that much larger later
APART = 20  # rounds of a series between two of its windows that are taken as independent


@dataclass(frozen=True, eq=False)
class ClientChance:
    """One client's random numbers, as NumPy's generators; each call of a law gets a new one.

    Laws may use no others: all results are functions of the seed.

    >>> one, again = (ClientChance(Seeds(0), "test", 7) for _ in range(2))
    >>> bool(one.random.normal() == again.random.normal())
    True
    """

    seeds: Seeds
    purpose: str
    number: int  # k
    block: int = 0
    moved: np.random.Generator | None = None  # `random`, where it has been made already

    @cached_property
    def random(self) -> np.random.Generator:
        """For what is drawn now."""
        return self.moved or self.seeds.generator(
            self.purpose, client=self.number, round=self.block
        )

    @cached_property
    def own(self) -> np.random.Generator:
        """For what makes the client itself: the same numbers in learning and in testing."""
        return self.seeds.world.generator("own", client=self.number)


Law = Callable[[ClientChance, int], Any]  # a client and a count to that many values

# Mean 0 and variance 1. Student's law has 5 degrees of freedom.
NOISES: dict[str, Law] = {
    "laplace": lambda client, count: client.random.laplace(0, np.sqrt(1 / 2), count),
    "student": lambda client, count: client.random.standard_t(5, count) * np.sqrt(3 / 5),
    "uniform": lambda client, count: client.random.uniform(-np.sqrt(3), np.sqrt(3), count),
}


def values(law: Law, client: ClientChance, shape: tuple[int, ...], field: str) -> Array:
    """`shape[0]` values of a law, checked."""
    return real(field, call(field, law, client, shape[0]), shape)


def blocks(
    law: Law, seeds: Seeds, purpose: str, clients: Array, first: int, stop: int,
    shape: tuple[int, ...], field: str,
) -> Array:  # fmt: skip
    """The values of rounds first..stop-1, client by client; whole blocks are drawn."""
    out = np.empty((len(clients), stop - first, *shape))
    moved = seeds.mover(purpose)
    for row, k in zip(out, clients.tolist(), strict=True):
        for n in range(first, stop, BLOCK):
            client = ClientChance(seeds, purpose, k, n // BLOCK, moved(k, n // BLOCK))
            drawn = values(law, client, (BLOCK, *shape), field)
            row[n - first : n - first + BLOCK] = drawn[: stop - n]
    return out


def turns(
    law: Law, seeds: Seeds, purpose: str, clients: Array, count: int, shape: tuple[int, ...],
    field: str,
) -> Array:  # fmt: skip
    """`count` values that belong to `clients` in turn."""
    out = np.empty((count, *shape))
    for i, k in enumerate(clients[:count].tolist()):
        here = out[i :: len(clients)]
        here[:] = values(law, ClientChance(seeds, purpose, k), here.shape, field)
    return out


def check_law(law: Law, shape: tuple[int, ...], field: str) -> Array:
    """Refuse a law that is not a function of the client's random numbers; returns some values."""
    one, again, other = (
        values(law, ClientChance(Seeds(0), "probe", k), (2 * BLOCK, *shape), field).copy()
        for k in (0, 0, 1)
    )
    if not np.array_equal(one, again):
        found = "gives other values when it is called again with the same random numbers"
        raise InputError(field, found, "draw all of them from client.random and client.own")
    return np.concatenate([one, other])


def tail(law: Law, field: str) -> float:
    """The index of the law's tail, P(|v| > t) ~ t^-index: Hill's estimate, the largest of three.

    The variance is finite above 2. Laws with rare outliers have a light tail at one of the depths.

    >>> 0.5 < tail(lambda client, count: client.random.standard_cauchy(count), "law") < 1.5
    True
    """
    drawn = [values(law, ClientChance(Seeds(0), "tail", k), (5000,), field) for k in range(20)]
    sizes = np.sort(np.abs(np.concatenate(drawn)))[::-1]
    found = []
    for depth in (20, 100, 1000):
        if sizes[depth] <= 0:
            return np.inf
        mean = np.log(sizes[:depth] / sizes[depth]).mean()
        found.append(1 / mean if mean > 0 else np.inf)
    return float(max(found))


def check_noise(law: Law, field: str) -> None:
    """Refuse noise whose mean is not 0: f would not be what is learned."""
    drawn = np.concatenate([
        values(law, ClientChance(Seeds(0), "probe noise", k), (1000,), field) for k in range(20)
    ])  # fmt: skip
    if abs(drawn.mean()) > 6 * drawn.std() / np.sqrt(len(drawn)) + 1e-12:
        right = "draw noise around 0, and add the rest to f"
        raise InputError(field, f"has mean {drawn.mean():.3g}, not 0", right)


@dataclass(frozen=True)
class OwnWindows:
    """A user's function of (client, count): that many independent windows of the client."""

    independent: ClassVar[bool] = True
    taps: int
    function: Law

    def rounds(
        self, seeds: Seeds, clients: Array, laws: Laws, first: int, stop: int, dtype: Any,
        memory: Any,
    ) -> Drawn:  # fmt: skip
        """A block at a time."""
        x = blocks(
            self.function, seeds, "inputs", clients, first, stop, (self.taps,), "stream.inputs"
        )
        normals = _normals(seeds, clients, first, stop, dtype)
        return Drawn(x.astype(dtype, copy=False), normals, np.empty((len(clients), 0), dtype))

    def alone(self, seeds: Seeds, purpose: str, clients: Array, laws: Laws, count: int) -> Drawn:
        """With other random numbers."""
        x = turns(
            self.function, seeds.world, f"inputs {purpose}", clients, count, (self.taps,),
            "stream.inputs",
        )  # fmt: skip
        return Drawn(x, seeds.world.generator(purpose).standard_normal(count))

    def law(self, laws: Laws) -> None:
        """Nobody knows."""

    def check(self) -> None:
        """Refuse what does not give windows, or windows that are not independent."""
        x = check_law(self.function, (self.taps,), "inputs")
        x = x[: len(x) // 2] - x[: len(x) // 2].mean(axis=0)  # of one client
        spread = np.square(x).mean(axis=0)
        lagged = np.abs((x[1:] * x[:-1]).mean(axis=0)) / np.where(spread, spread, 1)
        if lagged.max() > DEPENDENT:
            found = f"gives windows that follow from those before (correlation {lagged.max():.2f})"
            raise InputError("inputs", found, "draw each anew, or write a series with `yield`")


@dataclass(frozen=True)
class OwnSeries:
    """A user's generator of a client: it yields a window, or a number, in each round.

    Of numbers, a window has the last L, newest first, as in the paper.
    """

    independent: ClassVar[bool] = False
    taps: int
    function: Callable[[ClientChance], Iterator[Any]]

    def rounds(
        self, seeds: Seeds, clients: Array, laws: Laws, first: int, stop: int, dtype: Any,
        memory: Any,
    ) -> Drawn:  # fmt: skip
        """The memory has the running series; one that was read on elsewhere is started again."""
        x = np.empty((len(clients), stop - first, self.taps), dtype)
        running = np.empty(len(clients), object)
        for i, k in enumerate(clients.tolist()):
            series = None if memory is None else memory[i]
            if series is None or series.at != first:
                series = Series(self.function, ClientChance(seeds, "series", k), self.taps)
                series.skip(first)
            x[i] = series.take(stop - first)
            running[i] = series
        return Drawn(x, _normals(seeds, clients, first, stop, dtype), running)

    def alone(self, seeds: Seeds, purpose: str, clients: Array, laws: Laws, count: int) -> Drawn:
        """Windows of another series of each client, APART rounds from one another."""
        x = np.empty((count, self.taps))
        for i, k in enumerate(clients[:count].tolist()):
            client = ClientChance(seeds.world, f"series {purpose}", k)
            here, series = x[i :: len(clients)], Series(self.function, client, self.taps)
            for j in range(0, len(here), BLOCK):
                some = here[j : j + BLOCK]
                some[:] = series.take(APART * len(some))[APART - 1 :: APART]
        return Drawn(x, seeds.world.generator(purpose).standard_normal(count))

    def law(self, laws: Laws) -> None:
        """Nobody knows."""

    def check(self) -> None:
        """Refuse what does not give windows."""
        one, again = (
            Series(self.function, ClientChance(Seeds(0), "probe", 0), self.taps, "inputs").take(50)
            for _ in range(2)
        )
        if not np.array_equal(one, again):
            found = "gives other values when it is called again with the same random numbers"
            raise InputError("inputs", found, "draw all of them from client.random and client.own")

    def check_rounds(self, rounds: int) -> None:
        """Refuse a series that grows or moves away: models are judged by windows of other times."""
        part = min(rounds, 5000) // 5
        if part < 40:
            return
        early, late = [], []
        for k in range(3):
            series = Series(self.function, ClientChance(Seeds(0), "probe", k), self.taps)
            early.append(series.take(part).copy())
            series.skip(3 * part)
            late.append(series.take(part).copy())
        sizes = [np.square(x).mean() + 1e-30 for x in (early, late)]
        ratio = sizes[1] / sizes[0]
        if not 1 / GROWN < ratio < GROWN:
            found = f"has other inputs later: their mean square is {ratio:.3g} times that at first"
            raise InputError("stream.inputs", found, "use a series whose law stays as it is")


def inputs(taps: int, function: Any) -> OwnWindows | OwnSeries:
    """What a user's function gives: with `yield`, a series."""
    bare = function
    while hasattr(bare, "func"):  # the function in a partial one
        bare = bare.func
    series = inspect.isgeneratorfunction(inspect.unwrap(bare))
    return (OwnSeries if series else OwnWindows)(taps, function)


class Series:
    """The windows of one client's generator, in order."""

    def __init__(
        self, function: Any, client: ClientChance, taps: int, field: str = "stream.inputs"
    ) -> None:
        self.who, self.taps, self.field, self.at = client.number, taps, field, 0
        self.values = call(field, function, client)
        first = self._read(1)
        self.tail: Array | None = None  # the numbers before; None: it yields windows
        self.ready: list[Any] = first
        if call(field, np.ndim, first[0]) == 0:
            before = first + self._read(taps - 2) if taps > 1 else []
            self.tail, self.ready = self._numbers(before, ()), [] if taps > 1 else first

    def _read(self, count: int) -> list[Any]:
        if count <= 0:
            return []
        found: list[Any] = call(self.field, list, islice(self.values, count))
        if len(found) < count:
            text = f"ends, for client {self.who}, before round {self.at + len(found) + 1}"
            raise InputError(self.field, text, "yield for ever: while True")
        return found

    def _numbers(self, rows: list[Any], shape: tuple[int, ...]) -> Array:
        return real(self.field, rows if rows else np.empty((0, *shape)), (len(rows), *shape))

    def take(self, count: int) -> Array:
        """The windows of the next `count` rounds."""
        rows = self.ready + self._read(count - len(self.ready))
        self.ready, self.at = [], self.at + count
        if self.tail is None:
            return self._numbers(rows, (self.taps,))
        series = np.concatenate([self.tail, self._numbers(rows, ())])
        self.tail = series[len(series) - (self.taps - 1) :]
        return windows(series, self.taps)

    def skip(self, count: int) -> None:
        """Leave out this many rounds."""
        for n in range(0, count, BLOCK):
            self.take(min(BLOCK, count - n))


def _normals(seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any) -> Array:
    """For the noise, where the inputs are not ours."""
    starts = range(first, stop, BLOCK)
    parts = [seeds.normals("noise", clients, BLOCK, round=n // BLOCK) for n in starts]
    return np.hstack(parts)[:, : stop - first].astype(dtype, copy=False)
