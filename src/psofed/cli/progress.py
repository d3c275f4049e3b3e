"""Progress on standard error: a bar with the time left on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psofed.experiment import Experiment
    from psofed.simulate.accumulate import Accumulator
    from psofed.simulate.checkpoint import Checkpoint

PATIENCE = 1.5  # seconds after which a line says that the kernel is being compiled
EVERY = 10  # seconds between two lines


def say(line: str) -> None:
    """Print a line on standard error, apart from the result."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def progress(
    experiment: Experiment, store: Checkpoint, precision: float | None, here: bool
) -> Iterator[Callable[[Accumulator], None]]:
    """What to call after each run; a line says if the kernel has to be compiled (`here`)."""
    timer = Timer(PATIENCE if here else 1e6, _say_if_compiling)
    timer.daemon = True
    timer.start()
    try:
        with _bar() if sys.stderr.isatty() else _lines() as show:
            yield _Pace(experiment.runs, precision, store, show)
    finally:
        timer.cancel()


def _say_if_compiling() -> None:
    from psofed.simulate import kernel

    if not kernel.simulate.signatures:
        say("Compiling the kernel; this happens once and takes about twenty seconds.")


class _Pace:
    """Passes on sums and the expected number of runs; first reports what was resumed or damaged."""

    def __init__(
        self, runs: int, precision: float | None, store: Checkpoint, show: Callable[..., None]
    ) -> None:
        self.runs, self.precision, self.store, self.show = runs, precision, store, show
        self.begin, self.before = monotonic(), -1

    def __call__(self, total: Accumulator) -> None:
        if self.before < 0:
            self.before = total.runs - 1
            for warning in self.store.warnings:
                say(f"Warning: {warning}")
            if self.before:
                say(f"Resumed: {self.before} runs were finished before.")
        pace = (monotonic() - self.begin) / (total.runs - self.before)
        runs = self._expected(total)
        self.show(total, runs, pace * (runs - total.runs))

    def _expected(self, total: Accumulator) -> int:
        """The runs asked for, or an estimate of those that the precision needs."""
        if self.precision is None or total.runs < 2:
            return self.runs
        needed = total.runs * (total.steady()[1].max() / self.precision) ** 2
        return min(max(round(needed), total.runs), self.runs)


@contextmanager
def _lines() -> Iterator[Callable[..., None]]:
    """For logs: a line at the first run, then one every few seconds."""
    last = -float(EVERY)

    def show(total: Accumulator, runs: int, left: float) -> None:
        nonlocal last
        if monotonic() - last >= EVERY:
            last = monotonic()
            say(f"{total.runs} of {runs} runs, about {left:.0f} s left; {_now(total)}")

    yield show


@contextmanager
def _bar() -> Iterator[Callable[..., None]]:
    """For terminals."""
    from rich import progress as rich
    from rich.console import Console

    text: Any = rich.TextColumn
    columns = (text("simulating"), rich.BarColumn(), rich.MofNCompleteColumn(), text("runs, about"),
               text("{task.fields[left]} left  {task.fields[now]}"))  # fmt: skip
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, left="?", now="")

        def show(total: Accumulator, runs: int, left: float) -> None:
            minutes, seconds = divmod(round(left), 60)
            shown = f"{minutes}:{seconds:02d}"
            bar.update(task, total=runs, completed=total.runs, left=shown, now=_now(total))

        yield show


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """What to call with (done, of all) for work that is not made of runs."""
    begin, last = monotonic(), monotonic()

    def left(done: int, total: int) -> float:
        return (monotonic() - begin) / max(done, 1) * (total - done)

    def line(done: int, total: int) -> None:
        nonlocal last
        if monotonic() - last >= EVERY:
            last = monotonic()
            time = f", about {left(done, total):.0f} s left" if done else ""
            say(f"{what}: {done} of {total}{time}")

    if not sys.stderr.isatty():
        yield line
        return
    from rich import progress as rich
    from rich.console import Console

    text: Any = rich.TextColumn
    columns = (text(what), rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, total=total, completed=done)


def _now(total: Accumulator) -> str:
    """The steady MSE of the first method so far."""
    value, error = (estimates[0] for estimates in total.steady())
    title = total.experiment.titles[0]
    return f"{title} {value:.2f} dB" + (f" ±{error:.2f}" if total.runs > 1 else "")
