"""The one synthetic stream, of which the others are cases: inputs, a function f and noise.

One f is used for learning, for the test set, for the floors and by the theory. Inputs are windows
of the paper's AR(1) series, or independent windows of the same law.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from psofed.core import native
from psofed.core.native import Array
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import schema
from psofed.streams.contract import BLOCK, Origin, Samples, StreamOptions

Range = tuple[float, float]


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
        rounds = np.arange(first // BLOCK, -(-stop // BLOCK))
        drawn = seeds.normals("stream", clients[:, None], 2 * BLOCK, rounds)
        shape, here = (len(clients), len(rounds) * BLOCK), slice(stop - first)
        # The first half of a block is of the inputs, the second of the noise.
        halves = (drawn[..., :BLOCK], drawn[..., BLOCK:])
        normals, noise = (half.astype(dtype).reshape(shape)[:, here] for half in halves)
        if memory is None:
            # One more than the windows need: of one tap, the series still goes on from a number.
            before = seeds.normals("before", clients, max(self.taps - 1, 1))
            memory = autoregress(laws, before.astype(dtype, copy=False))
        series = np.hstack([memory, autoregress(laws, normals, memory[:, -1])])
        kept = series[:, -max(self.taps - 1, 1) :]
        return Drawn(windows(series, self.taps)[:, -(stop - first) :], noise, kept)

    def alone(self, seeds: Seeds, purpose: str, clients: Array, laws: Laws, count: int) -> Drawn:
        """Each window from the stationary law of its client."""
        laws = Laws(*(law[np.arange(count) % len(law)] for law in laws))
        numbers = self.taps + 1  # for a window and its noise
        normals = seeds.world.normals(purpose, 0, count * numbers).reshape(count, numbers)
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


def autoregress(laws: Laws, normals: Array, last: Array | None = None) -> Array:
    """Section 4: x_n = theta x_{n-1} + sqrt(1 - theta^2) u_n, u ~ N(mu_k, sigma_u^2).

    It continues from `last`, or starts in its stationary law: mean mu_k sqrt((1+theta)/(1-theta)),
    variance sigma_u^2.
    """
    theta, mean, variance, _ = (law.astype(normals.dtype) for law in laws)
    scale = np.sqrt(1 - theta**2)
    gain, offset = scale * np.sqrt(variance), scale * mean
    if last is None:
        first = mean * np.sqrt((1 + theta) / (1 - theta)) + np.sqrt(variance) * normals[:, 0]
    else:
        first = (normals[:, 0] * gain + offset) + theta * last
    if native.available():
        out, normals = np.empty(normals.shape, normals.dtype), np.ascontiguousarray(normals)
        out[:, 0] = first
        native.function("autoregress", out.dtype)(theta, gain, offset, normals, out, *out.shape)
        return out
    x = normals.T * gain + offset  # round by client: the recursion goes along the first axis
    x[0] = first
    for before, now in pairwise(x):
        now += theta * before
    return np.ascontiguousarray(x.T)


def windows(x: Array, taps: int) -> Array:
    """x_n = (x_n, ..., x_{n-L+1}), newest first, from a series per client."""
    return np.lib.stride_tricks.sliding_window_view(x, taps, axis=-1)[..., ::-1]


OURS = {"ar1": Autoregressive, "iid": Independent}
SWITCHES = ("away", "stay", "late")
TIMES = 64  # how long a client stays on and off, drawn at once
WAVES, SMOOTH = 8, 2.0  # of a client's own function: how many, and the width of their kernel
MEANT = {  # what a class of somebody else, derived from these, must not use for something else
    "clean": "give it `function`, by which models are judged too",
    "at": "take another name: it is the round at which f changes",
    "period": "take another name: f drifts with it",
}
MOST = float(np.finfo(np.float64).max)
LIMITS = {  # of the ranges, in numbers and in words
    "theta": (float(np.nextafter(-1, 0)), float(np.nextafter(1, 0)), " inside (-1, 1)"),
    "mean": (-MOST, MOST, ""),
    "variance": (0.0, MOST, " that are not negative"),
    "noise": (0.0, MOST, " that are not negative"),
    "rate": (float(np.nextafter(0, 1)), 1.0, " above 0, at most 1"),
}


@dataclass(frozen=True, kw_only=True)
class Synthetic(StreamOptions):
    """Eq. (1) with f_n = (1 - a_n) f + a_n later, a_n = `blend(n)`; f is constant by default.

    A derived class has `taps` and `function`, and `later` if that is not f of the inputs in reverse
    order. Clients may be switched off and on again; what is off measures nothing. The times on and
    off are geometric: in every round a client goes or comes with the same probability.
    """

    theta: Range = (0.2, 0.9)  # correlation of the input
    mean: Range = (-0.2, 0.2)  # of its innovation
    variance: Range = (0.2, 1.2)  # of its innovation
    noise: Range = (0.005, 0.03)  # variance of the observation noise
    inputs: str = "ar1"  # windows of a series; "iid": an independent one in each round
    at: int | None = None  # the round at which f changes
    period: int | None = None  # or the rounds in which it drifts to another f and back
    away: float = 0.0  # share of the time that a client is off, on average
    stay: float = 100.0  # rounds that it stays on, on average
    late: int = 0  # the last round in which a client comes for the first time; all have even odds
    rate: Range = (1.0, 1.0)  # of samples a round: clients have unequal amounts of data
    spread: float = 0.0  # how far clients differ: that of client k is f + spread g_k

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for key, right in MEANT.items():
            if key in cls.__dict__:
                raise InputError(cls.__qualname__, f"has its own `{key}`", right)

    def __post_init__(self) -> None:
        schema.check(self, skip=tuple(LIMITS))
        if self.inputs not in OURS:
            raise InputError("inputs", f"is {self.inputs!r}", f"use {', '.join(OURS)}")
        self.check_numbers()

    def check_numbers(self) -> None:
        """Refuse ranges in which there is no law, and times that cannot be."""
        for field, (least, most, words) in LIMITS.items():
            given = getattr(self, field)
            try:
                low, high = map(float, given)
            except (TypeError, ValueError):
                low = high = np.nan
            if not least <= low <= high <= most:
                right = f"use two numbers{words}, the smaller first"
                shown = list(given) if isinstance(given, tuple) else given
                raise InputError(field, f"is {shown!r}", right)
        if self.at is not None and self.period is not None:
            raise InputError("at", "is given with period", "f changes at once, or drifts")
        if self.at is not None and self.at < 0:
            raise InputError("at", f"is {self.at}", "use the number of a round, 0 or more")
        if self.period is not None and self.period < 2:
            raise InputError("period", f"is {self.period}", "use 2 rounds or more")
        schema.require(self, "spread", 0 <= self.spread < np.inf, "use 0 or more")
        if self.spread and self.changes:
            found = f"is {self.spread:g}, but f changes over time"
            raise InputError("spread", found, "leave out spread, or at and period")
        self._check_switches()

    def _check_switches(self) -> None:
        if not 0 <= self.away < 1:
            right = "use a share of the time, from 0 to below 1"
            raise InputError("away", f"is {self.away}", right)
        schema.require(self, "stay", 1 <= self.stay < np.inf, "use 1 round or more")
        if self.away and self._off < 1:
            found = f"is {self.stay}: with away = {self.away} clients would be off for less than a"
            least = np.ceil((1 - self.away) / self.away)
            raise InputError("stay", f"{found} round at a time", f"use {least:.0f} or more")
        schema.require(self, "late", self.late >= 0, "use the number of a round")

    def to_table(self) -> dict[str, Any]:
        """What is set, as plain values; nothing about switching where all is on."""
        unset = {"ar1": ("inputs",), "iid": ()}.get(self.inputs, ("theta", "mean", "variance"))
        unset += () if self.switches else SWITCHES
        unset += () if self.spread else ("spread",)
        unset += () if self.slow else ("rate",)
        return {key: value for key, value in super().to_table().items() if key not in unset}

    @property
    def taps(self) -> int:
        """L."""
        raise NotImplementedError

    @property
    def source(self) -> Any:
        """Where the windows come from."""
        return OURS[self.inputs](self.taps)

    @property
    def independent(self) -> bool:  # type: ignore[override]
        """Whether the windows of a client are independent over time."""
        return bool(self.source.independent)

    @property
    def changes(self) -> bool:  # type: ignore[override]
        """Whether f changes over time."""
        return self.at is not None or self.period is not None

    @property
    def switches(self) -> bool:
        """Whether anybody is ever off."""
        return self.away > 0 or self.late > 0

    @property
    def gaps(self) -> bool:  # type: ignore[override]
        """Clients that are off have no sample, and slow ones have none in some rounds."""
        return self.switches or self.slow

    @property
    def slow(self) -> bool:
        """Whether anybody has fewer samples than there are rounds."""
        return min(self.rate) < 1

    def function(self, x: Array) -> Array:
        """The noise-free f(x) [...] of inputs x [..., L]."""
        raise NotImplementedError

    def later(self, x: Array) -> Array | None:
        """What f changes into; a window read backwards has the same law, so it is as hard."""
        return self.function(x[..., ::-1]) if self.changes else None

    def blend(self, rounds: Array) -> Array:
        """a_n: a step at a round, or a wave, (1 - cos(2 pi n / period)) / 2."""
        n = np.asarray(rounds)
        if self.period is not None:
            return (1 - np.cos(2 * np.pi * (n % self.period / self.period))) / 2
        return (n >= (np.inf if self.at is None else self.at)).astype(np.float64)

    def clean(self, x: Array, first: int) -> Array:
        """The noise-free f_n(x) of rounds first, first + 1, ...; x is [..., round, L]."""
        later = self.later(x)
        if later is None:
            return self.function(x)
        a = self.blend(np.arange(first, first + x.shape[-2])).astype(x.dtype)
        return (1 - a) * self.function(x) + a * later

    def personal(self, seeds: Seeds, clients: Array, x: Array) -> Array:
        """spread g_k(x) of inputs x [client, ..., L].

        g_k = sqrt(2/J) sum_j cos(v_j^T x + c_j), v_j ~ N(0, I/sigma^2), c_j ~ U(0, 2 pi): a smooth
        function, whose mean square over clients is 1 at every x.
        """
        ones = (1,) * (x.ndim - 2)
        normals = seeds.world.normals("own slopes", clients, WAVES * self.taps)
        slopes = (normals / SMOOTH).astype(x.dtype).reshape(len(clients), WAVES, *ones, self.taps)
        turns = seeds.world.uniforms("own phases", client=clients, count=WAVES)
        phases = (2 * np.pi * turns).astype(x.dtype).reshape(len(clients), WAVES, *ones)
        found = np.zeros(x.shape[:-1], x.dtype)
        for j in range(WAVES):  # one at a time: all of them would be as large as the features
            found += np.cos(np.vecdot(x, slopes[:, j]) + phases[:, j])
        return found * x.dtype.type(self.spread * np.sqrt(2 / WAVES))

    def laws(self, seeds: Seeds, clients: Array) -> Laws:
        """The parameters of `clients`, each uniform in its range."""
        u = seeds.world.uniforms("law", client=clients, count=4)
        ranges = np.array([self.theta, self.mean, self.variance, self.noise])
        return Laws(*(ranges[:, 0] + u * np.diff(ranges).T).T)

    def origins(self) -> list[Origin] | None:
        """Windows of a series: the last L values of one signal."""
        series = type(self.source) is Autoregressive
        return [("x", lag) for lag in range(self.taps)] if series else None

    def input_law(self, seeds: Seeds, clients: Array) -> tuple[Array, Array] | None:
        """Mean [K, L] and covariance [K, L, L] of the windows, where they are Gaussian."""
        return self.source.law(self.laws(seeds, clients))

    def noise_of(self, seeds: Seeds, clients: Array, first: int, normals: Array) -> Array:
        """Noise of variance 1 of rounds first, first + 1, ...: the normals that were drawn."""
        return normals

    def noise_alone(self, seeds: Seeds, purpose: str, clients: Array, normals: Array) -> Array:
        """The same of independent samples, which belong to these clients in turn."""
        return normals

    def samples(
        self, seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any = np.float64,
        memory: Any = None,
    ) -> Samples:  # fmt: skip
        """The samples of rounds first..stop-1, without y where a client is off."""
        laws = self.laws(seeds, clients)
        x, normals, memory = self.source.rounds(seeds, clients, laws, first, stop, dtype, memory)
        noise = self.noise_of(seeds, clients, first, normals)
        noise *= np.sqrt(laws.noise).astype(dtype)[:, None]
        if self.switches:
            noise[~self.awake(seeds, clients, first, stop)] = np.nan
        if self.slow:
            noise[~self.measures(seeds, clients, first, stop)] = np.nan
        clean = self.clean(x, first)
        if self.spread:
            clean = clean + self.personal(seeds, clients, x)
        return Samples(x, clean, noise, memory)

    def snapshot(self, seeds: Seeds, purpose: str, clients: int | Array, count: int) -> Samples:
        """`count` independent samples that cover the laws of all clients, or of some, evenly."""
        if isinstance(clients, int):
            some = min(clients, count)
            clients = np.arange(some) * clients // some
        laws = self.laws(seeds, clients)
        x, normals, _ = self.source.alone(seeds, purpose, clients, laws, count)
        noise, turn = self.noise_alone(seeds, purpose, clients, normals), np.arange(count)
        turn %= len(clients)
        clean = self.function(x)
        if self.spread:
            clean = clean + self.personal(seeds, clients[turn], x)
        return Samples(x, clean, np.sqrt(laws.noise)[turn] * noise)

    def measures(self, seeds: Seeds, clients: Array, first: int, stop: int) -> Array:
        """Whether each client has a sample in rounds first..stop-1: by chance, at a rate of its own
        that is uniform in its range.
        """
        low, high = self.rate
        rates = low + (high - low) * seeds.world.uniforms("rate", client=clients, count=1)
        drawn = seeds.uniforms(
            "sample", client=clients[:, None], round=np.arange(first, stop), count=1
        )
        found: Array = drawn[..., 0] < rates
        return found

    @property
    def _off(self) -> float:
        """Rounds that a client stays off, on average."""
        return self.stay * self.away / (1 - self.away)

    def awake(self, seeds: Seeds, clients: Array, first: int, stop: int) -> Array:
        """Whether each client is on in rounds first..stop-1: [client, round]."""
        rounds = np.arange(first, stop)
        on = np.ones((len(clients), len(rounds)), bool)
        if self.away:
            on = self._switched(seeds, clients, rounds)
        if self.late:
            u = seeds.uniforms("late", client=clients, count=1)
            on &= np.floor(u * (self.late + 1)) <= rounds
        return on

    def _switched(self, seeds: Seeds, clients: Array, rounds: Array) -> Array:
        on = seeds.uniforms("awake", client=clients, count=1) >= self.away  # as in the long run
        means = np.where(on, (self.stay, self._off), (self._off, self.stay))
        flips, end, part = np.zeros((len(clients), len(rounds)), np.intp), 0 * clients, 0
        stop = rounds[-1] + 1
        while (end < stop).any():  # each client's times, one after another
            u = seeds.uniforms("switch", client=clients, round=part, count=TIMES)
            times = end[:, None] + np.cumsum(geometric(u, np.tile(means, TIMES // 2)), axis=1)
            k, i = np.nonzero(times < stop)
            np.add.at(flips, (k, np.maximum(times[k, i] - rounds[0], 0)), 1)
            end, part = times[:, -1], part + 1
        return on ^ (np.cumsum(flips, axis=1) % 2 == 1)


def geometric(u: Array, mean: Array) -> Array:
    """Numbers of rounds, 1 at least, of these means, from uniforms.

    >>> geometric(np.array([0.0, 0.6, 0.9]), np.array([2.0, 2.0, 1.0])).tolist()
    [1, 2, 1]
    """
    again = np.log1p(-1 / np.maximum(mean, 1 + 1e-12))
    return 1 + np.where(mean > 1, np.log1p(-u) / again, 0).astype(np.intp)
