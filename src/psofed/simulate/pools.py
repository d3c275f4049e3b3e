"""Where runs are computed: threads of this process, or a Dask cluster (extra `cluster`)."""

from __future__ import annotations

import logging
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.core import native
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.extras import machine, need
from psofed.federation import plugins, progress
from psofed.federation.workers import Packed, deaf, pack, processes
from psofed.simulate import family
from psofed.simulate.finished import OneRun
from psofed.simulate.onerun import some_runs

_ADDRESS = re.compile(r"((tcp|tls)://)?[\w.\-\[\]:]+:\d+")


class Pool(Protocol):
    """Computes batches of runs, `workers` at a time; should have `ahead` before one is awaited."""

    workers: int
    ahead: int

    def submit(self, experiment: Experiment, numbers: list[int]) -> Any: ...

    def stop(self) -> None: ...


class _Threads:
    def __init__(self, pool: ThreadPoolExecutor, jobs: int) -> None:
        self.pool, self.workers, self.ahead = pool, jobs, 2 * jobs + 1
        self.stopped = np.zeros(1, np.int64)  # seen by the kernels, so that they end at once

    def submit(self, experiment: Experiment, numbers: list[int]) -> Future[Any]:
        return self.pool.submit(some_runs, experiment, numbers, self.stopped)

    def stop(self) -> None:
        self.stopped[0] = 1
        # Not waited for: kernels see the flag and end.
        self.pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def threads(jobs: int | None = None) -> Iterator[Pool]:
    """A pool of threads; the kernels release the interpreter, and BLAS uses one thread each."""
    jobs = jobs or os.cpu_count() or 1
    workers = _Threads(ThreadPoolExecutor(jobs), jobs)
    with threadpool_limits(1, user_api="blas"):
        try:
            yield workers
        finally:
            workers.stop()


class _Processes:
    def __init__(self, pool: ProcessPoolExecutor, jobs: int) -> None:
        self.pool, self.workers, self.ahead = pool, jobs, 2 * jobs + 1
        self.packed = _Packing(pickle.dumps)

    def submit(self, experiment: Experiment, numbers: list[int]) -> Future[Any]:
        with deaf():
            return self.pool.submit(_remote, self.packed(experiment), numbers)

    def stop(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


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


class _Cluster:
    def __init__(self, client: Any, dumps: Callable[[Any], bytes]) -> None:
        self.client, self.futures, self.packed = client, set[Any](), _Packing(dumps)
        self.workers = sum(client.nthreads().values())
        self.ahead = 3 * self.workers

    def submit(self, experiment: Experiment, numbers: list[int]) -> Any:
        # If a worker dies, another one repeats its runs.
        packed = self.packed(experiment)
        future = self.client.submit(_remote, packed, numbers, pure=False, retries=2)
        self.futures.add(future)
        future.add_done_callback(self.futures.discard)
        return future

    def stop(self) -> None:
        self.client.cancel(list(self.futures))


def _unsent(why: str) -> InputError:
    right = "put what you made into a file of its own, or use one job"
    return InputError("experiment", f"cannot be sent to another process: {why}", right)


class _Packing:
    """Experiments with the plug-ins that they need, packed once for all their runs."""

    def __init__(self, dumps: Callable[[Any], bytes]) -> None:
        self.dumps, self.last = dumps, tuple[Any, Any]((None, None))

    def __call__(self, experiment: Experiment) -> Packed:
        if self.last[0] is not experiment:
            try:
                self.last = experiment, pack(experiment, self.dumps)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise _unsent(str(error)) from None
            main = vars(sys.modules["__main__"]).get("__file__")
            by_name = self.dumps is pickle.dumps and b"__main__" in self.last[1].data
            if by_name and (main is None or not Path(main).exists()):
                raise _unsent("a part of it was made in a notebook")
        packed: Packed = self.last[1]
        return packed


def _remote(packed: Packed, numbers: list[int]) -> list[OneRun]:
    """Runs on a worker, computed as on this machine; errors of plug-ins keep their place."""
    native.keep_memory()
    with threadpool_limits(1, user_api="blas"):
        try:
            return some_runs(packed.unpack(), numbers)
        except Exception as error:
            told = plugins.blamed(error)
            if told is None:
                raise
            raise told from None


@contextmanager
def cluster(address: str) -> Iterator[Pool]:
    """The workers of a Dask cluster at `address`, or of one that is started here for "local"."""
    need("distributed", "cluster", "clusters")
    import cloudpickle  # a part of Dask: it also sends what a notebook has defined
    from distributed import Client, LocalCluster
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    right = "give the address that the scheduler prints, e.g. tcp://host:8786, or local"
    if address != "local" and not _ADDRESS.fullmatch(address):
        raise InputError("--cluster", f"is {address!r}, which is not an address", right)
    here = None
    try:
        if address == "local":
            here = LocalCluster(
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                silence_logs=logging.CRITICAL,  # psofed reports errors itself
            )
        client = Client(here or address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        found = f"cannot reach a Dask scheduler at {address} ({type(error).__name__})"
        raise InputError("--cluster", found, right) from None
    try:
        _check(client, address)
        yield _Cluster(client, cloudpickle.dumps)
    except (CancelledError, KilledWorker, CommClosedError, TimeoutError) as error:
        found = f"lost the cluster at {address} ({type(error).__name__})"
        raise InputError(
            "--cluster", found, "finished runs are kept: continue with --resume"
        ) from None
    finally:
        client.close()
        if here is not None:
            here.close()


def _check(client: Any, address: str) -> None:
    """Refuse workers that would compute other numbers, or none."""
    if not client.nthreads():
        raise InputError(
            "--cluster", f"has no workers at {address}", "start some: dask worker ADDRESS"
        )
    here = machine()
    for worker, version in client.run(metadata.version, "psofed", on_error="return").items():
        if isinstance(version, Exception):
            found = f"has a worker, {worker}, without psofed"
            raise InputError("--cluster", found, "install the same versions everywhere")
    for worker, there in client.run(machine).items():
        for what, wanted in here.items():
            if there.get(what) != wanted:
                found = f"has a worker, {worker}, with {what} {there.get(what)}, not {wanted}"
                raise InputError(
                    "--cluster", found, "use the same everywhere, for the same numbers"
                )
