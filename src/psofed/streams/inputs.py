"""Where the inputs of a synthetic stream come from: the paper's AR(1), or a user's own law."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.core.foreign import call, real
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.streams import chance
from psofed.streams.chance import ClientChance, Law
from psofed.streams.contract import BLOCK

Array = NDArray[Any]
DEPENDENT = 0.3  # correlation of neighbours, of hundreds, that chance does not give
GROWN = 5.0  # times: the inputs of a series whose law stays are not that much larger later
APART = 20  # rounds of a series between two of its windows that are taken as independent


class Laws(NamedTuple):
    """theta_k, mu_k, sigma_u^2 and sigma_nu^2 of some clients."""

    theta: Array
    mean: Array
    variance: Array
    noise: Array


class Drawn(NamedTuple):
    """Windows x [..., L], standard normals for their noise [...], and what a series needs next."""

    x: Array
    normals: Array
    memory: Any = None


class Inputs(Protocol):
    """`rounds` has the windows of rounds first..stop-1, `alone` independent ones, in turn."""

    independent: ClassVar[bool]  # whether the windows of a client are independent over time

    def rounds(
        self, seeds: Seeds, clients: Array, laws: Laws, first: int, stop: int, dtype: Any,
        memory: Any,
    ) -> Drawn: ...  # fmt: skip

    def alone(
        self, seeds: Seeds, purpose: str, clients: Array, laws: Laws, count: int
    ) -> Drawn: ...

    def law(self, laws: Laws) -> tuple[Array, Array] | None: ...


@dataclass(frozen=True)
class Autoregressive:
    """Section 4: windows of an AR(1) series."""

    independent: ClassVar[bool] = False
    taps: int

    def rounds(
        self, seeds: Seeds, clients: Array, laws: Laws, first: int, stop: int, dtype: Any,
        memory: Any,
    ) -> Drawn:  # fmt: skip
        """The memory is the end of the series, L - 1 numbers."""
        normals = np.empty((2, len(clients), stop - first), dtype)  # of the input, of the noise
        for n in range(first, stop, BLOCK):
            block = seeds.normals("stream", clients, 2 * BLOCK, round=n // BLOCK)
            here = slice(n - first, n - first + BLOCK)
            normals[0, :, here] = block[:, :BLOCK][:, : stop - n]
            normals[1, :, here] = block[:, BLOCK:][:, : stop - n]
        if memory is None:
            # One more than the windows need: of one tap, the series still goes on from a number.
            before = seeds.normals("before", clients, max(self.taps - 1, 1))
            memory = autoregress(laws, before.astype(dtype, copy=False))
        series = np.hstack([memory, autoregress(laws, normals[0], memory[:, -1])])
        kept = series[:, -max(self.taps - 1, 1) :]
        return Drawn(windows(series, self.taps)[:, -(stop - first) :], normals[1], kept)

    def alone(self, seeds: Seeds, purpose: str, clients: Array, laws: Laws, count: int) -> Drawn:
        """Each window from the stationary law of its client."""
        laws = Laws(*(law[np.arange(count) % len(law)] for law in laws))
        normals = seeds.world.generator(purpose).standard_normal((count, self.taps + 1))
        x = windows(autoregress(laws, normals[:, :-1]), self.taps)[:, 0]
        return Drawn(x, normals[:, -1])

    def law(self, laws: Laws) -> tuple[Array, Array]:
        """Mean [K, L] and covariance [K, L, L] of a window: it is Gaussian, as its series is."""
        mean = laws.mean * np.sqrt((1 + laws.theta) / (1 - laws.theta))
        lag = np.abs(np.subtract.outer(np.arange(self.taps), np.arange(self.taps)))
        covariance = laws.variance[:, None, None] * laws.theta[:, None, None] ** lag
        return np.repeat(mean[:, None], self.taps, axis=1), covariance


@dataclass(frozen=True)
class Independent(Autoregressive):
    """The same law of a window, but a fresh one in each round."""

    independent: ClassVar[bool] = True

    def rounds(
        self, seeds: Seeds, clients: Array, laws: Laws, first: int, stop: int, dtype: Any,
        memory: Any,
    ) -> Drawn:  # fmt: skip
        """There is no memory, but callers cut it to clients, so it has a row for each."""
        numbers = self.taps + 1  # for a window and its noise
        normals = np.empty((len(clients), stop - first, numbers), dtype)
        for n in range(first, stop, BLOCK):
            block = seeds.normals("iid", clients, numbers * BLOCK, round=n // BLOCK)
            rows = block.reshape(len(clients), BLOCK, numbers)[:, : stop - n]
            normals[:, n - first : n - first + BLOCK] = rows
        each = Laws(*(np.repeat(law, stop - first) for law in laws))
        series = autoregress(each, normals[..., :-1].reshape(-1, self.taps))
        x = series.reshape(len(clients), stop - first, self.taps)[..., ::-1]
        return Drawn(x, normals[..., -1], np.empty((len(clients), 0), dtype))


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
        x = chance.blocks(
            self.function, seeds, "inputs", clients, first, stop, (self.taps,), "stream.inputs"
        )
        normals = _normals(seeds, clients, first, stop, dtype)
        return Drawn(x.astype(dtype, copy=False), normals, np.empty((len(clients), 0), dtype))

    def alone(self, seeds: Seeds, purpose: str, clients: Array, laws: Laws, count: int) -> Drawn:
        """With other random numbers."""
        x = chance.turns(
            self.function, seeds.world, f"inputs {purpose}", clients, count, (self.taps,),
            "stream.inputs",
        )  # fmt: skip
        return Drawn(x, seeds.world.generator(purpose).standard_normal(count))

    def law(self, laws: Laws) -> None:
        """Nobody knows."""

    def check(self) -> None:
        """Refuse what does not give windows, or windows that are not independent."""
        x = chance.check_law(self.function, (self.taps,), "inputs")
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


def autoregress(laws: Laws, normals: Array, last: Array | None = None) -> Array:
    """Section 4: x_n = theta x_{n-1} + sqrt(1 - theta^2) u_n, u ~ N(mu_k, sigma_u^2).

    It continues from `last`, or starts in its stationary law: mean mu_k sqrt((1+theta)/(1-theta)),
    variance sigma_u^2.
    """
    theta, mean, variance, _ = (law.astype(normals.dtype) for law in laws)
    scale = np.sqrt(1 - theta**2)
    x = np.ascontiguousarray(normals.T)  # round by client: the recursion goes along the first axis
    first = mean * np.sqrt((1 + theta) / (1 - theta)) + np.sqrt(variance) * x[0]
    x *= scale * np.sqrt(variance)
    x += scale * mean
    if last is None:
        x[0] = first
    else:
        x[0] += theta * last
    step = np.empty_like(theta)
    for n in range(1, len(x)):
        x[n] += np.multiply(theta, x[n - 1], out=step)
    return np.ascontiguousarray(x.T)


def windows(x: Array, taps: int) -> Array:
    """x_n = (x_n, ..., x_{n-L+1}), newest first, from a series per client."""
    return np.lib.stride_tricks.sliding_window_view(x, taps, axis=-1)[..., ::-1]
