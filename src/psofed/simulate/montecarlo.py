"""Monte Carlo: independent runs, on threads or a cluster, added up in order.

A run depends on nothing but the experiment and its own number, and the sums are taken in run order,
so neither the number of workers nor an interruption changes the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from psofed.curves import Curves
from psofed.errors import InputError
from psofed.experiment import Experiment, given
from psofed.federation.progress import interactive, showing
from psofed.simulate.finished import Accumulator, Checkpoint, OneRun
from psofed.simulate.onerun import width
from psofed.simulate.pools import Pool, threads

LEAST_RUNS = 10  # before a standard error is trusted to stop
FEW = 4  # runs that are worth computing together, also as the last ones

OnRun = Callable[[Accumulator], None]


class Interrupted(KeyboardInterrupt):
    """Stopped by the user; `curves` holds the runs that were finished, or None.

    Of a sweep, `finished` holds all parts that have finished runs.
    """

    def __init__(self, curves: Curves | None, finished: Any = None) -> None:
        super().__init__(_told(curves, finished))
        self.curves, self.finished = curves, curves if finished is None else finished
        _last.append(self)


def _told(curves: Curves | None, finished: Any) -> str:
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
    precision: float | None = None,
    on_run: OnRun | None = None,
    store: Checkpoint | None = None,
    pool: AbstractContextManager[Pool] | None = None,
    progress: bool | None = None,
) -> Curves:
    """Run the experiment and return its curves.

    With `precision` it ends as soon as the standard error of every steady MSE is below that many
    dB. `on_run` is called with the sums after each run. `store` keeps them on disk and returns what
    is there. `pool` computes the runs elsewhere than on `jobs` threads. `progress` shows how far it
    is: always, never, or (not given) in a notebook and on a terminal.

    An interrupt (stopping the cell, Ctrl-C) raises `psofed.Interrupted`; `psofed.finished_runs()`
    then returns the curves of the runs that were finished.

    >>> run(Experiment(clients=5, rounds=3, runs=2, test_samples=50)).mse.shape
    (7, 4)
    """
    given(experiment)
    _check(jobs, precision)
    pool = pool or threads(jobs)
    if interactive() if progress is None and on_run is None else progress:
        with showing_runs(experiment, precision, store) as counted:
            return _run(experiment, precision, _both(counted, on_run), store, pool)
    return _run(experiment, precision, on_run, store, pool)


@contextmanager
def showing_runs(
    experiment: Experiment,
    precision: float | None = None,
    store: Checkpoint | None = None,
    what: str = "simulating",
) -> Iterator[OnRun]:
    """Progress that is shown until the block ends; gives what to call with the sums of the runs."""
    total = None if precision else experiment.runs
    already = 0 if store is None else store.count()
    with showing(what, "runs", total=total, already=already, runs=True) as shown:

        def counted(total: Accumulator) -> None:
            value, error = (estimates[0] for estimates in total.steady())
            spread = f" ±{error:.2f}" if total.runs > 1 else ""
            shown.note = f"{experiment.titles[0]} {value:.2f} dB{spread}"
            shown.advance(total.runs, _expected(total, experiment.runs, precision))

        yield counted


def _expected(total: Accumulator, runs: int, precision: float | None) -> int | None:
    """The runs that are wanted, or an estimate of those that the precision needs."""
    if precision is None:
        return runs
    if total.runs < 2:
        return None
    needed = total.runs * (total.steady()[1].max() / precision) ** 2
    return min(max(round(needed), total.runs, LEAST_RUNS), runs)


def _check(jobs: Any, precision: Any) -> None:
    if jobs is not None and (not isinstance(jobs, int) or jobs < 1):
        raise InputError("jobs", f"is {jobs!r}", "use a number of threads, 1 or more")
    number = isinstance(precision, int | float) and 0 < precision < np.inf
    if precision is not None and not number:
        raise InputError("precision", f"is {precision!r}", "use a number of dB above 0")


def _both(first: OnRun, second: OnRun | None) -> OnRun:
    def call(total: Accumulator) -> None:
        first(total)
        if second is not None:
            second(total)

    return call


def _run(
    experiment: Experiment,
    precision: float | None,
    on_run: OnRun | None,
    store: Checkpoint | None,
    pool: AbstractContextManager[Pool],
) -> Curves:
    total = Accumulator(experiment)
    finished = store.resume(total) if store is not None else {}
    if total.runs > experiment.runs:
        found = f"is {experiment.runs}, but {total.runs} runs are finished already"
        raise InputError("runs", found, f"use {total.runs} or more")
    with pool as workers:
        results = _in_order(experiment, workers, total.runs, finished, store)
        try:
            while total.runs < experiment.runs and not _is_precise(total, precision):
                total.add(next(results))
                if store is not None:
                    store.save_total(total)
                if on_run is not None:
                    on_run(total)
        except KeyboardInterrupt:
            raise Interrupted(total.curves() if total.runs else None) from None
        finally:
            workers.stop()
    curves = total.curves()
    return replace(curves, experiment=replace(experiment, runs=total.runs)) if precision else curves


def _is_precise(total: Accumulator, precision: float | None) -> bool:
    if precision is None or total.runs < LEAST_RUNS:
        return False
    mean, error = total.steady()
    # A curve that diverged never gets precise: do not wait for it.
    return bool((error[np.isfinite(mean) & np.isfinite(error)] <= precision).all())


def _in_order(
    experiment: Experiment,
    workers: Pool,
    first: int,
    finished: dict[int, OneRun],
    store: Checkpoint | None,
) -> Iterator[OneRun]:
    """The runs from `first` on; a few are computed ahead, and each is stored when it ends."""
    waiting: deque[tuple[list[int], Any]] = deque()
    for numbers in _batches(experiment, workers, first, finished):
        if numbers[0] in finished:
            waiting.append((numbers, [finished.pop(numbers[0])]))
        else:
            waiting.append((numbers, workers.submit(experiment, numbers)))
            if store is not None:
                waiting[-1][1].add_done_callback(_Save(store, numbers))
        if len(waiting) > workers.ahead:
            yield from _results(waiting.popleft()[1])
    while waiting:
        yield from _results(waiting.popleft()[1])


def _batches(
    experiment: Experiment, workers: Pool, first: int, finished: dict[int, OneRun]
) -> Iterator[list[int]]:
    """The numbers of runs that are computed together.

    The last batches are small, so that no worker waits long for another.
    """
    most, last = width(experiment), experiment.runs
    todo = sum(number not in finished for number in range(first, last))
    while first < last:
        size = 1
        if first not in finished:
            share = -(-todo // workers.workers)
            size = min(most, max(-(-share // 2), min(share, FEW)))
            ends = (i for i in range(1, size) if first + i in finished or first + i == last)
            size = next(ends, size)
            todo -= size
        yield list(range(first, first + size))
        first += size


def _results(runs: Any) -> list[OneRun]:
    return runs if isinstance(runs, list) else runs.result()


class _Save:
    """Stores runs as soon as they are finished, in the thread that computed them."""

    def __init__(self, store: Checkpoint, numbers: list[int]) -> None:
        self.store, self.numbers = store, numbers

    def __call__(self, future: Any) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        try:
            for number, run in zip(self.numbers, future.result(), strict=True):
                self.store.save_run(number, run)
        except OSError as error:  # this is another thread: the next `save_total` tells the user
            self.store.failure = error
