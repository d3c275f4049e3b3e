"""The mean error, exactly: averaged over cohorts and data, with the windows as they rotate.

Eq. (13) of the paper replaces the mean of a product by the product of means. But a client that
uploads in round n has downloaded in round n, so the two matrices are not independent; here the
product is averaged. Each of its terms involves one client only, so no cohorts are enumerated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from psofed.core.native import Array
from psofed.theory.moments import Moments
from psofed.theory.system import System

DENSE = 700  # numbers in all models together, up to which the map of one period is a matrix
BLOCK = 6  # directions that are followed where it is not
PERIODS = 8  # for which they are followed at most
SETTLED = 1e-4  # relative change of the estimate that ends it


class Means(NamedTuple):
    """The means before a round: of the server m_s [c, D] and the clients m_k [J, c, D].

    c is the number of independent trajectories; mostly one.
    """

    server: Array
    clients: Array


class Round(NamedTuple):
    """The means within a round, of clients that are selected (1) and that are not (0)."""

    m1: Array  # after the download
    u1: Array  # r_k - R_k m: the mean of z (y - z^T w)
    u0: Array
    g1: Array  # after learning
    g0: Array
    e: Array  # what client k adds to the server's model if it is selected: S1_k (g1_k - m_s)
    after: Means


@dataclass(frozen=True, eq=False)
class MeanRecursion:
    """E of eq. (12), for models or (with `r` left out) for their errors.

    m1_k = S_k m_s + (I - S_k) m_k,         g1_k = m1_k + mu (r_k - R_k m1_k)   if selected,
                                            g0_k = m_k + mu (r_k - R_k m_k)     if not,
    m_s+ = m_s + mean_k S1_k (g1_k - m_s),  m_k+ = p g1_k + (1 - p) g0_k,
    with S_k of round n, S1_k of round n + 1, p = |S_n| / K.
    """

    system: System
    R: Any  # R_k of all followed clients: an array, or what `m @ R` multiplies like one
    r: Array | None = None

    def start(self, count: int = 1) -> Means:
        """Initial models: zero."""
        J, D = self.R.shape[:2]
        kind = self.R.dtype
        return Means(np.zeros((count, D), kind), np.zeros((J, count, D), kind))

    def round(self, n: int, means: Means) -> Round:
        """One round, from before it to after it."""
        system, kind = self.system, self.R.dtype
        d = system.masks(n).astype(kind)[:, None]
        d1 = system.masks(n + 1).astype(kind)[:, None]
        m_s, m = means
        m1 = m + d * (m_s - m)
        r = 0 if self.r is None else self.r[:, None]
        # With M = D, what idle clients learn is not needed.
        learns = system.idle and not system.whole
        # R_k is symmetric, and one product for both reads it once.
        u1 = r - (np.concatenate([m1, m], axis=1) if learns else m1) @ self.R
        u1, u0 = (u1[:, : len(m_s)], u1[:, len(m_s) :]) if learns else (u1, np.zeros_like(m))
        g1 = m1 + system.step * u1
        g0 = m + system.step * u0
        e = d1 * (g1 - m_s)
        p = system.p
        after = Means(m_s + e.mean(axis=0), p * g1 + (1 - p) * g0)
        return Round(m1, u1, u0, g1, g0, e, after)


@dataclass(frozen=True, eq=False)
class PaperRecursion:
    """Eq. (13), the paper's approximation: E[B] (I - mu R_e) E[A], with E[S_k] = (M/D) I.

    phi_k = p q m_s + (1 - p q) m_k,  m_k+ = phi_k + mu (r_k - R_k phi_k),
    m_s+ = (1 - q) m_s + q mean_k m_k+,  q = M/D.
    """

    system: System
    R: Array
    r: Array | None = None

    def after(self, means: Means) -> Means:
        """The means after one round."""
        system = self.system
        q = system.method.shared / system.dim
        phi = system.p * q * means.server + (1 - system.p * q) * means.clients
        r = 0 if self.r is None else self.r[:, None]
        psi = phi + system.step * (r - phi @ self.R)
        return Means((1 - q) * means.server + q * psi.mean(axis=0), psi)


class Radius(NamedTuple):
    """The spectral radius of the map of the mean error over `period` rounds."""

    value: float
    period: int
    exact: bool  # from the matrix itself; otherwise from a few directions that were followed

    @property
    def endless(self) -> bool:
        """Whether it cannot be distinguished from 1."""
        return abs(1 - self.value) <= (1e-12 if self.exact else RESOLUTION)

    @property
    def time_constant(self) -> float:
        """Rounds in which the slowest error falls to 1/e; infinite where it does not."""
        falls = self.value < 1 and not self.endless
        return -self.period / np.log(self.value) if falls else np.inf


RESOLUTION = 1e-6  # of directions that are followed in single precision


def radius(system: System, moments: Moments) -> Radius | None:
    """The spectral radius over one period of the windows; None if they have no period."""
    period = system.period
    if period is None:
        return None
    if system.whole:  # the server's model alone: w+ = (I - mu mean_k R_k) w
        H = np.eye(system.dim) - system.step * moments.R.mean(axis=0)
        return Radius(float(np.abs(np.linalg.eigvalsh(H)).max()), 1, exact=True)
    recursion = MeanRecursion(system, _fast(moments.R))

    def one_period(means: Means) -> Means:
        for n in range(period):
            means = recursion.round(n, means).after
        return means

    return _radius(one_period, moments, system.dim, period)


def paper_radius(system: System, moments: Moments) -> Radius:
    """The spectral radius of eq. (13)."""
    recursion = PaperRecursion(system, _fast(moments.R))

    def ten(means: Means) -> Means:
        for _ in range(10):
            means = recursion.after(means)
        return means

    return _radius(ten, moments, system.dim, 10)


def _fast(R: Array) -> Array:
    """Where directions are only followed, single precision is enough and takes half the time."""
    return R if (len(R) + 1) * R.shape[1] <= DENSE else R.astype(np.float32)


def _radius(map: Any, moments: Moments, dim: int, period: int) -> Radius:
    J = len(moments.clients)
    size = (J + 1) * dim
    if size <= DENSE:
        matrix = _stack(map(_split(np.eye(size), J, dim)))
        return Radius(float(np.abs(np.linalg.eigvals(matrix)).max()), period, exact=True)
    # The slowest errors are common to all models and flat for all data; the others are at random.
    flat = np.linalg.eigh(moments.R.mean(axis=0))[1][:, : BLOCK // 2]
    random = np.random.Generator(np.random.Philox(key=0)).standard_normal((size, BLOCK // 2))
    V = np.linalg.qr(np.hstack([np.tile(flat, (J + 1, 1)), random]))[0]
    value = 0.0
    for _ in range(PERIODS):
        Y = _stack(map(_split(V.astype(np.float32), J, dim))).astype(np.float64)
        before, value = value, float(np.abs(np.linalg.eigvals(V.T @ Y)).max())
        V = np.linalg.qr(Y)[0]
        if abs(value - before) < SETTLED * abs(1 - value) + RESOLUTION:
            break
    return Radius(value, period, exact=False)


def _split(V: Array, J: int, dim: int) -> Means:
    stacked = np.ascontiguousarray(np.swapaxes(V.reshape(J + 1, dim, -1), 1, 2))
    return Means(stacked[0], stacked[1:])


def _stack(means: Means) -> Array:
    stacked = np.concatenate([means.server[None], means.clients])
    return np.swapaxes(stacked, 1, 2).reshape(-1, len(means.server))
