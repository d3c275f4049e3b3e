"""Where rows come from: CSV, gzip, Parquet, Excel, frames, a folder with a file per client.

Rows come in batches of a fixed size, so that memory does not grow with the table.
"""

from __future__ import annotations

import csv
import gzip
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError, nearest
from psofed.extras import need
from psofed.streams.data.columns import Batch, Columns, TextColumn, show
from psofed.streams.data.textfile import (
    RAISE,
    RATIO,
    SEPARATORS,
    UNKNOWN,
    UNPACKED,
    Form,
    TextTable,
)

Array = NDArray[Any]
ROWS = 4096
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".xlsx")
KINDS = "CSV, .csv.gz, .parquet, .xlsx"
MOST_COLUMNS = 10_000
INDEX = re.compile(r"__index_level_(\d+)__")  # what pandas calls an index without a name
LINE_BREAK = re.compile(r"\s*[\r\n]+\s*")  # as Excel has them within a name
NO_NAME = re.compile(r"(Unnamed: \d+)?")


class RowSource:
    """A file, a folder or a frame, as batches; `said` is how its files turned out to be written."""

    def __init__(self, source: Any, columns: Columns, form: Form = UNKNOWN) -> None:
        self.source, self.columns, self.form = source, columns, form
        self.said: list[str] = []

    @property
    def name(self) -> str:
        """For messages."""
        return str(self.source) if isinstance(self.source, str | Path) else "<frame>"

    def batches(self, labelled: bool = True) -> Iterator[Batch]:
        """All rows, each batch of one client or with its column.

        Where the table need not be `labelled`, the column of the target may be absent.
        """
        columns = self.columns
        for batch in self._raw(by_file=columns.client is None and columns.wide is None):
            parts = [batch] if columns.wide is None else _split(batch, columns.wide, columns.time)
            for part in parts:
                _check(part, columns, labelled)
                yield part

    def header(self) -> list[str]:
        """The names of the columns, as the first rows have them."""
        first = next(self._raw(by_file=False), None)
        return [] if first is None else list(first.cells)

    def _raw(self, by_file: bool) -> Iterator[Batch]:
        if not isinstance(self.source, str | Path):
            yield from _of_frame(self.source, "all" if by_file else None, self._names)
            return
        path = Path(self.source)
        if not path.is_dir():
            yield from self._file(path, "all" if by_file else None)
            return
        files = sorted(p for p in path.iterdir() if p.name.lower().endswith(SUFFIXES))
        if not files:
            right = f"put files in it: {', '.join(SUFFIXES)}"
            raise InputError("", "has no tables", right, str(path))
        for file in files:
            yield from self._file(file, _stem(file) if by_file else None)

    def _file(self, path: Path, client: str | None) -> Iterator[Batch]:
        name = path.name.lower()
        if name.endswith(".parquet"):
            return _of_parquet(path, client, self._names, self.form)
        if name.endswith((".xlsx", ".xlsm")):
            return _of_excel(path, client, self._names, self.form)
        return self._csv(path, client)

    def _csv(self, path: Path, client: str | None) -> Iterator[Batch]:
        row = 1
        try:
            with TextTable(path, self.form) as table:
                self._say(table.form)
                names, unnamed = self._names(next(table.rows, []), path)
                for part in table.batches(ROWS, len(names)):
                    numbers, columns = _by_column(path, part, row, len(names))
                    row += numbers[-1] - row if isinstance(part[0], TextColumn) else len(part)
                    if numbers:
                        by_name = dict(zip(names, columns, strict=True))
                        decimal = str(table.form.decimal)
                        yield Batch(str(path), numbers, by_name, client, decimal, unnamed)
        except csv.Error as error:
            where = f"{path}: after row {row}"
            raise InputError("", f"is not CSV: {error}", "look for a stray quote", where) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            where = f"{path}: after row {row}"
            raise InputError("", f"is damaged: {error}", "fetch it again", where) from None
        except UnicodeError as error:
            found = f"is not {getattr(error, 'encoding', 'text')} after all"
            raise InputError("", found, "say how it is written with --set encoding=..",
                             f"{path}: after row {row}") from None  # fmt: skip
        except OSError as error:
            found = f"cannot be read: {error.strerror}"
            raise InputError("", found, f"give a table ({KINDS})", str(path)) from None

    def _say(self, form: Form) -> None:
        """How a file is written, where it is not as every program expects it."""
        parts = []
        if form.encoding not in ("utf-8", "utf-8-sig"):
            parts.append(f"encoding {form.encoding}")
        if form.sep != ",":
            parts.append(f"cells separated by {SEPARATORS.get(str(form.sep), repr(form.sep))}")
        if form.decimal != ".":
            parts.append("decimals after a comma")
        line = ", ".join(parts)
        if line and line not in self.said:
            self.said.append(line)

    def _names(self, given: list[str], path: Path) -> tuple[list[str], frozenset[str]]:
        """The names of the columns; which of them the file does not name."""
        names = [LINE_BREAK.sub(" ", name.strip()) for name in given]
        if not names or (len(names) > MOST_COLUMNS and not self.form.large):
            found = f"has {len(names):,} columns" if names else "is empty"
            right = f"give {MOST_COLUMNS:,} at most; {RAISE}" if names else "give a table"
            raise InputError("", found, f"{right} with a header" if not names else right,
                             f"{path}: row 1")  # fmt: skip
        unnamed = set()
        for i, name in enumerate(names):
            if NO_NAME.fullmatch(name) or INDEX.fullmatch(name):
                names[i] = _nameless(name, i, names)
                unnamed.add(names[i])
        seen: set[str] = set()
        for name in names:
            if name in seen or not name.isprintable():
                found = "appears twice" if name.isprintable() else "is not printable"
                right = (
                    "name each once"
                    if name in seen
                    else "say with --set encoding=.. how it is written"
                )
                raise InputError(f"column {show(name)}", found, right, f"{path}: row 1")
            seen.add(name)
        return names, frozenset(unnamed)


