"""The search for settings: trials on other seeds, all in a few runs, the better ones in more.

It is successive halving with sweeps: a sweep tries the settings next to the best, with one option
changed, and changes of the sweep before together. Every run has the whole length, so that nobody is
judged by how fast it starts. Steps are on a geometric grid that grows until the best of them is
inside it. The lowest error and the fewest bytes to a target are two searches, because they have
different winners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import isfinite
from typing import Any, Literal, NamedTuple

import numpy as np

from psofed.compare import lattice
from psofed.compare.budget import pilot_rounds, reference_bytes
from psofed.compare.lattice import bare
from psofed.core.native import Array
from psofed.curves import STEADY_SHARE, Curves, to_db
from psofed.experiment import Experiment
from psofed.federation.options import Options
from psofed.simulate import montecarlo
from psofed.simulate.montecarlo import Pool
from psofed.simulate.onerun import LOCKSTEP

SEED = 10**9  # added to the experiment's: what is tuned on is not what is reported
MARKS = 500  # points of a curve
OnPart = Callable[[int, int], None]
STAYS = 100  # rounds for which a curve has to stay below a target to have reached it
LIKELY = 1.96  # standard errors


class Reached(NamedTuple):
    """Bytes at which a curve has reached a target, with an interval; infinite if it has not."""

    bytes: float
    low: float
    high: float
    round: int | None


def bytes_to_target(curves: Curves, j: int, target: float) -> Reached:
    """Cumulative bytes at the first mark from which the mean stays at or below `target` dB.

    The interval is that of the mean plus and minus 1.96 standard errors.
    """
    cumulative = curves.cumulative[j]
    error = LIKELY * np.nan_to_num(curves.stderr_db[j])
    found = [
        first(curves.rounds, curves.mse_db[j] + shift, target) for shift in (0.0, -error, error)
    ]
    value, low, high = (np.inf if i is None else float(cumulative[i]) for i in found)
    return Reached(value, low, high, None if found[0] is None else int(curves.rounds[found[0]]))


def first(rounds: Array, mse_db: Array, target: float) -> int | None:
    """The first mark from which the curve stays at or below the target for 100 rounds."""
    above = ~(mse_db <= target)
    for i in np.flatnonzero(~above):
        window = (rounds >= rounds[i]) & (rounds <= rounds[i] + STAYS)
        if not above[window].any():
            return int(i)
    return None


def default_target(steady: float) -> float:
    """1 dB above the steady MSE of the reference, rounded to a tenth of a dB."""
    return round(steady + 1.0, 1)


@dataclass(frozen=True)
class Scored:
    """How a method with its step, averaged or not, did in a pilot."""

    options: Options
    error: float  # dB, the mean of the last fifth of the rounds; infinite if it diverged
    bytes: float  # until the target was reached; infinite if it was not
    share: float  # of the reference's bytes


class Pilot:
    """Runs on other seeds, computed by `workers`; every trial sees the same draws."""

    def __init__(self, experiment: Experiment, allowed: float, workers: Pool) -> None:
        rounds = pilot_rounds(experiment, experiment.rounds)
        self.experiment = replace(
            experiment, seed=SEED + experiment.seed, rounds=rounds,
            evaluate_every=max(rounds // MARKS, 1),
        )  # fmt: skip
        self.budget, self.workers, self.target = allowed, workers, -np.inf
        self.reference = reference_bytes(experiment) * rounds

    def scores(self, trials: Sequence[Options], runs: int, report: OnPart) -> list[Scored]:
        """Each trial's score over this number of runs."""
        parts, found = list(self._parts(trials)), list[Scored]()
        try:
            report(0, runs * len(parts))
            # All runs of a part at once: that is faster than one after another.
            jobs = [self.workers.submit(part, list(range(runs))) for part in parts]
            for i, (part, job) in enumerate(zip(parts, jobs, strict=True), 1):
                found += self._judged(part, job.result())
                report(runs * i, runs * len(parts))
        except KeyboardInterrupt:  # the runs of a pilot are no result
            raise montecarlo.Interrupted(None) from None
        return [replace(score, options=o) for score, o in zip(found, trials, strict=True)]

    def _parts(self, trials: Sequence[Options]) -> Iterator[Experiment]:
        """A few families of trials at a time; those that differ in steps only stay together."""
        kinds: dict[Options, int] = {}
        begin = 0
        for i, options in enumerate(trials):
            kind = replace(options, step=None, average=False, label="")
            if kind not in kinds and len(kinds) == LOCKSTEP:
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
        sent = np.mean([run.traffic[:2].sum(axis=0) for run in runs], axis=0)  # up and down
        marks, db = part.evaluated, to_db(mse)
        late = marks >= marks[-1] * (1 - STEADY_SHARE)
        ends = to_db(mse[:, late].mean(axis=1))
        for j, options in enumerate(part.methods):
            i, spent = first(marks, db[j], self.target), np.cumsum(sent[j])
            error = float(ends[j]) if np.isfinite(ends[j]) else np.inf
            reached = np.inf if i is None else float(spent[i])
            yield Scored(options, error, reached, float(spent[-1] / self.reference))


