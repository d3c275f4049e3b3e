"""One Monte-Carlo run, from its number to its curves: a pure function."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.experiment import Experiment
from psofed.methods import psofed
from psofed.methods.contract import Method
from psofed.simulate import fused, lockstep
from psofed.simulate.accumulate import OneRun
from psofed.simulate.draws import Draws, draw
from psofed.simulate.evaluate import TestSet, draw_test, floors
from psofed.streams.contract import blend

Array = NDArray[Any]
# The floors are lines in a figure: ten runs place them well enough, not the first, for which people
# wait; and where there are many features they would cost more than the runs.
FLOOR_RUNS, FLOOR_DIM = range(2, 12), 500


class StoppedError(Exception):
    """A run that was told to stop."""


def one_run(experiment: Experiment, number: int, stop: Array | None = None) -> OneRun:
    """Monte-Carlo run `number`: fresh clients, features, data, masks and cohorts.

    A step that is too large diverges; that is a result, not an accident, so nothing warns.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _one_run(experiment, number, stop)


def _one_run(experiment: Experiment, number: int, stop: Array | None) -> OneRun:
    stop = np.zeros(1, np.int64) if stop is None else stop
    task = experiment.task(number)
    methods = experiment.start(task)
    compiled = [j for j, method in enumerate(methods) if psofed.is_pure(method)]
    others = [j for j in range(len(methods)) if j not in compiled]
    draws = draw(experiment, task, everybody=bool(others))
    test = draw_test(experiment, task)
    marks = experiment.evaluated
    shares = blend(experiment.stream, marks)
    mse = np.empty((len(methods), len(marks)))
    traffic = np.zeros((3, len(methods), len(marks)))
    if compiled:
        family: Any = [methods[j] for j in compiled]
        trajectory = fused.run(draws, family, marks, test, shares, stop)
        if not trajectory.finished:
            raise StoppedError
        mse[compiled] = trajectory.mse
        traffic[:, compiled] = fused.traffic(draws, family, marks)
    if others:
        rest = [methods[j] for j in others]
        mse[others], traffic[:, others] = _in_lockstep(draws, rest, marks, test, shares, stop)
    wanted = number in FLOOR_RUNS and task.dim <= FLOOR_DIM
    lines = floors(experiment, number) if wanted else ()
    return OneRun(mse, traffic, np.array(lines))


def _in_lockstep(
    draws: Draws, methods: list[Method], marks: Array, test: TestSet, shares: Array, stop: Array
) -> tuple[Array, Array]:
    """Test error and traffic at the marks, for methods that the kernel does not know."""
    samples = lockstep.Samples(draws)
    mse = np.empty((len(methods), len(marks)))
    traffic = np.zeros((3, len(methods), len(marks)))
    plays = [lockstep.play(draws, method, samples) for method in methods]
    mark = 0
    for n, moments in enumerate(zip(*plays, strict=True)):
        if stop[0]:
            raise StoppedError
        traffic[:, :, mark] += np.transpose([moment.traffic for moment in moments])
        if marks[mark] == n:
            for j, (method, moment) in enumerate(zip(methods, moments, strict=True)):
                w = method.models(moment.server, moment.clients)
                mse[j, mark] = test.mse(w, shares[mark]).mean()
            mark += 1
    return mse, traffic
