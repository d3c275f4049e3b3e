"""The mean-square error without approximation, for a few clients and features.

All models are one vector s = (w, w_1, ..., w_K); its mean and covariance are followed through every
cohort that can be drawn, with the windows as they are and the fourth moments of the features. This
is what the reduced recursion is measured against. It needs data that are independent over time.
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

    def learn(self, k: int, mu: float, mean: Array, P: Array) -> tuple[Array, Array]:
        """The mean and covariance of client k after it learned one sample."""
        R, D = self.R[k], len(mean)
        u = self.r[k] - R @ mean
        N = self.fourth[k] @ (P + np.outer(mean, mean)).reshape(-1)
        N = (N - 2 * self.third[k] @ mean + self.second[k]).reshape(D, D)
        return mean + mu * u, P - mu * (R @ P + P @ R) + mu**2 * (N - np.outer(u, u))


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
        K = self.system.total
        d, d1 = (np.broadcast_to(self.system.masks(i), (K, self.system.dim)) for i in (n, n + 1))
        cohorts = list(combinations(range(K), self.system.cohort))
        ends = [self._one(cohort, d, d1, state) for cohort in cohorts]
        means = np.array([end.mean for end in ends])
        mean = means.mean(axis=0)
        spread = (means - mean).T @ (means - mean) / len(cohorts)
        return Dense(mean, sum(end.covariance for end in ends) / len(cohorts) + spread)

    def _one(self, cohort: tuple[int, ...], d: Array, d1: Array, state: Dense) -> Dense:
        """One cohort: B (learn (A s)), with A and B of eq. (8)-(11)."""
        system, D = self.system, self.system.dim
        down = np.eye(len(state.mean))
        up = np.eye(len(state.mean))
        for k in cohort:
            own = slice((k + 1) * D, (k + 2) * D)
            down[own, :D], down[own, own] = np.diag(d[k]), np.diag(1 - d[k])
            up[:D, own] = np.diag(d1[k]) / len(cohort)
            up[:D, :D] -= np.diag(d1[k]) / len(cohort)
        mean, P = down @ state.mean, down @ state.covariance @ down.T
        learners = range(system.total) if system.idle else cohort
        H = np.eye(len(mean))
        for k in learners:
            own = slice((k + 1) * D, (k + 2) * D)
            H[own, own] -= system.step * self.data.R[k]
        after, learned = mean.copy(), H @ P @ H
        for k in learners:
            own = slice((k + 1) * D, (k + 2) * D)
            after[own], learned[own, own] = self.data.learn(k, system.step, mean[own], P[own, own])
        return Dense(up @ after, up @ learned @ up.T)
