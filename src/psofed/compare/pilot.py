"""Trials of settings on other seeds, at the length at which they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from psofed.compare.budget import COUNTED, pilot_rounds, reference_bytes
from psofed.compare.lattice import Allowance, neighbours
from psofed.compare.target import first
from psofed.curves import STEADY_SHARE, to_db
from psofed.experiment import Experiment
from psofed.methods.contract import Options
from psofed.simulate import alike, montecarlo
from psofed.simulate.pools import Pool

SEED = 10**9  # added to the experiment's: what is tuned on is not what is reported
MARKS = 500  # points of a curve
OnPart = Callable[[int, int], None]


@dataclass(frozen=True)
class Scored:
    """How a method with its step, averaged or not, did in a pilot."""

    options: Options
    error: float  # dB, the mean of the last fifth of the rounds; infinite if it diverged
    bytes: float  # until the target was reached; infinite if it was not
    share: float  # of the reference's bytes


class Pilot:
    """Runs on other seeds, computed by `workers`; every trial sees the same draws."""

    def __init__(self, experiment: Experiment, allowed: Allowance, workers: Pool) -> None:
        rounds = pilot_rounds(experiment, experiment.rounds)
        self.experiment = replace(
            experiment, seed=SEED + experiment.seed, rounds=rounds,
            evaluate_every=max(rounds // MARKS, 1),
        )  # fmt: skip
        self.allowed, self.workers, self.target = allowed, workers, -np.inf
        self.reference = reference_bytes(experiment, allowed.total) * rounds

    def near(self, setting: Options) -> tuple[Options, ...]:
        """The settings beside this one that fit the budget."""
        return neighbours(self.experiment, setting, self.allowed)

    def scores(self, trials: Sequence[Options], runs: int, told: OnPart) -> list[Scored]:
        """Each trial's score over so many runs."""
        parts, found = list(self._parts(trials)), list[Scored]()
        try:
            told(0, runs * len(parts))
            # All runs of a part at once: that is faster than one after another.
            jobs = [self.workers.submit(part, list(range(runs))) for part in parts]
            for i, (part, job) in enumerate(zip(parts, jobs, strict=True), 1):
                found += self._judged(part, job.result())
                told(runs * i, runs * len(parts))
        except KeyboardInterrupt:  # the runs of a pilot are no result
            raise montecarlo.Interrupted(None) from None
        return [replace(score, options=o) for score, o in zip(found, trials, strict=True)]

    def _parts(self, trials: Sequence[Options]) -> Iterator[Experiment]:
        """A few families of trials at a time; those that differ in steps only stay together."""
        kinds: dict[Options, int] = {}
        begin = 0
        for i, options in enumerate(trials):
            kind = replace(options, step=None, average=False, label="")
            if kind not in kinds and len(kinds) == alike.LOCKSTEP:
                yield self._part(trials[begin:i])
                begin, kinds = i, {}
            kinds[kind] = i
        if begin < len(trials):
            yield self._part(trials[begin:])

    def _part(self, trials: Sequence[Options]) -> Experiment:
        named = tuple(replace(options, label=str(i)) for i, options in enumerate(trials))
        return replace(self.experiment, methods=named)

    def _judged(self, part: Experiment, runs: list[Any]) -> Iterator[Scored]:
        """The scores of the mean over the runs."""
        mse = np.mean([run.mse for run in runs], axis=0)
        sent = np.mean(
            [run.traffic[list(COUNTED[self.allowed.total])].sum(axis=0) for run in runs], 0
        )
        marks, db = part.evaluated, to_db(mse)
        late = marks >= marks[-1] * (1 - STEADY_SHARE)
        ends = to_db(mse[:, late].mean(axis=1))
        for j, options in enumerate(part.methods):
            i, spent = first(marks, db[j], self.target), np.cumsum(sent[j])
            error = float(ends[j]) if np.isfinite(ends[j]) else np.inf
            reached = np.inf if i is None else float(spent[i])
            yield Scored(options, error, reached, float(spent[-1] / self.reference))
