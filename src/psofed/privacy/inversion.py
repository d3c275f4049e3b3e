"""From changes of a model back to samples: x_t and a_t with change_i = sum_t a_t z_i(x_t).

A change of an entry between two moments at which its value is known is the sum of all that was
learned in between: of LMS a_t = mu e_t, of a sum over clients the terms of all of them. Given all
x, the a follow from linear least squares, so only the x are searched (variable projection):
Levenberg-Marquardt with Kaufman's Jacobian, many starts at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from psofed.core.features import Cosines, FeatureMap
from psofed.core.native import Array
from psofed.errors import InputError

FIT = 3.0  # times the noise: a fit with less misfit than that (root mean square) explains all
READ = 0.05  # deviations of an input: what is found or determined better than that is read
SPARE, CLEAR = 4, 1e3  # a fit is no chance: equations to spare, and a change above its noise
RIVAL = 25.0  # a solution whose squared misses are more by that, over the noise, is worse
CANDIDATES = 1000  # of which a greedy start takes one, by term
HOLD, HELD = 0.05, 12  # the guess weighs as with noise of this part of the change, for some steps
STEPS = 300  # steps after that
LEAP = 2.0  # deviations that an input moves in a step, at most
GAIN, PATIENCE = 1e-3, 12  # a start ends that gains less than this part within this number of steps
ENDS = 6  # of so many starts it is said where they end
EXACT = 1e-15  # the least noise of a change: float64 itself
NUDGE = 1e-5  # of central differences, where there is no formula: errors of about 1e-10
# x [..., L] to z [..., E] and its slopes [..., L, E], in float64.
Tangent = Callable[[Array], tuple[Array, Array]]
# x [..., T, L] to misses [..., K], over their noise, and their slopes [..., T, L, K].
Clue = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Guess:
    """What is guessed of inputs and of a: means and deviations, for each of L inputs or for all."""

    mean: Any = 0.0
    std: Any = 1.0
    a: float = 1.0  # the deviation of a

    @staticmethod
    def of(samples: Array, a: float = 1.0) -> Guess:
        """From samples [N, L] of the kind."""
        return Guess(samples.mean(axis=0), np.maximum(samples.std(axis=0), 1e-6), a)


def apart(terms: int, taps: int) -> Array:
    """Which unknown is input l of term t [T, L]: each its own.

    >>> apart(2, 3).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    return np.arange(terms * taps).reshape(terms, taps)


def delayed(terms: int, taps: int) -> Array:
    """A delay line: x_t = (u_t, u_{t-1}, ..., u_{t-L+1}), so T terms have T + L - 1 inputs.

    >>> delayed(2, 3).tolist()
    [[2, 1, 0], [3, 2, 1]]
    """
    return np.arange(terms)[:, None] + np.arange(taps)[::-1]


@dataclass(frozen=True, eq=False)
class InverseProblem:
    """Equations of some terms; every row divided by its noise."""

    at: Tangent
    change: Array  # [E]
    weights: Array  # [E, T]: of each term in each equation, over the noise
    layout: Array  # [T, L]: which unknown each input is
    known: Array  # [U]: inputs that are known already; NaN: unknown
    mean: Array  # [U]
    std: Array  # [U]
    a: float
    clue: Clue | None = None  # what else is known of the inputs
    clues: int = 0  # equations of it

    @property
    def equations(self) -> int:
        return len(self.change) + self.clues

    @property
    def unknowns(self) -> int:
        """Inputs that are not known, and one a for each term."""
        return int(np.isnan(self.known).sum()) + len(self.layout)


def pose(
    features: FeatureMap, entries: Array, change: Array, layout: Array, guess: Guess,
    noise: Any = EXACT, terms: Any = 1.0, known: Array | None = None,
) -> InverseProblem:  # fmt: skip
    """Entries [E] have changed by so much through terms whose inputs are as `layout` says.

    `noise` is the deviation of the rounding of the change: one number, or one an entry; `terms`
    [E, T] or [T] is the weight of each term.
    """
    if np.shape(change) != (len(entries),):
        found = f"has {np.shape(change)} values for {len(entries)} entries"
        raise InputError("change", found, "give one for each entry")
    count = int(layout.max()) + 1
    # A few entries that are known far better than the others would rule the search, and spoil it.
    noise = np.broadcast_to(noise, len(entries))
    noise = np.maximum(noise, max(float(np.median(noise)), EXACT))
    weights = np.broadcast_to(np.asarray(terms, np.float64), (len(entries), len(layout)))
    mean, std = np.empty(count), np.empty(count)
    mean[layout], std[layout] = guess.mean, guess.std
    free = np.full(count, np.nan) if known is None else known
    return InverseProblem(
        tangent(features, entries), change / noise, weights / noise[:, None], layout, free, mean,
        std, guess.a,
    )  # fmt: skip


