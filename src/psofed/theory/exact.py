"""The mean-square error without approximation, for some clients and few features.

All models are one vector s = (w, w_1, ..., w_K). Its mean and E[s s^T] are followed with the
windows as they are and the fourth moments of the features, averaged over cohorts: what a client
does depends on whether it is selected itself, so products of two models depend on two clients at
most. This is the reference for the reduced recursion. It needs data independent over time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from psofed.core.native import Array
from psofed.theory.system import System

MOST_NUMBERS = 320  # in all models together: five milliseconds a round
MOST_DIM = 16  # the fourth moments are D^4 numbers for every client
PART = 5000  # windows whose products are in memory at once


class Dense(NamedTuple):
    """Mean [(K + 1) D] and covariance of server and clients, stacked."""

    mean: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Fourth:
    """What one LMS step does to mean and covariance, per client, exactly.

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


def feasible(clients: int, dim: int) -> bool:
    """Whether the exact recursion is affordable."""
    return (clients + 1) * dim <= MOST_NUMBERS and dim <= MOST_DIM


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
        """The moments after one round: download, learn, upload."""
        system, D = self.system, self.system.dim
        d, d1 = (np.broadcast_to(system.masks(i), (system.total, D)) for i in (n, n + 1))
        mean, covariance = self._folded(d1, *self._learned(*_received(d, state)))
        if (poison := system.poison(n)) is not None:
            covariance[range(D), range(D)] += poison
        return Dense(mean, covariance)

    def _learned(self, mean: Array, P: Array) -> tuple[Array, Array]:
        """Eq. (10): mean [1 + 2 K, D] and covariance of w, and of each psi_k if selected, if not.

        Of one client psi_k is either of the two, so that what they have in common is not needed.
        """
        K, D, mu = self.system.total, self.system.dim, self.system.step
        H = np.tile(np.eye(D), (1 + 2 * K, 1, 1))
        learners = range(1, 1 + (2 if self.system.idle else 1) * K)
        of = np.array([i - 1 if i <= K else i - 1 - K for i in learners])
        H[learners] -= mu * self.data.R[of]
        after = mean.copy()
        both = P.reshape(1 + 2 * K, D, -1)
        left = (H @ both).reshape(len(P), 1 + 2 * K, D)
        learned = np.swapaxes(np.swapaxes(left, 0, 1) @ H, 0, 1).reshape(P.shape)
        blocks, at = learned.reshape(1 + 2 * K, D, 1 + 2 * K, D), np.array(learners)
        own = P.reshape(blocks.shape)[at, :, at]
        groups = -1, K, D
        means, own = self.data.learn(mu, mean[at].reshape(groups), own.reshape(*groups, D))
        after[at], blocks[at, :, at] = means.reshape(-1, D), own.reshape(-1, D, D)
        return after, blocks

    def _folded(self, d1: Array, mean: Array, P: Array) -> tuple[Array, Array]:
        """Eq. (11): w+ = w + (1/s) sum_k a_k q_k, q_k = S1_k (psi_k - w); a_k: k is selected.

        E[a_k] = p and E[a_k a_l] = p2 turn E[s s^T] given the cohort into that over all of them.
        """
        K, D, s = self.system.total, self.system.dim, self.system.cohort
        p, p2 = self.system.p, self.system.p2
        P = P + mean[:, :, None, None] * mean  # E of products
        one, none = slice(1, 1 + K), slice(1 + K, None)
        A, V1, V0 = P[0, :, 0], P[0, :, one], P[0, :, none]
        q1 = d1[:, :, None, None] * (P[one, :, one] - V1)  # E[q_k psi_l^T]
        q0 = d1[:, :, None, None] * (P[one, :, none] - V0)
        qw = d1[:, :, None] * (np.moveaxis(V1, 0, 2) - A)  # E[q_k w^T]
        qq = (q1 - qw[:, :, None]) * d1  # E[q_k q_l^T]
        same = np.arange(K)
        out = np.empty((1 + K, D, 1 + K, D))
        up = qw.sum(axis=0) * (p / s)
        pairs = p2 * qq.sum(axis=(0, 2)) + (p - p2) * qq[same, :, same].sum(axis=0)
        out[0, :, 0] = A + up + up.T + pairs / s**2
        others = p2 * q1.sum(axis=0) + (p - p2) * (q0.sum(axis=0) + _own(q1) - _own(q0))
        out[0, :, 1:] = p * V1 + (1 - p) * V0 + others / s
        out[1:, :, 0] = np.moveaxis(out[0, :, 1:], 0, 2)
        mixed = (p - p2) * P[one, :, none]
        rest = p2 * P[one, :, one] + (1 - 2 * p + p2) * P[none, :, none]
        out[1:, :, 1:] = rest + mixed + np.transpose(mixed, (2, 3, 0, 1))
        own = p * P[one, :, one][same, :, same] + (1 - p) * P[none, :, none][same, :, same]
        out[1:, :, 1:][same, :, same] = own
        after = np.empty((1 + K, D))
        after[0] = mean[0] + (d1 * (mean[one] - mean[0])).mean(axis=0)
        after[1:] = p * mean[one] + (1 - p) * mean[none]
        flat = after.reshape(-1)
        found = out.reshape(len(flat), -1) - np.outer(flat, flat)
        return flat, (found + found.T) / 2  # what rounding leaves of asymmetry would grow


def _own(P: Array) -> Array:
    """The blocks [k, :, k] of P [k, i, l, j], as [i, k, j]."""
    same = np.arange(len(P))
    return np.swapaxes(P[same, :, same], 0, 1)


def _received(d: Array, state: Dense) -> tuple[Array, Array]:
    """Eq. (9): w, then all clients with the server's entries in their windows d, then without."""
    K, D = d.shape
    kept = np.arange(D, (K + 1) * D)
    taken = np.where((d > 0).reshape(-1), np.tile(np.arange(D), K), kept)
    source = np.concatenate([np.arange(D), taken, kept])
    return state.mean[source].reshape(-1, D), state.covariance[np.ix_(source, source)]
