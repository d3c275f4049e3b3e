"""Reading a table once: every cell becomes a number, every column gets its role."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.streams.data import columns as cells
from psofed.streams.data.columns import Batch, Codes, Columns, Missing
from psofed.streams.data.sources import RowSource
from psofed.streams.data.table import ColumnReport, Drops, Places, Spool, Table
from psofed.streams.data.textfile import UNKNOWN, Form
from psofed.streams.data.ticks import INTERVALS, Ticks, guess
from psofed.streams.data.times import ISO, Clock, as_written

MOST_CLIENTS = 100_000
MOST_ROUNDS = 50_000_000
NO_TIME, NO_CLIENT = "without a time", "without a client"
REPEATED = "that repeat an earlier row of the client"
SAME_TIME = "with the time of an earlier row of the client, but other values"
MANY = 0.5  # of the rows: a text with so many values tells rows apart, and nothing else
FEWEST = 20  # rows and values below which no such guess is made
OUT = "left out"
OFTEN = 3  # times that an extreme comes before it is doubted
FAR, NEAR = 3.0, 0.2  # from the others, in terms of their range; near is enough for nines
NINES = re.compile(r"-?(9{2,}(\.9+)?|9\.9+|32767|32768|65535)")


def read(
    source: Any,
    columns: Columns,
    labelled: bool = True,
    numeric: tuple[str, ...] | None = None,
    on_rows: Callable[[int], None] | None = None,
    form: Form = UNKNOWN,
    hint: str = "",
) -> Table:
    """Read a table once, in whatever order its rows are; they are sorted by client and time.

    `numeric` says which inputs are numbers, where the inputs are known already, and `hint` the
    format of dates that is taken where several fit.
    """
    reader: _Reader | None = None
    files = RowSource(source, columns, form)
    for batch in files.batches(labelled):
        if reader is None:
            reader = _Reader(batch, columns, labelled, numeric, form, hint)
        reader.take(batch)
        if on_rows is not None:
            on_rows(reader.places.count)
    if reader is None:
        raise InputError("", "has no rows", "give a table with data", f"{files.name}: row 2")
    return reader.finish(files)


class _Reader:
    """What is remembered between two batches."""

    def __init__(
        self, batch: Batch, columns: Columns, labelled: bool, numeric: tuple[str, ...] | None,
        form: Form, hint: str,
    ) -> None:  # fmt: skip
        self.given, self.known = columns, numeric is not None
        self.decimal = batch.decimal
        self.missing, self.labelled = Missing(columns.markers), labelled
        self.columns = columns
        if numeric is None:
            self.columns = replace(columns, inputs=_inputs(batch, columns))
            numbers = (n for n in self.columns.inputs if n not in columns.categorical)
            numeric = tuple(n for n in numbers if cells.looks_numeric(batch, n, self.missing))
        self.numeric = numeric
        self.codes = {n: Codes() for n in self.columns.inputs if n not in self.numeric}
        self.clock = Clock(columns.time, None, form.time_format, hint)
        self.names = Codes(MOST_CLIENTS)
        self.width = 3 + len(self.columns.inputs)  # time, target, inputs, number of the row
        self.spool, self.drops, self.places = Spool(self.width), Drops(), Places()
        self.tally = _Tally((columns.target, *self.numeric, *self.codes), batch)
        self.latest = -np.inf, 0.0  # the last time of all, and its row
        self.begin: dict[int, float] = {}
        self.end: dict[int, float] = {}
        self.counts: Counter[int] = Counter()
        self.mixed: set[int] = set()  # clients whose rows have to be sorted

    def take(self, batch: Batch) -> None:
        """Read one batch: convert it, drop rows without time or client, spool the others."""
        numbers = self.places.add(batch)
        times = self.clock(batch, self.missing)
        who = self._clients(batch)
        target = self._target(batch)
        columns = [cells.numbers(batch, n, self.missing) for n in self.numeric]
        columns += [self._codes(batch, n, codes) for n, codes in self.codes.items()]
        block = np.column_stack([times, target, *columns, numbers])
        self._count(block, np.isnan(times), NO_TIME)
        self._count(block, np.isnan(who) & ~np.isnan(times), NO_CLIENT)
        known = ~np.isnan(times) & ~np.isnan(who)
        self.tally.add(block[known, 1:-1])
        for k in np.unique(who[known]).astype(int):
            self._spool(int(k), block[known & (who == k)])

    def _clients(self, batch: Batch) -> Array:
        if batch.client is None:
            return self.names(batch, str(self.columns.client), self.missing)
        k = self.names.known.setdefault(batch.client, len(self.names.known))
        return np.full(len(batch.rows), float(k))

    def _target(self, batch: Batch) -> Array:
        if not self.labelled and self.columns.target not in batch.cells:
            return np.full(len(batch.rows), np.nan)
        return cells.numbers(batch, self.columns.target, self.missing)

    def _codes(self, batch: Batch, name: str, codes: Codes) -> Array:
        """A text that nobody named as an input may have too many values: it is then left out."""
        given = self.given
        used = (*given.inputs, *given.categorical, *given.missing, *given.lags_of, *given.ranges)
        named = self.known or name in used
        return codes(batch, name, self.missing, strict=named)

    def _count(self, block: Array, wrong: Array, reason: str) -> None:
        if wrong.any():
            where = self.places(block[int(np.argmax(wrong)), -1])
            self.drops.add(reason, int(wrong.sum()), where)

    def _spool(self, k: int, block: Array) -> None:
        """Rows of one client, in the order of the file; whether they have to be sorted."""
        times = block[:, 0]
        end = self.end.get(k, -np.inf)
        if not (times[0] > end and (np.diff(times) > 0).all()):
            self.mixed.add(k)
        last = int(np.argmax(times))
        if times[last] > self.latest[0]:
            self.latest = float(times[last]), float(block[last, -1])
        self.begin[k] = min(self.begin.get(k, np.inf), float(times.min()))
        self.end[k] = max(end, float(times[last]))
        self.counts[k] += len(block)
        self.spool.add(k, block)

    def finish(self, files: RowSource) -> Table:
        """The table, once its last row was read: sorted, with the tick and the report."""
        if not self.begin:
            reasons = ", ".join(self.drops.lines()) or "there are none"
            where = f"{files.name}: row 2"
            raise InputError("", f"has no usable rows: {reasons}", "correct them", where)
        for k in sorted(self.mixed):
            self.spool.sort(k, partial(self._settled, k))
        names = list(self.names.known)
        # By name, so that the order of the rows says nothing; without rows it is not a client.
        order = sorted(self.begin, key=lambda k: _natural(names[k]))
        table = Table(
            self.columns, self.numeric, self.codes, [names[k] for k in order], self.spool,
            self.drops, self.places.count, self.places, np.array([self.begin[k] for k in order]),
            np.array([self.end[k] for k in order]), np.array([self.counts[k] for k in order]),
            self._ticks(order), self.clock.format or "", tuple(order),
            list(range(self.width - 1)), self.places(self.latest[1]),
        )  # fmt: skip
        if not table.rounds < MOST_ROUNDS:
            found = f"is {table.rounds:.3g} ticks of {table.ticks} after the first"
            right = "look for a wrong time, or give a longer tick"
            raise InputError(f"column {','.join(table.columns.time)!r}", found, right, table.latest)
        if not self.known:
            self._check_texts(files.name)
        table.notes = [*files.notes, *self._notes()]
        _judge(table, self.tally, self.given, fixed=self.known)
        return table

    def _settled(self, k: int, parts: Iterator[Array]) -> Iterator[Array]:
        """Of the sorted rows of client k, the first of each time; the others are counted."""
        last: Array | None = None
        for rows in parts:
            whole = np.concatenate([rows[:1] - 1 if last is None else last, rows])
            fresh = np.diff(whole[:, 0]) > 0
            kept = np.maximum.accumulate(np.where(fresh, np.arange(1, len(whole)), 0))
            late = np.flatnonzero(~fresh)
            same = _same(whole[late + 1, 1:-1], whole[kept[late], 1:-1])
            for which, reason in ((late[same], REPEATED), (late[~same], SAME_TIME)):
                if len(which):
                    self.drops.add(reason, len(which), self.places(rows[which, -1].min()))
            self.counts[k] -= len(late)
            last = whole[kept[-1:]]
            yield rows[fresh]

    def _check_texts(self, file: str) -> None:
        """Refuse numbers that were taken for categories since they begin with other texts."""
        for name, codes in self.codes.items():
            texts = [text for text in codes.known if not cells.is_number(text, self.decimal)]
            numbers = len(codes.known) - len(texts)
            if name in self.given.categorical or numbers < FEWEST or numbers < len(texts):
                continue
            some = ",".join(texts[:3])
            found = f"begins with texts such as {some}, but has {numbers:,} different numbers"
            right = (
                f"give --set markers={some} if they mean missing, or --set categorical={name}"
                f" if the numbers are names, or --set drop={name}"
            )
            raise InputError(f"column {name!r}", found, right, file)

    def _notes(self) -> list[str]:
        """How times are written, and what the markers matched."""
        form = self.clock.format
        found = [] if form in (None, ISO) else [f"times read as {as_written(form)}"]
        for marker in self.missing.markers:
            count = self.missing.found[marker]
            found.append(f"marker {marker} matched {count:,} cells" if count else
                         f"WARNING: marker {marker} matched no cell")  # fmt: skip
        return found if self.known else found + self.tally.doubts(self.numeric, self.given)

    def _ticks(self, order: list[int]) -> Ticks:
        """As given, or guessed; round 0 is that of the first row."""
        columns, dates, start = self.columns, bool(self.clock.calendar), min(self.begin.values())
        unit = columns.tick_unit or ""
        if columns.tick is not None or (unit and dates):
            return Ticks(columns.tick or 1.0, unit, dates, start)
        found = guess(map(self._first_times, order), dates, start)
        return replace(found, unit=found.unit or unit)

    def _first_times(self, k: int) -> Array:
        times = np.empty(0)
        for block in self.spool.read(k):
            times = np.concatenate([times, block[: INTERVALS + 1, 0]])
            if len(times) > INTERVALS:
                break
        return times[: INTERVALS + 1]


def _same(a: Array, b: Array) -> Array:
    return np.asarray(((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=1))


def _natural(name: str) -> list[Any]:
    """For sorting: n2 before n10."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(p), "") if i % 2 else (-1, p) for i, p in enumerate(parts)] + [(-2, name)]


