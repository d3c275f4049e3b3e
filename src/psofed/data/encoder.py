"""From the columns of a row to the inputs x of the model: scaled, held and lagged.

An encoder is frozen before learning starts and is the same for all clients; it is saved with the
model. What it remembers of a client's past is that client's own `Past`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.data.columns import CALENDAR, Columns

Array = NDArray[Any]
FARTHEST = 6.0  # scaled inputs are clipped here: one broken sensor value cannot do much harm
SKIPPED = "with a missing value, by the rule skip"
NO_PAST = "without the older rows that its lags need"


@dataclass(frozen=True, eq=False)
class Encoder:
    """x = (scaled numbers, their lags, indicators, one-hot categories, calendar, lags of y)."""

    columns: Columns
    numeric: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    codes: dict[str, Array]  # from the codes of a table to positions in `categories`, or -1
    centre: Array  # of the numeric columns, then of the target
    scale: Array
    limits: Array | None = None  # [low or high, column], numbers and target: others are missing

    @property
    def names(self) -> list[str]:
        """The inputs x by name."""
        lagged = [f"{self.numeric[j]}[-{lag}]" for lag, js in self.lagged.items() for j in js]
        flags = [f"{n}?" for n in self.flagged]
        hot = [f"{n}={c}" for n, values in self.categories.items() for c in values]
        waves = [f"{w} {c}" for c in self.columns.calendar for w in ("sin", "cos")]
        past = [f"{self.columns.target}[-{lag}]" for lag in self.columns.target_lags]
        return [*self.numeric, *lagged, *flags, *hot, *waves, *past]

    @property
    def taps(self) -> int:
        """L."""
        return len(self.names)

    @property
    def flagged(self) -> tuple[str, ...]:
        """The numeric columns whose missing values are marked by an input of their own."""
        return tuple(n for n in self.numeric if self.columns.rule(n) == "indicator")

    @property
    def lagged(self) -> dict[int, list[int]]:
        """From a lag to the positions of the numeric columns that have it."""
        found: dict[int, list[int]] = {}
        for j, name in enumerate(self.numeric):
            for lag in self.columns.lags_for(name):
                found.setdefault(lag, []).append(j)
        return dict(sorted(found.items()))

    def target(self, y: Array) -> Array:
        """The target in units of its spread."""
        scaled: Array = (y - self.centre[-1]) / self.scale[-1]
        return scaled

    def clipped(self, y: Any) -> Array:
        """The target as later inputs see it."""
        return np.clip(self.target(y), -FARTHEST, FARTHEST)

    def restore(self, y: Array) -> Array:
        """The inverse of `target`."""
        real: Array = y * self.scale[-1] + self.centre[-1]
        return real

    def possible(self, rows: Array) -> tuple[Array, Array]:
        """Rows in which what is beyond the limits is missing, and how many that are by column."""
        if self.limits is None:
            return rows, np.zeros(len(self.centre), int)
        c, (low, high) = len(self.numeric), self.limits
        values = np.column_stack([rows[:, 2 : 2 + c], rows[:, 1]])
        wrong = (values < low) | (values > high)
        rows = rows.copy()
        rows[:, 2 : 2 + c][wrong[:, :c]] = np.nan
        rows[wrong[:, c], 1] = np.nan
        return rows, wrong.sum(axis=0)

    def encode(self, past: Past, ticks: Array, rows: Array) -> tuple[Array, Array, Array]:
        """x [count, L] of more rows of one client, and which to skip: for a value, for its past."""
        c = len(self.numeric)
        raw = rows[:, 2 : 2 + c]
        missing = np.isnan(raw)
        values = self._held(past, raw)
        values = np.clip((values - self.centre[:-1]) / self.scale[:-1], -FARTHEST, FARTHEST)
        flagged = [self.numeric.index(n) for n in self.flagged]
        values[:, flagged] = np.where(missing[:, flagged], 0.0, values[:, flagged])
        y = self.clipped(rows[:, 1])
        history = past.extend(ticks, values, y)
        lagged = [history.values_at(ticks - lag)[:, js] for lag, js in self.lagged.items()]
        y_lags = [history.target_at(ticks - lag)[:, None] for lag in self.columns.target_lags]
        hot, unknown = self._one_hot(past, rows[:, 2 + c :])
        past.trim(self.columns.longest_lag)
        flags = missing[:, flagged].astype(np.float64)
        waves = self._calendar(rows[:, 0])
        x = np.column_stack([values, *lagged, flags, hot, waves, *y_lags])
        skip = np.isnan(values).any(axis=1) | unknown
        short = np.isnan(x).any(axis=1) & ~skip
        return x, skip, short

    def _held(self, past: Past, raw: Array) -> Array:
        """Missing values of columns with the rule "hold" are the last known ones of this client."""
        hold = np.array([self.columns.rule(n) == "hold" for n in self.numeric], bool)
        if not past.held.size:
            past.held = np.full(raw.shape[1], np.nan)
        filled = forward(np.vstack([past.held, raw]))
        past.held = filled[-1]
        return np.where(hold, filled[1:], raw)

    def _one_hot(self, past: Past, raw: Array) -> tuple[Array, Array]:
        """One input per category that the warm-up had; others, and missing ones, have none."""
        parts, skip = [np.empty((len(raw), 0))], np.zeros(len(raw), bool)
        for j, (name, values) in enumerate(self.categories.items()):
            column = raw[:, j]
            rule = self.columns.rule(name)
            if rule == "hold":
                before = past.category.get(name, np.nan)
                column = forward(np.concatenate([[before], column])[:, None])[1:, 0]
                past.category[name] = float(column[-1]) if len(column) else before
            elif rule == "skip":
                skip |= np.isnan(column)
            place = self.codes[name][np.nan_to_num(column, nan=-1).astype(int)]
            parts.append((place[:, None] == np.arange(len(values))).astype(np.float64))
        return np.hstack(parts), skip

    def _calendar(self, times: Array) -> Array:
        angles = [2 * np.pi * (times % CALENDAR[c]) / CALENDAR[c] for c in self.columns.calendar]
        waves = [f(a) for a in angles for f in (np.sin, np.cos)]
        return np.column_stack(waves) if waves else np.empty((len(times), 0))


@dataclass(eq=False)
class Past:
    """What a client remembers for its lags and held values: as many ticks as the longest lag."""

    held: Array = field(default_factory=lambda: np.empty(0))
    category: dict[str, float] = field(default_factory=dict)
    ticks: Array = field(default_factory=lambda: np.empty(0, np.int64))
    values: Array = field(default_factory=lambda: np.empty(0))
    y: Array = field(default_factory=lambda: np.empty(0))

    def extend(self, ticks: Array, values: Array, y: Array) -> Past:
        """Append rows; y is NaN where the label is missing, or not known yet."""
        if self.values.ndim == 1:
            self.values = np.empty((0, values.shape[1]))
        self.ticks = np.concatenate([self.ticks, ticks])
        self.values = np.concatenate([self.values, values])
        self.y = np.concatenate([self.y, y])
        return self

    def label(self, tick: int, y: float) -> None:
        """The label of a row that came before it."""
        i = int(self._index(np.array([tick]))[0])
        if i >= 0 and self.ticks[i] == tick and not np.isnan(y):
            self.y[i] = y

    def _index(self, ticks: Array) -> Array:
        """The last row at or before each tick; -1 if there is none."""
        return np.searchsorted(self.ticks, ticks, side="right") - 1

    def values_at(self, ticks: Array) -> Array:
        """The scaled numbers at these ticks (the last known ones), NaN before the first."""
        i = self._index(ticks)
        found = self.values[np.maximum(i, 0)] if len(self.values) else self.values
        return np.where(i[:, None] < 0, np.nan, found)

    def target_at(self, ticks: Array) -> Array:
        """The scaled target at these ticks: the last label at or before each."""
        i = self._index(ticks)
        return np.where(i < 0, np.nan, self._held()[np.maximum(i, 0)])

    def _held(self) -> Array:
        return forward(self.y[:, None])[:, 0]

    def trim(self, longest: int) -> None:
        """Forget what no lag can reach: all before the last row at or before the longest lag."""
        if not len(self.ticks):
            return
        reached = int(self._index(self.ticks[-1:] - longest)[0])
        keep = slice(max(reached, 0) if longest else len(self.ticks), None)
        first = self._held()[keep][:1]  # a label that is held may be older than what is kept
        self.ticks, self.values, self.y = self.ticks[keep], self.values[keep], self.y[keep].copy()
        self.y[:1] = first


def forward(values: Array) -> Array:
    """Missing values take the last known one of their column.

    >>> forward(np.array([[1.0], [np.nan], [3.0]])).ravel().tolist()
    [1.0, 1.0, 3.0]
    """
    known = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    return np.take_along_axis(values, np.maximum.accumulate(known, axis=0), axis=0)
