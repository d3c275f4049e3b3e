"""Where a method is after n rounds, for many steps and M at once: the quasi-static MSE.

The means are followed to round n, with windows averaged over their rotation, for all settings side
by side; then the covariances are those after n rounds in which the means stand where they end.
There is no true steady state: flat directions of the features are never learned completely, and
with few shared entries the covariances still grow after 20,000 rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.theory.mean import Means, Round
from psofed.theory.moments import Population, Yardstick
from psofed.theory.reduced import Own, ReducedRecursion, Second, State, outer
from psofed.theory.system import Bounds, System

Array = NDArray[Any]
PART = 10  # clients whose means stay in the processor's cache
TOLERANCE = 0.02  # dB
SURE = 0.25  # of the tolerance: how close the last values have to be
PER_DB = 10 / np.log(10)  # dB per unit of relative change


@dataclass(frozen=True, eq=False)
class AveragedSystem(System):
    """Windows drawn afresh in every round, in the mean: rho = M/D everywhere."""

    def masks(self, n: int) -> Array:
        """M/D of every entry, for all clients."""
        return np.full((1, self.dim), self.method.shared / self.dim)


class AveragedRecursion(ReducedRecursion):
    """The reduced recursion for fresh windows: their spread enters the covariances."""

    system: AveragedSystem

    def __init__(self, system: AveragedSystem, data: Population) -> None:
        super().__init__(system, data)
        self.windows = _Fresh(system, data.kind)

    def _scatter(self, F: Array, X11: Array, means: Means) -> None:
        """(E d d^T - rho rho^T) times what a download changes, on average."""
        fresh = self.windows[0]
        squares, pairs = outer((means.server - means.clients)[:, 0])
        F += (fresh.Pi - fresh.rho[0] ** 2) * squares
        X11 += (fresh.pair - fresh.rho[0] ** 2) * pairs

    def _cohorts(self, e: Array) -> Array:
        """Cov of the server's increment over cohorts and windows."""
        fresh, s = self.windows[0], self.system.cohort
        squares, pairs = outer(e / fresh.rho[0])
        mean = e.mean(axis=0)
        return fresh.Pi * squares / s + (1 - 1 / s) * fresh.pair * pairs - np.outer(mean, mean)


class _Fresh:
    """E d, E d d^T of one client and of two, the same in every round."""

    def __init__(self, system: AveragedSystem, kind: Any) -> None:
        M, D = system.method.shared, system.dim
        Pi = np.full((D, D), M * (M - 1) / max(D * (D - 1), 1), kind)
        Pi[np.diag_indices(D)] = M / D
        pair = Pi if system.coordinated else np.full((D, D), (M / D) ** 2, kind)
        self._windows = Own(np.full(D, M / D, kind), Pi, pair)

    def __getitem__(self, n: int) -> Own:
        return self._windows


class SweepPoint(NamedTuple):
    """One point of a sweep."""

    shared: int
    coordinated: bool
    step: float


def quasi_static(
    system: System,
    data: Population,
    test: Yardstick,
    bounds: Bounds,
    settings: list[SweepPoint],
    rounds: int,
    tell: Callable[[float], None] | None = None,
    tolerance: float = TOLERANCE,
) -> Array:
    """The MSE after `rounds` rounds for each setting; nan where the step is unsafe.

    `tolerance` is the error in dB that the computation may add to those of the theory; nan also
    where it is not reached, as after very many rounds. `tell` hears the share that is done: the
    means take about half of the time.
    """
    systems = {s: _setting(system, s) for s in settings}
    safe = [s for s, one in systems.items() if bounds.verdict(one) != "unsafe"]
    if not safe:
        return np.full(len(settings), np.nan)
    ends = _means(system, data, safe, rounds, tell)
    found = {}
    for i, s in enumerate(safe):
        if tell is not None:
            tell(0.5 + 0.5 * i / len(safe))
        means = Means(*(m[..., [i], :] for m in ends))
        spread = _spread(AveragedRecursion(systems[s], data), means, test, rounds, tolerance)
        found[s] = test.mse(means.server[0].astype(np.float64)) + spread
    return np.array([found.get(s, np.nan) for s in settings])


def _setting(system: System, s: SweepPoint) -> AveragedSystem:
    method = copy(system.method)
    method.shared, method.step = s.shared, s.step
    method.delivery = "common" if s.coordinated or s.shared == system.dim else "each"
    return AveragedSystem(method, system.clients, system.total, system.cohort, system.attack)


def _means(
    system: System, data: Population, settings: list[SweepPoint], rounds: int, tell: Any
) -> Means:
    """The means of `MeanRecursion` with windows M/D, in the space that the features fill.

    R_k is U T_k U^T there, and multiplies all settings at once. With coordinated windows a client
    downloads the very entries that were uploaded in the round before. With q = M/D, a client has
    x = m + p q (download - m) on average when it learns, and m+ = x + mu (r - R x); the mean of
    uploads follows from the mean of m+, as that of whole models (q = 1) is known.
    """
    assert system.idle or all(s.shared == system.dim for s in settings)
    U, T, kind = data.R_k.U, data.R_k.T, data.kind
    q = np.array([[s.shared / system.dim] for s in settings], kind)
    mu = np.array([[s.step] for s in settings], kind)
    fresh = np.array([[s.coordinated] for s in settings])
    touched = kind(system.p) * q
    share = np.divide(1 - q, 1 - touched, out=np.zeros_like(q), where=q < 1)
    r = (data.moments.r.astype(kind) @ U)[:, None]
    R, r_mean = T.mean(axis=0), r.mean(axis=0)
    m_s = uploaded = np.zeros((len(q), U.shape[1]), kind)
    m = np.zeros((len(r), *m_s.shape), kind)
    room = np.empty((PART, *m_s.shape), kind)
    parts = [slice(i, i + PART) for i in range(0, len(m), PART)]
    for n in range(rounds):
        if tell is not None and n % 50 == 0:
            tell(0.5 * n / rounds)
        down = np.where(fresh, uploaded, m_s)
        whole = down + mu * (r_mean - down @ R)
        m *= 1 - touched
        for part in parts:
            x = m[part]
            x += touched * down
            change = np.matmul(x, T[part], out=room[: len(x)])
            change -= r[part]
            change *= mu
            x -= change
        uploaded = q * whole + share * (m.mean(axis=0) - touched * whole)
        m_s = m_s + q * (uploaded - m_s)
    return Means(m_s @ U.T, m @ U.T)


