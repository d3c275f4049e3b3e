"""RLS for many samples in a row: the gains depend on the inputs only, not on what was learned."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import native

Array = NDArray[Any]
Matrix = NDArray[np.float64]
BLOCK = 40  # samples at most at once: each block reads Q, and has a system of its size


def gains(Q: Matrix, z: Matrix, forget: float, turn: int = 0, amount: float = 0.0) -> Matrix:
    """g_t = Q_t z_t of `equations.rls` for samples z [T, D]; Q [D, D] moves past them, in place.

    After sample t, `equations.inform` holds the entry turn + t, if the amount is not zero. Where
    rounding or overflow has made Q anything but positive, it and the gains are no numbers.
    """
    parts = max(-(-len(z) // BLOCK), 1)
    if parts == 1:
        return _block(Q, z, forget, turn, amount)
    ends = np.arange(parts + 1) * len(z) // parts
    some = (_block(Q, z[i:j], forget, int(turn + i) % len(Q), amount) for i, j in pairwise(ends))
    return np.concatenate(list(some))


def _block(Q: Matrix, z: Matrix, forget: float, turn: int, amount: float) -> Matrix:
    """At most BLOCK samples, compiled where it can be."""
    if not native.available():
        return block(Q, z, forget, turn, amount)
    count, dim = z.shape
    size = -(-(2 if amount else 1) * count // 4) * 4  # of the system, filled up to whole vectors
    found, V, S = np.empty_like(z), np.empty((size, dim)), np.empty((size, size))
    given = Q, z, found, V, S, size, count, dim, turn, float(forget), float(amount)
    return found if native.function("gains")(*given) else _lost(Q, z)


def block(Q: Matrix, z: Matrix, forget: float, turn: int = 0, amount: float = 0.0) -> Matrix:
    """Samples and held entries are events: directions C with variances R, in their order.

    Q is scaled by lambda^t, which makes these lambda^t for a sample and lambda^t / a for an entry:

        V = C Q,  L L^T = V C^T + R,  U = L^-1 V,  Q <- (Q - U^T U) / lambda^T,  g_t = u_t / L_tt
    """
    count, dim = z.shape
    C, R = z, forget ** np.arange(1.0, count + 1)
    if amount:
        entries = np.eye(dim)[(turn + np.arange(count)) % dim]
        C, R = np.stack([z, entries], axis=1).reshape(-1, dim), np.repeat(R, 2)
        R[1::2] /= amount
    V = C @ Q
    try:
        L = np.linalg.cholesky(V @ C.T + np.diag(R))
    except np.linalg.LinAlgError:
        return _lost(Q, z)
    U = np.linalg.solve(L, V)
    Q -= U.T @ U  # symmetric to the bit, so that Q stays so
    Q *= forget**-count
    each = 2 if amount else 1
    found: Matrix = U[::each] / np.diag(L)[::each, None]
    return found


def _lost(Q: Matrix, z: Matrix) -> Matrix:
    """Nothing is known any more: all that follows is no number, as in a step that diverges."""
    Q.fill(np.nan)
    return np.full_like(z, np.nan)


def correct(w: Array, gains: Matrix, z: Array, y: Array) -> None:
    """`in_turn`, compiled where it can be."""
    if not (native.available() and w.flags.c_contiguous and w.dtype == z.dtype == y.dtype):
        in_turn(w, gains, z, y)
        return
    given = (np.ascontiguousarray(array) for array in (gains, z, y))
    rows, dim = w.size // w.shape[-1], w.shape[-1]
    native.function("correct", w.dtype)(w, *given, len(y), rows, dim)


def in_turn(w: Array, gains: Matrix, z: Array, y: Array) -> None:
    """w <- w + g_t (y_t - w^T z_t), samples in a row: w [..., D] in place, z [T, ..., D]."""
    for g, z_t, y_t in zip(gains, z, y, strict=True):
        w += (y_t - np.vecdot(w, z_t))[..., None] * g
