"""What the gradient noise of eq. (10) adds to a covariance P.

N(P, m) = mean_k E_k[z z^T (z^T P z + (y - z^T m_k)^2)] needs fourth moments of the features: from a
closure that needs no sample, or from windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.theory.moments import Moments

Array = NDArray[Any]
RANK = 1e-7  # squared singular values of all R_k, relative to the largest, that count as zero


class Noise(Protocol):
    """N(P, m) of P [D, D], means m [J, D] and the squares E_k (y - z^T m_k)^2 [J]."""

    def __call__(self, P: Array, m: Array, squares: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class Closure:
    """N(P, m) = mean_k R_k (tr(R_k P) + E_k (y - z^T m_k)^2), as if zz^T were independent of it.

    It is exact for P = c I if |z|^2 does not vary; beyond that it is an approximation, which was
    found good for cosine features (docs/theory.md).

    Clients whose laws have a few parameters have R_k = sum_q L_kq E_q with a few E_q: then the two
    passes over all R_k are passes over those.
    """

    L: Array  # [J, q]
    E: Array  # [q, D^2]

    def __call__(self, P: Array, m: Array, squares: Array) -> Array:
        weights = self.L @ (self.E @ P.reshape(-1)) + squares
        return (weights @ self.L / len(self.L) @ self.E).reshape(P.shape)


def closure(moments: Moments, kind: Any = np.float32, rank: float = RANK) -> Closure:
    """The closure for these clients; it is the same for every method and step."""
    flat = moments.R.reshape(len(moments.R), -1)
    values, vectors = np.linalg.eigh(flat @ flat.T)
    L = vectors[:, values > rank * values[-1]]
    return Closure(L.astype(kind), (L.T @ flat).astype(kind))


@dataclass(frozen=True, eq=False)
class Sampled:
    """N(P, m) over windows z [J, n, D] with targets f [J, n] and noise variances v [J]."""

    z: Array
    f: Array
    v: Array

    def __call__(self, P: Array, m: Array, squares: Array) -> Array:
        flat = self.z.reshape(-1, self.z.shape[-1])
        error = self.f - (self.z @ m[:, :, None])[:, :, 0]
        weights = ((flat @ P) * flat).sum(axis=1)
        weights += (np.square(error) + self.v[:, None]).reshape(-1)
        N: Array = flat.T @ (flat * weights[:, None]) / len(flat)
        return N
