"""Quadratic models of many clients, and the minimum of their sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import native

Array = NDArray[Any]


def renewed(total: Array, B: Array, ks: Array, more: Array, r: Array) -> Array:
    """B_k r_k of the clients ks, and total <- total + sum_k more_k B_k, in place."""
    if not native.available():
        return renewed_plainly(total, B, ks, more, r)
    found, (rows, dim) = np.empty_like(r), r.shape
    native.function("renew")(total, B, ks.astype(np.int64), more, r, found, rows, dim)
    return found


def renewed_plainly(total: Array, B: Array, ks: Array, more: Array, r: Array) -> Array:
    """`renewed` in NumPy."""
    for k, weight in zip(ks, more, strict=True):
        total += weight * B[k]
    return np.array([B[k] @ r_k for k, r_k in zip(ks, r, strict=True)])


def minimum(A: Array, factor: float, prior: Array, b: Array) -> Array:
    """c = (factor A + diag(prior))^-1 b."""
    found, dim = np.empty_like(b), len(b)
    size = -(-dim // 4) * 4
    if native.available():
        memory = np.empty((size, size))
        if native.function("minimise")(A, prior, b, found, memory, size, dim, float(factor)):
            return found
    found[:] = np.linalg.solve(factor * A + np.diag(prior), b)
    return found
