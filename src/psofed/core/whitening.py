"""A small whitened basis for redundant features. Both ends compute it; it is never sent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import FeatureMap
from psofed.errors import InputError

Array = NDArray[Any]


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


def plain(dim: int) -> Basis:
    """No change of basis: u = z."""
    return Basis(np.eye(dim), np.ones(dim))


@dataclass(frozen=True, eq=False)
class Whitened:
    """u = T^T z(x): the features of another map in a basis of d vectors.

    >>> from psofed.core.features import Unchanged
    >>> Whitened(Unchanged(2), np.array([[1.0], [2.0]]))(np.array([3.0, 4.0])).tolist()
    [11.0]
    """

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
        # sample in a way that depends on how many samples stand beside it.
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
