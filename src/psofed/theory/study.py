"""All results of the theory for an experiment: limits, radii, curves and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.federation.bases import SCHEMES
from psofed.federation.options import Options
from psofed.federation.workers import Tell, Workers
from psofed.methods import psofed
from psofed.theory import mean, prediction, steady
from psofed.theory.mean import Radius
from psofed.theory.prediction import Prediction, World
from psofed.theory.system import Bounds, Norm, System, Verdict, bounds, norms, started, system

Array = NDArray[Any]
STEPS = (0.05, 0.1, 0.2, 0.35, 0.55, 0.75, 0.9)  # of a sweep, in units of the limit
SHARES = (1, 2, 5, 10, 20, 40, 100, 200, 500, 1000)  # M of a sweep, as far as they fit
GROUP = 16  # points of a sweep that are computed side by side
SETTLED = 3e-5  # relative change of an MSE over one period of the windows that ends a point
Progress = Callable[[float], None] | None
AT = 0.9  # of the rounds: the middle of the last fifth, over which a simulation is averaged


@dataclass(frozen=True)
class Judgement:
    """One method: whether its step is safe, and how fast its mean error decays."""

    title: str
    step: float
    verdict: Verdict
    limit: float
    radius: Radius | None  # None: windows that have no period, or it was not asked for
    paper: Radius | None  # of eq. (13)


@dataclass(frozen=True, eq=False)
class Sweep:
    """MSE after 0.9 N rounds against the step or against M: `mse` [line, x]."""

    what: str  # "step" or "shared"
    step: float | None  # of all points, if it is not what is swept
    x: Array
    lines: list[str]
    mse: Array
    methods: tuple[Any, ...]  # what a simulation of the same points has to run, line by line


@dataclass(frozen=True, eq=False)
class Study:
    """The results of the theory for one world."""

    world: World
    bounds: Bounds
    norms: list[Norm]
    judgements: list[Judgement]
    unknown: list[str]  # methods that the theory does not cover
    predictions: list[Prediction] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)


def judge(workers: Workers, radii: bool = True, on_share: Progress = None) -> Study:
    """The limits of the step and, with `radii`, the speed of the mean error."""
    world: World = workers.known
    limits = bounds(world.experiment, world.task, world.moments)
    known = prediction.systems(world)
    found: list[Any] = [(None, None)] * len(known)
    if radii:
        costs = [_cost(world, system) for system in known.values()]
        found = workers.work(_radii, list(known), costs, on_share)
    judged = [
        _judgement(limits, title, system, *both)
        for (title, system), both in zip(known.items(), found, strict=True)
    ]
    part = next((system for system in known.values() if not system.whole), None)
    found_norms = norms(part, world.moments) if part is not None else []
    unknown = [title for title in world.experiment.titles if title not in known]
    return Study(world, limits, found_norms, judged, unknown)


def _cost(world: World, system: System) -> float:
    """Numbers to be read for a radius: all R_k, in every round of a period or two."""
    return float(world.moments.R.size * 2 * (1 if system.whole else system.period or 1))


def _radii(world: World, title: str, tell: Tell) -> tuple[Radius | None, Radius | None]:
    """That of the mean error, and that of eq. (13)."""
    system = prediction.systems(world)[title]
    radius = mean.radius(system, world.moments)
    # Eq. (13) lets all clients learn in every round, so it is computed for that case only.
    paper = mean.paper_radius(system, world.moments) if system.idle else None
    tell(1.0)
    return radius, paper


def _judgement(
    limits: Bounds, title: str, system: System, radius: Radius | None, paper: Radius | None
) -> Judgement:
    verdict = limits.verdict(system, None if radius is None else radius.value)
    return Judgement(title, system.step, verdict, limits.limit(system), radius, paper)


def sweeps(workers: Workers, study: Study, on_share: Progress = None) -> list[Sweep]:
    """MSE at the end against the step for each method, and against M for each scheme.

    Exact where the curves are; else quasi-static.
    """
    world: World = workers.known
    dim, known = world.task.dim, prediction.systems(world)
    options: dict[str, Any] = {}
    lines: dict[str, System] = {}  # by short title: methods that differ in their step are one line
    for title, each in zip(world.experiment.titles, world.experiment.methods, strict=True):
        if title in known and (known[title].whole or _is_default(each)):
            lines.setdefault(each.title(), known[title])
            options.setdefault(each.title(), each)
    base = next((s for s in lines.values() if not s.whole), None)
    if not lines or not np.isfinite(study.bounds.alone):
        return []
    steps = _steps(study.bounds.alone)
    by_step = [(t, [(replace(options[t], step=mu), mu) for mu in steps]) for t in lines]
    tables: list[Any] = [("step", None, np.array(steps), by_step)]
    if base is not None:
        shares = [m for m in SHARES if m < dim] + [dim]
        schemes = dict.fromkeys(options[t].scheme for t, s in lines.items() if not s.whole)
        mu = base.step
        by_share = [
            (c, [(psofed.Options(shared=m, scheme=c, step=mu), mu) for m in shares])
            for c in schemes
        ]
        tables.append(("shared", mu, np.array(shares), by_share))
    wanted = [_setting(o, dim, mu) for *_, rows in tables for _, points in rows for o, mu in points]
    base = base or next(iter(lines.values()))
    title = next(title for title, system in known.items() if system is base)
    mse = _ends(workers, study.bounds, title, wanted, on_share)
    found = []
    for what, step, x, rows in tables:
        count = len(rows) * len(x)
        here, mse = mse[:count].reshape(len(rows), len(x)), mse[count:]
        methods = tuple(
            replace(o, label=f"{title} {what} {value:g}")
            for title, points in rows
            for (o, _), value in zip(points, x, strict=True)
        )
        found.append(Sweep(what, step, x, [title for title, _ in rows], here, methods))
    return found


def _ends(
    workers: Workers,
    limits: Bounds,
    title: str,
    wanted: list[steady.SweepPoint],
    on_share: Progress,
) -> Array:
    """The MSE of each setting; some at a time, and as many on one process as on ten."""
    world: World = workers.known
    each = list(dict.fromkeys(wanted))
    count = -(-len(each) // GROUP)
    groups = [each[i::count] for i in range(count)]
    rounds = round(AT * world.experiment.rounds)
    pieces = [(title, limits, group, rounds) for group in groups]
    costs = [rounds * world.moments.r.size * len(group) for group in groups]
    found: dict[steady.SweepPoint, float] = {}
    for group, mse in zip(groups, workers.work(_group, pieces, costs, on_share), strict=True):
        found |= dict(zip(group, mse.tolist(), strict=True))
    return np.array([found[s] for s in wanted])


def _group(world: World, what: Any, tell: Tell) -> Array:
    title, limits, settings, rounds = what
    if world.fourth is not None:
        ends = []
        for i, setting in enumerate(settings):
            tell(i / len(settings))
            ends.append(_exact(world, limits, setting, rounds))
        return np.array(ends)
    system = prediction.systems(world)[title]
    return steady.quasi_static(system, world.population, world.test, limits, settings, rounds, tell)


def _exact(world: World, limits: Bounds, s: steady.SweepPoint, rounds: int) -> float:
    """The MSE of a setting by the exact recursion; nan where the step is unsafe, or too large.

    It is averaged over a period of the windows, and followed for `rounds` rounds or until it stays.
    """
    scheme = SCHEMES[0 if s.coordinated else 1]
    options = psofed.Options(shared=s.shared, scheme=scheme, step=s.step)
    (method,) = started(replace(world.experiment, methods=(options,)), world.task)
    one = system(method, world.moments.clients, world.experiment.cohort)
    assert one is not None
    assert one.period is not None
    if limits.verdict(one) == "unsafe":
        return float("nan")
    recent: list[float] = []
    for n, state in enumerate(prediction.exact_states(world, one, rounds)):
        recent = [*recent[-2 * one.period + 1 :], world.test.mse(*state)]
        if not recent[-1] <= prediction.DIVERGED * world.test.c:
            return float("nan")
        before, now = np.mean(recent[: one.period]), np.mean(recent[-one.period :])
        if n >= 2 * one.period and abs(now - before) < SETTLED * now:
            break
    return float(np.mean(recent[-one.period :]))


def _steps(limit: float) -> list[float]:
    """Steps up to just below the limit, as short numbers."""
    return [float(f"{share * limit:.2g}") for share in STEPS]


def _is_default(options: Any) -> bool:
    """Windows that a sweep's average stands for: subsets that rotate by 1, with idle learning."""
    usual = options.selection == "sequential" and options.mask == "subset" and options.tau == 1
    return bool(usual and options.idle)


def _setting(options: Options, dim: int, step: float) -> steady.SweepPoint:
    """Of the whole model, if it has no windows."""
    shared, scheme = options.sharing
    return steady.SweepPoint(dim if shared is None else shared, scheme != "uncoordinated", step)


def deviations(
    predictions: Sequence[Prediction], titles: list[str], mse_db: Array, rounds: Array
) -> dict[str, dict[str, Any]]:
    """Theory minus simulation in dB from round 50 on: the largest, where, rms, and late."""
    found = {}
    for each in predictions:
        with np.errstate(invalid="ignore"):
            gap = each.mse_db - mse_db[titles.index(each.title)]
        here = (rounds >= 50) & np.isfinite(gap)
        if not here.any():
            continue
        worst = np.flatnonzero(here)[np.abs(gap[here]).argmax()]
        late = here & (rounds >= 0.8 * rounds[-1])
        found[each.title] = {
            "largest_db": float(gap[worst]),
            "at": int(rounds[worst]),
            "rms_db": float(np.sqrt(np.square(gap[here]).mean())),
            "late_db": float(gap[late].mean()) if late.any() else None,
        }
    return found
