"""A table that was read once: every row is in the spool or is counted as dropped."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.data import cells, survey
from psofed.data.cells import Batch, Codes, Missing
from psofed.data.columns import Columns
from psofed.data.form import SINCE_1970, UNKNOWN, Form
from psofed.data.sources import RowSource
from psofed.data.spool import Spool
from psofed.data.survey import ColumnReport, Tally
from psofed.data.times import Clock
from psofed.errors import InputError

Array = NDArray[Any]
MOST_CLIENTS = 100_000
MOST_ROUNDS = 50_000_000
INTERVALS = 256  # of each client, from which the tick is guessed
NO_TIME, NO_CLIENT = "without a time", "without a client"
REPEATED = "that repeat an earlier row of the client"
SAME_TIME = "with the time of an earlier row of the client, but other values"


@dataclass
class Drops:
    """Rows that are not used, by reason, and the place of the first of each kind."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, count: int, where: str = "") -> None:
        """Count more rows for a reason."""
        if count:
            self.counts[reason] += int(count)
            self.first.setdefault(reason, where)

    @property
    def total(self) -> int:
        """Rows dropped for any reason."""
        return sum(self.counts.values())

    def lines(self) -> list[str]:
        """One line of text for each reason."""
        return [
            f"{count:,} {reason}"
            + (f" (first: {self.first[reason]})" if self.first[reason] else "")
            for reason, count in self.counts.most_common()
        ]


class Places:
    """From the number of a row, counted over all files, to file and row in it."""

    def __init__(self) -> None:
        self.count = 0
        self.firsts: list[int] = []  # numbers with which the parts below begin
        self.parts: list[tuple[str, int, Array | None]] = []  # file, first row, rows if with gaps

    def add(self, batch: Batch) -> Array:
        """The numbers of the rows of a batch, which come next."""
        first, rows = self.count, batch.rows
        self.count += len(rows)
        gaps = rows[-1] - rows[0] + 1 != len(rows)
        if gaps or not self._goes_on(first, batch.file, int(rows[0])):
            self.firsts.append(first)
            kept = np.asarray(rows, np.int64) if gaps else None
            self.parts.append((batch.file, int(rows[0]), kept))
        return np.arange(first, self.count, dtype=np.float64)

    def _goes_on(self, number: int, file: str, row: int) -> bool:
        """Whether this row comes next in the last part."""
        if not self.parts:
            return False
        same, begin, rows = self.parts[-1]
        return same == file and rows is None and row - begin == number - self.firsts[-1]

    def __call__(self, number: float) -> str:
        """File and row."""
        i = bisect_right(self.firsts, int(number)) - 1
        file, begin, rows = self.parts[i]
        offset = int(number) - self.firsts[i]
        return f"{file}: row {begin + offset if rows is None else rows[offset]}"


@dataclass(eq=False)
class Table:
    """The rows of each client in time order, as numbers: time, target, then the inputs."""

    columns: Columns  # with all inputs named
    numeric: tuple[str, ...]
    categories: dict[str, Codes]
    clients: list[str]
    spool: Spool
    drops: Drops
    rows: int  # read, dropped ones included
    places: Places
    begin: Array  # [K] the first and the last time of each client
    end: Array
    counts: Array  # [K] rows of each client that are kept
    tick: float
    calendar: bool  # whether time is in seconds since 1970
    time_format: str  # of dates, as it was found; empty: numbers, or cells that are dates
    numbers: tuple[int, ...]  # the clients' numbers in the spool
    picked: list[int]  # the columns of the spool that are used
    latest: str = ""  # file and row of the last time of all
    first_value: dict[str, str] = field(default_factory=dict)  # file and row of each number's
    findings: list[ColumnReport] = field(default_factory=list)  # what each column is taken for
    said: list[str] = field(default_factory=list)  # how its files are written, markers
    since: float = -np.inf  # older rows are passed over

    def read(self, k: int) -> Iterator[tuple[Array, Array]]:
        """The rows of client k in time order, block by block, and their numbers in the table."""
        for block in self.spool.read(self.numbers[k]):
            kept = block if self.since == -np.inf else block[block[:, 0] >= self.since]
            if len(kept):
                yield kept[:, self.picked], kept[:, -1]

    def part(self, clients: list[int], since: float = -np.inf) -> Table:
        """Some of the clients, and of their rows those from a time on, though all are counted."""
        some = np.array(clients, np.intp)
        others = int(self.counts.sum() - self.counts[some].sum())
        return replace(
            self, clients=[self.clients[k] for k in clients], since=since, rows=self.rows - others,
            numbers=tuple(self.numbers[k] for k in clients), counts=self.counts[some],
            begin=np.maximum(self.begin[some], since), end=self.end[some],
        )  # fmt: skip

    @property
    def header(self) -> str:
        """File and row where the names of its columns stand."""
        return self.latest.rpartition(": row ")[0] + ": row 1"

    @property
    def start(self) -> float:
        """The time of round 0."""
        return float(self.begin.min())

    def ticks(self, times: Array, start: float | None = None) -> Array:
        """The rounds of these times: the nearest tick."""
        origin = self.start if start is None else start
        return np.rint((times - origin) / self.tick).astype(np.int64)

    @property
    def rounds(self) -> int:
        """Rounds from the first sample of any client to the last."""
        return int(self.ticks(self.end).max()) + 1


