"""Where rows come from: CSV, gzip, Parquet, Excel, frames, a folder with a file per client.

A format is a generator: it gives the header and the form, and then rows by column, with their
numbers. Rows come in batches of a fixed size, so that memory does not grow with the table.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError, nearest
from psofed.extras import need
from psofed.streams.data import textfile
from psofed.streams.data.columns import Batch, Columns, show
from psofed.streams.data.textfile import ROWS, UNKNOWN, Form

Array = NDArray[Any]
PLAIN = Form(",", ".", "utf-8")  # of what is not text
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".xlsx")
INDEX = re.compile(r"__index_level_(\d+)__")  # what pandas calls an index without a name
LINE_BREAK = re.compile(r"\s*[\r\n]+\s*")  # as Excel has them within a name
NO_NAME = re.compile(r"(Unnamed: \d+)?")


class RowSource:
    """A file, a folder or a frame, as batches; `said` is how its files turned out to be written."""

    def __init__(self, source: Any, columns: Columns, form: Form = UNKNOWN) -> None:
        self.source, self.columns, self.form = source, columns, form
        self.name = str(source) if isinstance(source, str | Path) else "<frame>"
        self.said: list[str] = []

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
        for path, parts in self._files():
            try:
                header, form = next(parts)
            except OSError as error:
                found = f"cannot be read: {error.strerror}"
                right = f"give a table ({', '.join(SUFFIXES)})"
                raise InputError("", found, right, str(path)) from None
            names, unnamed = _names(header, path)
            client = (_stem(path) if Path(self.name).is_dir() else "all") if by_file else None
            if form.said and form.said not in self.said:
                self.said.append(form.said)
            for rows, cells in parts:
                if len(rows):
                    by_name = dict(zip(names, cells, strict=True))
                    yield Batch(str(path), rows, by_name, client, str(form.decimal), unnamed)

    def _files(self) -> Iterator[tuple[Path, Iterator[Any]]]:
        path = Path(self.name)
        if not isinstance(self.source, str | Path):
            yield path, _of_frame(self.source)
            return
        files = [path]
        if path.is_dir():
            files = sorted(p for p in path.iterdir() if p.name.lower().endswith(SUFFIXES))
        if not files:
            right = f"put files in it: {', '.join(SUFFIXES)}"
            raise InputError("", "has no tables", right, str(path))
        readers = {".parquet": _of_parquet, ".xlsx": _of_excel, ".xlsm": _of_excel}
        for file in files:
            yield file, readers.get(file.suffix.lower(), textfile.parts)(file, self.form)


def _names(given: list[str], path: Path) -> tuple[list[str], frozenset[str]]:
    """The names of the columns; which of them the file does not name."""
    where = f"{path}: row 1"
    names = [LINE_BREAK.sub(" ", name.strip()) for name in given]
    if not names:
        raise InputError("", "is empty", "give a table with a header", where)
    unnamed = set()
    for i, name in enumerate(names):
        if NO_NAME.fullmatch(name) or INDEX.fullmatch(name):
            names[i] = _nameless(name, i, names)
            unnamed.add(names[i])
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"column {show(name)}", "appears twice", "name each once", where)
        if not name.isprintable():
            right = "say with --set encoding=.. how it is written"
            raise InputError(f"column {show(name)}", "is not printable", right, where)
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


def _check(batch: Batch, columns: Columns, labelled: bool) -> None:
    """Refuse columns that are asked for but missing."""
    wanted = [*columns.time, *columns.inputs, *columns.categorical, *columns.drop]
    wanted += [*columns.ranges, *columns.lags_of, *(n for n in columns.missing if n != "*")]
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
        yield replace(batch, cells={**common, **own}, client=client)


def _of_frame(frame: Any) -> Iterator[Any]:
    """A pandas or polars frame (or any object that has columns and can be sliced by rows)."""
    if not hasattr(frame, "columns"):
        kind = type(frame).__name__
        raise InputError("table", f"is a {kind}", "give a file, a folder or a data frame")
    index = _index(frame)
    # An index without a name is called as a file has it that was made from the frame.
    names = [
        "" if level.name is None and name == "index" else name for name, level in index.items()
    ]
    yield [*names, *map(str, frame.columns)], PLAIN
    for start in range(0, len(frame), ROWS):
        part = slice(start, start + ROWS)
        cells = [_cells(level[part]) for level in index.values()]
        cut = frame.iloc if hasattr(frame, "iloc") else frame
        cells += [_cells(cut[part, i]) for i in range(frame.shape[1])]
        yield range(start + 2, min(start + ROWS, len(frame)) + 2), cells


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


def _cells(column: Any) -> Any:
    """Numbers and times as arrays, everything else as a list."""
    if not hasattr(column, "iloc"):  # polars
        if column.dtype.is_numeric():
            return column.cast(import_module("polars").Float64).to_numpy()
        return column.to_list()
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert(None)  # in UTC
    if column.dtype.kind == "M":
        return column.to_numpy("datetime64[us]")
    if column.dtype.kind not in "fiu":
        return column.astype(object).tolist()
    if column.hasnans:
        return column.to_numpy(np.float64, na_value=np.nan)
    return column.to_numpy()  # whole numbers stay whole, so that they can name a client


def _of_parquet(path: Path, form: Form) -> Iterator[Any]:
    """A Parquet file, some rows at a time."""
    parquet = need("pyarrow.parquet", "parquet", "Parquet files")
    row = 2
    try:
        with parquet.ParquetFile(path) as file:
            yield file.schema_arrow.names, PLAIN
            for part in file.iter_batches(batch_size=ROWS):
                yield range(row, row + part.num_rows), [_arrow(column) for column in part.columns]
                row += part.num_rows
    except (OSError, import_module("pyarrow").ArrowException) as error:
        found = f"cannot be read as Parquet: {' '.join(str(error).split())}"
        raise InputError("", found, "correct it", f"{path}: row {row}") from None


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


def _of_excel(path: Path, form: Form) -> Iterator[Any]:
    """A sheet of an Excel file, some rows at a time."""
    openpyxl = need("openpyxl", "excel", "Excel files")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, SyntaxError) as error:
        found = f"cannot be read as Excel: {error}"
        raise InputError("", found, "save it again as .xlsx or .csv", f"{path}: row 1") from None
    with closing(book):
        sheet = book.sheetnames[0] if form.sheet is None else form.sheet
        if sheet not in book.sheetnames:
            raise InputError("sheet", f"is {sheet!r}", nearest(sheet, book.sheetnames), str(path))
        lines = book[sheet].iter_rows(values_only=True)
        header = ["" if cell is None else str(cell) for cell in next(lines, ())]
        yield header, PLAIN
        row, width = 2, len(header)
        while part := list(islice(lines, ROWS)):
            kept = [(n, each) for n, each in enumerate(part, row) if set(each) != {None}]
            for n, each in kept:
                if set(each[width:]) - {None}:
                    found = f"has {len(each)} cells, but the header has {width}"
                    raise InputError("", found, "name every column", f"{path}: row {n}")
            filled = [(*each, *[None] * width)[:width] for _, each in kept]
            yield [n for n, _ in kept], tuple(zip(*filled, strict=True)) or [()] * width
            row += len(part)
