"""Cells as numbers and categories. A cell that cannot be read is an error with its place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import native
from psofed.data.text_columns import TextColumn
from psofed.errors import InputError

Array = NDArray[Any]
LARGEST = 1e30  # squares of larger values overflow; no sensor has them
MOST_CATEGORIES = 1000
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT")
_DIGITS = r"[+-]?\d+([ '\u2019\u00a0\u202f]\d+)*([.,]\d*)?"
_MONEY = r"$\u20ac\u00a3\u00a5"
DRESSED = re.compile(  # percent, money, bounds, gaps in long numbers, (5) for -5, 21.5 C
    rf"[<>~\u2264\u2265{_MONEY}]? ?{_DIGITS} ?[%\u2030\u00b0{_MONEY}]?|\({_DIGITS}\)|"
    r"[+-]?\d+[.,]\d+ [^\W\d]{1,5}"
)
GROUPED = {  # digits in groups of three, as offices write them
    ".": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?"),
    ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?"),
}


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of one file by column. `rows` are their numbers in the file; the header is 1.

    Cells are texts, in a tuple or a `TextColumn`, or a NumPy array where the file has numbers or
    dates.
    """

    file: str
    rows: Sequence[int]
    cells: Mapping[str, Any]
    client: str | None = None  # whose rows these are, if the file tells it and not a column
    decimal: str = "."
    unnamed: frozenset[str] = frozenset()  # columns to which the file gives no name

    def wrong(self, i: int, column: str, found: str, right: str) -> InputError:
        """An error that names file, row and column."""
        return InputError(
            f"column {show(column)}", found, right, f"{self.file}: row {self.rows[i]}"
        )


def show(cell: Any) -> str:
    """A cell in a form that is safe to print."""
    text = ascii(cell)
    return text if len(text) < 40 else text[:36] + "..."


class Missing:
    """What means "no value": known texts and markers. A marker that is a number means its value.

    >>> missing = Missing(["-999"])
    >>> missing.has("-999.0"), missing.has(""), missing.has("-99"), missing.found["-999"]
    (True, True, False, 1)
    """

    def __init__(self, markers: Iterable[str] = ()) -> None:
        self.markers = tuple(markers)
        self.values = {number(m): m for m in self.markers if is_number(m)}
        self.texts = frozenset((*MISSING, *self.markers))
        self.found: Counter[str] = Counter()  # cells that each marker matched

    def has(self, cell: Any) -> bool:
        """Whether a cell has no value."""
        if isinstance(cell, str):
            text = cell.strip()
            marker = text if text in self.markers else None
            if marker is None and self.values and is_number(text):
                marker = self.values.get(number(text))
            if marker is not None:
                self.found[marker] += 1
            return marker is not None or text in self.texts
        if cell is None or str(cell) in ("<NA>", "NaT", "nan"):
            return True
        return is_number(cell) and self._marked(float(cell))

    def _marked(self, value: float) -> bool:
        marker = self.values.get(value)
        if marker is not None:
            self.found[marker] += 1
        return marker is not None

    def cut(self, values: Array) -> Array:
        """Numbers with NaN for each that a marker means."""
        for value, marker in self.values.items():
            hit = values == value
            count = int(hit.sum())
            if count:
                self.found[marker] += count
                values[hit] = np.nan
        return values


def numbers(batch: Batch, column: str, missing: Missing) -> Array:
    """A column as numbers, NaN where one is missing."""
    cells = batch.cells[column]
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiu":
        values = cells.astype(np.float64)
    else:
        values = _read(batch, column, cells, missing)
    values = missing.cut(values)
    wrong = np.abs(values) > LARGEST
    if wrong.any():
        i = int(np.argmax(wrong))
        raise batch.wrong(i, column, f"is {show(cells[i])}", f"use numbers up to {LARGEST:g}")
    return values


def _read(batch: Batch, column: str, cells: Any, missing: Missing) -> Array:
    texts = missing.texts - frozenset(missing.markers)
    values, odd = _plain(cells, batch.decimal)
    rest = [cells[i] for i in odd.tolist()]
    try:
        if "_" in "".join(map(str, rest)):
            raise ValueError
        if batch.decimal == ".":
            values[odd] = [np.nan if c in texts else float(c) for c in rest]
            return values
        if not any("." in c for c in rest):
            values[odd] = [np.nan if c in texts else float(c.replace(",", ".")) for c in rest]
            return values
    except (ValueError, TypeError, OverflowError):
        pass
    values[odd] = [_number(batch, i, column, missing) for i in odd.tolist()]
    return values


