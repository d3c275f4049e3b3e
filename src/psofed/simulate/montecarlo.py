"""Monte Carlo: independent runs over a pool of threads, added up in order.

A run depends on nothing but the experiment and its own number, and the sums are taken in run
order, so the number of threads cannot change a bit of the result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psofed.curves import Accumulator, Curves, OneRun
from psofed.experiment import Experiment
from psofed.methods.contract import Method
from psofed.simulate import fused, lockstep
from psofed.simulate.draws import Draws, draw
from psofed.simulate.evaluate import TestSet, draw_test, floors

Array = NDArray[Any]
FLOOR_RUNS = 20  # the floors are lines in a figure: so many runs place them well enough


class Interrupted(KeyboardInterrupt):
    """Stopped by the user; `curves` holds the runs that were finished, or None."""

    def __init__(self, curves: Curves | None) -> None:
        super().__init__("interrupted")
        self.curves = curves


class _StoppedError(Exception):
    """A run that was told to stop."""


def run(
    experiment: Experiment,
    jobs: int | None = None,
    on_run: Callable[[Accumulator], None] | None = None,
) -> Curves:
    """Run the experiment and return its curves; `on_run` sees the sums after each finished run.

    >>> run(Experiment(clients=5, rounds=3, runs=2, test_samples=50)).mse.shape
    (7, 4)
    """
    total = Accumulator(experiment)
    stop = np.zeros(1, np.int64)
    waiting: deque[Future[OneRun]] = deque()
    workers = jobs or os.cpu_count() or 1
    numbers = iter(range(experiment.runs))
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
        try:
            for number in numbers:
                waiting.append(pool.submit(one_run, experiment, number, stop))
                if len(waiting) > 2 * workers:
                    _add(total, waiting, on_run)
            while waiting:
                _add(total, waiting, on_run)
        except KeyboardInterrupt:
            stop[0] = 1
            _add_finished(total, waiting)
            raise Interrupted(total.curves() if total.runs else None) from None
        except BaseException:
            stop[0] = 1
            raise
    return total.curves()


def _add(
    total: Accumulator,
    waiting: deque[Future[OneRun]],
    on_run: Callable[[Accumulator], None] | None,
) -> None:
    """Add the oldest run, once it is there. It stays in line until then, in case of Ctrl-C."""
    result = waiting[0].result()
    waiting.popleft()
    total.add(result)
    if on_run is not None:
        on_run(total)


def _add_finished(total: Accumulator, waiting: deque[Future[OneRun]]) -> None:
    """Add the runs that were finished when the user stopped: no gap, so it is the first so many."""
    for future in waiting:
        future.cancel()
    for future in waiting:
        if future.cancelled() or future.exception() is not None:
            break
        total.add(future.result())


def one_run(experiment: Experiment, number: int, stop: Array | None = None) -> OneRun:
    """Monte-Carlo run `number`: fresh clients, features, data, masks and cohorts."""
    stop = np.zeros(1, np.int64) if stop is None else stop
    task = experiment.task(number)
    methods = experiment.start(task)
    compiled = [j for j, method in enumerate(methods) if fused.is_fused(method)]
    others = [j for j in range(len(methods)) if j not in compiled]
    draws = draw(experiment, task, everybody=bool(others))
    test = draw_test(experiment, task)
    marks = experiment.evaluated
    mse = np.empty((len(methods), len(marks)))
    traffic = np.zeros((3, len(methods), len(marks)))
    if compiled:
        family: Any = [methods[j] for j in compiled]
        trajectory = fused.run(draws, family, marks, test, stop)
        if not trajectory.finished:
            raise _StoppedError
        mse[compiled] = trajectory.mse
        traffic[:, compiled] = fused.traffic(draws, family, marks)
    if others:
        rest = [methods[j] for j in others]
        mse[others], traffic[:, others] = _in_lockstep(draws, rest, marks, test, stop)
    lines = floors(experiment, number) if number < FLOOR_RUNS else None
    return OneRun(mse, traffic, lines)


def _in_lockstep(
    draws: Draws, methods: list[Method], marks: Array, test: TestSet, stop: Array
) -> tuple[Array, Array]:
    """Test error and traffic at the marks, for methods that the kernel does not know."""
    samples = lockstep.Samples(draws)
    mse = np.empty((len(methods), len(marks)))
    traffic = np.zeros((3, len(methods), draws.rounds + 1))
    plays = [lockstep.play(draws, method, samples) for method in methods]
    for n, moments in enumerate(zip(*plays, strict=True)):
        if stop[0]:
            raise _StoppedError
        for j, (method, moment) in enumerate(zip(methods, moments, strict=True)):
            traffic[:, j, n] = moment.traffic
            mark = np.searchsorted(marks, n)
            if marks[mark] == n:
                mse[j, mark] = test.mse(method.models(moment.server, moment.clients)).mean()
    return mse, fused.since_last_mark(traffic, marks)
