"""The paper's synthetic non-IID stream: an AR(1) input at each client and one nonlinear f."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.streams.contract import BLOCK, Samples, StreamOptions

Array = NDArray[Any]
Range = tuple[float, float]


def f(x: NDArray[Any]) -> NDArray[Any]:
    """Section 4: f(x) = sqrt(x1^2 + sin^2(pi x4)) + (0.8 - 0.5 exp(-x2^2)) x3, noise-free."""
    x1, x2, x3, x4 = (x[..., i] for i in range(4))
    y: NDArray[Any] = np.sqrt(x1**2 + np.sin(np.pi * x4) ** 2)
    y += (0.8 - 0.5 * np.exp(-(x2**2))) * x3
    return y


class Laws(NamedTuple):
    """theta_k, mu_k, sigma_u^2 and sigma_nu^2 of some clients."""

    theta: Array
    mean: Array
    variance: Array
    noise: Array


@dataclass(frozen=True)
class Options(StreamOptions):
    """The ranges of U(.) from which each client's law is drawn."""

    name: ClassVar[str] = "paper"
    taps: ClassVar[int] = 4
    theta: Range = (0.2, 0.9)  # correlation of the input
    mean: Range = (-0.2, 0.2)  # of its innovation
    variance: Range = (0.2, 1.2)  # of its innovation
    noise: Range = (0.005, 0.03)  # variance of the observation noise

    def __post_init__(self) -> None:
        limits = {"theta": (-1, 1), "variance": (0, np.inf), "noise": (0, np.inf)}
        for field in Laws._fields:
            low, high = getattr(self, field)
            least, most = limits.get(field, (-np.inf, np.inf))
            if not (np.isfinite([low, high]).all() and low <= high):
                raise InputError(field, f"is [{low}, {high}]", "use two numbers, the smaller first")
            if low < least or high > most or (field == "theta" and max(-low, high) >= 1):
                right = "keep it inside (-1, 1)" if field == "theta" else "no value may be negative"
                raise InputError(field, f"is [{low}, {high}]", right)

    def laws(self, seeds: Seeds, clients: NDArray[Any]) -> Laws:
        """The parameters of `clients`, each uniform in its range."""
        u = seeds.world.uniforms("law", client=clients, count=4)
        ranges = np.array([self.theta, self.mean, self.variance, self.noise])
        return Laws(*(ranges[:, 0] + u * np.diff(ranges).T).T)

    def input_law(self, seeds: Seeds, clients: NDArray[Any]) -> tuple[Array, Array]:
        """Mean [K, L] and covariance [K, L, L] of a window: it is Gaussian, as its series is."""
        laws = self.laws(seeds, clients)
        mean = laws.mean * np.sqrt((1 + laws.theta) / (1 - laws.theta))
        lag = np.abs(np.subtract.outer(np.arange(self.taps), np.arange(self.taps)))
        covariance = laws.variance[:, None, None] * laws.theta[:, None, None] ** lag
        return np.repeat(mean[:, None], self.taps, axis=1), covariance

    def samples(
        self,
        seeds: Seeds,
        clients: NDArray[Any],
        first: int,
        stop: int,
        dtype: Any = np.float64,
        memory: NDArray[Any] | None = None,
    ) -> Samples:
        """The samples of rounds first..stop-1; later rounds never change the earlier ones."""
        laws = self.laws(seeds, clients)
        normals = np.empty((2, len(clients), stop - first), dtype)  # of the input, of the noise
        for n in range(first, stop, BLOCK):
            block = seeds.normals("stream", clients, 2 * BLOCK, round=n // BLOCK)
            here = slice(n - first, n - first + BLOCK)
            normals[0, :, here] = block[:, :BLOCK][:, : stop - n]
            normals[1, :, here] = block[:, BLOCK:][:, : stop - n]
        if memory is None:
            before = seeds.normals("before", clients, self.taps - 1).astype(dtype, copy=False)
            memory = autoregress(laws, before)
        series = np.hstack([memory, autoregress(laws, normals[0], memory[:, -1])])
        x = windows(series, self.taps)
        noise = normals[1]
        noise *= np.sqrt(laws.noise).astype(dtype)[:, None]
        return Samples(x, self.clean(x, first), noise, series[:, 1 - self.taps :])

    def clean(self, x: Array, first: int) -> Array:
        """The noise-free f(x) of rounds first, first + 1, ..."""
        return f(x)

    def snapshot(self, seeds: Seeds, purpose: str, clients: int | Array, count: int) -> Samples:
        """`count` independent samples that cover the laws of all clients, or of some, evenly."""
        if isinstance(clients, int):
            some = min(clients, count)
            clients = np.arange(some) * clients // some
        laws = Laws(*(law[np.arange(count) % len(law)] for law in self.laws(seeds, clients)))
        normals = seeds.world.generator(purpose).standard_normal((count, self.taps + 1))
        x = windows(autoregress(laws, normals[:, :-1]), self.taps)[:, 0]
        return Samples(x, f(x), np.sqrt(laws.noise) * normals[:, -1])


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
