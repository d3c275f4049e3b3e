"""A small whitened basis for redundant features. Both ends compute it; it is never sent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


FLAT = 1e-4  # of the largest eigenvalue: directions far below it are not scaled up to the same size


class Basis(NamedTuple):
    """u = T^T z has about E[u u^T] = I under the law that was assumed; w = T c, |w|^2 = c^T P c."""

    T: Array  # [D, d]
    penalty: Array  # [d]: the diagonal of P


def whitened(R: Array, size: int) -> Basis:
    """R = V L V^T; T = V_d (L_d + epsilon)^(-1/2), of the d largest eigenvalues.

    Epsilon limits directions in which the assumed law has almost no variance but the data have
    some; without it they would dominate a message. With it, a law that is wrong by a factor of ten
    does almost as well. Eigenvectors are unique up to their sign, so the largest entry of each is
    made positive.

    >>> whitened(np.diag([1.0, 4.0]), 1).T.round(3).tolist()
    [[0.0], [0.5]]
    """
    values, vectors = np.linalg.eigh(R)
    values, vectors = values[::-1][:size], vectors[:, ::-1][:, :size]
    # The features are redundant: the smallest eigenvalues are rounding errors of either sign.
    raised = np.maximum(values, 0) + FLAT * values[0]
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return Basis(vectors * signs / np.sqrt(raised), 1 / raised)


def plain(dim: int) -> Basis:
    """No change of basis: u = z."""
    return Basis(np.eye(dim), np.ones(dim))
