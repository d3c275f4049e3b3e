"""Rows of one client as they arrive: samples, questions whose labels come later, and what is wrong.

Nothing is refused without a reason that is true. The time of a row is the only thing that can make
all later rows useless, so it is doubted: a row may not be far ahead of this machine's clock, and a
long step forward is taken back if the rows after it go on from before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from time import time as wall_clock
from typing import Any, NamedTuple

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.streams.contract import SkippedError
from psofed.streams.data.columns import Batch, Missing, numbers, show
from psofed.streams.data.recipe import FARTHEST, Past, Recipe
from psofed.streams.data.times import Clock

WAITING = 10_000  # questions whose labels may still come
JUMP = 100  # ticks: a longer step may be to a wrong time
BACK = 3  # rows in a row from before a long step: it was one to a wrong time
FUTURE, LATE, AGAIN, UNLABELLED, UNUSABLE = (
    "from the future", "from before the last row", "the same row again",
    "without a value of the target", "with a missing value",
)  # fmt: skip


class Question(NamedTuple):
    """The inputs of a row as they were given and scaled, and which of them were clipped."""

    given: Array
    x: Array
    clipped: str
    jumps: bool  # whether one of these is far beyond, as if the sensor were broken


class Step(NamedTuple):
    """What was known before a long step: the last tick, if there was one, and the rows before."""

    latest: int | None
    past: Past
    to: int

    def undone_by(self, tick: int) -> bool:
        """Whether a row of this tick goes on from before it."""
        return (self.latest is None or self.latest < tick) and tick < self.to


class Live:
    """From a row by column to scaled x and y; y is None for a question.

    A label without inputs belongs to the question of its tick, one with inputs is learned with
    these. A label that comes later than its question is learned with the inputs of then.
    """

    def __init__(
        self, recipe: Recipe, name: str | None = None, ahead: float = float("inf")
    ) -> None:
        self.recipe, self.name = recipe, name
        self.ahead = ahead  # seconds by which a row may be ahead of this machine's clock
        form = recipe.time_format or None
        self.clock = Clock(recipe.columns.time, recipe.calendar, form)
        self.missing = Missing(recipe.columns.markers)
        self.past, self.asked = Past(), dict[int, Question]()
        self.latest: int | None = None
        self.clipped, self.jumps = "", False  # of the last sample, as in a question
        self._before = Past()  # without the rows of the last tick
        self._last: tuple[float, float, Array] | None = None  # time, y and inputs of the last row
        self._step: Step | None = None
        self._back: list[int] = []  # ticks of rows in a row that came from before the last step
        self._lock = RLock()  # questions of other programs come in another thread

    def __call__(self, row: Mapping[str, Any]) -> tuple[Array, float | None]:
        """One row; an InputError if it cannot be used."""
        with self._lock:
            batch = self._batch(row)
            found, y = self._one(batch), self._number(batch, self.recipe.columns.target)
            self.clipped, self.jumps = found.clipped, found.jumps
        if not np.isnan(y):
            return found.x, float(self.recipe.target(np.asarray(y)))
        cell = batch.cells.get(self.recipe.columns.target, ("",))[0]
        if cell is not None and str(cell).strip():
            wrong = f"is {show(cell)}: that is not a label"
            right = "leave it out of a question"
            raise SkippedError(UNLABELLED, f"column {self.recipe.columns.target!r}", wrong, right)
        return found.x, None

    def what_if(self, row: Mapping[str, Any]) -> Array:
        """x of a question that leaves no trace; without a time, at that of the last row."""
        with self._lock:
            untimed = row.keys().isdisjoint(self.recipe.columns.time)
            if self._last is not None and untimed:
                batch, time = self._batch(row, timed=False), self._last[0]
                tick = int(self.recipe.ticks(time))
            else:
                batch = self._batch(row)
                tick, time = self._tick(batch)
            if self.latest is not None and tick < self.latest:
                raise SkippedError(LATE, "the time", "is before the last row's", "use a later one")
            past = self._before if tick == self.latest else self.past
            return self._encoded(past.copy(), tick, time, float("nan"), self._given(batch)).x

    def _one(self, batch: Batch) -> Question:
        """The inputs of a row, or of the question that it is the label of."""
        y, given = self._number(batch, self.recipe.columns.target), self._given(batch)
        tick, time = self._tick(batch)
        alone = len(given) > 0 and bool(np.isnan(given).all())  # no inputs of its own
        asked = self.asked.get(tick)
        if asked is not None and (alone or _same(given, asked.given)):
            if not np.isnan(y):
                self._label(tick, y)
                del self.asked[tick]
            return asked
        if self.latest is not None and tick < self.latest:
            return self._older(batch, tick, y, alone)
        if tick != self.latest:
            return self._next(tick, time, y, given)
        return self._within(tick, time, y, given, alone)

    def _next(self, tick: int, time: float, y: float, given: Array) -> Question:
        """A row of a later tick."""
        if self.latest is None or tick > self.latest + JUMP:
            self._step = Step(self.latest, self.past.copy(), tick)
        self._before, self.latest, self._back = self.past.copy(), tick, []
        return self._keep(tick, time, y, given)

    def _within(self, tick: int, time: float, y: float, given: Array, alone: bool) -> Question:
        """Another row of the last tick: a sample of its own, a question, or what is known."""
        question, last = np.isnan(y), self._last
        self._label(tick, y)  # for lags, even if x was unusable
        if alone:
            found = "is the last row's, and no question at that time waits for a label"
            raise SkippedError(LATE, "the time", found, "use a later time")
        if last is not None and last[0] == time:
            if not question and y == last[1] and _same(given, last[2]):
                raise SkippedError(AGAIN, "a row", "is the same again")
            if question and (tick in self.asked or not np.isnan(last[1])):  # what if?
                return self._encoded(self._before.copy(), tick, time, y, given)
        if question and tick in self.asked:
            return self._encoded(self._before.copy(), tick, time, y, given)
        self.past = self._before.copy()
        return self._keep(tick, time, y, given)

    def _older(self, batch: Batch, tick: int, y: float, alone: bool) -> Question:
        """A row from before the last one; several may mean that the last step was a wrong one."""
        self._label(tick, y)
        if tick in self.asked:
            raise SkippedError(LATE, "a row", "has other inputs than the question at its time")
        found = "is before the last row's, and no question at that time waits for a label"
        late = SkippedError(LATE, "the time", found, "use a later time")
        step = self._step
        if alone or step is None or not step.undone_by(tick):
            raise late
        self._back = [*(n for n in self._back if n < tick), tick]
        if len(self._back) < BACK:
            raise late
        self.past, self.latest, self._step, self._back = step.past, step.latest, None, []
        self.asked = {n: asked for n, asked in self.asked.items() if n < step.to}
        return self._one(batch)

    def _keep(self, tick: int, time: float, y: float, given: Array) -> Question:
        """The inputs of a row that later ones see, and whose label may come later."""
        self._last = time, y, given
        found = self._encoded(self.past, tick, time, y, given)
        if np.isnan(y):
            self.asked[tick] = found
            if len(self.asked) > WAITING:
                del self.asked[next(iter(self.asked))]
        return found

    def _encoded(self, past: Past, tick: int, time: float, y: float, given: Array) -> Question:
        row = np.concatenate([[time, y], given])
        x, lost = self.recipe.encode(past, np.array([tick]), row[None])
        for reason, left in lost.items():
            if left[0]:
                raise SkippedError(UNUSABLE, "a row", reason)
        far = np.flatnonzero(past.cut[0]).tolist()
        named = ", ".join(f"{self.recipe.numeric[j]} is {given[j]:g}" for j in far)
        clipped = f"{named}: beyond {FARTHEST:g} spreads" if far else ""
        return Question(given, np.asarray(x[0]), clipped, bool(past.jumps.any()))

    def _label(self, tick: int, y: float) -> None:
        for past in (self.past, self._before):
            past.label(tick, float(self.recipe.clipped(y)))

    def _batch(self, row: Mapping[str, Any], timed: bool = True) -> Batch:
        columns = self.recipe.columns
        for name in columns.time:
            if timed and name not in row:
                raise InputError(f"column {name!r}", "is missing", "give the time of each row")
        who = row.get(columns.client) if columns.client is not None else None
        if who is not None and self.name is not None and str(who).strip() != self.name:
            found = f"is {show(who)}, but this is client {self.name!r}"
            raise InputError(f"column {columns.client!r}", found, "send its own rows")
        for name, cell in row.items():
            if isinstance(cell, list | dict):
                raise InputError(f"column {name!r}", "has several values", "give one in each")
        return Batch("", (1,), {name: (cell,) for name, cell in row.items()})

    def _tick(self, batch: Batch) -> tuple[int, float]:
        time, now = float(self.clock(batch, self.missing)[0]), wall_clock()
        if np.isnan(time):
            raise InputError("the time", "is empty", "give the time of each row")
        # A clock that is before the table was made is wrong itself.
        if self.recipe.calendar and time > now + self.ahead and now > self.recipe.start:
            found = f"is {(time - now) / 86400:.3g} days ahead of this machine's clock"
            raise SkippedError(FUTURE, "the time", found, "correct one of them")
        return int(self.recipe.ticks(time)), time

    def _given(self, batch: Batch) -> Array:
        """The numbers, and the positions of the texts; NaN where there is none."""
        found = [self._number(batch, name) for name in self.recipe.numeric]
        return np.array([*found, *(self._code(batch, name) for name in self.recipe.hot)])

    def _number(self, batch: Batch, name: str) -> float:
        if name not in batch.cells:
            return float("nan")
        return float(numbers(batch, name, self.missing)[0])

    def _code(self, batch: Batch, name: str) -> float:
        """The position of a text among the known ones, -1 for another, NaN for none."""
        cell = batch.cells.get(name, (None,))[0]
        if self.missing.has(cell):
            return float("nan")
        values, text = self.recipe.hot[name], str(cell).strip()
        return float(values.index(text)) if text in values else -1.0


def _same(a: Array, b: Array) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True))
