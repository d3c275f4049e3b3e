"""Monte Carlo: independent runs, added up in order, by threads or by processes of this machine.

A run depends on nothing but the experiment and its own number, and the sums are taken in run order,
so neither the number of workers nor an interruption changes the result.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.core import native
from psofed.curves import Curves
from psofed.errors import InputError
from psofed.experiment import Experiment, given
from psofed.federation import plugins
from psofed.federation.progress import follow, interactive, shared_counter, showing
from psofed.federation.workers import Packed, interrupts_ignored, pack, processes
from psofed.simulate import family
from psofed.simulate.finished import Accumulator, Checkpoint, OneRun
from psofed.simulate.onerun import some_runs, width

FEW = 4  # runs that are worth computing together, also as the last ones

OnRun = Callable[[Accumulator], None]


class Pool:
    """Computes batches of runs, `workers` at a time; should have `ahead` before one is awaited."""

    def __init__(self, executor: Executor, workers: int) -> None:
        self.executor, self.workers, self.ahead = executor, workers, 2 * workers + 1
        self.stopped = np.zeros(1, np.int64)  # seen by the kernels of threads: they end at once

    def submit(self, experiment: Experiment, numbers: list[int]) -> Future[list[OneRun]]:
        """Compute these runs."""
        return self.executor.submit(some_runs, experiment, numbers, self.stopped)

    def stop(self) -> None:
        """Begin nothing more, and wait for nothing."""
        self.stopped[0] = 1
        self.executor.shutdown(wait=False, cancel_futures=True)


class _Processes(Pool):
    last: tuple[Experiment | None, Any] = None, None  # packed once for all its runs

    def submit(self, experiment: Experiment, numbers: list[int]) -> Future[list[OneRun]]:
        if self.last[0] is not experiment:
            self.last = experiment, _packed(experiment)
        with interrupts_ignored():
            return self.executor.submit(_remote, self.last[1], numbers)


@contextmanager
def threads(jobs: int | None = None) -> Iterator[Pool]:
    """A pool of threads; the kernels release the interpreter, and BLAS uses one thread each."""
    jobs = jobs or os.cpu_count() or 1
    workers = Pool(ThreadPoolExecutor(jobs), jobs)
    with threadpool_limits(1, user_api="blas"):
        try:
            yield workers
        finally:
            workers.stop()


@contextmanager
def fresh_processes(jobs: int | None = None) -> Iterator[Pool]:
    """A pool of processes, for methods that are not compiled and would wait for one another."""
    jobs = jobs or os.cpu_count() or 1
    with shared_counter() as counter, processes(jobs, follow, (counter,)) as pool:
        yield _Processes(pool, jobs)


def local(experiment: Experiment, jobs: int | None = None) -> AbstractContextManager[Pool]:
    """For commands: threads if all methods are compiled, else processes."""
    native.keep_memory()
    parts = [part for _, part in experiment.parts()]
    methods = [method for part in parts for method in part.start(part.task(0))]
    compiled = all(family.supports(method) for method in methods)
    return threads(jobs) if compiled or jobs == 1 else fresh_processes(jobs)


def _packed(experiment: Experiment) -> Packed:
    """An experiment with the plug-ins that it needs, for another process."""
    right = "put what you made into a file of its own, or use one job"
    try:
        packed = pack(experiment)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        found = f"cannot be sent to another process: {error}"
        raise InputError("experiment", found, right) from None
    main = vars(sys.modules["__main__"]).get("__file__")
    if b"__main__" in packed.data and (main is None or not Path(main).exists()):
        found = "cannot be sent to another process: a part of it was made in a notebook"
        raise InputError("experiment", found, right)
    return packed


def _remote(packed: Packed, numbers: list[int]) -> list[OneRun]:
    """Runs in another process, computed as in this one; errors of plug-ins keep their place."""
    native.keep_memory()
    with threadpool_limits(1, user_api="blas"):
        try:
            return some_runs(packed.unpack(), numbers)
        except Exception as error:
            blamed = plugins.blamed(error)
            if blamed is None:
                raise
            raise blamed from None


class Interrupted(KeyboardInterrupt):
    """Stopped by the user; `curves` holds the runs that were finished, or None.

    Of a sweep, `finished` holds all parts that have finished runs.
    """

    def __init__(self, curves: Curves | None, finished: Any = None) -> None:
        super().__init__(_words(curves, finished))
        self.curves, self.finished = curves, curves if finished is None else finished
        _last.append(self)


def _words(curves: Curves | None, finished: Any) -> str:
    if finished is None and curves is None:
        return "interrupted before the first run was finished"
    runs = "" if curves is None else f" after {curves.runs} of {curves.experiment.runs} runs"
    return f"interrupted{runs}: psofed.finished_runs() has what was finished"


_last: deque[Interrupted] = deque(maxlen=1)


def finished_runs() -> Any:
    """What was finished when a run or a sweep was last interrupted: its `Curves`, or `SweepResult`.

    In a notebook: stop the cell of `psofed.run`, then `curves = psofed.finished_runs()`.
    """
    if not _last:
        raise InputError("finished_runs", "has nothing: no run was interrupted", "call psofed.run")
    if _last[0].finished is None:
        found = "has nothing: it was interrupted before its first run was finished"
        raise InputError("finished_runs", found, "call psofed.run again")
    return _last[0].finished


def run(
    experiment: Experiment,
    jobs: int | None = None,
    *,
    on_run: OnRun | None = None,
    store: Checkpoint | None = None,
    pool: AbstractContextManager[Pool] | None = None,
    progress: bool | None = None,
    each: bool = False,
) -> Curves:
    """Run the experiment and return its curves; with `each`, also those of every run.

    `on_run` is called with the sums that are resumed, and after each run. `store` keeps them on
    disk and returns what is there. `pool` computes the runs elsewhere than on `jobs` threads.
    `progress` shows how far it is: always, never, or (not given) in a notebook and on a terminal.

    An interrupt (stopping the cell, Ctrl-C) raises `psofed.Interrupted`; `psofed.finished_runs()`
    then returns the curves of the runs that were finished.

    >>> run(Experiment(clients=5, rounds=3, runs=2, test_samples=50)).mse.shape
    (7, 4)
    """
    given(experiment).check_simulated()
    many: Any = jobs
    if many is not None and (not isinstance(many, int) or many < 1):
        raise InputError("jobs", f"is {jobs!r}", "use a number of threads, 1 or more")
    pool, listeners = pool or threads(jobs), [] if on_run is None else [on_run]
    if interactive() if progress is None and on_run is None else progress:
        with showing_runs(experiment, store) as counted:
            return _run(Accumulator(experiment, each), [counted, *listeners], store, pool)
    return _run(Accumulator(experiment, each), listeners, store, pool)


@contextmanager
def showing_runs(experiment: Experiment, store: Checkpoint | None = None) -> Iterator[OnRun]:
    """Progress that is shown until the block ends; gives what to call with the sums of the runs."""
    already = 0 if store is None else store.count()
    with showing("simulating", "runs", total=experiment.runs, already=already, runs=True) as shown:

        def counted(total: Accumulator) -> None:
            value, error = (estimates[0] for estimates in total.steady())
            spread = f" ±{error:.2f}" if total.runs > 1 else ""
            shown.note = f"{experiment.titles[0]} {value:.2f} dB{spread}"
            shown.advance(total.runs)

        yield counted


def _run(
    total: Accumulator,
    listeners: list[OnRun],
    store: Checkpoint | None,
    pool: AbstractContextManager[Pool],
) -> Curves:
    experiment = total.experiment
    if store is not None:
        store.resume(total)
    if total.runs > experiment.runs:
        found = f"is {experiment.runs}, but {total.runs} runs are finished already"
        raise InputError("runs", found, f"use {total.runs} or more")
    with pool as workers:
        try:
            if total.runs:  # from before
                for tell in listeners:
                    tell(total)
            for one in _in_order(experiment, workers, total.runs):
                total.add(one)
                if store is not None:
                    store.save(total)
                for tell in listeners:
                    tell(total)
        except KeyboardInterrupt:
            if store is not None:
                store.save(total, at_once=True)
            raise Interrupted(total.curves() if total.runs else None) from None
        finally:
            workers.stop()
    return total.curves()


def _in_order(experiment: Experiment, workers: Pool, first: int) -> Iterator[OneRun]:
    """The runs from `first` on; a few batches are computed ahead.

    The last batches are small, so that no worker waits long for another.
    """
    most, waiting = width(experiment), deque[Any]()
    while first < experiment.runs:
        share = -(-(experiment.runs - first) // workers.workers)
        size = min(most, max(-(-share // 2), min(share, FEW)))
        waiting.append(workers.submit(experiment, list(range(first, first + size))))
        first += size
        if len(waiting) > workers.ahead:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()