def _inputs(batch: Batch, columns: Columns) -> tuple[str, ...]:
    """The inputs: as named, or every column that has no other role."""
    if columns.inputs:
        return columns.inputs
    taken = {columns.target, columns.client, *columns.time, *columns.drop}
    return tuple(name for name in batch.cells if name not in taken)


class _Tally:
    """Counts and ranges of the columns, while they are read."""

    def __init__(self, names: tuple[str, ...], batch: Batch) -> None:
        self.names, self.all, self.unnamed = names, list(batch.cells), batch.unnamed
        self.rows = 0
        self.known = np.zeros(len(names), np.int64)
        # Of the values, and of the negative values: the least, how often it comes, and the next.
        self.least, self.next = np.full((2, 2, len(names)), np.inf)
        self.times = np.zeros((2, len(names)), np.int64)
        self.whole = np.ones(len(names), bool)  # whether all are whole numbers

    @property
    def low(self) -> Array:
        """The least values."""
        return self.least[0]

    @property
    def high(self) -> Array:
        """The largest ones."""
        return np.asarray(-self.least[1])

    def add(self, values: Array) -> None:
        """More rows of these columns."""
        columns = np.ascontiguousarray(values.T)
        here = ~np.isnan(columns)
        self.rows += len(values)
        self.known += here.sum(axis=1)
        self.whole &= (~here | (columns == np.rint(columns))).all(axis=1)
        for side, better in enumerate((np.fmin, np.fmax)):
            sign = 1 - 2 * side
            end = better.reduce(columns, axis=1, initial=sign * np.inf)
            times = (columns == end[:, None]).sum(axis=1)
            others = columns > end[:, None] if side == 0 else columns < end[:, None]
            rest = better.reduce(columns, axis=1, initial=sign * np.inf, where=others)
            both = np.stack([self.least[side], sign * end])
            ends = np.stack([*both, self.next[side], sign * rest])
            self.least[side] = both.min(axis=0)
            counts = np.stack([self.times[side], times])
            self.times[side] = np.where(both == self.least[side], counts, 0).sum(axis=0)
            self.next[side] = np.where(ends > self.least[side], ends, np.inf).min(axis=0)

    def doubts(self, numeric: tuple[str, ...], given: Columns) -> list[str]:
        """Extremes that are repeated and far from all other values: they may mean "missing"."""
        found = []
        several = np.isfinite(self.next) & (self.times >= OFTEN)
        for side, j in np.argwhere(several).tolist():
            times, gap = int(self.times[side, j]), self.next[side, j] - self.least[side, j]
            rest = -self.least[1 - side, j] - self.next[side, j]  # how far the others are apart
            value = f"{self.least[side, j] * (1, -1)[side]:.12g}"
            far = gap > FAR * rest or (NINES.fullmatch(value) and gap > NEAR * rest)
            named = self.names[j] in (given.target, *numeric)
            if named and rest > 0 and far:
                found.append((self.names[j], value, times))
        markers = ",".join(dict.fromkeys([*given.markers, *(value for _, value, _ in found)]))
        return [
            f"WARNING: {name!r} is {value} in {times:,} rows, far from its other values: if that"
            f" means missing, give --set markers={markers}"
            for name, value, times in found
        ]

    def finding(self, name: str, role: str, why: str, values: int | None = None) -> ColumnReport:
        """What is known of a column that was read."""
        j = self.names.index(name)
        missing = 1 - float(self.known[j]) / max(self.rows, 1)
        if values is not None or not self.known[j]:
            return ColumnReport(name, role, why, missing, values=values)
        return ColumnReport(name, role, why, missing, float(self.low[j]), float(self.high[j]))