def tangent(features: FeatureMap, entries: Array) -> Tangent:
    """z at `entries` and its slopes: of cosines by a formula, of other features by differences."""
    features = features.astype(np.float64)
    if isinstance(features, Cosines):
        W, b, height = features.W[entries], features.b[entries], np.sqrt(2 / features.dim)
        slopes = np.ascontiguousarray(-height * W.T)

        def wave(x: Array) -> tuple[Array, Array]:
            phase = x @ W.T + b
            return height * np.cos(phase), np.sin(phase)[..., None, :] * slopes

        return wave

    def z(x: Array) -> Array:
        flat = np.asarray(features(x.reshape(-1, x.shape[-1])), np.float64)[:, entries]
        return flat.reshape(*x.shape[:-1], len(entries))

    def differences(x: Array) -> tuple[Array, Array]:
        nudges = NUDGE * np.eye(x.shape[-1])
        up, down = z(x[..., None, :] + nudges), z(x[..., None, :] - nudges)
        return z(x), (up - down) / (2 * NUDGE)

    return differences


@dataclass(frozen=True, eq=False)
class Inversion:
    """What was found: samples x [T, L], their a [T], and how sure that is."""

    x: Array
    a: Array
    misfit: float  # root mean square of what is left, over the noise
    spread: Array  # [T] deviation of the inputs that noise and guess leave, over the guess's
    rivals: int  # other solutions that fit as well and differ
    certain: Array  # [T] whether term t is known to READ, and the same in all that fit
    ends: Array  # [R, U] where the best starts have ended

    @property
    def fits(self) -> bool:
        """Whether nothing but the rounding of the wire is left."""
        return self.misfit <= FIT


class Point(NamedTuple):
    """Where some starts are: residuals and what a step needs."""

    u: Array  # [R, U]
    a: Array  # [R, T]
    cost: Array  # [R] with the guess
    misfit: Array  # [R] without
    g: Array  # [R, P]
    H: Array  # [R, P, P]


def invert(
    problem: InverseProblem, luck: np.random.Generator, starts: int = 48, batches: int = 6
) -> Inversion:
    """The best fit of several batches of starts; it ends with the first batch that has one."""
    best: list[Point] = []
    for _ in range(batches):
        best.append(search(problem, greedy(problem, luck, starts)))
        if best[-1].misfit.min() <= FIT:
            break
    u, a, misfit = (
        np.concatenate([getattr(point, name) for point in best]) for name in ("u", "a", "misfit")
    )
    return _judged(problem, u, a, misfit)


