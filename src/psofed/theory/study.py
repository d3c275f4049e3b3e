"""All results of the theory for an experiment: limits, radii and curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.federation.workers import Tell, Workers
from psofed.theory import mean, prediction
from psofed.theory.mean import Radius
from psofed.theory.prediction import Prediction, World
from psofed.theory.system import Bounds, Verdict, bounds

Progress = Callable[[float], None] | None


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
class Study:
    """The results of the theory for one world."""

    world: World
    bounds: Bounds
    judgements: list[Judgement]
    unknown: list[str]  # methods that the theory does not cover
    predictions: list[Prediction] = field(default_factory=list)


def judge(workers: Workers, on_share: Progress = None) -> Study:
    """The limits of the step, and the speed of the mean error."""
    world: World = workers.known
    limits = bounds(world.experiment, world.task, world.moments)
    known = prediction.systems(world)
    # Numbers to be read for a radius: all R_k, in every round of a period or two.
    periods = (1 if system.whole else system.period or 1 for system in known.values())
    costs = [2.0 * world.moments.R.size * period for period in periods]
    found = workers.work(_radii, list(known), costs, on_share)
    judged = []
    for (title, system), (radius, paper) in zip(known.items(), found, strict=True):
        verdict = limits.verdict(system, None if radius is None else radius.value)
        limit = limits.limit(system)
        judged.append(Judgement(title, system.step, verdict, limit, radius, paper))
    unknown = [title for title in world.experiment.titles if title not in known]
    return Study(world, limits, judged, unknown)


def _radii(world: World, title: str, tell: Tell) -> tuple[Radius | None, Radius | None]:
    """That of the mean error, and that of eq. (13)."""
    system = prediction.systems(world)[title]
    radius = mean.radius(system, world.moments)
    # Eq. (13) lets all clients learn in every round, so it is computed for that case only.
    paper = mean.paper_radius(system, world.moments) if system.idle else None
    tell(1.0)
    return radius, paper


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
