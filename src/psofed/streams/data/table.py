"""A table that was read: its rows on disk, in time order for each client, and what became of all.

Every row is in the spool or is counted as dropped. Memory does not grow with the number of rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import Any
from weakref import finalize

import numpy as np

from psofed.core.native import Array
from psofed.streams.data.columns import Batch, Codes, Columns
from psofed.streams.data.ticks import Ticks

ROWS = 1024  # of one client, written at once
BUFFERED = 8_000_000  # numbers of all clients that wait to be written
SORTED = 2_000_000  # numbers of one client that are sorted at once
HEAD = 2  # numbers before a block: its rows, and where this client's next block begins


class Spool:
    """A chain of blocks per client in one temporary file."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.file: Any = TemporaryFile()  # noqa: SIM115  closed with the spool
        finalize(self, self.file.close)
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.waiting: dict[int, list[Array]] = {}
        self.held: dict[int, int] = {}
        self.total = self.end = 0

    def add(self, k: int, rows: Array) -> None:
        """More rows [count, width] of client k."""
        self.waiting.setdefault(k, []).append(rows)
        self.held[k] = self.held.get(k, 0) + len(rows)
        self.total += rows.size
        if self.held[k] >= ROWS:
            self._flush(k)
        elif self.total > BUFFERED:
            for each in list(self.waiting):
                self._flush(each)

    def _flush(self, k: int) -> None:
        rows = np.concatenate(self.waiting.pop(k))
        self.held[k] = 0
        self.total -= rows.size
        start = self.end
        self.file.seek(start)
        self.file.write(np.array([len(rows), -1], np.int64).tobytes())
        self.file.write(np.ascontiguousarray(rows, np.float64).tobytes())
        self.end = self.file.tell()
        if k in self.last:
            self.file.seek(self.last[k] + 8)
            self.file.write(np.int64(start).tobytes())
        self.first.setdefault(k, start)
        self.last[k] = start

    def read(self, k: int) -> Iterator[Array]:
        """All rows of client k, block by block. Several readers may take turns."""
        if self.waiting.get(k):
            self._flush(k)
        place = self.first.get(k, -1)
        while place >= 0:
            self.file.seek(place)
            count, place = np.frombuffer(self.file.read(8 * HEAD), np.int64).tolist()
            data = self.file.read(8 * count * self.width)
            yield np.frombuffer(data, np.float64).reshape(count, self.width)

    def sort(self, k: int, keep: Callable[[Iterator[Array]], Iterator[Array]]) -> None:
        """Put the rows of client k in the order of column 0; rows that are equal there stay so.

        External: runs that fit into memory are sorted and merged. `keep` picks from what is merged,
        in order, the rows to keep.
        """
        runs = Spool(self.width)
        count = 0
        for part in _joined(self.read(k), max(SORTED // self.width, ROWS)):
            part = part[np.argsort(part[:, 0], kind="stable")]
            for i in range(0, len(part), ROWS):  # the blocks in which it is read again
                runs.add(count, part[i : i + ROWS])
            count += 1
            del part  # before the next one is put together
        for chains in (self.first, self.last):
            chains.pop(k, None)
        for rows in keep(_merged([runs.read(i) for i in range(count)])):
            self.add(k, rows)
        runs.close()

    def close(self) -> None:
        """Close the file, which frees its disk space."""
        self.file.close()


def _joined(blocks: Iterable[Array], rows: int) -> Iterator[Array]:
    """Blocks put together until they have so many rows."""
    held: list[Array] = []
    for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= rows:
            held = [np.concatenate(held)]
            yield held.pop()  # nothing here keeps it any longer than its user
    if held:
        yield np.concatenate(held)


def _merged(runs: list[Iterator[Array]]) -> Iterator[Array]:
    """Sorted runs as one. Of rows with the same time, that of the earlier run comes first."""
    heads = [(next(run), run) for run in runs]
    while heads:
        # No run has anything up to here that is not in memory, but for further equal times.
        bound = min(head[-1, 0] for head, _ in heads)
        cuts = [int(np.searchsorted(head[:, 0], bound, side="right")) for head, _ in heads]
        rows = np.concatenate([head[:cut] for (head, _), cut in zip(heads, cuts, strict=True)])
        yield rows[np.argsort(rows[:, 0], kind="stable")]
        left = [
            (head[cut:] if cut < len(head) else next(run, head[:0]), run)
            for (head, run), cut in zip(heads, cuts, strict=True)
        ]
        heads = [(head, run) for head, run in left if len(head)]


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
        self.parts: list[tuple[str, range | Array]] = []  # file, and rows in it

    def add(self, batch: Batch) -> Array:
        """The numbers of the rows of a batch, which come next."""
        first, rows = self.count, batch.rows
        whole = range(rows[0], rows[-1] + 1)
        self.count += len(rows)
        self.firsts.append(first)
        kept = whole if len(whole) == len(rows) else np.asarray(rows, np.int64)
        self.parts.append((batch.file, kept))
        return np.arange(first, self.count, dtype=np.float64)

    def __call__(self, number: float) -> str:
        """File and row."""
        i = bisect_right(self.firsts, int(number)) - 1
        file, rows = self.parts[i]
        return f"{file}: row {rows[int(number) - self.firsts[i]]}"


@dataclass(frozen=True)
class ColumnReport:
    """A column: its role, why, and what its values are like.

    Roles: client, time, target, number, category, calendar, left out.
    """

    name: str
    role: str
    why: str = ""
    missing: float | None = None  # share of the rows
    low: float | None = None
    high: float | None = None
    values: int | None = None  # different texts

    def to_table(self) -> dict[str, Any]:
        """As plain values, without what is not known."""
        return {key: value for key, value in self.__dict__.items() if value not in (None, "")}


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
    ticks: Ticks  # the rounds of its times
    time_format: str  # of dates, as it was found; empty: numbers, or cells that are dates
    numbers: tuple[int, ...]  # the clients' numbers in the spool
    picked: list[int]  # the columns of the spool that are used
    latest: str = ""  # file and row of the last time of all
    findings: list[ColumnReport] = field(default_factory=list)  # what each column is taken for
    notes: list[str] = field(default_factory=list)  # how its files are written, markers

    def read(self, k: int) -> Iterator[tuple[Array, Array]]:
        """The rows of client k in time order, block by block, and their numbers in the table."""
        for block in self.spool.read(self.numbers[k]):
            yield block[:, self.picked], block[:, -1]

    @property
    def report(self) -> list[list[str]]:
        """What each column is taken for, as rows of text: column, role, missing, range, why."""
        rows = [["column", "taken as", "missing", "range", "why"]]
        for f in self.findings:
            gone = "" if f.missing is None else f"{100 * f.missing:.1f} %"
            span = "" if f.low is None or f.high is None else f"{f.low:g} to {f.high:g}"
            if f.values is not None:
                span = f"{f.values:,} {'value' if f.values == 1 else 'values'}"
            rows.append([f.name, f.role, gone, span, f.why])
        return rows

    @property
    def header(self) -> str:
        """File and row where the names of its columns stand."""
        return self.latest.rpartition(": row ")[0] + ": row 1"

    @property
    def rounds(self) -> int:
        """Rounds from the first sample of any client to the last."""
        return int(self.ticks(self.end).max()) + 1
