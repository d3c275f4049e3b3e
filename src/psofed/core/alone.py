"""A ridge regression and a straight line that each client learns alone, from its own moments.

    u = (z_1, .., z_d, c x, c)     A = sum u u^T     q = sum u y     w = (A + P)^-1 q

The straight line is the same with the last L + 1 entries alone: their moments are a block of A. The
equations are solved again whenever a client has a sixteenth more samples, so that the work for this
grows with the logarithm of their number. A client keeps (d + L + 1)^2 numbers for A.
"""

from __future__ import annotations

import numpy as np

from psofed.core.features import extended
from psofed.core.native import Array

RIDGE, RIDGE_LINE = 1.0, 0.01  # rho of the cosines, and of what is linear: few rows tell a line
GROWTH = 16
LINE, RIDGE_REGRESSION = 0, 1  # the two models


def inputs(z: Array, x: Array, size: int) -> Array:
    """u [..., d + L + 1] of features z [..., D] and inputs x [..., L]."""
    return extended(z[..., :size], x)


def due(count: int) -> int:
    """With how many samples the equations are solved again.

    >>> [due(n) for n in (0, 7, 8, 16, 1000)]
    [1, 8, 9, 17, 1062]
    """
    return count + max(count // GROWTH, 1)


def solved(A: Array, q: Array, taps: int) -> Array:
    """w of the line and of the ridge regression on all of u, both [2, d + L + 1]."""
    w, size = np.zeros((2, len(q))), len(q) - taps - 1
    penalty = np.where(np.arange(len(q)) < size, RIDGE, RIDGE_LINE)
    for model, first in ((LINE, size), (RIDGE_REGRESSION, 0)):
        some = A[first:, first:] + np.diag(penalty[first:])
        w[model, first:] = np.linalg.solve(some, q[first:])
    return w


class Alone:
    """Both models of many clients, as their labels arrive."""

    def __init__(self, clients: int, size: int, taps: int) -> None:
        self.size, self.taps, length = size, taps, size + taps + 1
        self.A, self.q = np.zeros((clients, length, length)), np.zeros((clients, length))
        self.w = np.zeros((clients, 2, length))
        self.count = np.zeros(clients, np.int64)
        self.due = np.ones(clients, np.int64)

    def follow(self, k: int, fresh: Array, known: Array, y: Array) -> Array:
        """Client k predicts `fresh` [B, F] in rounds in a row; after each, a label y may arrive.

        `known` [B, F] are the samples of those labels. Returns the predictions [B, 2].
        """
        guesses, labelled = np.empty((len(y), 2)), np.flatnonzero(~np.isnan(y))
        begin = done = 0  # rows that are predicted, labels that are learned
        while begin < len(y):
            some = labelled[done : done + int(self.due[k] - self.count[k])]
            self._add(k, known[some], y[some])
            full = self.count[k] == self.due[k]
            end = some[-1] + 1 if full else len(y)
            guesses[begin:end] = fresh[begin:end] @ self.w[k].T.astype(fresh.dtype)
            if full:
                self.w[k] = solved(self.A[k], self.q[k], self.taps)
                self.due[k] = due(int(self.count[k]))
            begin, done = end, done + len(some)
        return guesses

    def solved(self) -> Array:
        """Both models [K, 2, d + L + 1], with all labels so far."""
        each = zip(self.A, self.q, strict=True)
        return np.stack([solved(A, q, self.taps) for A, q in each])

    def _add(self, k: int, u: Array, y: Array) -> None:
        self.A[k] += u.T @ u
        self.q[k] += y @ u
        self.count[k] += len(y)