def greedy(problem: InverseProblem, luck: np.random.Generator, starts: int) -> Array:
    """Starts [R, U]: term by term one of the best of many random ones, on what is left."""
    T, L = problem.layout.shape
    free = np.isnan(problem.known)
    u = np.where(free, 0.0, problem.known) + np.zeros((starts, 1))
    done = np.broadcast_to(~free, u.shape).copy()
    left = np.broadcast_to(problem.change, (starts, len(problem.change)))
    columns = np.zeros((starts, len(problem.change), T))
    for t in luck.permuted(np.tile(np.arange(T), (starts, 1)), axis=1).T:
        place = problem.layout[t]  # [R, L]
        draws = luck.standard_normal((starts, CANDIDATES // starts + 20, L))
        x = problem.mean[place][:, None] + 1.2 * problem.std[place][:, None] * draws
        fixed = np.take_along_axis(done, place, axis=1)[:, None]
        x = np.where(fixed, np.take_along_axis(u, place, axis=1)[:, None], x)
        z = problem.at(x)[0] * problem.weights[:, t].T[:, None]
        size = np.sqrt(np.square(z).sum(axis=-1)) + 1e-30
        score = np.abs(np.vecdot(z, left[:, None])) / size
        chosen = score.argmax(axis=1)
        rows = np.arange(starts)
        np.put_along_axis(u, place, x[rows, chosen], axis=1)
        np.put_along_axis(done, place, True, axis=1)
        columns[rows, :, t] = z[rows, chosen]
        ridge = 1e-6 * np.square(columns).sum(axis=(1, 2), keepdims=True)
        gram = np.swapaxes(columns, 1, 2) @ columns + ridge * np.eye(T)
        a = np.linalg.solve(gram, np.swapaxes(columns, 1, 2) @ problem.change[:, None])
        left = problem.change - (columns @ a)[..., 0]
    return u


def search(problem: InverseProblem, u: Array) -> Point:
    """Levenberg-Marquardt from all starts at once; the guess holds them at first, then lets go."""
    held = _descend(problem, u, max(HOLD * _size(problem), 1.0), HELD)
    return _descend(problem, held.u, 1.0, STEPS)


def refined(problem: InverseProblem, u: Array) -> Inversion:
    """The best of the solutions that are nearest to each of u [R, U]."""
    point = _descend(problem, u, 1.0, STEPS)
    return _judged(problem, point.u, point.a, point.misfit)


def _size(problem: InverseProblem) -> float:
    """The change over its noise."""
    return float(np.sqrt(np.square(problem.change).mean()))


def _descend(problem: InverseProblem, u: Array, hold: float, steps: int) -> Point:
    """At most `steps` steps; `hold` is the weight of the guess: 1 is what the noise asks for."""
    free = np.isnan(problem.known)
    most, eye = LEAP * problem.std[free], np.eye(int(free.sum()))
    # Where the first fit that is found is the only one to expect, it is enough.
    clear = problem.equations - problem.unknowns >= SPARE and _size(problem) >= CLEAR
    enough = FIT / 2 if hold <= 1 and clear else -1.0
    all_of = here = evaluate(problem, u, hold)
    active, damping, still = np.arange(len(u)), np.full(len(u), 1e-2), np.zeros(len(u))
    for _ in range(steps if free.any() else 0):
        scale = np.diagonal(here.H, axis1=1, axis2=2)
        scale = scale + 1e-8 * scale.max(axis=1, keepdims=True)
        damped = here.H + (damping[:, None] * scale)[:, None] * eye
        step = np.linalg.solve(damped, -here.g[..., None])[..., 0]
        there = here.u.copy()
        there[:, free] += np.clip(step, -most, most)
        new = evaluate(problem, there, hold)
        better = new.cost < here.cost
        still = np.where(new.cost < here.cost * (1 - GAIN), 0, still + 1)
        damping = np.clip(np.where(better, damping / 4, damping * 3), 1e-12, 1e8)
        here = Point(*(_where(better, n, h) for n, h in zip(new, here, strict=True)))
        for whole, part in zip(all_of, here, strict=True):
            whole[active] = part
        moving = still <= PATIENCE
        if (here.misfit[still > 1] <= enough).any() or not moving.any():
            break
        if not moving.all():
            active, damping, still = active[moving], damping[moving], still[moving]
            here = Point(*(part[moving] for part in here))
    return all_of


def evaluate(problem: InverseProblem, u: Array, hold: float) -> Point:
    """Residuals at u [R, U] with the best a, gradient and Gauss-Newton matrix in the free u."""
    z, slopes = problem.at(u[:, problem.layout])  # [R, T, E], [R, T, L, E]
    T, free = len(problem.layout), np.isnan(problem.known)
    rows, ridge = z * problem.weights.T, np.eye(T) * (hold / problem.a)
    more = np.broadcast_to(ridge, (len(u), T, T))
    Q, R = np.linalg.qr(np.swapaxes(np.concatenate([rows, more], axis=2), 1, 2))
    c = np.concatenate([problem.change, np.zeros(T)])
    a = np.linalg.solve(R, (c @ Q)[..., None])[..., 0]
    left = c - np.concatenate([(a[:, None] @ rows)[:, 0], hold / problem.a * a], axis=1)
    slopes *= (problem.weights.T * a[..., None])[:, :, None]
    B = gathered(slopes, problem.layout, len(free))[:, free]
    # Kaufman: J = -(I - Q Q^T) B, where the last T rows of B are zero.
    J = (B @ Q[:, :-T]) @ np.swapaxes(Q, 1, 2)
    J[..., :-T] -= B
    unexplained = left[:, :-T]
    if problem.clue:
        misses, by_input = problem.clue(u[:, problem.layout])
        more = gathered(by_input, problem.layout, len(free))[:, free]
        left, J = np.concatenate([left, misses], axis=1), np.concatenate([J, more], axis=2)
        unexplained = np.concatenate([unexplained, misses], axis=1)
    off = ((u - problem.mean) / problem.std)[:, free] * hold
    g = (J @ left[..., None])[..., 0] + off * hold / problem.std[free]
    H = J @ np.swapaxes(J, 1, 2) + np.diag(np.square(hold / problem.std[free]))
    cost = np.square(left).sum(axis=1) + np.square(off).sum(axis=1)
    misfit = np.sqrt(np.square(unexplained).mean(axis=1))
    return Point(u, a, cost, misfit, g, H)


def gathered(slopes: Array, layout: Array, count: int) -> Array:
    """Slopes by input [..., T, L, E] as slopes by unknown [..., U, E]."""
    *before, _, L, E = slopes.shape
    if layout.size == count and np.array_equal(layout.ravel(), np.arange(count)):
        return slopes.reshape(*before, count, E)
    found = np.zeros((*before, count, E))
    for tap in range(L):  # an unknown is an input at a tap of one term at most
        found[..., layout[:, tap], :] += slopes[..., tap, :]
    return found


def _where(chosen: Array, new: Array, old: Array) -> Array:
    return np.where(chosen.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def spread(problem: InverseProblem, u: Array, a: Array) -> Array:
    """Deviation [T] of the inputs of each term that noise and guess leave, over the guess's.

    The covariance is (J^T J + I)^-1, with J by all unknowns (u, a) over the noise, in deviations of
    the guess: Cramer and Rao's bound with a prior. The worst of the inputs of a term counts.
    """
    free = np.isnan(problem.known)
    z, slopes = problem.at(u[problem.layout])
    by_input = slopes * (problem.weights.T * a[:, None])[:, None]
    J = gathered(by_input, problem.layout, len(u))[free] * problem.std[free][:, None]
    J = np.vstack([J, z * problem.weights.T * problem.a])
    if problem.clue:
        more = gathered(problem.clue(u[problem.layout])[1], problem.layout, len(u))[free]
        more = np.vstack([more * problem.std[free][:, None], np.zeros((len(a), problem.clues))])
        J = np.hstack([J, more])
    # Through singular values, because J J^T would lose what is below 1e-8 of the largest.
    vectors, values, _ = np.linalg.svd(J, full_matrices=True)
    values = np.concatenate([values, np.zeros(len(J) - len(values))])[: len(J)]
    variance, count = np.zeros(len(u)), int(free.sum())
    variance[free] = (np.square(vectors[:count]) / (1 + np.square(values))).sum(axis=1)
    return np.sqrt(variance[problem.layout].max(axis=1))


def _judged(problem: InverseProblem, u: Array, a: Array, misfit: Array) -> Inversion:
    """The best of all solutions, and whether others say something else."""
    order = np.argsort(misfit, kind="stable")
    u, a, misfit = u[order], a[order], misfit[order]
    unsure = spread(problem, u[0], a[0])
    x, scale = u[:, problem.layout], problem.std[problem.layout]
    more = problem.equations * (np.square(misfit) - misfit[0] ** 2) / max(misfit[0] ** 2, 1.0)
    fits = (misfit <= FIT) & (more <= RIVAL)
    # Terms may come in another order: each is looked for among all terms of the other solution.
    apart = np.abs(x[:, None] - x[0][:, None]) / scale
    same = (apart.max(axis=-1) <= READ).any(axis=-1)  # [R, T]
    # As many equations as unknowns have several solutions, of which one may be all that was found.
    clear = fits[0] and problem.equations > problem.unknowns
    certain = (unsure <= READ / 3) & clear & same[fits].all(axis=0)
    rivals = int((~same[fits].all(axis=1)).sum())
    return Inversion(x[0], a[0], float(misfit[0]), unsure, rivals, certain, u[:ENDS])
