"""Monte-Carlo runs, from their numbers to their curves: pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import plugins
from psofed.core.fleet import FleetCohorts
from psofed.core.schedule import PresentCohorts
from psofed.experiment import Experiment
from psofed.methods import checked
from psofed.methods.contract import Method
from psofed.sample_checks.contract import VERDICTS
from psofed.simulate import alike, any_method, family, pulse, together
from psofed.simulate.accumulate import OneRun
from psofed.simulate.any_method import Moment
from psofed.simulate.draws import draw
from psofed.simulate.evaluate import Judge, TestSet, draw_test, floors
from psofed.streams.contract import blend, measured

Array = NDArray[Any]
Models = Callable[[Any, Any], Array]  # those that are judged, from the server's and clients' state
# The floors are lines in a figure: ten runs are enough. Not the first run, because users wait for
# it, and not with many features, where the floors would cost more than the runs.
FLOOR_RUNS, FLOOR_DIM = range(2, 12), 500
HOLD = 16  # models that are judged at once
ONE_BY_ONE = 12  # what such a method costs, over one of which several runs are computed at once


class StoppedError(Exception):
    """A run that was told to stop."""


def one_run(experiment: Experiment, number: int, stop: Array | None = None) -> OneRun:
    """Monte-Carlo run `number`: fresh clients, features, data, masks and cohorts."""
    return some_runs(experiment, [number], stop)[0]


def some_runs(
    experiment: Experiment, numbers: Sequence[int], stop: Array | None = None
) -> list[OneRun]:
    """Some runs, computed together where that is faster; each is what it is alone.

    A step that is too large diverges; that is a result, not an error, so there is no warning.
    """
    stop = np.zeros(1, np.int64) if stop is None else stop
    shape = len(numbers), len(experiment.methods), len(experiment.evaluated)
    mse, traffic = np.empty(shape), np.empty((shape[0], 3, *shape[1:]))
    counts = np.zeros((*shape[:2], len(VERDICTS)), np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for places, part in experiment.parts():
            found = _Runs(part, numbers, stop, len(places) / shape[1]).all()
            mse[:, places], traffic[:, :, places], counts[:, places] = found
        return [
            OneRun(mse[r], traffic[r], _lines(experiment, number), counts[r])
            for r, number in enumerate(numbers)
        ]


def _lines(experiment: Experiment, number: int) -> Array:
    """The floors of a run. They need noise-free samples and a model that can be solved for."""
    clean = not measured(experiment.stream) and experiment.learner.linear
    wanted = clean and number in FLOOR_RUNS and experiment.dim <= FLOOR_DIM
    return np.array(floors(experiment, number) if wanted else ())


class _Runs:
    """The runs `numbers`; methods are compiled, take several runs at once, or run one by one.

    All have the features and the learner of `experiment`, which is this `share` of a whole one.
    """

    def __init__(
        self, experiment: Experiment, numbers: Sequence[int], stop: Array, share: float
    ) -> None:
        self.experiment, self.numbers, self.stop, self.share = experiment, numbers, stop, share
        self.tasks = [any_method.faster(experiment.task(number)) for number in numbers]
        self.methods = [experiment.start(task) for task in self.tasks]
        self.compiled, self.stacked, self.others = _groups(experiment, self.methods[0])
        everybody = self._all_matter() or few(experiment)
        handled = bool(self.others or self.stacked)  # else the kernel has all, and needs few
        self.draws = [
            draw(experiment, task, everybody and handled, in_order=handled) for task in self.tasks
        ]
        if not everybody and self.others:
            self.methods = [
                experiment.start(together.placed(experiment, task, draws))
                for task, draws in zip(self.tasks, self.draws, strict=True)
            ]
        self.tests = [draw_test(experiment, task) for task in self.tasks]
        self.marks = experiment.evaluated
        self.shares = blend(experiment.stream, self.marks)
        shape = len(numbers), len(self.methods[0]), len(self.marks)
        self.mse, self.traffic = np.empty(shape), np.zeros((shape[0], 3, *shape[1:]))
        self.counts = np.zeros((*shape[:2], len(VERDICTS)), np.int64)

    def _all_matter(self) -> bool:
        """Whether clients that are never selected matter to one of the methods."""
        options, methods = self.experiment.methods, self.methods[0]
        several = any(options[j].all_matter for j in (*self.stacked, *self.others))
        return several or any(
            methods[j].policy is not None
            or not plugins.is_ours(type(options[j]))
            or isinstance(methods[j].task.cohorts, PresentCohorts | FleetCohorts)
            for j in self.others
        )

    def all(self) -> tuple[Array, Array, Array]:
        """Test errors [run, method, mark], bytes since the mark before [run, 3, ...], and samples
        by the verdict of a check [run, method, verdict].
        """
        for r in range(len(self.numbers)):
            if self.compiled:
                self._in_kernel(r)
            if self.others:
                self._one_by_one(r)
        if self.stacked:
            self._at_once()
        for r, draws in enumerate(self.draws):
            any_method.conserve(draws, self.methods[0], self.counts[r])
        return self.mse, self.traffic, self.counts

    def _part(self, group: list[int]) -> float:
        """The part of a run that these methods are, in time: those that run one by one are dear."""
        sizes = len(self.compiled), len(self.stacked), ONE_BY_ONE * len(self.others)
        dear = ONE_BY_ONE if group is self.others else 1
        return self.share * dear * len(group) / sum(sizes)

    def _in_kernel(self, r: int) -> None:
        known: Any = [self.methods[r][j] for j in self.compiled]
        test, draws, part = self.tests[r], self.draws[r], self._part(self.compiled)
        assert isinstance(test, TestSet)  # compiled methods are linear
        found = family.run(draws, known, self.marks, test, self.shares, self.stop, part)
        if not found.finished:
            raise StoppedError
        self.mse[r, self.compiled] = found.mse
        self.traffic[r][:, self.compiled] = family.traffic(draws, known, self.marks)

    def _one_by_one(self, r: int) -> None:
        draws = self.draws[r]
        families = list(alike.averaged(self.experiment, self.others))
        methods = [self.methods[r][each.first] for each in families]
        samples = any_method.RunSamples(draws)
        plays = [any_method.play(draws, method, samples) for method in methods]
        judges = [
            {averaged: self._recorder([r], models) for averaged, models in each.judged(method)}
            for each, method in zip(families, methods, strict=True)
        ]
        together = [list(each.values()) for each in judges]
        self._in_lockstep(plays, together, self._part(self.others))
        for each, judge in zip(families, judges, strict=True):
            for j, (_, averaged) in each.members.items():
                found = judge[averaged]
                self.mse[r, j], self.traffic[r, :, j] = found.mse[0], found.traffic[0]
                self.counts[r, j] = found.counts[0]

    def _at_once(self) -> None:
        """Families of as many steps go together: they share their samples."""
        families = alike.families(self.experiment, self.stacked)
        for count in {len(each.steps) for each in families}:
            some = [each for each in families if len(each.steps) == count]
            for i in range(0, len(some), alike.LOCKSTEP):
                self._families(some[i : i + alike.LOCKSTEP], count)

    def _families(self, families: list[alike.Family], count: int) -> None:
        """Every run with every step is one of `several`, the steps of a run side by side."""
        runs = np.repeat(np.arange(len(self.numbers)), count).tolist()
        some = together.batch(
            self.experiment, [self.tasks[r] for r in runs], [self.draws[r] for r in runs]
        )
        methods = [each.start(some.task, len(self.numbers)) for each in families]
        samples = together.JointSamples(some, any(method.idle for method in methods))
        plays = [together.play(method, samples, self.draws[0].rounds) for method in methods]
        judges = [
            {averaged: self._recorder(runs, models) for averaged, models in each.judged(method)}
            for each, method in zip(families, methods, strict=True)
        ]
        members = sum(len(each.members) for each in families)
        part = self._part(self.stacked) * len(self.numbers) * members / len(self.stacked)
        self._in_lockstep(plays, [list(each.values()) for each in judges], part)
        for each, judge in zip(families, judges, strict=True):
            for j, (step, averaged) in each.members.items():
                found, here = judge[averaged], slice(step, None, count)
                self.mse[:, j], self.traffic[:, :, j] = found.mse[here], found.traffic[here]
                self.counts[:, j] = found.counts[here]

    def _recorder(self, runs: list[int], models: Models) -> Recorder:
        clients = [len(self.draws[r].ids) for r in runs]
        tests = [self.tests[r] for r in runs]
        return Recorder(tests, self.marks, self.shares, models, clients)

    def _in_lockstep(
        self, plays: list[Iterator[Moment]], judges: list[list[Recorder]], part: float
    ) -> None:
        """Test error and traffic at the marks, for methods that the kernel does not know.

        Each method runs for a few rounds before the next, so that its data stay in the caches.
        """
        total, block = self.draws[0].rounds, together.BLOCK
        # The moment before round 0, then those after each round of a block.
        for first in (0, *range(1, total + 1, block)):
            if self.stop[0]:
                raise StoppedError
            for play, some in zip(plays, judges, strict=True):
                for n, moment in enumerate(islice(play, block if first else 1), first):
                    for judge in some:
                        judge.see(n, moment)
            pulse.beat(part * min(block, total + 1 - first) / total if first else 0)


def _groups(
    experiment: Experiment, methods: list[Method]
) -> tuple[list[int], list[int], list[int]]:
    """Which methods the kernel has, which take several runs at once, and which neither."""
    groups: tuple[list[int], list[int], list[int]] = [], [], []
    for j, (options, method) in enumerate(zip(experiment.methods, methods, strict=True)):
        if family.knows(method):
            groups[0].append(j)
        else:
            groups[1 if together.takes(experiment, options, method) else 2].append(j)
    return groups


def few(experiment: Experiment) -> bool:
    """Whether there are so few clients that most of them take part at some time."""
    return experiment.clients <= experiment.rounds * experiment.cohort


def width(experiment: Experiment) -> int:
    """How many runs are best computed together, in the memory that they may have."""
    found = (_width(part) for _, part in experiment.parts())
    return min((runs for runs in found if runs), default=1)


def _width(experiment: Experiment) -> int:
    """The same for methods that share their features and learner; 0: no matter."""
    methods = experiment.start(experiment.task(0))
    stacked = _groups(experiment, methods)[1]
    if not stacked:
        return 0
    places = experiment.clients if few(experiment) else experiment.rounds * experiment.cohort
    if any(experiment.methods[j].all_matter for j in stacked):
        places = experiment.clients
    families = alike.families(experiment, stacked)
    steps = max(len(each.steps) for each in families)
    numbers = places * experiment.dim * min(len(families), alike.LOCKSTEP) * 2 * steps
    most = max(together.MOST // steps, 1)
    return int(np.clip(together.NUMBERS // max(numbers, 1), 1, most))


class Recorder:
    """Notes the traffic and the test errors of one method, the errors of several marks at once.

    Their number does not depend on the other methods, so these cannot change the result. It has
    `tests` of several runs, or that of one, and so many `clients` in each.
    """

    def __init__(
        self, tests: list[Judge], marks: Array, shares: Array, models: Models, clients: list[int]
    ) -> None:
        self.tests, self.marks, self.shares = tests, marks.tolist(), shares
        self.models, self.clients = models, clients
        self.mse = np.empty((len(tests), len(marks)))
        self.traffic = np.zeros((len(tests), 3, len(marks)))
        self.counts = np.zeros((len(tests), len(VERDICTS)), np.int64)
        self.mark, self.bytes = 0, np.zeros((3, len(tests)))
        self.held: list[Array] = []

    def see(self, n: int, moment: Moment) -> None:
        """The state before round n."""
        for i, sent in enumerate(moment.traffic):
            self.bytes[i] += sent
        if n != self.marks[self.mark]:
            return
        self.traffic[:, :, self.mark] = self.bytes.T
        self.bytes[:] = 0
        self.mark += 1
        judged = checked.counts(moment.clients)
        if judged is not None and self.mark == len(self.marks):
            by_run = judged.reshape(len(self.tests), -1, len(VERDICTS))
            for r, count in enumerate(self.clients):  # behind them there may be empty places
                self.counts[r] = by_run[r, :count].sum(axis=0)
        models = self.models(moment.server, moment.clients)
        several_runs = moment.runs > 0
        self.held.append(models.copy() if several_runs else models[None].copy())
        each = self.held[0].ndim > 2  # a model of each client
        if each or len(self.held) == HOLD or self.mark == len(self.marks):
            here = slice(self.mark - len(self.held), self.mark)
            for r, test in enumerate(self.tests):
                models = np.array([held[r] for held in self.held])
                shares = self.shares[here] if not each else self.shares[here, None]
                found = test.mse(models, shares)
                self.mse[r, here] = found.mean(axis=-1) if each else found
            self.held = []
