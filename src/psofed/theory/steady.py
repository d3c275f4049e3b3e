"""Where a method is after n rounds, for many steps and M at once: the quasi-static MSE.

The means are followed to round n, with windows averaged over their rotation, for all settings side
by side; then the covariances are taken where they would settle if the means stood still. There is
no true steady state: flat directions of the features are never learned completely.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.theory.bounds import Bounds
from psofed.theory.mean import Means, Round
from psofed.theory.moments import Yardstick
from psofed.theory.reduced import Population, ReducedRecursion, Second, State, outer
from psofed.theory.system import System

Array = NDArray[Any]
MEMORY, ROUNDS = 8, 60  # of Anderson's acceleration
SETTLED = 2e-4  # relative change of the MSE


@dataclass(frozen=True, eq=False)
class AveragedSystem(System):
    """Windows drawn afresh in every round, in the mean: rho = M/D everywhere."""

    def masks(self, n: int) -> Array:
        """M/D of every entry, for all clients."""
        return np.full((1, self.dim), self.method.shared / self.dim)


class AveragedRecursion(ReducedRecursion):
    """The reduced recursion for fresh windows: their spread enters the covariances."""

    system: AveragedSystem

    def windows(self, n: int) -> tuple[Array, Array, Array]:
        """E d, E d d^T of one client and of two."""
        M, D, kind = self.system.method.shared, self.system.dim, self.data.kind
        Pi = np.full((D, D), M * (M - 1) / max(D * (D - 1), 1), kind)
        Pi[np.diag_indices(D)] = M / D
        pair = Pi if self.system.coordinated else np.full((D, D), (M / D) ** 2, kind)
        return np.full(D, M / D, kind), Pi, pair

    def _scatter(self, F: Array, X11: Array, means: Means) -> None:
        """(E d d^T - rho rho^T) times what a download changes, on average."""
        rho, Pi, pair = self.windows(0)
        squares, pairs = outer((means.server - means.clients)[:, :, 0])
        F += (Pi - rho[0] ** 2) * squares
        X11 += (pair - rho[0] ** 2) * pairs

    def _cohorts(self, e: Array) -> Array:
        """Cov of the server's increment over cohorts and windows."""
        rho, Pi, pair = self.windows(0)
        s = self.system.cohort
        squares, pairs = outer(e / rho[0])
        mean = e.mean(axis=0)
        return Pi * squares / s + (1 - 1 / s) * pair * pairs - np.outer(mean, mean)


class Setting(NamedTuple):
    """One point of a sweep."""

    shared: int
    coordinated: bool
    step: float


def quasi_static(
    system: System,
    data: Population,
    test: Yardstick,
    bounds: Bounds,
    settings: list[Setting],
    rounds: int,
    on_round: Callable[[int, int], None] | None = None,
) -> Array:
    """The MSE after `rounds` rounds for each setting; nan where the step is unsafe."""
    systems = {s: _setting(system, s) for s in settings}
    safe = [s for s, one in systems.items() if bounds.verdict(one) != "unsafe"]
    if not safe:
        return np.full(len(settings), np.nan)
    ends = _means(system, data, safe, rounds, on_round)
    found = {}
    for i, s in enumerate(safe):
        means = Means(*(m[..., [i]] for m in ends))
        second = _settled(AveragedRecursion(systems[s], data), means, test)
        found[s] = test.mse(means.server[:, 0].astype(np.float64), second.A)
    return np.array([found.get(s, np.nan) for s in settings])


def _setting(system: System, s: Setting) -> AveragedSystem:
    method = copy(system.method)
    method.shared, method.step = s.shared, s.step
    method.common = s.coordinated or s.shared == system.dim
    return AveragedSystem(method, system.clients, system.total, system.cohort)


def _means(
    system: System, data: Population, settings: list[Setting], rounds: int, on_round: Any
) -> Means:
    """The means of `MeanRecursion` with windows M/D, in the space that the features fill.

    R_k is U T_k U^T there, and multiplies all settings at once. With coordinated windows a client
    downloads the very entries that were uploaded in the round before.
    """
    U, T, kind = data.R_k.U, data.R_k.T, data.kind
    q = np.array([s.shared / system.dim for s in settings], kind)
    mu = np.array([s.step for s in settings], kind)
    fresh = np.array([s.coordinated for s in settings])
    p = kind(system.p)
    idle = kind(system.idle)
    r = (data.moments.r.astype(kind) @ U)[:, :, None]
    m_s, m = np.zeros((U.shape[1], len(q)), kind), np.zeros((*r.shape[:2], len(q)), kind)
    uploaded = m_s
    for n in range(rounds):
        if on_round is not None and n % 50 == 0:
            on_round(n, rounds)
        down = np.where(fresh, uploaded, m_s)
        u0, u_s = r - T @ m, r - T @ down
        g1 = m + q * (down - m)
        g1 += mu * (u0 + q * (u_s - u0))
        m += idle * mu * u0
        m += p * (g1 - m)
        uploaded = g1.mean(axis=0)
        m_s = m_s + q * (uploaded - m_s)
    return Means(U @ m_s, np.einsum("dr,krc->kdc", U, m, optimize=True))


def _settled(recursion: AveragedRecursion, means: Means, test: Yardstick) -> Second:
    """Where the covariances settle while the means stand still, by Anderson's acceleration."""
    now: Round = recursion.mean.round(0, means)
    whole = recursion.system.whole
    second = recursion.start().second
    points: list[Array] = []
    images: list[Array] = []
    floor = test.mse(means.server[:, 0].astype(np.float64))
    mse = 0.0
    for _ in range(ROUNDS):
        state = State(means, second)
        image = recursion._whole(now, state) if whole else recursion._part(0, now, state)
        before, mse = mse, floor + float(np.vdot(test.G, image.A))
        points, images = points[-MEMORY:], images[-MEMORY:]
        points.append(_flat(second, whole))
        images.append(_flat(image, whole))
        if not abs(mse - before) >= SETTLED * (mse - floor):  # settled, or lost
            break
        second = _unflat(_anderson(np.array(points), np.array(images)), second, whole)
    return image


def _anderson(points: Array, images: Array) -> Array:
    """The combination of images with the smallest residual."""
    moved = (images - points).astype(np.float64)
    if len(moved) == 1:
        return images[0]
    changes = np.diff(moved, axis=0)
    # Few columns and very many rows: the normal equations are accurate enough, and fast.
    weights = np.linalg.lstsq(changes @ changes.T, changes @ moved[-1], rcond=1e-12)[0]
    return images[-1] - weights.astype(images.dtype) @ np.diff(images, axis=0)


def _flat(second: Second, whole: bool) -> Array:
    return second.A.reshape(-1) if whole else np.concatenate([P.reshape(-1) for P in second])


def _unflat(values: Array, like: Second, whole: bool) -> Second:
    if whole:
        return like._replace(A=values.reshape(like.A.shape))
    return Second(*(part.reshape(like.A.shape) for part in np.split(values, 4)))
