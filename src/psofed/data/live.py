"""Rows of one client as they come from a sensor: questions first, labels when they are known.

A row without its target is a question. A row with it is learned from. If there was a question for
its time before, the inputs of that question are used, so a late label (at any delay) needs only the
time and the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.data import cells
from psofed.data.cells import Batch, Missing
from psofed.data.encoder import NO_PAST, SKIPPED, Past
from psofed.data.recipe import Recipe
from psofed.data.times import Clock
from psofed.errors import InputError

Array = NDArray[Any]
WAITING = 10_000  # questions whose labels may still come


class Live:
    """From a row by column to scaled x and y; y is None for a question.

    >>> from psofed.data.columns import Columns
    >>> recipe = Recipe(Columns("y", ("t",), inputs=("a",)), {"a": (0, 1), "y": (5, 2)})
    >>> live = Live(recipe)
    >>> live({"t": 0, "a": 3})
    (array([3.]), None)
    >>> live({"t": 0, "y": 9})
    (array([3.]), 2.0)
    """

    def __init__(self, recipe: Recipe, name: str | None = None) -> None:
        self.recipe, self.name = recipe, name
        form = recipe.time_format or None
        self.clock = Clock(recipe.columns.time, recipe.calendar, form)
        self.missing = Missing(recipe.columns.markers)
        self.past, self.asked = Past(), dict[int, Array]()
        self.latest: int | None = None

    def __call__(self, row: Mapping[str, Any]) -> tuple[Array, float | None]:
        """One row; an InputError if it cannot be used."""
        batch = Batch("", (1,), {name: (cell,) for name, cell in row.items()})
        columns, encoder = self.recipe.columns, self.recipe.encoder
        self._check(row)
        y = self._number(batch, columns.target)
        tick, time = self._tick(batch)
        if self.latest is not None and tick <= self.latest:
            self.past.label(tick, float(encoder.clipped(y)))  # for lags, even if x was unusable
            x = self._asked(tick, np.isnan(y))
        else:
            numbers = [self._number(batch, name) for name in encoder.numeric]
            codes = [self._code(batch, name) for name in encoder.categories]
            x = self._encode(tick, np.array([[time, y, *numbers, *codes]]))
        if np.isnan(y):
            return x, None
        self.asked.pop(tick, None)
        return x, float(encoder.target(np.asarray(y)))

    def _check(self, row: Mapping[str, Any]) -> None:
        columns = self.recipe.columns
        for name in columns.time:
            if name not in row:
                raise InputError(f"column {name!r}", "is missing", "give the time of each row")
        who = row.get(columns.client) if columns.client is not None else None
        if who is not None and self.name is not None and str(who).strip() != self.name:
            found = f"is {cells.show(who)}, but this is client {self.name!r}"
            raise InputError(f"column {columns.client!r}", found, "send its own rows")

    def _tick(self, batch: Batch) -> tuple[int, float]:
        time = float(self.clock(batch, self.missing)[0])
        if np.isnan(time):
            raise InputError("the time", "is empty", "give the time of each row")
        return int(np.rint((time - self.recipe.start) / self.recipe.tick)), time

    def _asked(self, tick: int, again: bool) -> Array:
        """The inputs of the question for this tick."""
        if tick in self.asked:
            return self.asked[tick]
        found = "is not after the last row's, and no question at that time waits for a label"
        raise InputError("the time", "was answered before" if again else found, "use a later time")

    def _encode(self, tick: int, rows: Array) -> Array:
        self.latest = tick
        x, skip, short = self.recipe.encoder.encode(self.past, np.array([tick]), rows)
        if skip[0] or short[0]:
            raise InputError("a row", SKIPPED if skip[0] else NO_PAST, "it is not used")
        self.asked[tick] = x[0]
        if len(self.asked) > WAITING:
            del self.asked[next(iter(self.asked))]
        return np.asarray(x[0])

    def _number(self, batch: Batch, name: str) -> float:
        if name not in batch.cells:
            return float("nan")
        return float(cells.numbers(batch, name, self.missing)[0])

    def _code(self, batch: Batch, name: str) -> float:
        """The position of a text among the known ones, -1 for another, NaN for none."""
        cell = batch.cells.get(name, (None,))[0]
        if self.missing.has(cell):
            return float("nan")
        values, text = self.recipe.encoder.categories[name], str(cell).strip()
        return float(values.index(text)) if text in values else -1.0