def _nameless(name: str, i: int, names: list[str]) -> str:
    """What we call a column without a name: an index is "index", as in a frame."""
    level = INDEX.fullmatch(name)
    first = i == 0 or (level is not None and level[1] == "0")
    return "index" if first and "index" not in names else f"column {i + 1}"


def _stem(path: Path) -> str:
    """The name of a file without the suffix of its format."""
    name = path.name
    for suffix in (".gz", ".csv", ".tsv", ".txt", ".parquet", ".xlsx"):
        name = name[: -len(suffix)] if name.lower().endswith(suffix) else name
    return ascii(name)[1:-1] or "all"


def _by_column(
    path: Path, part: list[Any], row: int, width: int
) -> tuple[Sequence[int], Sequence[Any]]:
    """The numbers of the rows that come after `row`, and their cells by column."""
    if isinstance(part[0], TextColumn):
        return range(row + 1, row + 1 + len(part[0])), part
    numbers: Sequence[int] = range(row + 1, row + 1 + len(part))
    if {*map(len, part)} == {width}:
        return numbers, tuple(zip(*part, strict=True))
    kept = [pair for pair in zip(numbers, part, strict=True) if pair[1]]  # no empty lines
    _check_width(path, kept, width)
    return [n for n, _ in kept], tuple(zip(*(cells for _, cells in kept), strict=True))


def _check_width(path: Path, kept: list[tuple[int, list[str]]], width: int) -> None:
    for number, cells in kept:
        if len(cells) != width:
            found = f"has {len(cells)} cells, but the header has {width}"
            right = "correct it, or give --set sep=..; quote a cell that has the separator in it"
            if width == 1:
                right = "delete what stands above the header, or give --set sep=.."
            raise InputError("", found, right, f"{path}: row {number}")