def read(
    source: Any,
    columns: Columns,
    labelled: bool = True,
    kinds: dict[str, str] | None = None,
    on_rows: Callable[[int], None] | None = None,
    form: Form = UNKNOWN,
    hint: str = "",
) -> Table:
    """Read a table once, in whatever order its rows are; they are sorted by client and time.

    `kinds` says which inputs are numbers and which are categories, where that is known already, and
    `hint` the format of dates that is taken where several fit.
    """
    reader: _Reader | None = None
    files = RowSource(source, columns, form)
    for batch in files.batches(labelled):
        if reader is None:
            reader = _Reader(batch, columns, labelled, kinds, form, hint)
        reader.take(batch)
        if on_rows is not None:
            on_rows(reader.places.count)
    if reader is None:
        raise InputError("", "has no rows", "give a table with data", f"{files.name}: row 2")
    table = reader.finish(files)
    assert table.rows == table.drops.total + int(table.counts.sum()), "rows were lost"
    return table


class _Reader:
    """What is remembered between two batches."""

    def __init__(
        self, batch: Batch, columns: Columns, labelled: bool, kinds: dict[str, str] | None,
        form: Form, hint: str,
    ) -> None:  # fmt: skip
        self.given, self.known = columns, kinds is not None
        self.columns = replace(columns, inputs=_inputs(batch, columns))
        self.missing, self.labelled = Missing(columns.markers), labelled
        self.numeric = tuple(n for n in self.columns.inputs if self._is_numeric(batch, n, kinds))
        self.codes = {n: Codes() for n in self.columns.inputs if n not in self.numeric}
        self.clock = Clock(columns.time, None, form.time_format, form.day_first, hint)
        self.names = Codes(MOST_CLIENTS)
        self.width = 3 + len(self.columns.inputs)  # time, target, inputs, number of the row
        self.spool, self.drops, self.places = Spool(self.width), Drops(), Places()
        self.tally = Tally((columns.target, *self.numeric, *self.codes), batch)
        self.latest = -np.inf, 0.0  # the last time of all, and its row
        self.first_value: dict[str, str] = {}
        self.begin: dict[int, float] = {}
        self.end: dict[int, float] = {}
        self.counts: Counter[int] = Counter()
        self.mixed: set[int] = set()  # clients whose rows have to be sorted

    def _is_numeric(self, batch: Batch, name: str, kinds: dict[str, str] | None) -> bool:
        if kinds is not None:
            return kinds[name] == "number"
        if name in self.columns.categorical:
            return False
        return cells.looks_numeric(batch, name, self.missing)

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
        self._notice(block[known])
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
        named = self.known or name in (*self.given.inputs, *self.given.categorical)
        return codes(batch, name, self.missing, strict=named)

    def _notice(self, block: Array) -> None:
        """Where each column has its first value, and its range."""
        names = (self.columns.target, *self.numeric)
        for j, name in enumerate(names, 1):
            if name not in self.first_value and not np.isnan(block[:, j]).all():
                row = block[int(np.argmax(~np.isnan(block[:, j]))), -1]
                self.first_value[name] = self.places(row)
        self.tally.add(block[:, 1:-1])

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
            settled = _Settled(self.places, self.drops)
            self.spool.sort(k, settled)
            self.counts[k] -= settled.dropped
        names = list(self.names.known)
        # By name, so that the order of the rows says nothing; who has no rows is not a client.
        order = sorted(self.begin, key=lambda k: _natural(names[k]))
        table = Table(
            self.columns, self.numeric, self.codes, [names[k] for k in order], self.spool,
            self.drops, self.places.count, self.places, np.array([self.begin[k] for k in order]),
            np.array([self.end[k] for k in order]), np.array([self.counts[k] for k in order]),
            self._tick(order), bool(self.clock.calendar), self.clock.format or "", tuple(order),
            list(range(self.width - 1)), self.places(self.latest[1]), self.first_value,
        )  # fmt: skip
        _check_rounds(table)
        table.said = [*files.said, *self._said()]
        survey.judge(table, self.tally, self.given, fixed=self.known)
        return table

    def _said(self) -> list[str]:
        """How times are written, and what the markers matched."""
        form = self.clock.format
        found = [] if self.clock.plain else [f"times read as {form}"]
        found = [f"{found[0]} since 1970"] if form in SINCE_1970 else found
        for marker in self.missing.markers:
            count = self.missing.found[marker]
            found.append(f"marker {marker} matched {count:,} cells" if count else
                         f"WARNING: marker {marker} matched no cell")  # fmt: skip
        return found

    def _tick(self, order: list[int]) -> float:
        """As given, or the median interval of the fastest client."""
        if self.columns.tick is not None:
            return self.columns.tick
        medians = []
        for k in order:
            times = np.empty(0)
            for block in self.spool.read(k):
                times = np.concatenate([times, block[: INTERVALS + 1, 0]])
                if len(times) > INTERVALS:
                    break
            if len(times) > 1:
                medians.append(float(np.median(np.diff(times[: INTERVALS + 1]))))
        return min(medians, default=1.0)


