"""Progress on standard error: a bar with the time left on a terminal, some lines elsewhere.

`psofed.pace` estimates the time; here are the clock and the screen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from psofed.pace import Pace, Standing

if TYPE_CHECKING:
    from psofed.experiment import Experiment
    from psofed.simulate.accumulate import Accumulator
    from psofed.simulate.checkpoint import Checkpoint
    from psofed.simulate.pools import Pool

EVERY = 10  # seconds between two lines; more in a long job, a tenth of its time so far
TICK = 0.25  # seconds between two looks at what is going on


def say(line: str) -> None:
    """Print a line on standard error, apart from the result."""
    print(line, file=sys.stderr, flush=True)


class Meter:
    """A job as it is shown: its pace, what it counts, and what is known of its result so far."""

    def __init__(self, what: str, unit: str, pace: Pace) -> None:
        self.what, self.unit, self.pace, self.now = what, unit, pace, ""
        self._lock = Lock()  # it is looked at in another thread
        self._before = _pulse()[0]

    def look(self) -> Standing:
        """Where it stands at this moment, compiling or not."""
        with self._lock:
            self._feel(time := monotonic())
            return self.pace.standing(time)

    def advance(self, done: int, total: int | None = None) -> None:
        """So many units are finished."""
        with self._lock:
            self._feel(time := monotonic())
            self.pace.advance(time, done, total)

    def _feel(self, time: float) -> None:
        worked, compiles = _pulse()
        self.pace.compiling(time, compiles)
        self.pace.work(worked - self._before)


def _pulse() -> tuple[float, tuple[str, ...]]:
    """Runs computed, and what is being compiled."""
    pulse = sys.modules.get("psofed.simulate.pulse")  # absent: nothing is simulated
    return (0.0, ()) if pulse is None else (pulse.worked(), pulse.compiling())


@contextmanager
def metered(what: str, unit: str, **known: Any) -> Iterator[Meter]:
    """A meter that is shown until the block ends; `known` are arguments of `Pace`."""
    meter = Meter(what, unit, Pace(monotonic(), **known))
    with _bar(meter) if sys.stderr.isatty() else _lines(meter):
        yield meter


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
    from psofed.simulate import pulse

    already = 0 if store is None else store.count()
    total = experiment.runs if precision is None else None
    known = {"total": total, "already": already, "loop": pulse.loop()}
    with metered(what, "runs", **known) as meter:
        yield counted(pool, meter), _Runs(experiment.runs, precision, store, meter)


@contextmanager
def counted(pool: AbstractContextManager[Pool], meter: Meter) -> Iterator[Pool]:
    """The pool, which tells the meter how many runs it computes at a time."""
    with pool as workers:
        meter.pace.workers = workers.workers
        yield workers


class _Runs:
    """Passes on the number of runs and the first result; before, what was resumed or damaged."""

    def __init__(
        self, runs: int, precision: float | None, store: Checkpoint | None, meter: Meter
    ) -> None:
        self.runs, self.precision, self.store, self.meter = runs, precision, store, meter
        self.told = False

    def __call__(self, total: Accumulator) -> None:
        if not self.told and self.store is not None:
            self.told = True
            for warning in self.store.warnings:
                say(f"Warning: {warning}")
            if total.runs > 1:
                say(f"Resumed: {total.runs - 1} runs were finished before.")
        self.meter.now = _now(total)
        self.meter.advance(total.runs, self._expected(total))

    def _expected(self, total: Accumulator) -> int | None:
        """The runs asked for, or an estimate of those that the precision needs."""
        from psofed.simulate.montecarlo import LEAST_RUNS

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


@contextmanager
def _lines(meter: Meter) -> Iterator[None]:
    """For logs: a line when it is clear that there is a while to go, then one now and then."""
    ended = Event()

    def watch() -> None:
        due = float(EVERY)
        while not ended.wait(TICK):
            standing = meter.look()
            long = due == EVERY and not standing.rough and (standing.left or 0) > EVERY
            if standing.elapsed >= due or long:
                due = standing.elapsed + max(EVERY, standing.elapsed / 10)
                rest = f"; {meter.now}" if meter.now and standing.compiling is None else ""
                say(f"{meter.what}: {standing.words(meter.unit)}{rest}")

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@contextmanager
def _bar(meter: Meter) -> Iterator[None]:
    """For terminals; it goes when the job is done."""
    from rich import progress as rich
    from rich.console import Console
    from rich.text import Text

    class Words(rich.ProgressColumn):
        def render(self, task: Any) -> Text:
            standing = meter.look()
            bar.update(task.id, completed=standing.done, total=standing.total)
            rest = f"  {meter.now}" if meter.now and standing.compiling is None else ""
            return Text(standing.words(meter.unit) + rest, overflow="ellipsis", no_wrap=True)

    console = Console(stderr=True)
    name: Any = rich.TextColumn(meter.what)
    width = min(30, max(console.width - 70, 8))
    bar = rich.Progress(
        name, rich.BarColumn(width), Words(), console=console, transient=True, refresh_per_second=4
    )
    with bar:
        bar.add_task("", total=None)
        yield
