"""Where runs are computed: threads of this process, or processes of this machine."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.core import native
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation import plugins, progress
from psofed.federation.workers import Packed, deaf, pack, processes
from psofed.simulate import family
from psofed.simulate.finished import OneRun
from psofed.simulate.onerun import some_runs


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
        with deaf():
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
    with (
        progress.shared_counter() as counter,
        processes(jobs, progress.follow, (counter,)) as pool,
    ):
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
            told = plugins.blamed(error)
            if told is None:
                raise
            raise told from None
