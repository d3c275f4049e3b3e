"""What the columns of a table mean, and their cells as numbers and categories.

A cell that cannot be read is an error that names its file, row and column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from psofed.core import native
from psofed.core.native import Array
from psofed.errors import InputError
from psofed.federation import schema
from psofed.streams.data.ticks import DAY, UNITS, YEAR

RULES = ("hold", "skip", "indicator")
CALENDAR = {"hour": DAY, "weekday": 7 * DAY, "yearday": YEAR}
MOST_LAG = 100_000
MOST_LAGS = 1000
LARGEST = 1e30  # squares of larger values overflow; no sensor has them
MOST_CATEGORIES = 1000
MISSING = (
    "", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT", "n/a", "na", "Na", "NAN",
    "Nan", "Null", "-", "--", "---", "?", ".", "#N/A", "#NA", "#NV", "#DIV/0!", "#VALUE!", "#REF!",
    "#NUM!", "#NAME?", "#NULL!", "1.#QNAN", "-1.#IND", "\\N",
)  # fmt: skip
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


@dataclass(frozen=True)
class Columns:
    """The [columns] table of a plan. Inputs that are not named are all other columns."""

    target: str  # the column to predict
    time: tuple[str, ...]  # the column of the time, or several, as in year,month,day,hour
    client: str | None = None  # the column that names the client; not set: one file per client
    wide: str | None = None  # separates client and quantity in the names of a wide table's columns
    inputs: tuple[str, ...] = ()  # the input columns; not set: all other columns
    drop: tuple[str, ...] = ()  # columns to leave out of the inputs
    categorical: tuple[str, ...] = ()  # inputs whose numbers are names of categories
    missing: Mapping[str, str] = field(default_factory=dict)  # rule by column; "*" is all others
    markers: tuple[str, ...] = ()  # further texts that mean "missing", such as -999
    lags: tuple[int, ...] = ()  # older values as inputs, in ticks, for all numeric inputs
    lags_of: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # further lags of a column
    target_lags: tuple[int, ...] = ()  # older values of the target as inputs, in ticks
    calendar: tuple[str, ...] = ()  # hour, weekday, yearday as inputs: sine and cosine
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # known, for scaling
    tick: float | None = None  # length of a round; not set: the fastest client's usual interval
    tick_unit: str | None = None  # of tick, and of times that are numbers: s, min, .. month, year

    def __post_init__(self) -> None:
        schema.positive(self, "tick")
        if not self.time:
            raise InputError("time", "is empty", "name the column of the time")
        self._check_roles()
        if self.tick_unit is not None and self.tick_unit not in UNITS:
            raise InputError("tick_unit", f"is {self.tick_unit!r}", f"use {', '.join(UNITS)}")
        for name in self.calendar:
            if name not in CALENDAR:
                raise InputError("calendar", f"has {name!r}", f"use {', '.join(CALENDAR)}")
        for name, rule in self.missing.items():
            if rule not in RULES:
                raise InputError(f"missing.{name}", f"is {rule!r}", f"use {', '.join(RULES)}")
        given = {"lags": self.lags, "target_lags": self.target_lags}
        given |= {f"lags_of.{name}": lags for name, lags in self.lags_of.items()}
        for key, lags in given.items():
            if any(not 1 <= lag <= MOST_LAG for lag in lags) or len(lags) > MOST_LAGS:
                raise InputError(key, f"is {list(lags)}", f"use ticks from 1 to {MOST_LAG}")
        for name, (low, high) in self.ranges.items():
            if not (low < high and isfinite(low) and isfinite(high)):
                right = "use two numbers, the lower first"
                raise InputError(f"ranges.{name}", f"is {low} to {high}", right)

    def _check_roles(self) -> None:
        """No column has two roles: a target among the inputs would leak."""
        if self.wide == "":
            raise InputError("wide", "is empty", "give the separator, such as .")
        if self.client and self.wide:
            raise InputError("client", "is given, but a wide table names clients in its header",
                             "give one of client and wide")  # fmt: skip
        taken = [self.target, *self.time, *([self.client] if self.client else [])]
        for i, name in enumerate(taken):
            if name in taken[:i]:
                raise InputError("columns", f"use {name!r} twice", "give each one role")
        for name in self.inputs:
            if name == self.target:
                right = "leave it out, or use target_lags for its past"
                raise InputError("inputs", f"has the target {name!r}", right)
            if name == self.client or self.inputs.count(name) > 1:
                raise InputError("inputs", f"has {name!r}", "name each input once; not the client")

    def lags_for(self, column: str) -> tuple[int, ...]:
        """The lags of a numeric input: those of all, then its own."""
        return tuple(dict.fromkeys((*self.lags, *self.lags_of.get(column, ()))))

    @property
    def longest_lag(self) -> int:
        """How many ticks a client has to remember."""
        own = (lag for lags in self.lags_of.values() for lag in lags)
        return max((*self.lags, *own, *self.target_lags), default=0)

    def check_delay(self, label_delay: int) -> None:
        """Refuse a delay that is too long, and lags of labels that are not known yet."""
        if not 0 <= label_delay <= MOST_LAG:
            raise InputError("label_delay", f"is {label_delay}", f"use 0 to {MOST_LAG} ticks")
        for lag in self.target_lags:
            if lag < max(label_delay, 1):
                found = f"has {lag}, but labels come {label_delay} ticks late"
                right = f"use lags of {max(label_delay, 1)} or more"
                raise InputError("columns.target_lags", found, right)

    def rule(self, column: str) -> str:
        """What happens where a value of this column is missing."""
        return self.missing.get(column, self.missing.get("*", "hold"))

    def to_table(self) -> dict[str, Any]:
        """As plain values: what a plan and a saved model hold."""
        return {key: value for key, value in schema.values(self).items() if value not in ([], {})}


def parse(table: Any) -> Columns:
    """Columns from plain values, as `to_table` makes them; every mistake is an InputError."""
    return schema.build(Columns, schema.convert("columns", table, dict))


columns_of = schema.section(parse)


class TextColumn(Sequence[str]):
    """The cells of a column, joined by line breaks, which no cell has."""

    def __init__(self, text: str, size: int) -> None:
        self.text, self.size = text, size

    @cached_property
    def cells(self) -> list[str]:
        """Each for itself."""
        return self.text.split("\n")

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: Any) -> Any:
        return self.cells[i]

    def __iter__(self) -> Iterator[str]:
        return iter(self.cells)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of one file by column. `rows` are their numbers in the file.

    Cells are texts, in a tuple or a `TextColumn`, or a NumPy array where the file has numbers or
    dates.
    """

    file: str
    rows: Sequence[int]
    cells: Mapping[str, Any]
    client: str | None = None  # whose rows these are, if the file tells it and not a column
    decimal: str = "."
    unnamed: frozenset[str] = frozenset()  # columns to which the file gives no name
    header: int = 1  # the row with the names

    def wrong(self, i: int, column: str, found: str, right: str) -> InputError:
        """An error that names file, row and column."""
        where = f"{self.file}: row {self.rows[i]}"
        return InputError(f"column {show(column)}", found, right, where)


