"""Where the inputs of a synthetic stream come from: the paper's AR(1), or windows of that law."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

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
    for before, now in pairwise(x):
        np.add(now, np.multiply(theta, before, step), now)
    return np.ascontiguousarray(x.T)


def windows(x: Array, taps: int) -> Array:
    """x_n = (x_n, ..., x_{n-L+1}), newest first, from a series per client."""
    return np.lib.stride_tricks.sliding_window_view(x, taps, axis=-1)[..., ::-1]
