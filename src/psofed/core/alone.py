"""A ridge regression and a straight line that each client learns alone, from its own moments.

    u = (z_1, .., z_d, c x, c, c h)    A = sum u u^T    q = sum u y    w = (A + P)^-1 q

The straight line is the same without the cosines z, and both are solved with and without the older
labels h, if a client has these: all are blocks of A. The equations are solved again whenever a
client has a sixteenth more samples, so that the work for this grows with the logarithm of their
number. A client keeps (d + L + 1 + H)^2 numbers for A.
"""

from __future__ import annotations

import numpy as np

from psofed.core import features
from psofed.core.native import Array

RIDGE, RIDGE_LINE = 1.0, 0.01  # rho of the cosines, and of what is linear: few rows tell a line
GROWTH = 16
LINE, RIDGE_REGRESSION = 0, 1  # the two models
WITH_LABELS = 2  # further on: the same model with older labels


def inputs(z: Array, x: Array, size: int, older: Array | None = None) -> Array:
    """u [..., d + L + 1 + H] of features z [..., D], inputs x [..., L] and older labels [..., H].

    Labels may go far, so they keep all their digits.
    """
    u = features.extended(z[..., :size], x)
    if older is None:
        return u
    return np.concatenate([u, features.LINE * older.astype(np.float64)], axis=-1)


def due(count: int) -> int:
    """With how many samples the equations are solved again.

    >>> [due(n) for n in (0, 7, 8, 16, 1000)]
    [1, 8, 9, 17, 1062]
    """
    return count + max(count // GROWTH, 1)


def penalty(n: int, size: int) -> Array:
    """rho of each coefficient: the diagonal of P."""
    return np.where(np.arange(n) < size, RIDGE, RIDGE_LINE)


def parts(n: int, size: int, older: int) -> list[slice]:
    """Where in u the inputs of each model are."""
    ends = (n - older, n) if older else (n,)
    return [slice(begin, end) for end in ends for begin in (size, 0)]


def solved(A: Array, q: Array, taps: int, older: int = 0) -> Array:
    """w of the line and of the ridge regression, then of both with older labels [2 or 4, n].

    With the inverse that gives w, Schur's complement of what the labels add gives the other one.
    """
    n, size = len(q), len(q) - older - taps - 1
    some = parts(n, size, older)
    w, last = np.zeros((len(some), n)), slice(n - older, n)
    least = n * np.finfo(A.dtype).eps * A.diagonal()  # less would be lost in what is there
    A = A + np.diag(np.maximum(penalty(n, size), least))
    for model, here in enumerate(some[:2]):
        B = A[here, last]
        found = np.linalg.solve(A[here, here], np.column_stack([q[here], B]))
        w[model, here] = found[:, 0]
        if older:
            S = A[last, last] - B.T @ found[:, 1:]
            v = np.linalg.solve(S, q[last] - B.T @ found[:, 0])
            w[model + WITH_LABELS, here] = found[:, 0] - found[:, 1:] @ v
            w[model + WITH_LABELS, last] = v
    return w


class Alone:
    """All models of many clients, as their labels arrive."""

    def __init__(self, clients: int, size: int, taps: int, older: int = 0) -> None:
        self.size, self.taps, self.older, length = size, taps, older, size + taps + 1 + older
        self.A, self.q = np.zeros((clients, length, length)), np.zeros((clients, length))
        self.w = np.zeros((clients, 4 if older else 2, length))
        self.count = np.zeros(clients, np.int64)
        self.due = np.ones(clients, np.int64)

    def follow(self, k: int, fresh: Array, known: Array, y: Array) -> Array:
        """Client k predicts `fresh` [B, F] in rounds in a row; after each, a label y may arrive.

        `known` [B, F] are the samples of those labels. Returns the predictions [B, models].
        """
        guesses, labelled = np.empty((len(y), self.w.shape[1])), np.flatnonzero(~np.isnan(y))
        begin = done = 0  # rows that are predicted, labels that are learned
        while begin < len(y):
            some = labelled[done : done + int(self.due[k] - self.count[k])]
            self._add(k, known[some], y[some])
            full = self.count[k] == self.due[k]
            end = some[-1] + 1 if full else len(y)
            guesses[begin:end] = fresh[begin:end] @ self.w[k].T.astype(fresh.dtype)
            if full:
                self.w[k] = self._solved(k)
                self.due[k] = due(int(self.count[k]))
            begin, done = end, done + len(some)
        return guesses

    def solved(self) -> Array:
        """All models [K, models, n], with all labels so far."""
        return np.stack([self._solved(k) for k in range(len(self.q))])

    @property
    def sent_once(self) -> int:
        """The values that each client sends, and gets, once, so that all can lean on the mean."""
        n = self.q.shape[1]
        return n + sum(here.stop - here.start for here in parts(n, self.size, self.older))

    def frozen(self) -> Array:
        """All models as `solved`, then leaning on the mean of all clients, w-; then w- of ridges.

        w = w- + (A + T)^-1 (q - A w-): a model of p coefficients leans on w- as on p more labels.
        In the mean, a client with N labels has the weight N / (N + p). If N < p, both lean.
        """
        alone, square = self.solved(), np.einsum("kii->i", self.A) / max(self.count.sum(), 1)
        w, P = alone.copy(), penalty(alone.shape[-1], self.size)
        means = np.zeros_like(alone)
        for model, here in enumerate(parts(w.shape[-1], self.size, self.older)):
            p = here.stop - here.start
            share = self.count / (self.count + p)
            mean = share @ w[:, model, here] / max(share.sum(), np.finfo(np.float64).tiny)
            means[:, model, here] = mean
            T = np.diag(np.maximum(p * square, P)[here])
            for k, (A, q) in enumerate(zip(self.A[:, here, here], self.q[:, here], strict=True)):
                w[k, model, here] = mean + np.linalg.solve(A + T, q - A @ mean)
            alone[self.count < p, model] = w[self.count < p, model]
        return np.concatenate([alone, w, means[:, RIDGE_REGRESSION::2]], axis=1)

    def _solved(self, k: int) -> Array:
        return solved(self.A[k], self.q[k], self.taps, self.older)

    def _add(self, k: int, u: Array, y: Array) -> None:
        self.A[k] += u.T @ u
        self.q[k] += y @ u
        self.count[k] += len(y)
