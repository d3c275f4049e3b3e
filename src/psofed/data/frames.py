"""Rows that come as columns: data frames, Parquet and Excel files, in batches."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.data.cells import Batch
from psofed.data.form import Form
from psofed.data.textfile import RAISE, RATIO, UNPACKED
from psofed.errors import InputError, nearest
from psofed.extras import need

Array = NDArray[Any]
ROWS = 4096


def of_frame(frame: Any, client: str | None, names: Any) -> Iterator[Batch]:
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


def of_parquet(path: Path, client: str | None, names: Any, form: Form) -> Iterator[Batch]:
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


def of_excel(path: Path, client: str | None, names: Any, form: Form) -> Iterator[Batch]:
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
