"""Each method with its best step, found in a pilot run on another seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from psofed.compare.budget import Cost, Fitted, pilot_rounds
from psofed.curves import STEADY_SHARE, to_db
from psofed.experiment import Experiment
from psofed.methods.contract import Options
from psofed.simulate import montecarlo
from psofed.simulate.pools import Pool

PILOT_RUNS, PILOT_ROUNDS = 3, 1500  # of the search for the step
PILOT_SEED = 10**9


@dataclass(frozen=True)
class Entry:
    """A method of the comparison as it is run."""

    options: Options
    cost: Cost
    step: float | None  # None if it has none
    trials: tuple[tuple[float | None, bool, float], ...]  # step, averaged or not, dB in the pilot

    @property
    def share(self) -> float:
        """Of the reference's bytes."""
        return self.cost.share


def tune(
    experiment: Experiment,
    fitted: Sequence[Fitted],
    pool: Callable[[Experiment], AbstractContextManager[Pool]],
    on_run: Callable[[int, int], None] | None = None,
    average: bool = False,
) -> list[Entry]:
    """Each method with the step that ended lowest in a pilot run on another seed.

    With `average`, averaging is tried too, for methods that have a model at the server.
    """
    kept = [(f.options, f.cost) for f in fitted if f.options is not None]
    steps = experiment.learner.steps
    choices = [_choices(options, steps, average) for options, _ in kept]
    trials = tuple(
        replace(options, step=mu, average=a, label=f"{i} {mu} {a}")
        for i, (options, _) in enumerate(kept)
        for mu, a in choices[i]
    )
    rounds = pilot_rounds(experiment, min(experiment.rounds, PILOT_ROUNDS))
    pilot = replace(
        experiment, seed=PILOT_SEED + experiment.seed, rounds=rounds, runs=PILOT_RUNS,
        methods=trials, evaluate_every=max(rounds // 100, 1),
    )  # fmt: skip
    done = (lambda total: on_run(total.runs, PILOT_RUNS)) if on_run else None
    try:
        curves = montecarlo.run(pilot, pool=pool(pilot), on_run=done)
    except montecarlo.Interrupted:  # the runs of a pilot are no result
        raise montecarlo.Interrupted(None) from None
    late = curves.rounds >= curves.rounds[-1] * (1 - STEADY_SHARE)
    ends = iter(to_db(curves.mse[:, late].mean(axis=1)).tolist())
    entries = []
    for (options, cost), tried in zip(kept, choices, strict=True):
        results = [(mu, a, next(ends)) for mu, a in tried]
        mu, a, _ = min(results, key=lambda r: r[2] if np.isfinite(r[2]) else np.inf)
        entries.append(Entry(replace(options, step=mu, average=a), cost, mu, tuple(results)))
    return distinct(entries)


def distinct(entries: Sequence[Entry]) -> list[Entry]:
    """Methods that a budget or a pilot has made equal, once."""
    kept: list[Entry] = []
    for entry in entries:
        if all(entry.options != other.options for other in kept):
            kept.append(entry)
    return kept


def _choices(
    options: Options, grid: tuple[float, ...], average: bool
) -> list[tuple[float | None, bool]]:
    """The steps to try, each without and, if wanted, with averaging."""
    steps: tuple[float | None, ...] = grid if options.steps else (options.step,)
    both = (False, True) if average and options.serves else (options.average,)
    return [(mu, a) for mu in steps for a in both]


def untuned(experiment: Experiment, fitted: Sequence[Fitted]) -> list[Entry]:
    """Each method with the step it has."""
    return distinct(
        [
            Entry(o, f.cost, (o.step or experiment.step) if o.steps else None, ())
            for f in fitted
            if (o := f.options) is not None
        ]
    )
