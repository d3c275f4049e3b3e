"""The curvature of a client's loss in a small basis, from a few moments of its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import FeatureMap

Array = NDArray[Any]
TRUST = 20.0  # samples at which a client's own moments weigh as much as the guess


@dataclass(frozen=True, eq=False)
class Curvature:
    """T^T R T of a client, from moments of its inputs that are cheap to send.

    For windows of one signal these are its mean and L autocovariances, else L means and the
    L (L + 1) / 2 covariances of the columns.
    """

    features: FeatureMap
    T: Array
    guess: Array  # [L, L]
    signal: bool

    @property
    def means(self) -> int:
        """Numbers that are means."""
        return 1 if self.signal else len(self.guess)

    @property
    def numbers(self) -> int:
        """Numbers to send."""
        return self.means + len(self._places)

    @cached_property
    def _places(self) -> list[tuple[Array, Array]]:
        """Rows and columns of the covariances that share one number."""
        L = len(self.guess)
        if self.signal:
            return [(np.arange(L - lag), np.arange(lag, L)) for lag in range(L)]
        rows, columns = np.triu_indices(L)
        return [(rows[i : i + 1], columns[i : i + 1]) for i in range(len(rows))]

    def moments(self, mean: Array, square: Array) -> Array:
        """The numbers to send, in half precision, from the means of x and of x x^T."""
        if self.signal:
            mean = np.full_like(mean, mean.mean())
        C = square - np.outer(mean, mean)
        told = [*mean[: self.means], *(C[place].mean() for place in self._places)]
        return np.clip(told, -6e4, 6e4).astype(np.float16).astype(np.float64)

    def matrix(self, moments: Array, count: float) -> Array:
        """T^T R T for Gaussian inputs with these moments, drawn to the guess while n is small."""
        L, trust = len(self.guess), count / (count + TRUST)
        C = np.zeros((L, L))
        for (rows, columns), value in zip(self._places, moments[self.means :], strict=True):
            C[rows, columns] = C[columns, rows] = value
        values, vectors = np.linalg.eigh(trust * C + (1 - trust) * self.guess)
        # Rounded moments, or those of few samples, need not form a covariance: make it one.
        C = (vectors * np.maximum(values, 0)) @ vectors.T
        R = self.features.correlation(trust * np.resize(moments[: self.means], L), C)
        return self.T.T @ R.astype(self.T.dtype, copy=False) @ self.T