def _check(batch: Batch, columns: Columns, labelled: bool) -> None:
    """Refuse columns that are asked for but missing."""
    wanted = [*columns.time, *columns.inputs, *columns.categorical, *columns.drop]
    wanted += [
        *columns.ranges,
        *columns.lags_of,
        *(name for name in columns.missing if name != "*"),
    ]
    wanted += [columns.client] if columns.client is not None else []
    wanted += [columns.target] if labelled else []
    for name in wanted:
        if name not in batch.cells and (labelled or name != columns.target):
            right = nearest(name, list(batch.cells))
            if batch.unnamed and list(batch.rows[:1]) == [2]:
                right += "; row 1 has to be the header"
            raise InputError(f"column {show(name)}", "is not there", right, f"{batch.file}: row 1")


def _split(batch: Batch, sep: str, time: tuple[str, ...]) -> Iterator[Batch]:
    """A wide table as long ones: columns named CLIENT<sep>QUANTITY; all others are common."""
    common: dict[str, Any] = {}
    clients: dict[str, dict[str, Any]] = {}
    for name, cells in batch.cells.items():
        client, found, quantity = name.partition(sep)
        if found and name not in time:
            clients.setdefault(client, {})[quantity] = cells
        else:
            common[name] = cells
    if not clients:
        right = f"name them CLIENT{sep}QUANTITY, or give another separator"
        found = f"have no {sep!r} in their names"
        raise InputError("columns", found, right, f"{batch.file}: row 1")
    for client, own in clients.items():
        cells = {**common, **own}
        yield Batch(batch.file, batch.rows, cells, client, batch.decimal, batch.unnamed)


def _of_frame(frame: Any, client: str | None, names: Any) -> Iterator[Batch]:
    """A pandas or polars frame (or any object that has columns and can be sliced by rows)."""
    if not hasattr(frame, "columns"):
        kind = type(frame).__name__
        raise InputError("table", f"is a {kind}", "give a file, a folder or a data frame")
    index = _index(frame)
    given = [str(name) for name in frame.columns]
    header, unnamed = names([*index, *given], Path("<frame>"))
    unnamed |= {name for name in index if name == "index"} - set(given)
    for start in range(0, len(frame), ROWS):
        part = slice(start, start + ROWS)
        some = frame.iloc[part] if hasattr(frame, "iloc") else frame[part]
        cells = [_cells(level[part]) for level in index.values()]
        cells += [_column(some, i) for i in range(len(given))]
        rows = range(start + 2, start + 2 + len(some))
        yield Batch("<frame>", rows, dict(zip(header, cells, strict=True)), client, ".", unnamed)


def _index(frame: Any) -> dict[str, Any]:
    """The levels of a pandas index that say something: those with a name, times, and several."""
    index = getattr(frame, "index", None)
    if index is None or not hasattr(frame, "iloc"):
        return {}
    if index.nlevels > 1:
        levels = [index.get_level_values(i) for i in range(index.nlevels)]
        named = {str(level.name or f"level_{i}"): level for i, level in enumerate(levels)}
    elif index.name is not None or index.dtype.kind == "M":
        named = {str(index.name or "index"): index}
    else:
        return {}
    return {name: level.to_series() for name, level in named.items() if name not in frame.columns}


def _column(part: Any, i: int) -> Any:
    return _cells(part.iloc[:, i] if hasattr(part, "iloc") else part[:, i])


def _cells(column: Any) -> Any:
    """Numbers and times as arrays, everything else as a list."""
    if not hasattr(column, "iloc"):  # polars
        kind = column.dtype
        if kind.is_numeric():
            return column.cast(import_module("polars").Float64).to_numpy()
        return column.to_list()
    kind = column.dtype
    if getattr(kind, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        kind = column.dtype
    if kind.kind == "M":
        return column.to_numpy("datetime64[us]")
    if kind.kind in "fiu":
        return _numbers(column)
    return column.astype(object).tolist()


def _numbers(column: Any) -> Array:
    """As they are; whole numbers stay whole, so that they can name a client."""
    if column.hasnans:
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy())


