"""A table that was read once: every row is in the spool or counted among the dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.rows import cells, sources
from psofed.rows.cells import Batch, Clock, Codes
from psofed.rows.columns import Columns
from psofed.rows.spool import Spool

Array = NDArray[Any]
MOST_CLIENTS = 100_000
MOST_ROUNDS = 50_000_000
INTERVALS = 256  # of each client, from which the tick is guessed


@dataclass
class Drops:
    """Rows that are not used, by reason, and where the first of each kind stood."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, count: int, where: str = "") -> None:
        """So many more."""
        if count:
            self.counts[reason] += int(count)
            self.first.setdefault(reason, where)

    def lines(self) -> list[str]:
        """For people: one line for each reason."""
        return [
            f"{count} {reason}" + (f" (first: {self.first[reason]})" if self.first[reason] else "")
            for reason, count in self.counts.most_common()
        ]


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
    begin: Array  # [K] the first and the last time of each client
    end: Array
    tick: float
    calendar: bool  # whether time is in seconds since 1970
    latest: str = ""  # file and row of the last time of all
    first_value: dict[str, str] = field(default_factory=dict)  # file and row of each number's

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
        """Rounds from the first sample of anybody to the last."""
        return int(self.ticks(self.end).max()) + 1


def read(
    source: Any,
    columns: Columns,
    labelled: bool = True,
    kinds: dict[str, str] | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> Table:
    """Read a table once, from its first row to its last.

    `kinds` says which inputs are numbers and which are categories, where that is known already.
    """
    reader: _Reader | None = None
    for batch in sources.batches(source, columns, labelled):
        if reader is None:
            reader = _Reader(batch, columns, labelled, kinds)
        reader.take(batch)
        if on_rows is not None:
            on_rows(reader.rows)
    if reader is None:
        raise InputError("", "has no rows", "give a table with data", f"{source}: row 2")
    return reader.finish(str(source) if isinstance(source, str | Path) else "<frame>")


class _Reader:
    """What is remembered between two batches."""

    def __init__(
        self, batch: Batch, columns: Columns, labelled: bool, kinds: dict[str, str] | None
    ) -> None:
        self.columns = replace(columns, inputs=_inputs(batch, columns))
        self.absent, self.labelled = columns.absent, labelled
        self.numeric = tuple(n for n in self.columns.inputs if self._is_numeric(batch, n, kinds))
        self.codes = {n: Codes() for n in self.columns.inputs if n not in self.numeric}
        self.clock, self.names = Clock(columns.time), Codes(MOST_CLIENTS)
        self.spool = Spool(2 + len(self.columns.inputs))
        self.drops, self.rows = Drops(), 0
        self.latest = -np.inf, ""  # the last time of all, and where it stands
        self.first_value: dict[str, str] = {}
        self.begin: dict[int, float] = {}
        self.end: dict[int, float] = {}
        self.intervals: dict[int, list[float]] = {}

    def _is_numeric(self, batch: Batch, name: str, kinds: dict[str, str] | None) -> bool:
        if kinds is not None:
            return kinds[name] == "number"
        numeric = cells.looks_numeric(batch, name, self.absent)
        return name not in self.columns.categorical and numeric

    def take(self, batch: Batch) -> None:
        """Read one batch: convert it, drop what has no place, spool the rest by client."""
        self.rows += len(batch.rows)
        times = self.clock(batch, self.absent)
        who = self._clients(batch)
        target = self._target(batch)
        columns = [cells.numbers(batch, n, self.absent) for n in self.numeric]
        self._notice(batch, dict(zip(self.numeric, columns, strict=True)))
        self._notice(batch, {self.columns.target: target})
        columns += [codes(batch, n, self.absent) for n, codes in self.codes.items()]
        block = np.column_stack([times, target, *columns])
        self._count(batch, np.isnan(times), "without a time")
        self._count(batch, np.isnan(who) & ~np.isnan(times), "without a client")
        known = ~np.isnan(times) & ~np.isnan(who)
        for k in np.unique(who[known]).astype(int):
            here = np.flatnonzero(known & (who == k))
            self._spool(batch, int(k), block[here], here)

    def _clients(self, batch: Batch) -> Array:
        if batch.client is None:
            return self.names(batch, str(self.columns.client), self.absent)
        k = self.names.known.setdefault(batch.client, len(self.names.known))
        return np.full(len(batch.rows), float(k))

    def _target(self, batch: Batch) -> Array:
        if not self.labelled and self.columns.target not in batch.cells:
            return np.full(len(batch.rows), np.nan)
        return cells.numbers(batch, self.columns.target, self.absent)

    def _notice(self, batch: Batch, columns: dict[str, Array]) -> None:
        """Where each column has its first value."""
        for name, values in columns.items():
            if name not in self.first_value and not np.isnan(values).all():
                row = batch.rows[int(np.argmax(~np.isnan(values)))]
                self.first_value[name] = f"{batch.file}: row {row}"

    def _count(self, batch: Batch, wrong: Array, reason: str) -> None:
        if wrong.any():
            where = f"{batch.file}: row {batch.rows[int(np.argmax(wrong))]}"
            self.drops.add(reason, int(wrong.sum()), where)

    def _spool(self, batch: Batch, k: int, block: Array, here: Array) -> None:
        """Rows of one client whose time goes on; the others are counted."""
        times = block[:, 0]
        before = np.maximum.accumulate(np.concatenate([[self.end.get(k, -np.inf)], times]))[:-1]
        later = times > before
        if not later.all():
            for wrong, reason in ((times == before, "with a time that was there before"),
                                  (times < before, "whose time goes back")):  # fmt: skip
                rows = np.zeros(len(batch.rows), bool)
                rows[here[wrong]] = True
                self._count(batch, rows, reason)
            times, block, here = times[later], block[later], here[later]
        if not len(times):
            return
        if times[-1] > self.latest[0]:
            self.latest = float(times[-1]), f"{batch.file}: row {batch.rows[here[-1]]}"
        self._pace(k, times)
        self.begin.setdefault(k, float(times[0]))
        self.end[k] = float(times[-1])
        self.spool.add(k, block)

    def _pace(self, k: int, times: Array) -> None:
        known = self.intervals.setdefault(k, [])
        if len(known) < INTERVALS:
            last = self.end.get(k, times[0])
            steps = np.diff(np.concatenate([[last], times[:INTERVALS]]))
            known.extend(steps[steps > 0].tolist())

    def finish(self, name: str) -> Table:
        """The table, once its last row was read."""
        if not self.begin:
            reasons = ", ".join(self.drops.lines()) or "there are none"
            raise InputError("", f"has no usable rows: {reasons}", "mend them", f"{name}: row 2")
        # A client whose every row was dropped has no place in the federation.
        order = sorted(self.begin)
        names = list(self.names.known)
        spool = self.spool
        for chains in (spool.first, spool.last, spool.waiting, spool.held):
            kept = [chains.get(k) for k in order]
            chains.clear()
            chains.update({i: v for i, v in enumerate(kept) if v is not None})  # type: ignore[misc]
        table = Table(
            self.columns, self.numeric, self.codes, [names[k] for k in order], spool, self.drops,
            self.rows, np.array([self.begin[k] for k in order]),
            np.array([self.end[k] for k in order]), self._tick(), bool(self.clock.calendar),
            self.latest[1], self.first_value,
        )  # fmt: skip
        _check_rounds(table)
        return table

    def _tick(self) -> float:
        """As given, or the median interval of the fastest client."""
        if self.columns.tick is not None:
            return self.columns.tick
        medians = [float(np.median(steps)) for steps in self.intervals.values() if steps]
        return min(medians, default=1.0)


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
