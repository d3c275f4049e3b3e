"""Where the inputs of a synthetic stream come from: the paper's AR(1), or windows of that law."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed import native
from psofed.core.seeds import Seeds
from psofed.streams.contract import BLOCK

Array = NDArray[Any]


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
