"""How far a job is: a bar on a terminal, one line in a notebook, some lines in a log.

A job has a number of units: runs, rounds, steps. `rich` counts the work, parts of runs included,
and its rate in the recent past gives the time left.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from math import inf
from threading import Event, Lock, Thread
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

from psofed.extras import have

EVERY = 10  # seconds between two lines; more in a long job, a tenth of its time so far
TICK = 0.25  # seconds between two looks at a job
RECENT = 10.0  # seconds whose work gives the rate, or half of the time so far if that is more
OnUnit = Callable[[int, int], None]  # to call with the units that are done, and all

_here = Lock()
_counters: list[Any] = [SimpleNamespace(value=0.0, get_lock=lambda: _here)]  # the last is in use


def beat(part: float) -> None:
    """This part of a run has been computed, here or in a worker process."""
    counter = _counters[-1]
    with counter.get_lock():
        counter.value += part


def worked() -> float:
    """Runs and parts of runs computed so far, for any job: only its growth matters."""
    return float(sum(counter.value for counter in _counters))


@contextmanager
def shared_counter() -> Iterator[Any]:
    """A counter for worker processes, each of which has to `follow` it."""
    counter = multiprocessing.get_context("spawn").Value("d", 0.0)
    follow(counter)
    try:
        yield counter
    finally:
        _counters.remove(counter)
        beat(counter.value)


def follow(counter: Any) -> None:
    """From now on, `beat` adds to this counter."""
    _counters.append(counter)


def duration(seconds: float) -> str:
    """A time as people say it, no finer than it is known.

    >>> [duration(s) for s in (0.2, 59.6, 154, 601, 5025, 200_000)]
    ['1 s', '1 min', '2 min 35 s', '10 min', '1 h 25 min', '2 d 8 h']
    """
    steps = (60, 1), (600, 5), (3600, 60), (86400, 300), (inf, 3600)
    step = next(step for below, step in steps if seconds < below)
    whole = max(round(seconds / step) * step, 1)
    parts = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    named = zip(parts, ("d", "h", "min", "s"), strict=True)
    return " ".join(f"{count} {unit}" for count, unit in named if count)


class Progress:
    """A job, with what it counts, and how many units were finished `already` before it began.

    If its units are `runs`, their parts count as well. Of a part of a larger job that `began` then,
    whose other parts nobody knows, it says how long that has taken, and guesses nothing.
    """

    def __init__(
        self, what: str, unit: str, total: int | None = None, already: int = 0, runs: bool = False,
        began: float | None = None,
    ) -> None:  # fmt: skip
        from rich import progress as rich
        from rich.console import Console
        from rich.table import Column

        self.what, self.unit, self.total, self.done = what, unit, total, already
        self.note = ""  # what is known of the result so far
        self.began = began
        self._runs, self._before = runs, worked() - already
        console, line = Console(stderr=True), Column(no_wrap=True, overflow="ellipsis")
        columns = (
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(min(30, max(console.width - 70, 8))),
            rich.TextColumn("{task.fields[words]}", markup=False, table_column=line),
        )
        self.screen = rich.Progress(
            *columns, console=console, auto_refresh=False, transient=True, get_time=monotonic
        )
        number = self.screen.add_task(what, total=total, completed=already, words="")
        self.task = self.screen.tasks[number]

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return self.task.elapsed or 0.0

    def advance(self, done: int, total: int | None = None) -> None:
        """How many units are finished, with those from before."""
        self.done = max(done, self.done)
        self.total = self.total if total is None else total
        self.look()

    def look(self) -> None:
        """Count what has been done since the last look."""
        self.screen.speed_estimate_period = max(RECENT, self.elapsed / 2)
        self.task.total = self.total  # `update` would forget the rate
        work = max(self.done, worked() - self._before if self._runs else 0.0)
        self.screen.update(self.task.id, completed=work)
        self.screen.update(self.task.id, words=self.words())

    def words(self) -> str:
        """How far it was at the last look: "100 of 500 runs, about 1 min 20 s left"."""
        count = f"{self.done}" if self.total is None else f"{self.done} of {self.total}"
        rate, rest = self.task.speed, self.task.remaining
        lasted = self.elapsed if self.began is None else monotonic() - self.began
        time = f"{duration(lasted)} so far"
        if self.began is None and rate and rest is not None:
            time = f"about {duration(max(rest, 0.0) / rate)} left"
        return f"{count} {self.unit}, {time}" + (f"; {self.note}" if self.note else "")


@contextmanager
def showing(what: str, unit: str, **known: Any) -> Iterator[Progress]:
    """A job that is shown until the block ends; `known` are other arguments of `Progress`."""
    if not have("rich"):  # as on devices: nothing is shown
        yield cast(Progress, SimpleNamespace(advance=lambda *_: None, note="", done=0))
        return
    job = Progress(what, unit, **known)
    screen = _cell if in_notebook() else _bar if sys.stderr.isatty() else _lines
    with screen(job) as show, _repeated(job, show):
        yield job


@contextmanager
def counting(what: str) -> Iterator[OnUnit]:
    """What to call with (done, of all) for work that is not made of runs: "learning, rounds"."""
    name, _, unit = what.rpartition(", ") if ", " in what else (what, "", "steps")
    with showing(name, unit) as job:
        yield job.advance


@contextmanager
def in_turn(unit: str = "parts") -> Iterator[Callable[..., OnUnit]]:
    """Jobs one after another: a name ends the last one, and gives what to call in the next."""
    began = monotonic()
    with ExitStack() as last:

        def begin(name: str, runs: bool = False) -> OnUnit:
            last.close()
            return last.enter_context(showing(name, unit, runs=runs, began=began)).advance

        yield begin


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, which can show and change a cell's output."""
    python = sys.modules.get("IPython")
    return "ipykernel" in sys.modules and python is not None and python.get_ipython() is not None


def interactive() -> bool:
    """Whether somebody is looking: a notebook or a terminal."""
    return in_notebook() or sys.stderr.isatty()


@contextmanager
def _repeated(job: Progress, show: Callable[[], None]) -> Iterator[None]:
    """Looks at the job and shows it every now and then, in a thread, until the block ends."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(TICK):
            job.look()
            show()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _lines(job: Progress) -> Iterator[Callable[[], None]]:
    """For logs: a line now and then."""
    due = float(EVERY)

    def show() -> None:
        nonlocal due
        if job.elapsed >= due:
            due = job.elapsed + max(EVERY, job.elapsed / 10)
            sys.stderr.write(f"{job.what}: {job.words()}\n")
            sys.stderr.flush()

    yield show


@contextmanager
def _cell(job: Progress) -> Iterator[Callable[[], None]]:
    """For notebooks: one line that changes, with a bar; at the end, what was done."""
    from IPython.display import HTML, display

    def line(words: str) -> Any:
        bar = f'<progress value="{job.task.percentage / 100:.3f}" max="1"></progress> '
        return HTML(f"<small>{bar}{escape(job.what)}: {escape(words)}</small>")

    shown = display(line(job.words()), display_id=True)
    try:
        yield lambda: shown.update(line(job.words()))
    finally:
        job.look()
        shown.update(line(f"{job.done} {job.unit} in {duration(job.elapsed)}"))


@contextmanager
def _bar(job: Progress) -> Iterator[Callable[[], None]]:
    """For terminals; it goes when the job is done."""
    job.look()
    with job.screen:
        yield job.screen.refresh
