"""The mean-square error without approximation, for a few clients and features.

All models are one vector s = (w, w_1, ..., w_K); its mean and covariance are followed through every
cohort that can be drawn, with the windows as they are and the fourth moments of the features. This
is the reference for the reduced recursion. It needs data that are independent over time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.theory.system import System

Array = NDArray[Any]
MOST_NUMBERS = 120  # in all models together
MOST_DIM = 16  # the fourth moments are D^4 numbers for every client
MOST_WORK = 6e6  # cohorts times the cube of those numbers: a hundredth of a second a round
PART = 5000  # windows whose products are in memory at once


class Dense(NamedTuple):
    """Mean [(K + 1) D] and covariance of server and clients, stacked."""

    mean: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Fourth:
    """What one LMS step of eq. (10) does to mean and covariance, per client, exactly.

    E[z z^T (z^T P z + (y - z^T m)^2)] = fourth . (P + m m^T) - 2 third . m + second, with
    fourth = E[zz^T x zz^T], third = E[y zz^T x z], second = E[y^2 zz^T].
    """

    R: Array  # [K, D, D]
    r: Array  # [K, D]
    fourth: Array  # [K, D^2, D^2]
    third: Array  # [K, D^2, D]
    second: Array  # [K, D^2]

    def learn(self, mu: float, mean: Array, P: Array) -> tuple[Array, Array]:
        """Means [c, K, D] and covariances [c, K, D, D] after each client learned one sample."""
        c, K, D = mean.shape
        u = self.r - (self.R @ mean[..., None])[..., 0]
        square = P + mean[..., :, None] * mean[..., None, :]
        # Client by client, for all c at once.
        N = np.swapaxes(square.reshape(c, K, D * D), 0, 1) @ np.swapaxes(self.fourth, 1, 2)
        N -= 2 * np.swapaxes(mean, 0, 1) @ np.swapaxes(self.third, 1, 2)
        N = np.swapaxes(N + self.second[:, None], 0, 1).reshape(P.shape)
        spread = N - u[..., :, None] * u[..., None, :]
        return mean + mu * u, P - mu * (self.R @ P + P @ self.R) + mu**2 * spread


def fourth(z: Array, f: Array, v: Array) -> Fourth:
    """The moments of windows z [K, n, D], targets f [K, n] and noise variances v [K]."""
    K, count, D = z.shape
    parts = [_sums(z[:, i : i + PART], f[:, i : i + PART], v) for i in range(0, count, PART)]
    R, r, four, three, two = (sum(each) / count for each in zip(*parts, strict=True))
    return Fourth(R.reshape(K, D, D), r, four, three, two)


def _sums(z: Array, f: Array, v: Array) -> tuple[Array, ...]:
    K, count, D = z.shape
    zz = (z[..., :, None] * z[..., None, :]).reshape(K, count, D * D)
    turned = np.swapaxes(zz, 1, 2)
    square = (np.square(f) + v[:, None])[..., None]
    r = np.einsum("knd,kn->kd", z, f)
    return (
        turned.sum(axis=2),
        r,
        turned @ zz,
        turned @ (f[..., None] * z),
        (turned @ square)[..., 0],
    )


def feasible(clients: int, cohort: int, dim: int) -> bool:
    """Whether the exact recursion is affordable."""
    size = (clients + 1) * dim
    small = size <= MOST_NUMBERS and dim <= MOST_DIM
    return small and comb(clients, cohort) * size**3 <= MOST_WORK


@dataclass(frozen=True, eq=False)
class DenseRecursion:
    """Eq. (12), its first two moments, averaged over all cohorts and exact in everything else."""

    system: System
    data: Fourth

    def start(self) -> Dense:
        """Initial models are zero and certain."""
        size = (self.system.total + 1) * self.system.dim
        return Dense(np.zeros(size), np.zeros((size, size)))

    def trajectory(self, rounds: int) -> Iterator[Dense]:
        """The moments before rounds 0..rounds, the last included."""
        state = self.start()
        for n in range(rounds + 1):
            yield state
            if n < rounds:
                state = self.after(n, state)

    def after(self, n: int, state: Dense) -> Dense:
        """The moments after one round: those of each cohort, and the spread between cohorts."""
        K, D = self.system.total, self.system.dim
        d, d1 = (np.broadcast_to(self.system.masks(i), (K, D)) for i in (n, n + 1))
        chosen = self._cohorts()
        means, learned = self._learned(chosen, *_received(chosen, d, state))
        up = _folds(chosen, d1)
        means, learned = (up @ means[..., None])[..., 0], up @ learned @ np.swapaxes(up, 1, 2)
        mean = means.mean(axis=0)
        spread = (means - mean).T @ (means - mean) / len(chosen)
        return Dense(mean, learned.sum(axis=0) / len(chosen) + spread)

    def _cohorts(self) -> Array:
        """Who takes part in each cohort that can be drawn, [c, K]."""
        found = list(combinations(range(self.system.total), self.system.cohort))
        chosen = np.zeros((len(found), self.system.total), bool)
        np.put_along_axis(chosen, np.array(found), True, axis=1)
        return chosen

    def _learned(self, chosen: Array, mean: Array, P: Array) -> tuple[Array, Array]:
        """Eq. (10) in each cohort: mean [c, (K + 1) D] and covariance."""
        K, D, step = self.system.total, self.system.dim, self.system.step
        learners = np.ones_like(chosen) if self.system.idle else chosen
        own = [slice((k + 1) * D, (k + 2) * D) for k in range(K)]
        H = np.tile(np.eye(P.shape[1]), (len(chosen), 1, 1))
        for k in range(K):
            H[learners[:, k], own[k], own[k]] -= step * self.data.R[k]
        learned, blocks = H @ P @ H, np.stack([P[:, at, at] for at in own], axis=1)
        after = mean.copy()
        means, blocks = self.data.learn(step, mean[:, D:].reshape(-1, K, D), blocks)
        for k in range(K):
            after[learners[:, k], own[k]] = means[learners[:, k], k]
            learned[learners[:, k], own[k], own[k]] = blocks[learners[:, k], k]
        return after, learned


def _received(chosen: Array, d: Array, state: Dense) -> tuple[Array, Array]:
    """Eq. (9) in each cohort: members have the server's entries in their windows d."""
    (c, K), D = chosen.shape, d.shape[1]
    source = np.tile(np.arange((K + 1) * D), (c, 1))
    taken = (chosen[:, :, None] & (d > 0)).reshape(c, -1)
    source[:, D:] = np.where(taken, np.tile(np.arange(D), K), source[:, D:])
    return state.mean[source], state.covariance[source[:, :, None], source[:, None, :]]


def _folds(chosen: Array, d1: Array) -> Array:
    """Eq. (11) in each cohort as a matrix: the mean of what members sent from their windows d1."""
    (c, K), D = chosen.shape, d1.shape[1]
    sent = chosen[:, :, None] * d1 / chosen.sum(axis=1)[:, None, None]
    up = np.tile(np.eye((K + 1) * D), (c, 1, 1))
    entries = np.arange(D)
    up[:, entries, entries] -= sent.sum(axis=1)
    for k in range(K):
        up[:, entries, (k + 1) * D + entries] = sent[:, k]
    return up