def _judge(table: Table, tally: _Tally, given: Columns, fixed: bool) -> None:
    """Leave out columns that cannot help, unless they were named; note what each column is.

    With `fixed` inputs (those of a saved model) nothing is left out.
    """
    free = not fixed and not given.inputs
    why = {name: _useless(table, tally, name) for name in table.columns.inputs} if free else {}
    named = {*given.categorical, *given.lags_of, *given.ranges, *given.missing}
    out = {name: reason for name, reason in why.items() if reason and name not in named}
    table.findings = _findings(table, tally, given, out)
    order = (*table.numeric, *table.categories)
    table.picked = [0, 1, *(2 + j for j, name in enumerate(order) if name not in out)]
    table.numeric = tuple(name for name in table.numeric if name not in out)
    table.categories = {n: codes for n, codes in table.categories.items() if n not in out}
    kept = tuple(name for name in table.columns.inputs if name not in out)
    table.columns = replace(table.columns, inputs=kept)


def _useless(table: Table, tally: _Tally, name: str) -> str:
    """Why a column that nobody named is no input; empty if it is one."""
    if name in tally.unnamed:
        return "the file gives it no name"
    j = tally.names.index(name)
    if not tally.known[j]:
        return "it has no value"
    if name in table.categories:
        return _useless_text(table, name, int(tally.known[j]))
    if tally.low[j] == tally.high[j] and tally.known[j] == tally.rows:
        return f"it is always {tally.low[j]:g}"
    if tally.whole[j] and tally.known[j] == tally.rows and _is_running(table, name):
        return "a running number, which --inputs with it would keep"
    return ""


