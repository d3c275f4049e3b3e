"""Random Fourier features: x in R^L to z in R^D, so that z(x)^T z(x') approximates a kernel.

Redundant features may have a small whitened basis, u = T^T z in R^d. Both ends compute the map and
its basis; neither is ever sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from psofed.core import native
from psofed.core.native import Array
from psofed.core.seeds import Seeds
from psofed.errors import InputError

DRAWS = 512  # and their mirror images, for moments that have no closed form


class FeatureMap(Protocol):
    """z = features(x): the last axis goes from L inputs to D features."""

    @property
    def exact(self) -> bool: ...  # whether `correlation` is in closed form

    @property
    def dim(self) -> int: ...

    def __call__(self, x: Array) -> Array: ...

    def astype(self, dtype: Any) -> FeatureMap: ...

    def correlation(self, mean: Array, covariance: Array) -> Array: ...


class SeveralMaps:
    """The feature maps of several runs as one: x [run, ..., L] to z [run, ..., D]."""

    maps: Sequence[FeatureMap]


@dataclass(frozen=True, eq=False)
class Cosines:
    """Eq. (2), its z: z = sqrt(2/D) cos(W x + b), the paper's cosine feature function."""

    exact: ClassVar[bool] = True
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

    def astype(self, dtype: Any) -> Cosines:
        return Cosines(self.W.astype(dtype), self.b.astype(dtype))

    def correlation(self, mean: Array, covariance: Array) -> Array:
        """R = E[z z^T] for x ~ N(mean, covariance), in closed form.

        2 cos s cos t = cos(s - t) + cos(s + t), and with the mean m and the covariance C of x
        E cos(u^T x + c) = cos(u^T m + c) exp(-u^T C u / 2).
        """
        W, b = self.W.astype(np.float64), self.b.astype(np.float64)
        if native.available():
            return _correlation(W, W @ mean + b, covariance)
        return self.correlated(W, W @ mean + b, covariance)

    @staticmethod
    def correlated(W: Array, phase: Array, covariance: Array) -> Array:
        """`correlation` in NumPy, of the mean phases."""
        S = W @ covariance @ W.T
        spread = np.add.outer(np.diag(S), np.diag(S)) / 2
        c, s = np.cos(phase), np.sin(phase)
        cc, ss = np.outer(c, c), np.outer(s, s)
        R: Array = (cc + ss) * np.exp(S - spread) + (cc - ss) * np.exp(-S - spread)
        return R / len(W)


