"""One Monte-Carlo run, from its number to its curves: a pure function."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.experiment import Experiment
from psofed.methods.contract import Method
from psofed.simulate import any_method, family, pulse
from psofed.simulate.accumulate import OneRun
from psofed.simulate.any_method import Moment
from psofed.simulate.draws import Draws, draw
from psofed.simulate.evaluate import TestSet, draw_test, floors
from psofed.streams.contract import blend, measured

Array = NDArray[Any]
# The floors are lines in a figure: ten runs are enough. Not the first run, because users wait for
# it, and not with many features, where the floors would cost more than the runs.
FLOOR_RUNS, FLOOR_DIM = range(2, 12), 500
HOLD = 16  # models that are judged at once


class StoppedError(Exception):
    """A run that was told to stop."""


def one_run(experiment: Experiment, number: int, stop: Array | None = None) -> OneRun:
    """Monte-Carlo run `number`: fresh clients, features, data, masks and cohorts.

    A step that is too large diverges; that is a result, not an error, so there is no warning.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _one_run(experiment, number, stop)


def _one_run(experiment: Experiment, number: int, stop: Array | None) -> OneRun:
    stop = np.zeros(1, np.int64) if stop is None else stop
    task = replace(experiment.task(number), lms=any_method.lms)
    methods = experiment.start(task)
    compiled = [j for j, method in enumerate(methods) if family.knows(method)]
    others = [j for j in range(len(methods)) if j not in compiled]
    draws = draw(experiment, task, everybody=bool(others))
    test = draw_test(experiment, task)
    marks = experiment.evaluated
    shares = blend(experiment.stream, marks)
    mse = np.empty((len(methods), len(marks)))
    traffic = np.zeros((3, len(methods), len(marks)))
    if compiled:
        known: Any = [methods[j] for j in compiled]
        part = len(compiled) / len(methods)
        trajectory = family.run(draws, known, marks, test, shares, stop, part)
        if not trajectory.finished:
            raise StoppedError
        mse[compiled] = trajectory.mse
        traffic[:, compiled] = family.traffic(draws, known, marks)
    if others:
        rest = [methods[j] for j in others]
        part = len(others) / len(methods)
        found = _in_lockstep(draws, rest, marks, test, shares, stop, part)
        mse[others], traffic[:, others] = found
    clean = not measured(experiment.stream)  # floors need noise-free samples
    wanted = clean and number in FLOOR_RUNS and task.dim <= FLOOR_DIM
    lines = floors(experiment, number) if wanted else ()
    return OneRun(mse, traffic, np.array(lines))


def _in_lockstep(
    draws: Draws, methods: list[Method], marks: Array, test: TestSet, shares: Array, stop: Array,
    part: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Test error and traffic at the marks, for methods that the kernel does not know.

    Each method runs for a few rounds before the next one does, so that its data stay in the caches.
    """
    samples = any_method.RunSamples(draws)
    mse = np.empty((len(methods), len(marks)))
    traffic = np.zeros((3, len(methods), len(marks)))
    plays = [any_method.play(draws, method, samples) for method in methods]
    rows = zip(mse, traffic.swapaxes(0, 1), strict=True)
    judges = [Recorder(test, marks, shares, *row) for row in rows]
    # The moment before round 0, then those after each round of a block.
    for first in (0, *range(1, draws.rounds + 1, any_method.BLOCK)):
        if stop[0]:
            raise StoppedError
        for method, play, judge in zip(methods, plays, judges, strict=True):
            for n, moment in enumerate(islice(play, any_method.BLOCK if first else 1), first):
                judge.see(n, method, moment)
        pulse.beat(
            part * min(any_method.BLOCK, draws.rounds + 1 - first) / draws.rounds if first else 0
        )
    return mse, traffic


class Recorder:
    """Notes the traffic and the test errors of one method, the errors of several marks at once.

    Their number does not depend on the other methods, so these cannot change the result.
    """

    def __init__(
        self, test: TestSet, marks: Array, shares: Array, mse: Array, traffic: Array
    ) -> None:
        self.test, self.marks, self.mse, self.traffic = test, marks.tolist(), mse, traffic
        self.shares = shares
        self.mark, self.bytes = 0, (0, 0, 0)
        self.held: list[Array] = []

    def see(self, n: int, method: Method, moment: Moment) -> None:
        """The state before round n."""
        self.bytes = tuple(map(add, self.bytes, moment.traffic))
        if n != self.marks[self.mark]:
            return
        self.traffic[:, self.mark], self.bytes = self.bytes, (0, 0, 0)
        self.mark += 1
        models = method.models(moment.server, moment.clients)
        if models.ndim > 1:
            self.mse[self.mark - 1] = self.test.mse(models, self.shares[self.mark - 1]).mean()
            return
        self.held.append(models.copy())
        if len(self.held) == HOLD or self.mark == len(self.marks):
            here = slice(self.mark - len(self.held), self.mark)
            self.mse[here] = self.test.mse(np.array(self.held), self.shares[here])
            self.held = []