def _useless_text(table: Table, name: str, known: int) -> str:
    codes = table.categories[name]
    count = len(codes.known)
    if codes.full:
        return f"it has more than {codes.most:,} different texts"
    if count > FEWEST and count > MANY * known:
        return f"it has {count:,} different texts in {known:,} rows"
    if count == 1 and known == int(table.counts.sum()):
        return f"it is always {next(iter(codes.known))!r}"
    if count == len(table.clients) > 1 and _names_clients(table, name):
        return "it is another name of the client"
    return ""


def _is_running(table: Table, name: str) -> bool:
    """Whether a column grows with every row of every client."""
    j = 2 + table.numeric.index(name)
    if int(table.counts.max()) < FEWEST:
        return False
    for k in range(len(table.clients)):
        last = -np.inf
        for rows, _ in table.read(k):
            if not (rows[0, j] > last and (np.diff(rows[:, j]) > 0).all()):
                return False
            last = rows[-1, j]
    return True


def _names_clients(table: Table, name: str) -> bool:
    """Whether each client has one text, and each text one client."""
    j = 2 + [*table.numeric, *table.categories].index(name)
    seen = set()
    for k in range(len(table.clients)):
        own: set[float] = set()
        for rows, _ in table.read(k):
            own.update(np.unique(rows[:, j]).tolist())
            if len(own) > 1:
                return False
        seen |= own
    return len(seen) == len(table.clients)


def _findings(
    table: Table, tally: _Tally, given: Columns, out: dict[str, str]
) -> list[ColumnReport]:
    """In the order of the file, then what is made from them."""
    found = []
    for name in tally.all:
        if name == given.client:
            found.append(ColumnReport(name, "client", values=len(table.clients)))
        elif name in given.time:
            form = table.time_format or ("dates" if table.ticks.dates else "numbers")
            found.append(ColumnReport(name, "time", form))
        elif name == given.target:
            found.append(tally.finding(name, "target", ""))
        elif name in tally.names:
            texts = len(table.categories[name].known) if name in table.categories else None
            role = OUT if name in out else "number" if texts is None else "category"
            why = out.get(name) or _lags(given, name, role)
            found.append(tally.finding(name, role, why, texts))
        else:
            why = "named in drop" if name in given.drop else "not among the named inputs"
            found.append(ColumnReport(name, OUT, why))
    found += [
        ColumnReport(name, "calendar", "sine and cosine of the time") for name in given.calendar
    ]
    if given.target_lags:
        lags = ", ".join(map(str, given.target_lags))
        found.append(ColumnReport(given.target, "lag", f"the target {lags} ticks ago"))
    return found


def _lags(given: Columns, name: str, role: str) -> str:
    lags = given.lags_for(name) if role == "number" else ()
    return f"also {', '.join(map(str, lags))} ticks ago" if lags else ""
