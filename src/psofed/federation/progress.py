"""How far a job is: a bar on a terminal, one line in a notebook, some lines in a log.

A job has a number of units: runs, rounds, steps. The work of the recent past, parts of runs
included, gives its rate; the rest of the work over this rate is the time left.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from itertools import pairwise
from math import inf
from threading import Event, Lock, Thread
from time import monotonic
from types import SimpleNamespace
from typing import Any

EVERY = 10  # seconds between two lines; more in a long job, a tenth of its time so far
TICK = 0.25  # seconds between two looks at a job
RECENT = 10.0  # seconds whose work gives the rate; less in a short job, more in a long one
LEAST = 4  # changes of the work that give the rate, if there were so many
ENOUGH = 0.05  # units of work before a time is estimated
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


class Rate:
    """Work per second in the recent past, from times that it is given.

    >>> rate = Rate(0.0)
    >>> for second in range(1, 21): rate.see(second, second / 2)
    >>> rate.left(20.0, total=30)
    40.0
    """

    def __init__(self, begin: float, work: float = 0.0) -> None:
        self._begin, self._started = (begin, work), False
        self._seen = [self._begin]  # when the work had changed, and how much was done

    @property
    def rough(self) -> bool:
        """Whether it counts from the start of the job, when things are loaded, too."""
        return self._seen[0] == self._begin

    def see(self, now: float, work: float) -> None:
        """So much work is done at this time; the time before a first part of a unit was to load."""
        if work <= self._seen[-1][1]:
            return
        first, self._started = not self._started, True
        if first and work - self._begin[1] < 1:
            self._begin = now, work
            self._seen = [self._begin]
            return
        seen, elapsed = self._seen, now - self._begin[0]
        window = max(elapsed / 5, min(RECENT, elapsed / 2))
        if len(seen) > LEAST and now - seen[-2][0] < window / 50:
            seen.pop()
        seen.append((now, work))
        while len(seen) > LEAST + 1 and seen[1][0] <= now - window:
            del seen[0]

    def left(self, now: float, total: float) -> float | None:
        """Seconds until all work is done; None if too little is known.

        Where work is seen in large steps, it is taken to go on between them, for as long as the
        longest step took.
        """
        (start, before), (last, work) = self._seen[0], self._seen[-1]
        if work - self._begin[1] < ENOUGH:
            return None
        idle, step = now - last, max(b - a for (a, _), (b, _) in pairwise(self._seen))
        time = last - start + max(idle - step, 0.0)
        rest = max(total - work, 0.0) * time / (work - before)
        return max(rest - min(idle, step), 0.0)


class Progress:
    """A job, with what it counts, and how many units were finished `already` before it began.

    If its units are `runs`, their parts count as well.
    """

    def __init__(
        self, what: str, unit: str, total: int | None = None, already: int = 0, runs: bool = False
    ) -> None:
        self.what, self.unit, self.total, self.done = what, unit, total, already
        self.note = ""  # what is known of the result so far
        self.work = float(already)  # units, with parts of those that are not finished
        self.elapsed = 0.0  # seconds
        self.left: float | None = None  # seconds, if they can be estimated
        self._runs, self._before, self._begin = runs, worked() - already, monotonic()
        self.rate, self._lock = Rate(self._begin, already), Lock()  # another thread looks at it

    def advance(self, done: int, total: int | None = None) -> None:
        """So many units are finished, with those from before."""
        with self._lock:
            self.done = max(done, self.done)
            self.total = self.total if total is None else total
            self._update()

    def words(self) -> str:
        """How far it is now: "100 of 500 runs, about 1 min 20 s left"."""
        with self._lock:
            self._update()
            count = f"{self.done}" if self.total is None else f"{self.done} of {self.total}"
            time = f"{duration(self.elapsed)} so far"
            if self.left is not None:
                time = f"{'roughly' if self.rate.rough else 'about'} {duration(self.left)} left"
            return f"{count} {self.unit}, {time}" + (f"; {self.note}" if self.note else "")

    def _update(self) -> None:
        now = monotonic()
        self.work = max(self.done, worked() - self._before if self._runs else 0.0)
        self.elapsed, self.left = now - self._begin, None
        self.rate.see(now, self.work)
        if self.total is not None:
            self.left = 0.0 if self.done >= self.total else self.rate.left(now, self.total)


@contextmanager
def showing(what: str, unit: str, **known: Any) -> Iterator[Progress]:
    """A job that is shown until the block ends; `known` are other arguments of `Progress`."""
    job = Progress(what, unit, **known)
    screen = _cell if in_notebook() else _bar if sys.stderr.isatty() else _lines
    with screen(job) as show, _repeated(show):
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
    with ExitStack() as last:

        def begin(name: str, runs: bool = False) -> OnUnit:
            last.close()
            return last.enter_context(showing(name, unit, runs=runs)).advance

        yield begin


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, which can show and change a cell's output."""
    python = sys.modules.get("IPython")
    return "ipykernel" in sys.modules and python is not None and python.get_ipython() is not None


def interactive() -> bool:
    """Whether somebody is looking: a notebook or a terminal."""
    return in_notebook() or sys.stderr.isatty()


@contextmanager
def _repeated(show: Callable[[], None]) -> Iterator[None]:
    """Shows it every now and then, in a thread, until the block ends."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(TICK):
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
    """For logs: a line when it is clear that there is a while to go, then one now and then."""
    due = float(EVERY)

    def show() -> None:
        nonlocal due
        words = job.words()
        long = due == EVERY and not job.rate.rough and (job.left or 0) > EVERY
        if job.elapsed >= due or long:
            due = job.elapsed + max(EVERY, job.elapsed / 10)
            sys.stderr.write(f"{job.what}: {words}\n")
            sys.stderr.flush()

    yield show


@contextmanager
def _cell(job: Progress) -> Iterator[Callable[[], None]]:
    """For notebooks: one line that changes, with a bar; at the end, what was done."""
    from IPython.display import HTML, display

    def line(words: str) -> Any:
        share = min(job.work / job.total, 1) if job.total else 0.0
        bar = f'<progress value="{share:.3f}" max="1"></progress> '
        return HTML(f"<small>{bar}{escape(job.what)}: {escape(words)}</small>")

    shown = display(line(job.words()), display_id=True)
    try:
        yield lambda: shown.update(line(job.words()))
    finally:
        job.advance(job.done)
        shown.update(line(f"{job.done} {job.unit} in {duration(job.elapsed)}"))


@contextmanager
def _bar(job: Progress) -> Iterator[Callable[[], None]]:
    """For terminals; it goes when the job is done."""
    from rich import progress as rich
    from rich.console import Console
    from rich.table import Column

    console, line = Console(stderr=True), Column(no_wrap=True, overflow="ellipsis")
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(min(30, max(console.width - 70, 8))),
        rich.TextColumn("{task.fields[words]}", markup=False, table_column=line),
    )
    with rich.Progress(*columns, console=console, auto_refresh=False, transient=True) as screen:
        task = screen.add_task(job.what, total=None, words="")

        def show() -> None:
            words = job.words()
            screen.update(task, completed=job.work, total=job.total, words=words, refresh=True)

        show()
        yield show