@dataclass
class _Settled:
    """Of sorted rows, the first of each time; the others are counted."""

    places: Places
    drops: Drops
    last: Array | None = None
    dropped: int = 0

    def __call__(self, rows: Array) -> Array:
        before = rows[:1] - 1 if self.last is None else self.last
        whole = np.concatenate([before, rows])
        fresh = np.diff(whole[:, 0]) > 0
        kept = np.maximum.accumulate(np.where(fresh, np.arange(1, len(whole)), 0))
        late = np.flatnonzero(~fresh)
        same = _same(whole[late + 1, 1:-1], whole[kept[late], 1:-1])
        for which, reason in ((late[same], REPEATED), (late[~same], SAME_TIME)):
            if len(which):
                self.drops.add(reason, len(which), self.places(rows[which, -1].min()))
        self.dropped += len(late)
        self.last = whole[kept[-1:]]
        return rows[fresh]


def _same(a: Array, b: Array) -> Array:
    return np.asarray(((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=1))


def _natural(name: str) -> list[Any]:
    """For sorting: n2 before n10.

    >>> sorted(["n10", "n2", "7"], key=_natural)
    ['7', 'n2', 'n10']
    """
    parts = re.split(r"([0-9]+)", name)
    return [(int(p), "") if i % 2 else (-1, p) for i, p in enumerate(parts)] + [(-2, name)]


def _check_rounds(table: Table) -> None:
    span = (float(table.end.max()) - table.start) / table.tick
    if not span < MOST_ROUNDS:
        found = f"is {span:.3g} ticks of {table.tick:g} after the first"
        right = "look for a wrong time, or give a longer tick"
        raise InputError(f"column {','.join(table.columns.time)!r}", found, right, table.latest)


def _inputs(batch: Batch, columns: Columns) -> tuple[str, ...]:
    """The inputs: as named, or every column that has no other role."""
    if columns.inputs:
        return columns.inputs
    taken = {columns.target, columns.client, *columns.time, *columns.drop}
    return tuple(name for name in batch.cells if name not in taken)
