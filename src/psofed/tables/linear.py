"""Linear features, for the control that every kernel method has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Linear:
    """z = (1, x) / sqrt(L + 1): |z|^2 is about 1 for scaled inputs, as with the cosines.

    >>> Linear(3)(np.ones(3)).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

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
