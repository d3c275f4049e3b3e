"""How a row becomes the inputs x of a model, frozen: columns, scaling, categories and the tick.

It is learned once, on a warm-up, without a look at later rows; it is the same for all clients. A
saved model holds it, and so does the file of a deployment. What it remembers of a client's past is
that client's own `Past`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.federation import schema
from psofed.streams.data.columns import CALENDAR, Columns, columns_of
from psofed.streams.data.sources import RowSource
from psofed.streams.data.table import Table
from psofed.streams.data.textfile import UNKNOWN, Form
from psofed.streams.data.ticks import UNITS, Ticks
from psofed.streams.data.times import ISO

Pair = tuple[float, float]
FARTHEST = 6.0  # scaled inputs are clipped here: one broken sensor value cannot do much harm
FARTHEST_LABEL = 1e3  # and older labels here: they may go far, and come back as predictions
NEXT = 1.0  # a value so near to the client's last one is no jump
WIDER = 2.0  # a value between the limit and so many times it moves it there: inputs may grow
SEVERAL = 10  # values have to be beyond the limit before
BEYOND = 10  # quartile ranges from the median: what is farther cannot be
FEW = 0.01  # of the values: so many at most are beyond; more are how the column is
SAMPLE = 200_000  # rows of a table from which the usual range is found
GOLDEN = (5**0.5 - 1) / 2  # multiples of it hit every share of the rows, and no period
SKIPPED = "with a missing value, by the rule skip"
UNHELD = "with a missing value, and no earlier one to hold"
NO_PAST = "without the older rows that its lags need"


@dataclass(frozen=True)
class Recipe:
    """x = (scaled numbers, their lags, indicators, one-hot categories, calendar, lags of y).

    scaling: column to (centre, scale), the target's too; x = (value - centre) / scale.
    """

    columns: Columns  # with all inputs named
    scaling: Mapping[str, Pair]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tick: float = 1.0  # of time: the length of a round
    start: float = 0.0  # the time of round 0
    calendar: bool = False  # whether time is in seconds since 1970
    time_format: str = ""  # in which dates were written, as in strptime
    tick_unit: str = ""  # of the tick; empty: seconds, or unknown if times are numbers
    far: Mapping[str, float] = field(default_factory=dict)  # where inputs are clipped, if farther

    def __post_init__(self) -> None:
        schema.positive(self, "tick")
        if self.tick_unit and self.tick_unit not in UNITS:
            raise InputError("tick_unit", f"is {self.tick_unit!r}", f"use {', '.join(UNITS)}")
        if self.columns.target not in self.scaling:
            raise InputError(f"scaling.{self.columns.target}", "is missing", "scale the target")
        for name in self.columns.inputs:
            known = (name in self.scaling) + (name in self.categories)
            if known != 1:
                found = "is scaled and a category" if known else "has no scaling and no categories"
                raise InputError(f"column {name!r}", found, "give it one of them")
        for name, (centre, scale) in self.scaling.items():
            if not (isfinite(centre) and isfinite(scale) and scale > 0):
                right = "use the centre and a scale above 0"
                raise InputError(f"scaling.{name}", f"is [{centre}, {scale}]", right)
        for name, limit in self.far.items():
            if name not in self.numeric or not FARTHEST <= limit <= FARTHEST_LABEL:
                right = f"give a numeric input {FARTHEST:g} to {FARTHEST_LABEL:g}"
                raise InputError(f"far.{name}", f"is {limit}", right)
        if not self.taps:
            raise InputError("columns.inputs", "is empty", "name the inputs")

    @cached_property
    def ticks(self) -> Ticks:
        """From times to rounds."""
        return Ticks(self.tick, self.tick_unit, self.calendar, self.start)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """The inputs that are numbers."""
        return tuple(name for name in self.columns.inputs if name in self.scaling)

    @cached_property
    def hot(self) -> dict[str, tuple[str, ...]]:
        """The inputs that are categories, with their texts."""
        return {n: tuple(self.categories[n]) for n in self.columns.inputs if n in self.categories}

    @cached_property
    def centre(self) -> Array:
        """Of the numbers, then of the target."""
        return np.array([self.scaling[n][0] for n in (*self.numeric, self.columns.target)], float)

    @cached_property
    def scale(self) -> Array:
        """Of the numbers, then of the target."""
        return np.array([self.scaling[n][1] for n in (*self.numeric, self.columns.target)], float)

    @cached_property
    def names(self) -> list[str]:
        """The inputs x by name."""
        lagged = [f"{self.numeric[j]}[-{lag}]" for lag, js in self.lagged.items() for j in js]
        flags = [f"{n}?" for n in self.flagged]
        hot = [f"{n}={text}" for n, texts in self.hot.items() for text in texts]
        waves = [f"{w} {c}" for c in self.columns.calendar for w in ("sin", "cos")]
        past = [f"{self.columns.target}[-{lag}]" for lag in self.columns.target_lags]
        return [*self.numeric, *lagged, *flags, *hot, *waves, *past]

    @cached_property
    def origins(self) -> list[tuple[str, int | None]]:
        """Which column each input measures, and so many ticks ago; None: few values, or public."""
        lagged = [(self.numeric[j], lag) for lag, js in self.lagged.items() for j in js]
        past = [(self.columns.target, lag) for lag in self.columns.target_lags]
        rest = len(self.names) - len(self.numeric) - len(lagged) - len(past)
        others = [(name, None) for name in self.names[len(self.numeric) + len(lagged) :][:rest]]
        return [*((name, 0) for name in self.numeric), *lagged, *others, *past]

    @property
    def taps(self) -> int:
        """L."""
        return len(self.names)

    @cached_property
    def flagged(self) -> tuple[str, ...]:
        """The numbers whose missing values are marked by an input of their own."""
        return tuple(n for n in self.numeric if self.columns.rule(n) == "indicator")

    @cached_property
    def holds(self) -> Array:
        """Of each number, whether its last value is held."""
        return np.array([self.columns.rule(n) == "hold" for n in self.numeric], bool)

    @cached_property
    def lagged(self) -> dict[int, list[int]]:
        """From a lag to the positions of the numbers that have it."""
        found: dict[int, list[int]] = {}
        for j, name in enumerate(self.numeric):
            for lag in self.columns.lags_for(name):
                found.setdefault(lag, []).append(j)
        return dict(sorted(found.items()))

    def target(self, y: Any) -> Array:
        """The target in units of its spread."""
        return (y - self.centre[-1]) / self.scale[-1]

    def clipped(self, y: Any) -> Array:
        """The target as later inputs see it."""
        return np.clip(self.target(y), -FARTHEST_LABEL, FARTHEST_LABEL)

    def restore(self, y: Any) -> Array:
        """The inverse of `target`."""
        return y * self.scale[-1] + self.centre[-1]

    @cached_property
    def reach(self) -> Array:
        """[low or high, target and numbers]: what is beyond is clipped, where it is an input."""
        far = np.full(len(self.scale), FARTHEST)
        far[-1] = FARTHEST_LABEL if self.columns.target_lags else np.inf
        ends = self.centre + far * self.scale * np.array([[-1], [1]])
        return np.roll(ends, 1, axis=1)

    def encode(self, past: Past, ticks: Array, rows: Array) -> tuple[Array, dict[str, Array]]:
        """x [count, L] of more rows of one client, and which are not used, by reason.

        A row has its time, the target, the numbers, and the positions of its texts among the known
        ones, -1 for another.
        """
        c = len(self.numeric)
        raw = rows[:, 2 : 2 + c]
        missing = np.isnan(raw)
        values = (self._held(past, raw) - self.centre[:-1]) / self.scale[:-1]
        far = past.limits(values, self.limits)
        beyond = np.where(missing, 0.0, np.abs(values) / far)
        past.cut, past.jumps = beyond > 1, beyond > WIDER
        values = np.clip(values, -far, far)
        flagged = [self.numeric.index(n) for n in self.flagged]
        values[:, flagged] = np.where(missing[:, flagged], 0.0, values[:, flagged])
        past.extend(ticks, values, self.clipped(rows[:, 1]))
        lagged = [past.values_at(ticks - lag)[:, js] for lag, js in self.lagged.items()]
        y_lags = [past.target_at(ticks - lag)[:, None] for lag in self.columns.target_lags]
        hot, unknown = self._one_hot(past, rows[:, 2 + c :])
        past.trim(self.columns.longest_lag)
        flags = missing[:, flagged].astype(np.float64)
        waves = self._calendar(rows[:, 0])
        x = np.column_stack([values, *lagged, flags, hot, waves, *y_lags])
        gone = np.isnan(values)
        skip = (gone & ~self.holds).any(axis=1) | unknown
        unheld = gone.any(axis=1) & ~skip
        short = np.isnan(x).any(axis=1) & ~skip & ~unheld
        return x, {SKIPPED: skip, UNHELD: unheld, NO_PAST: short}

    @cached_property
    def limits(self) -> Array:
        """Where each number is clipped, before any value was beyond."""
        return np.array([self.far.get(name, FARTHEST) for name in self.numeric])

    def _held(self, past: Past, raw: Array) -> Array:
        """Missing values of columns with the rule "hold" are the last known ones of this client."""
        if not past.held.size:
            past.held = np.full(raw.shape[1], np.nan)
        filled = forward(np.vstack([past.held, raw]))
        past.held = filled[-1]
        return np.where(self.holds, filled[1:], raw)

    def _one_hot(self, past: Past, raw: Array) -> tuple[Array, Array]:
        """One input per category that the warm-up had; others, and missing ones, have none."""
        parts, skip = [np.empty((len(raw), 0))], np.zeros(len(raw), bool)
        for j, (name, texts) in enumerate(self.hot.items()):
            column = raw[:, j]
            rule = self.columns.rule(name)
            if rule == "hold":
                before = past.category.get(name, np.nan)
                column = forward(np.concatenate([[before], column])[:, None])[1:, 0]
                past.category[name] = float(column[-1]) if len(column) else before
            elif rule == "skip":
                skip |= np.isnan(column)
            parts.append((column[:, None] == np.arange(len(texts))).astype(np.float64))
        return np.hstack(parts), skip

    def _calendar(self, times: Array) -> Array:
        angles = [2 * np.pi * (times % CALENDAR[c]) / CALENDAR[c] for c in self.columns.calendar]
        waves = [f(a) for a in angles for f in (np.sin, np.cos)]
        return np.column_stack(waves) if waves else np.empty((len(times), 0))

    def of_one(self, source: Any, form: Form = UNKNOWN) -> Recipe:
        """For a table of one client, which may lack the column of the client."""
        client = self.columns.client
        if client is None or client in RowSource(source, self.columns, form).header():
            return self
        return replace(self, columns=replace(self.columns, client=None))

    def to_table(self) -> dict[str, Any]:
        """As plain values, which `parse` reads."""
        return {
            "tick": self.tick, "start": self.start, "calendar": self.calendar,
            **({"time_format": self.time_format} if self.time_format else {}),
            **({"tick_unit": self.tick_unit} if self.tick_unit else {}),
            **({"far": dict(self.far)} if self.far else {}),
            "columns": self.columns.to_table(),
            "scaling": {name: [float(v) for v in pair] for name, pair in self.scaling.items()},
            "categories": {name: list(texts) for name, texts in self.categories.items()},
        }  # fmt: skip


@dataclass(eq=False)
class Past:
    """What a client remembers for its lags and held values: as many ticks as the longest lag."""

    held: Array = field(default_factory=lambda: np.empty(0))
    category: dict[str, float] = field(default_factory=dict)
    ticks: Array = field(default_factory=lambda: np.empty(0, np.int64))
    values: Array = field(default_factory=lambda: np.empty(0))
    y: Array = field(default_factory=lambda: np.empty(0))
    far: Array = field(default_factory=lambda: np.empty(0))  # where the next values are clipped
    beyond: Array = field(default_factory=lambda: np.empty(0))  # values beyond, since that moved
    good: Array = field(default_factory=lambda: np.empty(0))  # the last values that were not
    rows: int = 0  # so far
    cut: Array = field(default_factory=lambda: np.empty(0))  # which numbers of the last rows were
    jumps: Array = field(default_factory=lambda: np.empty(0))  # which of these are far beyond

    def copy(self) -> Past:
        """The same, for a row of which nothing is to be remembered."""
        return replace(self, category=dict(self.category), y=self.y.copy())

    def extend(self, ticks: Array, values: Array, y: Array) -> Past:
        """Append rows; y is NaN where the label is missing, or not known yet."""
        if self.values.ndim == 1:
            self.values = np.empty((0, values.shape[1]))
        self.ticks = np.concatenate([self.ticks, ticks])
        self.values = np.concatenate([self.values, values])
        self.y = np.concatenate([self.y, y])
        return self

    def limits(self, values: Array, first: Array) -> Array:
        """Where scaled numbers are clipped, row by row: a grown input goes on, a broken one jumps.

        One beyond the limit doubles it: at once if it is next to the last one that was not beyond;
        for those after it where more than a few were beyond since it moved, but this not by twice.
        """
        far = self.far.copy() if self.far.size else first.copy()
        beyond = self.beyond.copy() if self.beyond.size else np.zeros(len(far), np.int64)
        known = self.good if self.good.size else np.full(len(far), np.nan)
        found, good = far[None], forward(np.vstack([known, values]))[-1]
        few = np.maximum(FEW * (self.rows + 1 + np.arange(len(values))), SEVERAL)
        for j in np.flatnonzero((np.abs(values) > far).any(axis=0)):
            begin, found, good[j] = 0, np.array(np.broadcast_to(found, values.shape)), known[j]
            while True:
                rest = values[begin:, j]
                out = np.abs(rest) > far[j]
                count = beyond[j] + np.cumsum(out)
                before = forward(np.append(good[j], np.where(out, np.nan, rest))[:, None])[:, 0]
                grows = out & (np.abs(rest - before[:-1]) <= NEXT)
                near = out & (np.abs(rest) <= WIDER * far[j]) & (count > few[begin:])
                if not (grows | near).any() or WIDER * far[j] > FARTHEST_LABEL:
                    beyond[j], good[j] = np.append(beyond[j], count)[-1], before[-1]
                    break
                i = int((grows | near).argmax())
                begin, good[j] = begin + i + (not grows[i]), before[i]
                far[j], beyond[j] = WIDER * far[j], 0
                found[begin:, j] = far[j]
        self.far, self.beyond, self.good, self.rows = far, beyond, good, self.rows + len(values)
        return found

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
    """Missing values take the last known one of their column."""
    known = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    return np.take_along_axis(values, np.maximum.accumulate(known, axis=0), axis=0)


def parse(table: Any) -> Recipe:
    """A recipe from plain values; every mistake is an InputError."""
    return schema.build(Recipe, schema.convert("recipe", table, dict), {"columns": columns_of})


def learn(table: Table, stop: int, limits: Array | None = None) -> Recipe:
    """From rounds 0..stop-1: mean and spread of the numbers, or given ranges; known categories.

    Numbers beyond the `limits` are missing. Without limits, a few that are far off do not count for
    mean and spread: one broken value would make all others look the same.
    """
    limits = usual(table, stop, FEW) if limits is None else limits
    names, c = (table.columns.target, *table.numeric), len(table.numeric)
    count, mean, square = np.zeros(1 + c), np.zeros(1 + c), np.zeros(1 + c)
    seen: list[set[int]] = [set() for _ in table.categories]
    for block in _rows(table, stop):
        values = block[:, 1 : 2 + c]
        values = np.where((values < limits[0]) | (values > limits[1]), np.nan, values)
        count, mean, square = merge((count, mean, square), moments(values))
        for j, codes in enumerate(seen):
            column = block[:, 2 + c + j]
            codes.update(np.unique(column[~np.isnan(column)]).astype(int).tolist())
    moment = dict(zip(names, zip(count, mean, square, strict=True), strict=True))
    scaling = {name: _scale(table, name, *moment[name]) for name in (*table.numeric, names[0])}
    categories = {
        name: tuple(sorted(text for text, i in codes.known.items() if i in known))
        for (name, codes), known in zip(table.categories.items(), seen, strict=True)
    }
    _check(table, categories)
    form = table.time_format if table.time_format != ISO else ""
    return Recipe(_needed(table.columns), scaling, categories, table.ticks.length,
                  table.ticks.start, table.ticks.dates, form, table.ticks.unit)  # fmt: skip


def usual(table: Table, stop: int, few: float = 1.0) -> Array:
    """[low or high, column] of the target and the numbers: given ranges, or median and quartiles.

    A few wrong values do not move them. Where more than `few` of the values are beyond, there is no
    limit.
    """
    names = (table.columns.target, *table.numeric)
    values, count = [np.empty((0, len(names)))], 0
    share = min(SAMPLE / max(int(table.counts.sum()), 1), 1.0)
    for block in _rows(table, stop):
        some = np.arange(count, count + len(block)) * GOLDEN % 1 < share
        values.append(block[some, 1 : 1 + len(names)])
        count += len(block)
    found = np.full((2, len(names)), [[-np.inf], [np.inf]])
    for j, (name, column) in enumerate(zip(names, np.concatenate(values).T, strict=True)):
        known = column[~np.isnan(column)]
        if name in table.columns.ranges:
            found[:, j] = table.columns.ranges[name]
        elif len(known):
            low, middle, high = np.quantile(known, (0.25, 0.5, 0.75))
            ends = middle + BEYOND * (high - low) * np.array([-1, 1])
            beyond = np.mean((known < ends[0]) | (known > ends[1]))
            if low < high and beyond <= few:  # else most values are the same, or many are far off
                found[:, j] = ends
    return found


def _needed(columns: Columns) -> Columns:
    """Without settings that are applied by now: a later table need not have unused columns."""
    missing = {n: rule for n, rule in columns.missing.items() if n == "*" or n in columns.inputs}
    return replace(columns, drop=(), ranges={}, categorical=(), tick=None, tick_unit=None,
                   missing=missing)  # fmt: skip


def _check(table: Table, categories: Mapping[str, Any]) -> None:
    """Refuse a table that has no usable inputs."""
    columns = table.columns
    if not (table.numeric or any(categories.values()) or columns.calendar or columns.target_lags):
        right = "name columns, or use target_lags or calendar"
        raise InputError("inputs", "are empty", right, table.header)
    for name in columns.lags_of:
        if name not in table.numeric:
            found = "has lags of its own, but is not a numeric input"
            right = "use lags of " + ", ".join(table.numeric)
            raise InputError(f"column {name!r}", found, right, table.header)
    if columns.calendar and not table.ticks.dates:
        found = f"is {list(columns.calendar)}, but time is a number"
        raise InputError("calendar", found, "leave it out, or give times as dates", table.header)


def _rows(table: Table, stop: int) -> Iterator[Array]:
    for k in range(len(table.clients)):
        for block, _ in table.read(k):
            here = block[table.ticks(block[:, 0]) < stop]
            if len(here):
                yield here
            if len(here) < len(block):
                break


def moments(values: Array) -> tuple[Array, Array, Array]:
    """Count, mean and sum of squared deviations of each column, without the missing ones."""
    known = ~np.isnan(values)
    count = known.sum(axis=0).astype(np.float64)
    mean = np.where(known, values, 0).sum(axis=0) / np.maximum(count, 1)
    square = np.where(known, np.square(np.where(known, values, 0) - mean), 0).sum(axis=0)
    return count, mean, square


def merge(a: Any, b: Any) -> tuple[Array, Array, Array]:
    """The moments of two sets from those of each (Chan, Golub and LeVeque)."""
    count = a[0] + b[0]
    delta, share = b[1] - a[1], b[0] / np.maximum(count, 1)
    return count, a[1] + delta * share, a[2] + b[2] + delta**2 * a[0] * share


def _scale(table: Table, name: str, count: float, mean: float, square: float) -> tuple[Any, Any]:
    """(centre, scale): of the given range, as if uniform in it, or of the warm-up."""
    if name in table.columns.ranges:
        low, high = table.columns.ranges[name]
        return (low + high) / 2, (high - low) / np.sqrt(12)
    if not count:
        right = "models learn from labels" if name == table.columns.target else "leave it out"
        right = f"give its range, or a longer warm-up; {right}"
        raise InputError(f"column {name!r}", "has no value in the warm-up", right, table.header)
    spread = float(np.sqrt(square / count))
    # A column that is constant in the warm-up has no scale of its own.
    return mean, spread if spread > 1e-12 * max(abs(mean), 1e-12) else max(abs(mean), 1.0)
