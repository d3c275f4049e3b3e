"""Monte Carlo: independent runs, added up in order.

A run depends on nothing but the experiment and its own number, and the sums are taken in run order,
so neither the number of workers nor an interruption changes the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from psofed.curves import Curves
from psofed.errors import InputError
from psofed.experiment import Experiment, given
from psofed.federation.progress import interactive, showing
from psofed.simulate.finished import Accumulator, Checkpoint, OneRun
from psofed.simulate.onerun import width
from psofed.simulate.pools import Pool, threads

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
    on_run: OnRun | None = None,
    store: Checkpoint | None = None,
    pool: AbstractContextManager[Pool] | None = None,
    progress: bool | None = None,
) -> Curves:
    """Run the experiment and return its curves.

    `on_run` is called with the sums that are resumed, and after each run. `store` keeps them on
    disk and returns what is there. `pool` computes the runs elsewhere than on `jobs` threads.
    `progress` shows how far it is: always, never, or (not given) in a notebook and on a terminal.

    An interrupt (stopping the cell, Ctrl-C) raises `psofed.Interrupted`; `psofed.finished_runs()`
    then returns the curves of the runs that were finished.

    >>> run(Experiment(clients=5, rounds=3, runs=2, test_samples=50)).mse.shape
    (7, 4)
    """
    given(experiment)
    many: Any = jobs
    if many is not None and (not isinstance(many, int) or many < 1):
        raise InputError("jobs", f"is {jobs!r}", "use a number of threads, 1 or more")
    pool, told = pool or threads(jobs), [] if on_run is None else [on_run]
    if interactive() if progress is None and on_run is None else progress:
        with showing_runs(experiment, store) as counted:
            return _run(experiment, [counted, *told], store, pool)
    return _run(experiment, told, store, pool)


@contextmanager
def showing_runs(
    experiment: Experiment, store: Checkpoint | None = None, what: str = "simulating"
) -> Iterator[OnRun]:
    """Progress that is shown until the block ends; gives what to call with the sums of the runs."""
    already = 0 if store is None else store.count()
    with showing(what, "runs", total=experiment.runs, already=already, runs=True) as shown:

        def counted(total: Accumulator) -> None:
            value, error = (estimates[0] for estimates in total.steady())
            spread = f" ±{error:.2f}" if total.runs > 1 else ""
            shown.note = f"{experiment.titles[0]} {value:.2f} dB{spread}"
            shown.advance(total.runs)

        yield counted


def _run(
    experiment: Experiment,
    told: list[OnRun],
    store: Checkpoint | None,
    pool: AbstractContextManager[Pool],
) -> Curves:
    total = Accumulator(experiment)
    if store is not None:
        store.resume(total)
    if total.runs > experiment.runs:
        found = f"is {experiment.runs}, but {total.runs} runs are finished already"
        raise InputError("runs", found, f"use {total.runs} or more")
    with pool as workers:
        try:
            if total.runs:  # from before
                for tell in told:
                    tell(total)
            for one in _in_order(experiment, workers, total.runs):
                total.add(one)
                if store is not None:
                    store.save(total)
                for tell in told:
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
