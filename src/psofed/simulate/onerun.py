"""Monte-Carlo runs, from their numbers to their curves: pure functions.

How an experiment is run: its methods are parted by features and learner, and the randomness of
every run is resolved (`draws.py`). Then there are two executors. `family.py` has compiled code for
the methods of the PSO-Fed family, and `any_method.py` plays all others in NumPy: several runs at
once where their handlers take them, else run by run. Test errors and bytes are noted at the marks.

Methods that differ only in their step and in averaging are one computation in NumPy, a `Family`:
steps stand on the axis of the runs, and the average of a method's models is judged next to the last
of them. Whatever is computed together, each method of each run has the numbers that it has alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from psofed.core.schedule import PresentCohorts
from psofed.experiment import Experiment
from psofed.federation import plugins, progress
from psofed.federation.contract import Array, Method, Task
from psofed.federation.membership import FleetCohorts
from psofed.federation.options import Options
from psofed.federation.stage import answering, around
from psofed.simulate import any_method, family
from psofed.simulate.any_method import BLOCK, Moment, RunSamples
from psofed.simulate.draws import (
    Judge,
    OwnTests,
    TestSet,
    draw,
    draw_own_tests,
    draw_test,
    floors,
)
from psofed.simulate.finished import OneRun
from psofed.simulate.kernel import faster
from psofed.stages.average import Average
from psofed.stages.checks import contract as check
from psofed.stages.checks.contract import VERDICTS
from psofed.stages.mix import Mixed
from psofed.stages.surroundings import start
from psofed.streams.contract import about, measured

Models = Callable[[Any, Any], Array]  # those that are judged, from the server's and clients' state
# The floors are lines in a figure: ten runs are enough. Not the first run, because users wait for
# it, and not with many features, where the floors would cost more than the runs.
FLOOR_RUNS, FLOOR_DIM = range(2, 12), 500
HOLD = 16  # models that are judged at once
ONE_BY_ONE = 12  # what such a method costs, over one of which several runs are computed at once
LOCKSTEP = 24  # families that share their samples; the models of more would leave the caches
NUMBERS = 2**26  # of all models that are in memory at once
MOST = 16  # runs that are computed at once; more gain little, and are lost if it is interrupted


class StoppedError(Exception):
    """A run that was told to stop."""


def one_run(experiment: Experiment, number: int) -> OneRun:
    """Monte-Carlo run `number`: fresh clients, features, data, masks and cohorts."""
    return some_runs(experiment, [number])[0]


def some_runs(
    experiment: Experiment, numbers: Sequence[int], stop: Array | None = None
) -> list[OneRun]:
    """Some runs, computed together where that is faster; each is what it is alone.

    A step that is too large diverges; that is a result, not an error, so there is no warning.
    """
    stop = np.zeros(1, np.int64) if stop is None else stop
    shape = len(numbers), len(experiment.methods), len(experiment.evaluated)
    mse, of_w, traffic = np.empty(shape), np.empty(shape), np.empty((shape[0], 3, *shape[1:]))
    counts = np.zeros((*shape[:2], len(VERDICTS)), np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for places, part in experiment.parts():
            found = _Runs(part, numbers, stop, len(places) / shape[1])
            found.compute()
            mse[:, places], traffic[:, :, places] = found.mse, found.traffic
            counts[:, places], of_w[:, places] = found.counts, found.global_mse
        return [
            OneRun(mse[r], traffic[r], _lines(experiment, number), counts[r], of_w[r])
            for r, number in enumerate(numbers)
        ]


def _lines(experiment: Experiment, number: int) -> Array:
    """The floors of a run. They need noise-free samples and one model that can be solved for."""
    one = experiment.judge == "global" and experiment.learner.linear
    clean = not measured(experiment.stream) and one
    wanted = clean and number in FLOOR_RUNS and experiment.dim <= FLOOR_DIM
    return np.array(floors(experiment, number) if wanted else ())


@dataclass(frozen=True, eq=False)
class Family:
    """A method without its step, the steps, and whose they are."""

    options: Options
    steps: tuple[float, ...]
    members: dict[int, tuple[int, bool]]  # place in the experiment: which step, averaged or not

    def start(self, experiment: Experiment, task: Task, runs: int = 1) -> Method:
        """The method for all runs, each with every step, the steps of a run side by side."""
        averaged = any(average for _, average in self.members.values())
        options = replace(self.options, average=averaged)
        if len(self.steps) == 1:
            return start(replace(options, step=self.steps[0]), task, experiment.around)
        task = replace(task, step=np.tile(self.steps, runs))
        return start(options, task, experiment.around)

    def judged(self, method: Method) -> list[tuple[bool, Models]]:
        """What is judged, from the states: the average of the models, the last of them, or both."""
        kinds = {average for _, average in self.members.values()}
        if kinds == {True, False}:
            stage = next(each for each in around(method) if isinstance(each, Average))
            return [(True, method.models), (False, stage.inner.models)]
        return [(average, method.models) for average in kinds]


def families(experiment: Experiment, places: list[int], by_step: bool = False) -> list[Family]:
    """The methods at these places, together where only averaging and the step differ.

    `by_step`: only averaging.
    """
    found: dict[Any, dict[int, float]] = {}
    for j in places:
        options = experiment.methods[j]
        mu = experiment.step if options.step is None else options.step
        kind = replace(options, step=None, average=False, label="")
        found.setdefault((kind, mu if by_step else None), {})[j] = mu
    return [_family(experiment, options, mine) for (options, _), mine in found.items()]


def _family(experiment: Experiment, options: Options, mine: dict[int, float]) -> Family:
    steps = tuple(dict.fromkeys(mine.values()))
    members = {j: (steps.index(mu), experiment.methods[j].average) for j, mu in mine.items()}
    return Family(options, steps, members)


class _Runs:
    """The runs `numbers` of methods that share the features and the learner of `experiment`.

    It is this `share` of a whole experiment.
    """

    def __init__(
        self, experiment: Experiment, numbers: Sequence[int], stop: Array, share: float
    ) -> None:
        self.experiment, self.numbers, self.stop, self.share = experiment, numbers, stop, share
        self.tasks = [faster(experiment.task(number)) for number in numbers]
        self.methods = experiment.start(self.tasks[0])
        self.compiled, self.stacked, self.others = _groups(experiment, self.methods)
        self.personal = experiment.judge == "personal"
        self.everybody = self.personal or self._all_matter() or few(experiment)
        handled = bool(self.others or self.stacked)  # else the kernel has all, and needs few
        self.draws = [
            draw(experiment, task, self.everybody and handled, in_order=handled)
            for task in self.tasks
        ]
        self.tests = [draw_test(experiment, task) for task in self.tasks]
        own = self.tasks if self.personal else []
        self.own_tests = [draw_own_tests(experiment, task) for task in own]
        self.marks = experiment.evaluated
        self.shares = about(experiment.stream).blend(self.marks)
        shape = len(numbers), len(self.methods), len(self.marks)
        self.mse, self.traffic = np.empty(shape), np.zeros((shape[0], 3, *shape[1:]))
        self.global_mse = np.empty(shape) if self.personal else self.mse
        self.counts = np.zeros((*shape[:2], len(VERDICTS)), np.int64)

    def _all_matter(self) -> bool:
        """Whether clients that are never selected matter to one of the methods."""
        options = self.experiment.methods
        several = any(options[j].all_matter for j in (*self.stacked, *self.others))
        return several or any(
            options[j].policy is not None
            or not plugins.is_ours(type(options[j]))
            or isinstance(self.methods[j].task.cohorts, PresentCohorts | FleetCohorts)
            for j in self.others
        )

    def compute(self) -> None:
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
            if self.experiment.check is not None:
                any_method.conserve(draws, self.methods, self.counts[r])

    def _part(self, group: list[int]) -> float:
        """The part of a run that these methods are, in time: those that run one by one are dear."""
        sizes = len(self.compiled), len(self.stacked), ONE_BY_ONE * len(self.others)
        dear = ONE_BY_ONE if group is self.others else 1
        return self.share * dear * len(group) / sum(sizes)

    def _in_kernel(self, r: int) -> None:
        methods = self.experiment.start(self.tasks[r]) if r else self.methods
        known = [methods[j] for j in self.compiled]
        test, draws, part = self.tests[r], self.draws[r], self._part(self.compiled)
        assert isinstance(test, TestSet)  # compiled methods are linear
        found = family.run(draws, known, self.marks, test, self.shares, self.stop, part)
        if not found.finished:
            raise StoppedError
        self.mse[r, self.compiled] = found.mse
        self.traffic[r][:, self.compiled] = family.traffic(draws, known, self.marks)

    def _one_by_one(self, r: int) -> None:
        """Run r of methods whose handlers have one run."""
        task, draws = self.tasks[r], self.draws[r]
        task = task if self.everybody else any_method.placed(task, draws)
        some = families(self.experiment, self.others, by_step=True)
        methods = [each.start(self.experiment, task) for each in some]
        self._in_lockstep(some, [r], methods, RunSamples(draws), self._part(self.others))

    def _at_once(self) -> None:
        """All runs of the others; families of as many steps go together: they share samples."""
        found = families(self.experiment, self.stacked)
        for count in {len(each.steps) for each in found}:
            some = [each for each in found if len(each.steps) == count]
            for i in range(0, len(some), LOCKSTEP):
                self._joined(some[i : i + LOCKSTEP], count)

    def _joined(self, some: list[Family], count: int) -> None:
        """Every run with every step is one of several, the steps of a run side by side."""
        runs = np.repeat(np.arange(len(self.numbers)), count).tolist()
        draws = [self.draws[r] for r in runs]
        task = any_method.joined([self.tasks[r] for r in runs], draws)
        methods = [each.start(self.experiment, task, len(self.numbers)) for each in some]
        everybody = any(method.idle for method in methods)
        samples = RunSamples(*draws, task=task, everybody=everybody)
        members = sum(len(each.members) for each in some)
        part = self._part(self.stacked) * len(self.numbers) * members / len(self.stacked)
        self._in_lockstep(some, runs, methods, samples, part)

    def _in_lockstep(
        self, some: list[Family], runs: list[int], methods: list[Method], samples: RunSamples,
        part: float,
    ) -> None:  # fmt: skip
        """Test error and traffic at the marks, of some runs, each as often as there are steps.

        Each method runs for a few rounds before the next, so that its data stay in the caches.
        """
        judges = [
            {
                averaged: self._recorder(runs, models, answering(method))
                for averaged, models in each.judged(method)
            }
            for each, method in zip(some, methods, strict=True)
        ]
        plays = [any_method.play(method, samples) for method in methods]
        total = self.draws[0].rounds
        # The moment before round 0, then those after each round of a block.
        for first in (0, *range(1, total + 1, BLOCK)):
            if self.stop[0]:
                raise StoppedError
            for play, mine in zip(plays, judges, strict=True):
                for n, moment in enumerate(islice(play, BLOCK if first else 1), first):
                    for judge in mine.values():
                        judge.see(n, moment)
            progress.beat(part * min(BLOCK, total + 1 - first) / total if first else 0)
        for each, found in zip(some, judges, strict=True):
            count = len(each.steps)
            rows = runs[::count]
            for j, (step, averaged) in each.members.items():
                judge, here = found[averaged], slice(step, None, count)
                self.global_mse[rows, j] = judge.mse[here]
                if self.personal:
                    self.mse[rows, j] = judge.own_mse[here]
                self.traffic[rows, :, j] = judge.traffic[here]
                self.counts[rows, j] = judge.counts[here]

    def _recorder(self, runs: list[int], models: Models, mix: Mixed | None) -> Recorder:
        clients = [len(self.draws[r].ids) for r in runs]
        tests = [self.tests[r] for r in runs]
        own = [self.own_tests[r] for r in runs] if self.personal else []
        return Recorder(tests, self.marks, self.shares, models, clients, own, mix)


def _groups(
    experiment: Experiment, methods: list[Method]
) -> tuple[list[int], list[int], list[int]]:
    """Which methods the kernel has, which take several runs at once, and which neither.

    The kernel has no models of clients: they learn when they are selected next.
    """
    groups: tuple[list[int], list[int], list[int]] = [], [], []
    for j, (options, method) in enumerate(zip(experiment.methods, methods, strict=True)):
        if experiment.judge == "global" and family.supports(method):
            groups[0].append(j)
        else:
            groups[1 if takes(experiment, options, method) else 2].append(j)
    return groups


def takes(experiment: Experiment, options: Options, method: Method) -> bool:
    """Whether several runs of the method can be computed at once."""
    cohorts, learner = method.task.cohorts, method.task.learner
    ours = plugins.is_ours(type(options)) and method.several and not method.lazy
    plain = not isinstance(cohorts, PresentCohorts | FleetCohorts)
    linear = learner.linear and plugins.is_ours(type(learner))
    return ours and plain and linear and not about(experiment.stream).gaps


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
    all_matter = any(experiment.methods[j].all_matter for j in stacked)
    if all_matter or experiment.judge == "personal":
        places = experiment.clients
    some = families(experiment, stacked)
    steps = max(len(each.steps) for each in some)
    numbers = places * experiment.dim * min(len(some), LOCKSTEP) * 2 * steps
    most = max(MOST // steps, 1)
    return int(np.clip(NUMBERS // max(numbers, 1), 1, most))


class Recorder:
    """Notes the traffic and the test errors of one method, the errors of several marks at once.

    Their number does not depend on the other methods, so these cannot change the result. It has
    `tests` of several runs, or that of one, and so many `clients` in each; `own` are the tests of
    clients' own models, if these are judged.
    """

    def __init__(
        self, tests: list[Judge], marks: Array, shares: Array, models: Models, clients: list[int],
        own: Sequence[OwnTests] = (), mix: Mixed | None = None,
    ) -> None:  # fmt: skip
        self.mix = mix
        self.tests, self.marks, self.shares = tests, marks.tolist(), shares
        self.models, self.clients = models, clients
        self.mse, self.own = np.empty((len(tests), len(marks))), own
        self.own_mse = np.empty((len(own), len(marks)))
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
        judged = check.counts(moment.clients)
        if judged is not None and self.mark == len(self.marks):
            by_run = judged.reshape(len(self.tests), -1, len(VERDICTS))
            for r, count in enumerate(self.clients):  # behind them there may be empty places
                self.counts[r] = by_run[r, :count].sum(axis=0)
        self._see_own(moment)
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

    def _see_own(self, moment: Moment) -> None:
        """The models that clients have themselves; where they have none, they predict with w."""
        if not self.own:
            return
        mark = self.mark - 1
        if self.mix is not None:  # which has one run
            self.own_mse[0, mark] = self.own[0].mixed(self.mix, moment.clients, self.shares[mark])
            return
        try:
            models = self.models(None, moment.clients)
        except KeyError:
            models = self.models(moment.server, moment.clients)
        models = models if moment.runs else models[None]
        for r, test in enumerate(self.own):
            self.own_mse[r, mark] = test.mse(models[r], self.shares[mark])