def _of_parquet(path: Path, client: str | None, names: Any, form: Form) -> Iterator[Batch]:
    """A Parquet file, some rows at a time."""
    parquet = need("pyarrow.parquet", "parquet", "Parquet files")
    arrow = import_module("pyarrow")
    row = 2
    try:
        with parquet.ParquetFile(path) as file:
            about = file.metadata
            _check_size(path, 8 * about.num_rows * about.num_columns, 1 << 30, form)
            header, unnamed = names(list(file.schema_arrow.names), path)
            for part in file.iter_batches(batch_size=ROWS):
                cells = [_arrow(part.column(i)) for i in range(len(header))]
                if part.num_rows:
                    rows = range(row, row + part.num_rows)
                    found = dict(zip(header, cells, strict=True))
                    yield Batch(str(path), rows, found, client, ".", unnamed)
                row += part.num_rows
    except (OSError, arrow.ArrowException) as error:
        line = " ".join(str(error).split())
        where = f"{path}: row {row}"
        raise InputError("", f"cannot be read as Parquet: {line}", "correct it", where) from None


def _arrow(column: Any) -> Any:
    arrow = import_module("pyarrow")
    types = arrow.types
    if types.is_timestamp(column.type):  # with a zone or without, they are kept in UTC
        return column.cast(arrow.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
    if types.is_floating(column.type) or (types.is_integer(column.type) and not column.null_count):
        return column.to_numpy(zero_copy_only=False)
    if types.is_integer(column.type):
        return column.cast("float64").to_numpy(zero_copy_only=False)
    return column.to_pylist()


def _of_excel(path: Path, client: str | None, names: Any, form: Form) -> Iterator[Batch]:
    """A sheet of an Excel file, some rows at a time."""
    openpyxl = need("openpyxl", "excel", "Excel files")
    try:
        with zipfile.ZipFile(path) as packed:
            _check_size(path, sum(f.file_size for f in packed.infolist()), UNPACKED, form)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
        raise InputError("", found, "give a table, such as .xlsx or .csv", str(path)) from None
    except (zipfile.BadZipFile, KeyError, ValueError, SyntaxError) as error:
        found = f"cannot be read as Excel: {error}"
        raise InputError("", found, "save it again as .xlsx or .csv", f"{path}: row 1") from None
    try:
        sheet = book[_sheet(book.sheetnames, form.sheet, path)]
        lines = sheet.iter_rows(values_only=True)
        first = next(lines, ())
        header, unnamed = names(["" if cell is None else str(cell) for cell in first], path)
        row = 2
        while part := list(islice(lines, ROWS)):
            batch = _sheet_batch(path, row, part, header, client, unnamed)
            if batch.rows:
                yield batch
            row += len(part)
    finally:
        book.close()


def _sheet_batch(
    path: Path, row: int, part: list[Any], header: list[str], client: str | None,
    unnamed: frozenset[str],
) -> Batch:  # fmt: skip
    kept = [(row + i, cells) for i, cells in enumerate(part) if any(c is not None for c in cells)]
    for number, cells in kept:
        if any(c is not None for c in cells[len(header) :]):
            found = f"has {len(cells)} cells, but the header has {len(header)}"
            raise InputError("", found, "name every column", f"{path}: row {number}")
    filled = [(*cells, *[None] * len(header))[: len(header)] for _, cells in kept]
    columns = zip(*filled, strict=True) if filled else [() for _ in header]
    by_name = dict(zip(header, columns, strict=True))
    return Batch(str(path), [number for number, _ in kept], by_name, client, ".", unnamed)


def _sheet(names: list[str], wanted: str | None, path: Path) -> str:
    if wanted is None:
        return names[0]
    if wanted not in names:
        raise InputError("sheet", f"is {wanted!r}", nearest(wanted, names), str(path))
    return wanted


def _check_size(path: Path, unpacked: int, most: int, form: Form) -> None:
    if form.large or unpacked <= most or unpacked <= RATIO * path.stat().st_size:
        return
    found = f"unpacks to {unpacked:,} bytes, more than {RATIO} times its size"
    raise InputError("", found, RAISE, f"{path}: row 1")