def _correlation(W: Array, phase: Array, covariance: Array) -> Array:
    """`Cosines.correlated`, compiled."""
    (dim, taps), size = W.shape, -(-len(W) // 4) * 4
    P = W @ covariance
    variance = np.vecdot(P, W)
    c, s = np.cos(phase) / np.sqrt(dim), np.sin(phase) / np.sqrt(dim)
    parts = P.T, W.T, c, s, variance, np.exp(-variance)
    table = native.aligned((2 * taps + 4, size), np.float64)
    table[:, :dim] = np.vstack(parts)
    rows = table[:taps], table[taps : 2 * taps], *table[2 * taps :]
    R = np.empty((dim, dim))
    native.function("correlation")(*rows, R, size, taps, dim)
    return R


@dataclass(frozen=True, eq=False)
class WithLine:
    """z of cosines, then c x and c: a straight line costs one feature for each input."""

    exact: ClassVar[bool] = True
    cosines: Cosines

    @property
    def dim(self) -> int:
        return sum(self.cosines.W.shape) + 1

    def __call__(self, x: Array) -> Array:
        return extended(self.cosines(x), x)

    def astype(self, dtype: Any) -> WithLine:
        return WithLine(self.cosines.astype(dtype))

    def correlation(self, mean: Array, covariance: Array) -> Array:
        """R = E[z z^T], from always the same draws."""
        return OwnMap(self, self.dim).correlation(mean, covariance)


LINE = 0.3  # c: for scaled inputs, what is linear is about as large as the cosines


def extended(z: Array, x: Array) -> Array:
    """(z, c x, c), in the precision of z."""
    more = np.full((*x.shape[:-1], x.shape[-1] + 1), LINE, z.dtype)
    more[..., :-1] *= x
    return np.concatenate([z, more], axis=-1)


@dataclass(frozen=True, eq=False)
class Gaussians:
    """z_i = exp(-|x - c_i|^2 / (2 sigma^2)) / sqrt(D), the Gaussian feature function."""

    exact: ClassVar[bool] = True
    centres: Array
    width: float

    @property
    def dim(self) -> int:
        return len(self.centres)

    def __call__(self, x: Array) -> Array:
        distance = np.square(x[..., None, :] - self.centres).sum(axis=-1)
        z: Array = np.exp(distance * (-0.5 / self.width**2)) / np.sqrt(self.dim)
        return z.astype(x.dtype, copy=False)

    def astype(self, dtype: Any) -> Gaussians:
        return Gaussians(self.centres.astype(dtype), self.width)

    def correlation(self, mean: Array, covariance: Array) -> Array:
        """R = E[z z^T] for x ~ N(mean, covariance), in closed form.

        Two make one of half the square width around their middle c. With V = I + 2 C/sigma^2,
        E exp(-|x - c|^2 / sigma^2) = det(V)^(-1/2) exp(-(c - m)^T V^-1 (c - m) / sigma^2).
        """
        centres, square = self.centres.astype(np.float64), self.width**2
        wide = np.eye(len(mean)) + 2 * covariance / square
        middle = (centres[:, None] + centres[None]) / 2 - mean
        apart = np.square(centres[:, None] - centres[None]).sum(axis=-1)
        exponent = np.einsum("ija,ab,ijb->ij", middle, np.linalg.inv(wide), middle, optimize=True)
        R: Array = np.exp(-(exponent + apart / 4) / square) / np.sqrt(np.linalg.det(wide))
        return R / self.dim


def cosine(seeds: Seeds, dim: int, taps: int, width: Any) -> Cosines:
    """Cosine features: W ~ N(0, 1/sigma^2), b ~ U(0, 2 pi). Kernel exp(-|x-x'|^2 / (2 sigma^2)).

    The width sigma is one number, or [D, 1] of each feature.
    """
    generator = seeds.world.generator("features")
    W = generator.standard_normal((dim, taps)) / width
    return Cosines(W, generator.uniform(0, 2 * np.pi, dim))


def exponential(seeds: Seeds, dim: int, taps: int, width: float) -> Cosines:
    """The real form of exp(j W x): D/2 frequencies, each as a cosine and a sine, so |z|^2 = 1."""
    W = seeds.world.generator("features").standard_normal((dim // 2, taps)) / width
    quarter = np.pi / 2  # sin(t) = cos(t - pi/2): the same map as the cosine's, with these phases
    return Cosines(np.vstack([W, W]), np.repeat([0.0, -quarter], dim // 2))


@dataclass(frozen=True)
class Linear:
    """z = (1, x) / sqrt(L + 1), a control: |z|^2 is about 1 for scaled inputs, as with cosines.

    >>> Linear(3)(np.ones(3)).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    exact: ClassVar[bool] = True
    taps: int

    @property
    def dim(self) -> int:
        return self.taps + 1

    def __call__(self, x: Array) -> Array:
        z = np.ones((*x.shape[:-1], self.dim), x.dtype)
        z[..., 1:] = x
        z /= np.sqrt(self.dim).astype(x.dtype)
        return z

    def astype(self, dtype: Any) -> Linear:
        return self

    def correlation(self, mean: Array, covariance: Array) -> Array:
        """R = E[z z^T]."""
        m = np.concatenate([[1.0], mean])
        R: Array = np.outer(m, m)
        R[1:, 1:] += covariance
        return R / self.dim


@dataclass(frozen=True, eq=False)
class OwnMap:
    """z = function(x), a map that a user brings."""

    exact: ClassVar[bool] = False
    function: Callable[[Array], Array]
    dim: int

    def __call__(self, x: Array) -> Array:
        if x.ndim == 1:
            return self.function(x[None])[0]
        return self.function(x)

    def astype(self, dtype: Any) -> OwnMap:
        return self  # it answers in the precision of x

    def correlation(self, mean: Array, covariance: Array) -> Array:
        """R = E[z z^T] for x ~ N(mean, covariance), from always the same draws."""
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0))
        normals = Seeds(0).generator("correlation").standard_normal((DRAWS, len(mean)))
        spread = normals @ root.T
        z = self(np.concatenate([mean + spread, mean - spread]))
        R: Array = z.T @ z / len(z)
        return R


FLAT = 1e-4  # of the largest eigenvalue: directions far below it are not scaled up to the same size


class Basis(NamedTuple):
    """u = T^T z has about E[u u^T] = I under the law that was assumed; w = T c, |w|^2 = c^T P c."""

    T: Array  # [D, d]
    penalty: Array  # [d]: the diagonal of P


def guess(taps: int, variance: float, correlation: float) -> Array:
    """C_0: this variance of each input, this correlation of any two."""
    return variance * ((1 - correlation) * np.eye(taps) + correlation)


def whitened(R: Array, size: int, degree: float = 1.0, epsilon: float = FLAT) -> Basis:
    """R = V L V^T; T = V_d (L_d + epsilon)^(-degree/2), of the d largest eigenvalues.

    Epsilon, relative to the largest, limits directions in which the assumed law has almost no
    variance but the data have some; without it they would dominate a message. With it, a law that
    is wrong by a factor of ten does almost as well. Eigenvectors are unique up to their sign, so
    the largest entry of each is made positive.

    >>> whitened(np.diag([1.0, 4.0]), 1).T.round(3).tolist()
    [[0.0], [0.5]]
    >>> whitened(np.diag([1.0, 4.0]), 2, degree=0.0).T.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    values, vectors = np.linalg.eigh(R)
    values, vectors = values[::-1][:size], vectors[:, ::-1][:, :size]
    # The features are redundant: the smallest eigenvalues are rounding errors of either sign.
    raised = (np.maximum(values, 0) + epsilon * values[0]) ** degree
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return Basis(vectors * signs / np.sqrt(raised), 1 / raised)


@dataclass(frozen=True, eq=False)
class Whitened:
    """u = T^T z(x): the features of another map in a basis of d vectors."""

    base: FeatureMap
    T: Array  # [D, d]

    @property
    def exact(self) -> bool:
        return self.base.exact

    @property
    def dim(self) -> int:
        return int(self.T.shape[1])

    @cached_property
    def _rows(self) -> Array:
        """T^T, each row in one piece."""
        return np.ascontiguousarray(self.T.T)

    def __call__(self, x: Array) -> Array:
        # A sum for each number, not a product of matrices: that would round the numbers of a
        # sample in a way that depends on how many samples stand next to it.
        u: Array = np.vecdot(self.base(x)[..., None, :], self._rows)
        return u

    def astype(self, dtype: Any) -> Whitened:
        return Whitened(self.base.astype(dtype), self.T.astype(dtype))

    def correlation(self, mean: Array, covariance: Array) -> Array:
        """E[u u^T] = T^T R T."""
        T = self.T.astype(np.float64)
        R: Array = T.T @ self.base.correlation(mean, covariance) @ T
        return R


def whiten(base: FeatureMap, law: Array, size: int, degree: float, epsilon: float) -> Whitened:
    """The map u = T^T z, scaled such that E|u|^2 = 1 for inputs of N(0, law).

    Then a step of LMS means what it means with cosines, for which E|z|^2 is about 1.
    """
    R = base.correlation(np.zeros(len(law)), law)
    if not (np.isfinite(R).all() and np.trace(R) > 0):
        found = "is whitened, but under the guessed law the features vanish or are not finite"
        raise InputError("features.basis", found, "change width, spread or the feature function")
    T = whitened(R, size, degree, epsilon).T
    return Whitened(base, T / np.sqrt(np.vecdot(T.T, (R @ T).T).sum()))
