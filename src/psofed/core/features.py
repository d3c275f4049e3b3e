"""Random Fourier features: x in R^L to z in R^D, so that z(x)^T z(x') approximates a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds

Array = NDArray[Any]


class FeatureMap(Protocol):
    """z = features(x): the last axis goes from L inputs to D features."""

    @property
    def dim(self) -> int: ...

    def __call__(self, x: Array) -> Array: ...

    def astype(self, dtype: Any) -> FeatureMap: ...


@dataclass(frozen=True, eq=False)
class Waves:
    """z = sqrt(2/D) cos(W x + b), the paper's cosine feature function.

    >>> Waves(W=np.zeros((2, 3)), b=np.zeros(2))(np.ones(3)).tolist()
    [1.0, 1.0]
    """

    W: Array
    b: Array

    @property
    def dim(self) -> int:
        return len(self.b)

    def __call__(self, x: Array) -> Array:
        phase = x @ self.W.T
        phase += self.b
        z = np.cos(phase, out=phase)
        z *= np.sqrt(2 / self.dim).astype(z.dtype)
        return z

    def astype(self, dtype: Any) -> Waves:
        return Waves(self.W.astype(dtype), self.b.astype(dtype))


@dataclass(frozen=True, eq=False)
class Bumps:
    """z_i = exp(-|x - c_i|^2 / (2 sigma^2)) / sqrt(D), the Gaussian feature function."""

    centres: Array
    width: float

    @property
    def dim(self) -> int:
        return len(self.centres)

    def __call__(self, x: Array) -> Array:
        distance = np.square(x[..., None, :] - self.centres).sum(axis=-1)
        z: Array = np.exp(distance * (-0.5 / self.width**2)) / np.sqrt(self.dim)
        return z.astype(x.dtype, copy=False)

    def astype(self, dtype: Any) -> Bumps:
        return Bumps(self.centres.astype(dtype), self.width)


def cosine(seeds: Seeds, dim: int, taps: int, width: float) -> Waves:
    """Cosine features: W ~ N(0, 1/sigma^2), b ~ U(0, 2 pi). Kernel exp(-|x-x'|^2 / (2 sigma^2))."""
    generator = seeds.world.generator("features")
    W = generator.standard_normal((dim, taps)) / width
    return Waves(W, generator.uniform(0, 2 * np.pi, dim))


def exponential(seeds: Seeds, dim: int, taps: int, width: float) -> Waves:
    """The real form of exp(j W x): D/2 frequencies, each as a cosine and a sine, so |z|^2 = 1."""
    W = seeds.world.generator("features").standard_normal((dim // 2, taps)) / width
    quarter = np.pi / 2  # sin(t) = cos(t - pi/2): the same map as the cosine's, with these phases
    return Waves(np.vstack([W, W]), np.repeat([0.0, -quarter], dim // 2))


def gaussian(centres: Array, width: float) -> Bumps:
    """Gaussian features around centres that were drawn from the law of the inputs."""
    return Bumps(centres, width)
