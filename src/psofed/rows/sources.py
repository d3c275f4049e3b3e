"""Where rows come from: CSV, gzip, Parquet, frames, a folder with a file per client; long or wide.

Rows come in batches of a fixed size, so that memory does not grow with the table.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from psofed.errors import InputError
from psofed.named import nearest
from psofed.rows.cells import Batch, show
from psofed.rows.columns import Columns

ROWS = 4096
SUFFIXES = (".csv", ".csv.gz", ".parquet")
MOST_COLUMNS = 10_000


def batches(source: Any, columns: Columns, labelled: bool = True) -> Iterator[Batch]:
    """The rows of a file, a folder or a frame, each batch of one client or with its column.

    Where the table need not be `labelled`, the column of the target may be absent.
    """
    for batch in _raw(source, by_file=columns.client is None and columns.wide is None):
        parts = [batch] if columns.wide is None else _split(batch, columns.wide, columns.time)
        for part in parts:
            _check(part, columns, labelled)
            yield part


def header(source: Any) -> list[str]:
    """The names of the columns, as the first rows have them."""
    first = next(_raw(source, by_file=False), None)
    return [] if first is None else list(first.cells)


def _raw(source: Any, by_file: bool) -> Iterator[Batch]:
    if not isinstance(source, str | Path):
        yield from _frame(source)
        return
    path = Path(source)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.name.lower().endswith(SUFFIXES))
        if not files:
            raise InputError(
                "", "has no tables", f"put files in it: {', '.join(SUFFIXES)}", str(path)
            )
        for file in files:
            yield from _file(file, _stem(file) if by_file else None)
        return
    yield from _file(path, "all" if by_file else None)


def _stem(path: Path) -> str:
    """The name of a file without what tells its format."""
    name = path.name
    for suffix in (".gz", ".csv", ".parquet"):
        name = name[: -len(suffix)] if name.lower().endswith(suffix) else name
    return ascii(name)[1:-1] or "all"


def _file(path: Path, client: str | None) -> Iterator[Batch]:
    read = _parquet if path.name.lower().endswith(".parquet") else _csv
    yield from read(path, client)


def _csv(path: Path, client: str | None) -> Iterator[Batch]:
    row = 1
    try:
        with _open(path) as file:
            reader = csv.reader(file)
            names = _header(next(reader, []), path)
            while rows := list(islice(reader, ROWS)):
                kept = [(row + i, cells) for i, cells in enumerate(rows, 1) if cells]
                for number, cells in kept:
                    if len(cells) != len(names):
                        found = f"has {len(cells)} cells, but the header has {len(names)}"
                        right = "mend it; a cell with a comma inside needs quotes"
                        raise InputError("", found, right, f"{path}: row {number}")
                row += len(rows)
                cells_by_column = zip(*(cells for _, cells in kept), strict=True)
                if kept:
                    by_name = dict(zip(names, cells_by_column, strict=True))
                    yield Batch(str(path), [number for number, _ in kept], by_name, client)
    except csv.Error as error:
        where = f"{path}: after row {row}"
        raise InputError("", f"is not CSV: {error}", "look for a stray quote", where) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        where = f"{path}: after row {row}"
        raise InputError("", f"is damaged: {error}", "fetch it again", where) from None
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
        raise InputError("", found, "give a table (CSV, .csv.gz, .parquet)", str(path)) from None


def _open(path: Path) -> TextIO:
    # Bytes that are not UTF-8 become surrogates; the cell that holds them is then refused by name.
    options: Any = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", **options)
    return open(path, **options)


def _header(names: list[str], path: Path) -> list[str]:
    names = [name.strip() for name in names]
    if not names or len(names) > MOST_COLUMNS:
        found = f"has {len(names)} columns" if names else "is empty"
        raise InputError("", found, "give a table with a header", f"{path}: row 1")
    other = next((mark for mark in ";\t|" if mark in names[0]), None)
    if len(names) == 1 and other is not None:
        found = f"has one column, {show(names[0])}"
        right = f"separate cells by commas, not by {other!r}; decimals by points"
        raise InputError("", found, right, f"{path}: row 1")
    for i, name in enumerate(names):
        if name in names[:i] or not name.isprintable():
            found = "is there twice" if name.isprintable() else "is not printable"
            raise InputError(f"column {show(name)}", found, "name each once", f"{path}: row 1")
    return names


def _parquet(path: Path, client: str | None) -> Iterator[Batch]:
    parquet = extra("pyarrow.parquet", "parquet", "Parquet files")
    arrow = import_module("pyarrow")
    row = 2
    try:
        with parquet.ParquetFile(path) as file:
            _header(list(file.schema_arrow.names), path)
            for part in file.iter_batches(batch_size=ROWS):
                if part.num_rows:
                    rows = range(row, row + part.num_rows)
                    yield Batch(str(path), rows, part.to_pydict(), client)
                row += part.num_rows
    except (OSError, arrow.ArrowException) as error:
        line = " ".join(str(error).split())
        where = f"{path}: row {row}"
        raise InputError("", f"cannot be read as Parquet: {line}", "mend it", where) from None


def _frame(frame: Any) -> Iterator[Batch]:
    """A pandas or polars frame (or any object that has columns and can be sliced by rows)."""
    names = [str(name) for name in getattr(frame, "columns", [])]
    if not names:
        kind = type(frame).__name__
        raise InputError("table", f"is a {kind}", "give a file, a folder or a data frame")
    _header(names, Path("<frame>"))
    for start in range(0, len(frame), ROWS):
        part = (
            frame.iloc[start : start + ROWS]
            if hasattr(frame, "iloc")
            else frame[start : start + ROWS]
        )
        cells = {name: _list(part, i) for i, name in enumerate(names)}
        rows = range(start + 2, start + 2 + len(part))
        yield Batch("<frame>", rows, cells)


def _list(part: Any, i: int) -> list[Any]:
    if hasattr(part, "iloc"):
        return list(part.iloc[:, i].astype(object).tolist())
    return list(part[:, i].to_list())


def extra(module: str, name: str, what: str) -> Any:
    """An optional package, or advice how to get it."""
    try:
        return import_module(module)
    except ImportError:
        right = f"pip install 'psofed[{name}]'"
        raise InputError(what, f"need {module.split('.')[0]}", right) from None


def _check(batch: Batch, columns: Columns, labelled: bool) -> None:
    """Refuse columns that are asked for and not there."""
    wanted = [*columns.time, *columns.inputs, *columns.categorical, *columns.drop]
    wanted += [
        *columns.ranges,
        *columns.lags_of,
        *(name for name in columns.missing if name != "*"),
    ]
    wanted += [columns.client] if columns.client else []
    wanted += [columns.target] if labelled else []
    for name in wanted:
        if name not in batch.cells and (labelled or name != columns.target):
            right = nearest(name, list(batch.cells))
            raise InputError(f"column {show(name)}", "is not there", right, f"{batch.file}: row 1")


def _split(batch: Batch, sep: str, time: tuple[str, ...]) -> Iterator[Batch]:
    """A wide table as long ones: columns named CLIENT<sep>QUANTITY; all others are common."""
    common: dict[str, Sequence[Any]] = {}
    clients: dict[str, dict[str, Sequence[Any]]] = {}
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
        yield Batch(batch.file, batch.rows, {**common, **own}, client)
