"""Progress on standard error: a bar with the time left on a terminal, some lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from psofed.meter import EVERY as EVERY
from psofed.meter import Meter
from psofed.meter import metered as metered
from psofed.simulate.watched import Runs
from psofed.simulate.watched import counted as counted

if TYPE_CHECKING:
    from psofed.experiment import Experiment
    from psofed.simulate.accumulate import Accumulator
    from psofed.simulate.checkpoint import Checkpoint
    from psofed.simulate.pools import Pool


def say(line: str) -> None:
    """Print a line on standard error, apart from the result."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """What to call with (done, of all) for work that is not made of runs: "learning, rounds"."""
    name, comma, unit = what.rpartition(", ")
    with metered(name if comma else what, unit if comma else "steps") as meter:
        yield meter.advance


@contextmanager
def progress(
    experiment: Experiment, pool: AbstractContextManager[Pool], *, store: Checkpoint | None = None,
    precision: float | None = None, what: str = "simulating",
) -> Iterator[tuple[AbstractContextManager[Pool], Callable[[Accumulator], None]]]:  # fmt: skip
    """The pool, which tells the meter its size, and what to call after each run."""
    from psofed.simulate.onerun import width

    already = 0 if store is None else store.count()
    total = experiment.runs if precision is None else None
    with metered(what, "runs", total=total, already=already) as meter:
        known = counted(pool, meter, width(experiment))
        yield known, _Runs(experiment.runs, precision, store, meter, already)


class _Runs(Runs):
    """First says what was resumed or damaged."""

    def __init__(
        self, runs: int, precision: float | None, store: Checkpoint | None, meter: Meter,
        already: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(runs, precision, meter)
        self.store, self.already, self.told = store, already, False

    def __call__(self, total: Accumulator) -> None:
        if not self.told and self.store is not None:
            self.told = True
            for warning in self.store.warnings:
                say(f"Warning: {warning}")
            if self.already:
                runs = "1 run was" if self.already == 1 else f"{self.already} runs were"
                say(f"Resumed: {runs} finished before.")
        super().__call__(total)
