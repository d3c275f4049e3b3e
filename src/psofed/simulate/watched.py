"""Runs as a meter counts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from psofed.meter import Meter

if TYPE_CHECKING:
    from psofed.simulate.accumulate import Accumulator
    from psofed.simulate.pools import Pool

LEAST_RUNS = 10  # before a standard error is trusted to stop


@contextmanager
def counted(pool: AbstractContextManager[Pool], meter: Meter, width: int = 1) -> Iterator[Pool]:
    """The pool, which tells the meter how many runs it computes at a time, `width` together."""
    with pool as workers:
        meter.pace.workers, meter.pace.by_parts = workers.workers, width > 1
        yield workers


class Runs:
    """What to call after each run: passes on their number and the first result."""

    def __init__(self, runs: int, precision: float | None, meter: Meter) -> None:
        self.runs, self.precision, self.meter = runs, precision, meter

    def __call__(self, total: Accumulator) -> None:
        self.meter.now = _now(total)
        self.meter.advance(total.runs, self._expected(total))

    def _expected(self, total: Accumulator) -> int | None:
        """The runs asked for, or an estimate of those that the precision needs."""
        if self.precision is None:
            return self.runs
        if total.runs < 2:
            return None
        needed = total.runs * (total.steady()[1].max() / self.precision) ** 2
        return min(max(round(needed), total.runs, LEAST_RUNS), self.runs)


def _now(total: Accumulator) -> str:
    """The steady MSE of the first method so far."""
    value, error = (estimates[0] for estimates in total.steady())
    title = total.experiment.titles[0]
    return f"{title} {value:.2f} dB" + (f" ±{error:.2f}" if total.runs > 1 else "")
