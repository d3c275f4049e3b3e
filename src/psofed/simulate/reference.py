"""Eq. (8)-(11) with literal matrices: slow, dense and independent of all other code.

Nothing here is shared with `core` or the engine, so that a mistake cannot hide in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.case import Case

Array = NDArray[Any]


def selection(mask: Sequence[int], shift: int, n: int, dim: int) -> Array:
    """The diagonal matrix S_{k,n}: S_{k,0} after n right circular shifts by tau."""
    diagonal = np.zeros(dim)
    diagonal[list(mask)] = 1
    return np.diag(np.roll(diagonal, shift * n % dim))


def matrix_A(S: list[Array], a: Array) -> Array:
    """Eq. (9)."""
    K, D = len(S), len(S[0])
    A = np.eye((K + 1) * D)
    for k in range(K):
        row = slice((k + 1) * D, (k + 2) * D)
        A[row, :D] = a[k] * S[k]
        A[row, row] = np.eye(D) - a[k] * S[k]
    return A


def matrix_B(S: list[Array], a: Array) -> Array:
    """Eq. (11). An empty cohort leaves everything as it is."""
    K, D = len(S), len(S[0])
    B = np.eye((K + 1) * D)
    if a.any():
        B[:D, :D] = np.eye(D) - sum(a[k] / a.sum() * S[k] for k in range(K))
        for k in range(K):
            B[:D, (k + 1) * D : (k + 2) * D] = a[k] / a.sum() * S[k]
    return B


def run(case: Case) -> tuple[Array, Array]:
    """Eq. (10): w_e <- B (A w_e + mu Z_e epsilon_e). Returns w [N+1, D] and w_k [N+1, K, D]."""
    K, N, _ = case.x.shape
    W, b = case.features.W, case.features.b
    D = len(b)
    w_e = np.concatenate([case.w0, case.local0.ravel()])
    history = [w_e]
    for n in range(N):
        a = np.isin(np.arange(K), case.cohorts[n]).astype(float)
        S_now = [selection(case.masks[k], case.shift, n, D) for k in range(K)]
        S_next = [selection(case.masks[k], case.shift, n + 1, D) for k in range(K)]
        Z_e = np.zeros(((K + 1) * D, K + 1))
        y_e = np.zeros(K + 1)
        for k in range(K):
            if a[k] or case.idle:  # otherwise this client does not learn in this round
                z = np.sqrt(2 / D) * np.cos(W @ case.x[k, n] + b)
                Z_e[(k + 1) * D : (k + 2) * D, k + 1] = z
                y_e[k + 1] = case.y[k, n]
        Aw = matrix_A(S_now, a) @ w_e
        epsilon_e = y_e - Z_e.T @ Aw  # Eq. (8)
        w_e = matrix_B(S_next, a) @ (Aw + case.step * Z_e @ epsilon_e)
        history.append(w_e)
    models = np.array(history).reshape(N + 1, K + 1, D)
    return models[:, 0], models[:, 1:]