Aim = Literal["error", "bytes"]
AIMS: tuple[Aim, ...] = ("error", "bytes")
ABOUT = 1.02  # where bytes depend on the data, a budget is met about so well
SMALLEST, LARGEST = 1e-6, 1e4  # steps at which a grid stops growing
ROOT = 2**0.5
GROWTH = 3


class Rung(NamedTuple):
    """One part of the search: its runs, the settings that go on from it, and its steps."""

    runs: int
    keep: int  # settings of each method and aim
    around: tuple[float, ...]  # steps to try, over the best so far; none: the grid of the learner
    apart: float  # from one step to the next, where the grid grows
    near: bool = False  # a sweep: the settings next to the best, in the runs of the rung before

    @property
    def growth(self) -> Iterable[int]:
        """How often a grid may grow: in a sweep a few times, else until the best is inside."""
        return range(GROWTH) if self.near else count()


SWEEP = Rung(2, 3, (1.0,), 2.0, near=True)
LAST = Rung(6, 1, (1 / ROOT, 1.0, ROOT), ROOT)
PLAIN = (Rung(2, 3, (), 2.0), SWEEP, SWEEP, LAST)
GIFTED = (Rung(2, 3, (0.5, 1.0, 2.0), 2.0), SWEEP, SWEEP, SWEEP, SWEEP._replace(keep=2), LAST)


class Winner(NamedTuple):
    """The best of a method, and the trials of its setting: other steps, averaged or not."""

    score: Scored
    trials: tuple[Scored, ...]


Who = tuple[str, Aim]  # the title of a method, and what it is tuned for
Steps = dict[Options, dict[float | None, None]]  # those to try with each setting, in order


def key(aim: Aim, score: Scored) -> tuple[float, float]:
    """By this, smaller is better."""
    return (score.error, score.share) if aim == "error" else (score.bytes, score.error)