def _spread(
    recursion: AveragedRecursion, means: Means, test: Yardstick, rounds: int, tolerance: float
) -> float:
    """tr(G A) after `rounds` rounds in which the means stand still, to a tolerance in dB."""
    now: Round = recursion.mean.round(0, means)
    whole, first = recursion.system.whole, recursion.start().second
    packed = _Packed(recursion.system.dim, whole)
    floor = test.mse(means.server[0].astype(np.float64))

    def push(values: Array) -> Array:
        state = State(means, packed.unpack(values, first))
        return packed.pack(
            recursion._whole(now, state) if whole else recursion._part(0, now, state)
        )

    def agree(values: Array) -> bool:
        return bool(np.ptp(values) * PER_DB < SURE * tolerance * (floor + values[-1]))

    return seen(push, packed.weights(test.G, recursion.data.kind), rounds, agree)


class _Packed:
    """Covariances as one row of numbers; of those that are symmetric, one triangle."""

    def __init__(self, dim: int, whole: bool) -> None:
        self.dim, self.whole = dim, whole
        rows, columns = np.triu_indices(dim)
        self.upper, self.lower = dim * rows + columns, dim * columns + rows

    def pack(self, second: Second) -> Array:
        """A and, unless models are whole, C, X and B."""
        triangles = [P.ravel()[self.upper] for P in (second.A, second.C, second.X)]
        return triangles[0] if self.whole else np.concatenate([*triangles, second.B.ravel()])

    def unpack(self, values: Array, like: Second) -> Second:
        """What `pack` was given."""
        if self.whole:
            return like._replace(A=self._square(values))
        size = len(self.upper)
        A, C, X = (self._square(values[i * size : (i + 1) * size]) for i in range(3))
        return Second(A, values[3 * size :].reshape(A.shape), C, X)

    def _square(self, triangle: Array) -> Array:
        out = np.empty((self.dim, self.dim), triangle.dtype)
        out.ravel()[self.upper] = triangle
        out.ravel()[self.lower] = triangle
        return out

    def weights(self, G: Array, kind: Any) -> Array:
        """The row g for which g^T pack(.) = tr(G A)."""
        own = (2 * G - np.diag(np.diag(G))).ravel()[self.upper]
        rest = 0 if self.whole else 2 * len(own) + self.dim**2
        return np.concatenate([own, np.zeros(rest)]).astype(kind)


STRIDE = 5  # vectors between two values
RECENT = 5  # values that have to agree
MOST = 200  # vectors
NOTHING = 1e-6  # of a product that is left when it lies in the space already


def seen(
    push: Callable[[Array], Array], g: Array, rounds: int, agree: Callable[[Array], bool]
) -> float:
    """g^T x after `rounds` rounds from x = 0, when the last values `agree`; push(x) = L x + b.

    The values are those of 5 more vectors each; a slow direction shows when it is found, so the
    last alone would not tell. They end by themselves where the space holds all that is reached;
    nan where it would need more vectors than there is room for.
    """
    b = push(np.zeros_like(g))
    size = float(np.linalg.norm(b))
    if size == 0:
        return 0.0
    most = min(MOST, len(g))
    V, H = np.empty((most + 1, len(b)), b.dtype), np.zeros((most + 1, most))
    V[0] = b / size
    values: list[float] = []
    for m in range(1, most + 1):
        new = (push(V[m - 1] * b.dtype.type(size)) - b) / b.dtype.type(size)
        before = float(np.linalg.norm(new))
        for _ in range(2):  # once would leave rounding errors that grow
            parts = V[:m] @ new
            new -= parts @ V[:m]
            H[:m, m - 1] += parts
        left = float(np.linalg.norm(new))
        done = not left > NOTHING * before
        if done or m % STRIDE == 0 or m == most:
            values.append(float(V[:m] @ g @ _after(H[:m, :m], size, rounds)))
        if done or (len(values) >= RECENT and agree(np.array(values[-RECENT:]))):
            return values[-1]
        H[m, m - 1] = left
        V[m] = new / b.dtype.type(left)
    return values[-1] if most == len(g) else float("nan")


def _after(H: Array, size: float, rounds: int) -> Array:
    """xi after `rounds` rounds of xi+ = H xi + size e_1, from zero."""
    m = len(H)
    whole = np.zeros((m + 1, m + 1))
    whole[:m, :m], whole[0, m], whole[m, m] = H, size, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        found: Array = np.linalg.matrix_power(whole, rounds)[:m, m]
    return found