def _plain(cells: Any, decimal: str) -> tuple[Array, Array]:
    """The numbers of plain cells, read by compiled code if there is any; where the others are."""
    values, odd = np.empty(len(cells)), np.arange(len(cells))
    if not (native.available() and isinstance(cells, tuple | TextColumn) and len(cells)):
        return values, odd
    try:
        joined = cells.text if isinstance(cells, TextColumn) else "\n".join(cells)
    except TypeError:  # there are other things than texts among them
        return values, odd
    text = joined.encode("ascii", "replace")
    data = np.frombuffer(text, np.uint8)
    count = native.function("cells")(data, len(text), ord(decimal), len(cells), values, odd)
    return (values, np.arange(len(cells))) if count < 0 else (values, odd[:count])


def _number(batch: Batch, i: int, column: str, missing: Missing) -> float:
    cell = batch.cells[column][i]
    try:
        return number(cell, batch.decimal)
    except (ValueError, TypeError, OverflowError):
        if missing.has(cell):
            return float("nan")
    right = "correct it, leave it empty, or name the column as categorical if it is an input"
    raise batch.wrong(i, column, f"is {show(cell)}, not a number", right)


def number(cell: Any, decimal: str = ".") -> float:
    """A cell as a number, with this decimal sign; digits may be grouped by the other one.

    >>> number("1.234,5", ","), number("1,234.5"), number(" 7 ")
    (1234.5, 1234.5, 7.0)
    """
    if isinstance(cell, bool | np.bool_):
        raise TypeError("a truth value is not a number")
    if not isinstance(cell, str):
        return float(cell)
    text = cell.strip().replace("\u2212", "-")  # a minus sign, as typesetters write it
    other = "," if decimal == "." else "."
    if "_" in text:  # which Python allows between digits, and no table means
        raise ValueError(text)
    if other in text:
        if not GROUPED[decimal].fullmatch(text):
            raise ValueError(text)
        text = text.replace(other, "")
    return float(text.replace(decimal, "."))


def is_number(cell: Any, decimal: str = ".") -> bool:
    """Whether a cell is one."""
    try:
        number(cell, decimal)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def looks_numeric(batch: Batch, column: str, missing: Missing) -> bool:
    """Whether most of the first values of a column are numbers.

    Numbers that are dressed up, as 5 % and $ 3, are refused: as categories they would mean nothing.
    """
    cells = batch.cells[column]
    if isinstance(cells, np.ndarray):
        return cells.dtype.kind in "fiu"
    texts = missing.texts
    known = [c for c in cells if not (c is None or c in texts)]
    plain = [is_number(c, batch.decimal) for c in known]
    if sum(plain) * 2 >= len(known):
        return True
    dressed = [c for c in known if isinstance(c, str) and DRESSED.fullmatch(c.strip())]
    if dressed and (sum(plain) + len(dressed)) * 2 > len(known):
        i = list(cells).index(dressed[0])
        right = "write plain numbers, or name the column as categorical or in --drop"
        raise batch.wrong(i, column, f"is {show(cells[i])}, a number with other signs", right)
    return False


@dataclass
class Codes:
    """Texts as numbers, in the order in which they were first seen."""

    most: int = MOST_CATEGORIES
    known: dict[str, int] = field(default_factory=dict)
    full: bool = False  # whether a column that nobody named has more texts than that

    def __call__(self, batch: Batch, column: str, missing: Missing, strict: bool = True) -> Array:
        """A column as codes, NaN where a value is missing.

        A column with too many texts is an error; if not `strict`, it is full and no longer read.
        """
        cells = batch.cells[column]
        listed = cells.tolist() if isinstance(cells, np.ndarray) else cells
        codes: list[Any] = list(map(self.known.get, listed))  # most texts have been read before
        if None in codes:
            for i in [i for i, code in enumerate(codes) if code is None]:
                if self.full:
                    break
                codes[i] = self._new(batch, i, listed[i], column, missing, strict)
        return np.array(codes, np.float64)  # None, of a column that is full, is NaN

    def _new(
        self, batch: Batch, i: int, cell: Any, column: str, missing: Missing, strict: bool
    ) -> float:
        if missing.has(cell):
            return float("nan")
        text = str(cell).strip()
        if text in self.known:
            return self.known[text]
        if not text.isprintable():
            right = "use printable text, or say with --encoding how the file is written"
            raise batch.wrong(i, column, f"is {show(cell)}", right)
        if len(self.known) >= self.most:
            if not strict:
                self.full = True
                return float("nan")
            found = f"has more than {self.most} different texts"
            raise batch.wrong(i, column, found, "leave the column out, or make it a number")
        return self.known.setdefault(text, len(self.known))
