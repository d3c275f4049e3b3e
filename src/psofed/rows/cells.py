"""Cells as numbers, categories and times. A cell that cannot be read is an error with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError

Array = NDArray[Any]
LARGEST = 1e30  # beyond it squares overflow; no sensor says so
LATEST = 1e15
MOST_CATEGORIES = 1000
PARTS = ("year", "month", "day", "hour", "minute", "second")


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of one file by column. `rows` are their numbers in the file; the header is 1."""

    file: str
    rows: Sequence[int]
    cells: Mapping[str, Sequence[Any]]
    client: str | None = None  # whose rows these are, if the place says so and no column

    def wrong(self, i: int, column: str, found: str, right: str) -> InputError:
        """An error that names file, row and column."""
        return InputError(
            f"column {show(column)}", found, right, f"{self.file}: row {self.rows[i]}"
        )


def show(cell: Any) -> str:
    """A cell as it may be printed anywhere."""
    text = ascii(cell)
    return text if len(text) < 40 else text[:36] + "..."


def is_missing(cell: Any, absent: frozenset[str]) -> bool:
    """Whether a cell says that there is no value: a known text, None or NaN."""
    if isinstance(cell, str):
        return cell in absent or cell.strip() in absent
    return bool(cell is None or cell != cell)


def numbers(batch: Batch, column: str, absent: frozenset[str]) -> Array:
    """A column as numbers, NaN where one is missing."""
    cells = batch.cells[column]
    try:
        values = np.array([np.nan if c in absent else float(c) for c in cells], np.float64)
    except (ValueError, TypeError, OverflowError):
        values = np.array([_number(batch, i, column, absent) for i in range(len(cells))])
    wrong = np.abs(values) > LARGEST
    if wrong.any():
        i = int(np.argmax(wrong))
        raise batch.wrong(i, column, f"is {show(cells[i])}", f"use numbers up to {LARGEST:g}")
    return values


def _number(batch: Batch, i: int, column: str, absent: frozenset[str]) -> float:
    cell = batch.cells[column][i]
    if is_missing(cell, absent):
        return float("nan")
    try:
        return float(cell)
    except (ValueError, TypeError, OverflowError):
        right = "mend it, leave it empty, or name the column as categorical if it is an input"
        raise batch.wrong(i, column, f"is {show(cell)}, not a number", right) from None


def looks_numeric(batch: Batch, column: str, absent: frozenset[str]) -> bool:
    """Whether most of the values that a column begins with are numbers."""
    known = [c for c in batch.cells[column] if not is_missing(c, absent)]
    return sum(map(_is_number, known)) * 2 >= len(known)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


@dataclass
class Codes:
    """Texts as numbers, in the order in which they were first seen."""

    most: int = MOST_CATEGORIES
    known: dict[str, int] = field(default_factory=dict)

    def __call__(self, batch: Batch, column: str, absent: frozenset[str]) -> Array:
        """A column as codes, NaN where a value is missing."""
        cells, known = batch.cells[column], self.known
        codes = np.empty(len(cells))
        for i, cell in enumerate(cells):
            code: float | None = known.get(cell) if isinstance(cell, str) else None
            if code is None:
                code = self._new(batch, i, column, absent)
            codes[i] = code
        return codes

    def _new(self, batch: Batch, i: int, column: str, absent: frozenset[str]) -> float:
        cell = batch.cells[column][i]
        if is_missing(cell, absent):
            return float("nan")
        text = str(cell).strip()
        if text in self.known:
            return self.known[text]
        if not text.isprintable():
            raise batch.wrong(i, column, f"is {show(cell)}", "use printable text in UTF-8")
        if len(self.known) >= self.most:
            found = f"has more than {self.most} different texts"
            raise batch.wrong(i, column, found, "leave the column out, or make it a number")
        return self.known.setdefault(text, len(self.known))


@dataclass
class Clock:
    """Reads the time from one column or several; remembers whether it is a calendar."""

    columns: tuple[str, ...]
    calendar: bool | None = None

    def __call__(self, batch: Batch, absent: frozenset[str]) -> Array:
        """Seconds since 1970 in UTC, or the numbers that stand there; NaN where time is missing."""
        cells: list[Any] = [batch.cells[c] for c in self.columns]
        if len(cells) == 1:
            return self._single(batch, cells[0], absent)
        self.calendar = True
        rows = list(zip(*cells, strict=True))
        try:  # the common case, and fast: whole numbers in every row
            return np.array([_date(map(int, row)) for row in rows])
        except (ValueError, TypeError, OverflowError):
            return np.array([self._joined(batch, i, row, absent) for i, row in enumerate(rows)])

    def _single(self, batch: Batch, cells: Sequence[Any], absent: frozenset[str]) -> Array:
        if self.calendar is None:
            known = [c for c in cells if not is_missing(c, absent)]
            self.calendar = not _is_number(known[0]) if known else None
        times = np.empty(len(cells))
        for i, cell in enumerate(cells):
            if is_missing(cell, absent):
                times[i] = np.nan
                continue
            try:
                times[i] = _moment(cell) if self.calendar else float(cell)
            except (ValueError, TypeError, OverflowError):
                times[i] = np.inf
            if not abs(times[i]) <= LATEST:
                wanted = "a time such as 2026-03-01T12:00" if self.calendar else "a number"
                raise batch.wrong(i, self.columns[0], f"is {show(cell)}", f"use {wanted}")
        return times

    def _joined(self, batch: Batch, i: int, row: tuple[Any, ...], absent: frozenset[str]) -> float:
        if any(is_missing(cell, absent) for cell in row):
            return float("nan")
        try:
            if all(map(_is_number, row)):
                return _date(_whole(row))
            return _moment(" ".join(str(cell).strip() for cell in row))
        except (ValueError, TypeError, OverflowError):
            right = f"use {', '.join(PARTS[: len(row)])}, or a date and a time"
            names = ",".join(self.columns)
            raise batch.wrong(i, names, f"is {show(' '.join(map(str, row)))}", right) from None


def _date(parts: Any) -> float:
    """Seconds since 1970 at year, month, day and so on, in UTC."""
    return datetime(*parts).replace(tzinfo=UTC).timestamp()


def _whole(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Year, month, day and so on; a year alone, or with a month, begins on its first day."""
    parts = [float(cell) for cell in row]
    if len(parts) > len(PARTS) or any(not p.is_integer() for p in parts):
        raise ValueError
    return tuple(map(int, parts + [1] * (3 - len(parts))))


def _moment(cell: Any) -> float:
    """Seconds since 1970; a time without a zone is taken as UTC, so that no hour is lost."""
    moment = cell if isinstance(cell, datetime) else datetime.fromisoformat(str(cell).strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
