"""A small whitened basis for redundant features, which both ends compute and nobody sends."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Basis(NamedTuple):
    """u = T^T z has E[u u^T] = I under the law that was assumed; w = T c."""

    T: Array  # [D, d]
    eigenvalues: Array  # [d]: of R, the largest first


def whitened(R: Array, size: int) -> Basis:
    """R = V L V^T; T = V_d L_d^(-1/2), of the d largest eigenvalues.

    Eigenvectors are unique up to their sign, so the largest entry of each is made positive.

    >>> whitened(np.diag([1.0, 4.0]), 1).T.tolist()
    [[0.0], [0.5]]
    """
    values, vectors = np.linalg.eigh(R)
    values, vectors = values[::-1][:size], vectors[:, ::-1][:, :size]
    # The features are redundant: eigenvalues far down are rounding errors, of either sign.
    values = np.maximum(values, 1e-12 * values[0])
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return Basis(vectors * signs / np.sqrt(values), values)


def plain(dim: int) -> Basis:
    """No change of basis: u = z."""
    return Basis(np.eye(dim), np.ones(dim))
