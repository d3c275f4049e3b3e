"""A job as people see it: a bar on a terminal, a line in a notebook, some lines in a log.

`psofed.pace` estimates the time; here are the clock and the screen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from html import escape
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from psofed.pace import Pace, Standing, duration

EVERY = 10  # seconds between two lines; more in a long job, a tenth of its time so far
TICK = 0.25  # seconds between two looks at what is going on


class Meter:
    """A job as it is shown: its pace, what it counts, and what is known of its result so far."""

    def __init__(self, what: str, unit: str, pace: Pace) -> None:
        self.what, self.unit, self.pace, self.now = what, unit, pace, ""
        self._lock = Lock()  # it is looked at in another thread
        self._before = _worked()

    def look(self) -> Standing:
        """Where it stands at this moment."""
        with self._lock:
            self.pace.work(_worked() - self._before)
            return self.pace.standing(monotonic())

    def advance(self, done: int, total: int | None = None) -> None:
        """So many units are finished."""
        with self._lock:
            self.pace.work(_worked() - self._before)
            self.pace.advance(monotonic(), done, total)


def _worked() -> float:
    """Runs computed, with parts of runs."""
    pulse = sys.modules.get("psofed.simulate.pulse")  # absent: nothing is simulated
    return 0.0 if pulse is None else float(pulse.worked())


@contextmanager
def metered(what: str, unit: str, **known: Any) -> Iterator[Meter]:
    """A meter that is shown until the block ends; `known` are arguments of `Pace`."""
    meter = Meter(what, unit, Pace(monotonic(), **known))
    kind = _cell if in_notebook() else _bar if sys.stderr.isatty() else _lines
    with kind(meter):
        yield meter


@contextmanager
def in_turn(unit: str = "parts") -> Iterator[Callable[..., Callable[[int, int], None]]]:
    """Meters one after another: a name ends the last one, and gives what the next is told by.

    With a number of workers, units are runs, and the work on all of them tells the time left.
    """
    with ExitStack() as shown:

        def told(name: str, workers: int = 0) -> Callable[[int, int], None]:
            shown.close()
            meter = shown.enter_context(metered(name, unit))
            meter.pace.workers, meter.pace.by_parts = max(workers, 1), workers > 0
            return meter.advance

        yield told


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, which can show and change a cell's output."""
    python = sys.modules.get("IPython")
    return "ipykernel" in sys.modules and python is not None and python.get_ipython() is not None


def interactive() -> bool:
    """Whether somebody is looking: a notebook or a terminal."""
    return in_notebook() or sys.stderr.isatty()


def _watched(look: Callable[[], None]) -> AbstractContextManager[None]:
    """Looks every now and then, in a thread, until the block ends."""
    ended = Event()

    def watch() -> None:
        while not ended.wait(TICK):
            look()

    @contextmanager
    def watching() -> Iterator[None]:
        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    return watching()


def _lines(meter: Meter) -> AbstractContextManager[None]:
    """For logs: a line when it is clear that there is a while to go, then one now and then."""
    due = float(EVERY)

    def look() -> None:
        nonlocal due
        standing = meter.look()
        long = due == EVERY and not standing.rough and (standing.left or 0) > EVERY
        if standing.elapsed >= due or long:
            due = standing.elapsed + max(EVERY, standing.elapsed / 10)
            sys.stderr.write(f"{meter.what}: {_words(meter, standing)}\n")
            sys.stderr.flush()

    return _watched(look)


def _words(meter: Meter, standing: Standing) -> str:
    rest = f"; {meter.now}" if meter.now else ""
    return standing.words(meter.unit) + rest


@contextmanager
def _cell(meter: Meter) -> Iterator[None]:
    """For notebooks: one line that changes, with a bar; at the end, what was done."""
    from IPython.display import HTML, display

    def line(standing: Standing, words: str) -> Any:
        share = standing.done / standing.total if standing.total else 0.0
        bar = f'<progress value="{share:.3f}" max="1"></progress> '
        return HTML(f"<small>{bar}{escape(meter.what)}: {escape(words)}</small>")

    begun = meter.look()
    shown = display(line(begun, _words(meter, begun)), display_id=True)

    def look() -> None:
        standing = meter.look()
        shown.update(line(standing, _words(meter, standing)))

    try:
        with _watched(look):
            yield
    finally:
        end = meter.look()
        words = f"{end.done} {meter.unit} in {duration(end.elapsed)}"
        shown.update(line(end, words))


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
            return Text(_words(meter, standing), overflow="ellipsis", no_wrap=True)

    console = Console(stderr=True)
    name: Any = rich.TextColumn(meter.what)
    width = min(30, max(console.width - 70, 8))
    bar = rich.Progress(
        name, rich.BarColumn(width), Words(), console=console, transient=True, refresh_per_second=4
    )
    with bar:
        bar.add_task("", total=None)
        yield
