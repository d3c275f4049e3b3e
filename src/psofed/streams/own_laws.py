"""Laws that users bring: of inputs, as windows or as a series, and of the noise.

A law draws from the random numbers of one client, and from no others.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation.foreign import call, real
from psofed.streams.contract import BLOCK
from psofed.streams.synthetic import Drawn, Laws

DEPENDENT = 0.3  # correlation of neighbours, of hundreds, that chance does not give
GROWN = 5.0  # times: the inputs of a series whose law stays are not that much larger later
APART = 20  # rounds of a series between two of its windows that are taken as independent
FIELD = "stream.inputs"


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


Law = Callable[[ClientChance, int], Any]  # (client, count) to `count` values

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


def check_noise(law: Law, field: str) -> None:
    """Refuse noise that is not of the client's random numbers, or whose mean is not 0."""

    def draw() -> Array:
        clients = (ClientChance(Seeds(0), "probe", k) for k in range(20))
        return np.concatenate([values(law, client, (1000,), field).copy() for client in clients])

    drawn = _twice(draw, field)
    if abs(drawn.mean()) > 6 * drawn.std() / np.sqrt(len(drawn)) + 1e-12:
        right = "draw noise around 0, and add the rest to f"
        raise InputError(field, f"has mean {drawn.mean():.3g}, not 0", right)


def _twice(draw: Callable[[], Array], field: str) -> Array:
    """What is drawn; refused if it is not the same when it is drawn again."""
    one, again = draw().copy(), draw()
    if not np.array_equal(one, again):
        found = "gives other values when it is called again with the same random numbers"
        raise InputError(field, found, "draw all of them from client.random and client.own")
    return one


@dataclass(frozen=True)
class OwnInputs:
    """Windows from a user's function.

    A function of (client, count) returns that many independent ones; a generator function of
    (client) yields a window, or a number, in each round. Of numbers, a window has the last L,
    newest first, as in the paper.
    """

    taps: int
    function: Any

    @property
    def independent(self) -> bool:
        """Whether it has no `yield`."""
        bare = self.function
        while hasattr(bare, "func"):  # the function in a partial one
            bare = bare.func
        return not inspect.isgeneratorfunction(inspect.unwrap(bare))

    def rounds(
        self, seeds: Seeds, clients: Array, laws: Laws, first: int, stop: int, dtype: Any,
        memory: Any,
    ) -> Drawn:  # fmt: skip
        """The memory has the running series; one that was read on elsewhere is started again."""
        if self.independent:
            x = blocks(self.function, seeds, "inputs", clients, first, stop, (self.taps,), FIELD)
            running = np.empty((len(clients), 0), dtype)
        else:
            x = np.empty((len(clients), stop - first, self.taps))
            running = np.empty(len(clients), object)
            for i, k in enumerate(clients.tolist()):
                series = None if memory is None else memory[i]
                if series is None or series.at != first:
                    series = Series(self, ClientChance(seeds, "series", k))
                    series.skip(first)
                x[i] = series.take(stop - first)
                running[i] = series
        starts = range(first, stop, BLOCK)
        parts = [seeds.normals("noise", clients, BLOCK, round=n // BLOCK) for n in starts]
        noise = np.hstack(parts)[:, : stop - first].astype(dtype, copy=False)
        return Drawn(x.astype(dtype, copy=False), noise, running)

    def alone(self, seeds: Seeds, purpose: str, clients: Array, laws: Laws, count: int) -> Drawn:
        """With other random numbers; of another series, windows that are APART."""
        world, shape = seeds.world, (self.taps,)
        if self.independent:
            x = turns(self.function, world, f"inputs {purpose}", clients, count, shape, FIELD)
        else:
            x = turns(self._apart, world, f"series {purpose}", clients, count, shape, FIELD)
        return Drawn(x, world.generator(purpose).standard_normal(count))

    def _apart(self, client: ClientChance, count: int) -> Array:
        series = Series(self, client)
        return np.array([series.take(APART)[-1] for _ in range(count)])

    def law(self, laws: Laws) -> None:
        """Nobody knows."""

    def check(self) -> None:
        """Refuse what does not give windows, or windows that are not as independent as they say."""
        client = partial(ClientChance, Seeds(0), "probe", 0)
        if not self.independent:
            _twice(lambda: Series(self, client()).take(50), FIELD)
            return
        x = _twice(lambda: values(self.function, client(), (2 * BLOCK, self.taps), FIELD), FIELD)
        x = x - x.mean(axis=0)
        spread = np.square(x).mean(axis=0)
        lagged = np.abs((x[1:] * x[:-1]).mean(axis=0)) / np.where(spread, spread, 1)
        if lagged.max() > DEPENDENT:
            found = f"gives windows that follow from those before (correlation {lagged.max():.2f})"
            raise InputError(FIELD, found, "draw each again, or write a series with `yield`")

    def check_rounds(self, rounds: int) -> None:
        """Refuse a series that grows or moves away: models are judged by windows of other times."""
        part = min(rounds, 5000) // 5
        if part < 40:
            return
        sizes = np.full(2, 1e-30)
        for k in range(3):
            series = Series(self, ClientChance(Seeds(0), "probe", k))
            sizes[0] += np.square(series.take(part)).mean()
            series.skip(3 * part)
            sizes[1] += np.square(series.take(part)).mean()
        ratio = sizes[1] / sizes[0]
        if not 1 / GROWN < ratio < GROWN:
            found = f"has other inputs later: their mean square is {ratio:.3g} times that at first"
            raise InputError(FIELD, found, "use a series whose law stays as it is")


class Series:
    """The windows of one client's generator, in order."""

    def __init__(self, inputs: OwnInputs, client: ClientChance) -> None:
        self.taps, self.who, self.at = inputs.taps, client.number, 0
        self.windows = self._windows(call(FIELD, inputs.function, client))

    def _windows(self, found: Iterator[Any]) -> Iterator[Any]:
        last: deque[Any] = deque(maxlen=self.taps)
        for each in found:
            if np.ndim(each):
                yield each
                continue
            last.appendleft(each)
            if len(last) == self.taps:
                yield tuple(last)

    def take(self, count: int) -> Array:
        """The windows of the next `count` rounds."""
        rows = call(FIELD, list, islice(self.windows, count))
        self.at += len(rows)
        if len(rows) < count:
            found = f"ends, for client {self.who}, before round {self.at + 1}"
            raise InputError(FIELD, found, "yield for ever: while True")
        return real(FIELD, rows, (count, self.taps))

    def skip(self, count: int) -> None:
        """Leave out this many rounds."""
        for n in range(0, count, BLOCK):
            self.take(min(BLOCK, count - n))