def show(cell: Any) -> str:
    """A cell in a form that is safe to print."""
    text = ascii(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) < 40 else text[:36] + "..."


class Missing:
    """What means "no value": known texts and markers. A marker that is a number means its value."""

    def __init__(self, markers: Iterable[str] = ()) -> None:
        self.markers = tuple(markers)
        self.values = {number(m): m for m in self.markers if is_number(m)}
        self.texts = frozenset((*MISSING, *self.markers))
        self.found: Counter[str] = Counter()  # cells that each marker matched

    def has(self, cell: Any) -> bool:
        """Whether a cell has no value."""
        if isinstance(cell, str):
            cell = cell.strip()
        elif cell is None or str(cell) in ("<NA>", "NaT", "nan"):
            return True
        marker = cell if cell in self.markers else None
        if marker is None and self.values and is_number(cell):
            marker = self.values.get(number(cell))
        if marker is not None:
            self.found[marker] += 1
        return marker is not None or (isinstance(cell, str) and cell in self.texts)

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
        texts = missing.texts - frozenset(missing.markers)
        values, odd = _plain(cells, batch.decimal)
        for i in odd.tolist():
            values[i] = np.nan if cells[i] in texts else _number(batch, i, column, missing)
    values = missing.cut(values)
    wrong = np.abs(values) > LARGEST
    if wrong.any():
        i = int(np.argmax(wrong))
        raise batch.wrong(i, column, f"is {show(cells[i])}", f"use numbers up to {LARGEST:g}")
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
        return float(cell) if isinstance(cell, bool) else number(cell, batch.decimal)
    except (ValueError, TypeError, OverflowError):
        if missing.has(cell):
            return float("nan")
    right = "correct it or leave it empty; if it means missing, give --set markers=.., and if the"
    right += " column is not a number but an input, --set categorical=.."
    raise batch.wrong(i, column, f"is {show(cell)}, not a number", right)


def number(cell: Any, decimal: str = ".") -> float:
    """A cell as a number, with this decimal sign; digits may be grouped by the other one."""
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
    known = [c for c in cells if not (c is None or c in missing.texts)]
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
        for i in [i for i, code in enumerate(codes) if code is None]:
            if not self.full:
                codes[i] = self._new(batch, i, listed[i], column, missing, strict)
            elif not (listed[i] is None or listed[i] in missing.texts):
                codes[i] = self.most  # it is not missing, whatever it is
        return np.array(codes, np.float64)

    def _new(
        self, batch: Batch, i: int, cell: Any, column: str, missing: Missing, strict: bool
    ) -> float:
        if missing.has(cell):
            return float("nan")
        text = str(cell).strip()
        if text in self.known:
            return self.known[text]
        if not text.isprintable():
            right = "use printable text, or say with --set encoding=.. how the file is written"
            raise batch.wrong(i, column, f"is {show(cell)}", right)
        if len(self.known) >= self.most:
            if not strict:
                self.full = True
                return float(self.most)
            found = f"has more than {self.most} different texts"
            raise batch.wrong(i, column, found, "leave the column out, or make it a number")
        return self.known.setdefault(text, len(self.known))