class Search:
    """The best settings of several methods, each named by its title."""

    def __init__(
        self, pilot: Pilot, report: Callable[..., OnPart], name: str, gifted: bool = False
    ) -> None:
        self.pilot, self.report, self.name, self.gifted = pilot, report, name, gifted
        self.known: dict[Options, list[Scored]] = {}  # of these runs, by setting

    def best(
        self,
        contestants: Mapping[Who, Sequence[Options]],
        first: Mapping[Who, Options] | None = None,
    ) -> dict[Who, Winner]:
        """The winner of each method for each aim; none of one that exceeds the budget.

        `first` have the steps around which the first rung searches, if it has no grid.
        """
        alive = {who: list(some) for who, some in contestants.items()}
        best, rungs = dict(first or {}), GIFTED if self.gifted else PLAIN
        for i, rung in enumerate(rungs, 1):
            name = f"{self.name}, {i} of {len(rungs)}"
            if rung.near:
                alive = {who: [*some, *self._neighbours(some)] for who, some in alive.items()}
            else:
                self.known = {}
            self._measure(self._steps(alive, rung, best), rung.runs, name)
            alive = {who: self._ranked(who[1], some)[: rung.keep] for who, some in alive.items()}
            self._grow(alive, rung, name)
            alive = {who: self._ranked(who[1], some) for who, some in alive.items()}
            tops = {who: self._top(who[1], some[0]) for who, some in alive.items() if some}
            best = {who: top.options for who, top in tops.items()}
        return {who: Winner(top, tuple(self.known[alive[who][0]])) for who, top in tops.items()}

    def _neighbours(self, some: Sequence[Options]) -> list[Options]:
        """Settings next to the best, and the best with what was changed in the others."""
        if not some:
            return []
        given = self.pilot.experiment, some[0], self.pilot.budget
        near = lattice.neighbours(*given, gifted=self.gifted), lattice.crossed(*given, some[1:])
        return [each for part in near for each in part if each not in self.known]

    def _steps(
        self, alive: Mapping[Who, Sequence[Options]], rung: Rung, best: Mapping[Who, Options]
    ) -> Steps:
        """The steps to try with each setting that has none in these runs."""
        found: Steps = {}
        for who, some in alive.items():
            for setting in some:
                if setting not in self.known:
                    tried = self._tried(setting, rung, best.get(who))
                    found.setdefault(setting, {}).update(dict.fromkeys(tried))
        return found

    def _tried(self, setting: Options, rung: Rung, best: Options | None) -> Iterable[float | None]:
        if not setting.steps:
            return (None,)
        if not rung.around or best is None or best.step is None:
            return self._grid(setting)
        middle = best.step * lattice.slowed(setting) / lattice.slowed(best)
        return (_plain(middle * factor) for factor in rung.around)

    def _grid(self, setting: Options) -> Iterator[float]:
        """From the smallest step that is worth trying to the largest, each four times the last."""
        learner = self.pilot.experiment.learner if setting.learner is None else setting.learner
        step, last = learner.steps[0], learner.steps[-1]
        while step <= ROOT * last:
            yield _plain(step)
            step *= 4

    def _measure(self, steps: Steps, runs: int, name: str) -> None:
        trials = [
            replace(setting, step=mu, average=averaged)
            for setting, some in steps.items()
            for mu in some
            for averaged in _averaged(setting)
        ]
        for score in self.pilot.scores(trials, runs, self.report(name, runs=True)):
            self.known.setdefault(bare(score.options), []).append(score)

    def _affordable(self, setting: Options) -> list[Scored]:
        """Its trials that kept to the budget; nobody asks that of controls and of the reference."""
        most = ABOUT * self.pilot.budget
        free = setting.role != "method"
        return [score for score in self.known[setting] if free or score.share <= most]

    def _top(self, aim: Aim, setting: Options) -> Scored:
        return min(self._affordable(setting), key=lambda score: key(aim, score))

    def _ranked(self, aim: Aim, some: Sequence[Options]) -> list[Options]:
        """The best first, without those that exceed the budget."""
        able = [setting for setting in some if self._affordable(setting)]
        return sorted(able, key=lambda setting: key(aim, self._top(aim, setting)))

    def _grow(self, alive: Mapping[Who, Sequence[Options]], rung: Rung, name: str) -> None:
        """More steps, until the best of each setting has a tried one next to it on either side."""
        for _ in rung.growth:
            more: Steps = {}
            for (_, aim), some in alive.items():
                for setting in some:
                    for step in self._missing(aim, setting, rung.apart):
                        more.setdefault(setting, {})[step] = None
            if not more:
                return
            self._measure(more, rung.runs, name)

    def _missing(self, aim: Aim, setting: Options, apart: float) -> Iterator[float]:
        """The steps `apart` from the best one, unless others as near were tried."""
        top = self._top(aim, setting)
        best, diverged = top.options.step, not isfinite(top.error)
        if best is None:
            return
        tried = [s for score in self.known[setting] if (s := score.options.step) is not None]
        reach = apart * 1.01
        low = min(tried) if diverged else best  # where all diverged, a smaller step has to be found
        if low > SMALLEST and not any(low / reach <= step < low for step in tried):
            yield _plain(low / apart)
        if not diverged and best < LARGEST and not any(best < s <= best * reach for s in tried):
            yield _plain(best * apart)


def _averaged(setting: Options) -> tuple[bool, ...]:
    """The last model and the average; of a control without a step, which has no noise, the last."""
    able = setting.serves and (setting.steps or setting.role != "control")
    return (False, True) if able else (False,)


def _plain(step: float) -> float:
    """A step with as many digits as are worth printing."""
    return float(f"{step:.4g}")
