"""Where rows come from: CSV, Parquet, Feather, Excel, frames, a folder with a file per client.

A format is a generator: it gives the head, and then rows by column, with their
numbers. Rows come in batches of a fixed size, so that memory does not grow with the table.
"""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.parsers import expat

import numpy as np

from psofed.errors import InputError, nearest
from psofed.extras import need
from psofed.streams.data import heading, textfile
from psofed.streams.data.columns import Batch, Columns, show
from psofed.streams.data.textfile import PACKED, ROWS, UNKNOWN, Form, Head

PLAIN = Form(",", ".", "utf-8")  # of what is not text
TEXT = (".csv", ".tsv", ".txt")
SUFFIXES = (
    *TEXT, *(text + packed for text in TEXT for packed in PACKED), ".zip", ".parquet", ".feather",
    ".xlsx", ".xlsm",
)  # fmt: skip
KINDS = ".csv, .tsv, .txt, also packed as .gz, .bz2, .xz or .zip, .parquet, .feather, .xlsx"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
INDEX = re.compile(r"__index_level_(\d+)__")  # what pandas calls an index without a name
LINE_BREAK = re.compile(r"\s*[\r\n]+\s*")  # as Excel has them within a name
NO_NAME = re.compile(r"(Unnamed: \d+)?")


class RowSource:
    """A file, a folder or a frame, as batches; `notes` say how its files are written."""

    def __init__(self, source: Any, columns: Columns, form: Form = UNKNOWN) -> None:
        self.source, self.columns, self.form = source, columns, form
        self.name = str(source) if isinstance(source, str | Path) else "<frame>"
        self.notes: list[str] = []
        self.written: Form | None = None  # its first file, as far as that is text

    def batches(self, labelled: bool = True) -> Iterator[Batch]:
        """All rows, each batch of one client or with its column.

        Where the table need not be `labelled`, the column of the target may be absent.
        """
        for batch in self.wholes():
            for part in self.parts(batch):
                _check(part, self.columns, labelled)
                yield part

    def wholes(self) -> Iterator[Batch]:
        """All rows, as the files have them."""
        return self._raw(by_file=self.columns.client is None and self.columns.wide is None)

    def parts(self, batch: Batch) -> list[Batch]:
        """The batch; of a wide table, one for each client."""
        wide, time = self.columns.wide, self.columns.time
        return [batch] if wide is None else list(_split(batch, wide, time))

    def header(self) -> list[str]:
        """The names of the columns, as the first rows have them."""
        first = next(self._raw(by_file=False), None)
        return [] if first is None else list(first.cells)

    def _raw(self, by_file: bool) -> Iterator[Batch]:
        for path, parts, folders in self._files():
            try:
                head = next(parts)
            except OSError as error:
                found = f"cannot be read: {error.strerror}"
                raise InputError("", found, f"give a table ({KINDS})", str(path)) from None
            names, unnamed, twice = _names(head.names, f"{path}: row {head.row}")
            if by_file and folders:
                key = next(iter(folders))
                right = f"name the column of the client, such as --client {key}"
                raise InputError("", f"has folders named {key}=..", right, self.name)
            if self.written is None:
                self.written = PLAIN if path.suffix.lower() in READERS else head.form
            client = (_stem(path) if Path(self.name).is_dir() else "all") if by_file else None
            for line in (head.form.notes, *head.notes, *twice):
                if line and line not in self.notes:
                    self.notes.append(line)
            for rows, cells in parts:
                if len(rows):
                    by_name = dict(zip(names, cells, strict=True))
                    more = {k: (v,) * len(rows) for k, v in folders.items() if k not in by_name}
                    yield Batch(str(path), rows, by_name | more, client, str(head.form.decimal),
                                unnamed, head.row)  # fmt: skip

    def _files(self) -> Iterator[tuple[Path, Iterator[Any], dict[str, str]]]:
        """Each file, what it gives, and what the folders around it say, as in station=A."""
        path = Path(self.name)
        if not isinstance(self.source, str | Path):
            yield path, _of_frame(self.source, self.form), {}
            return
        files = [path]
        if path.is_dir():
            files = sorted(self._within(path))
        if not files:
            raise InputError("", "has no tables", f"put files in it: {KINDS}", str(path))
        for file in files:
            inner = [part.partition("=") for part in file.relative_to(path).parts[:-1]]
            folders = {unquote(k): "" if v == NO_VALUE else unquote(v) for k, _, v in inner}
            reader = READERS.get(file.suffix.lower(), textfile.parts)
            yield file, reader(file, self.form), folders

    def _within(self, folder: Path) -> Iterator[Path]:
        """The tables of a folder, and of those in it that are named as in station=A."""
        for path in folder.iterdir():
            if path.name.startswith((".", "_")):
                continue
            if path.is_dir() and "=" in path.name:
                yield from self._within(path)
            elif path.is_dir():
                line = f"WARNING: the folder {path.name!r} within it is not read"
                if line not in self.notes and any(map(_is_table, path.iterdir())):
                    self.notes.append(line)
            elif _is_table(path):
                yield path


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def _names(given: list[str], where: str) -> tuple[list[str], frozenset[str], list[str]]:
    """The names of the columns; which of them the file does not name; which are named twice."""
    names = [LINE_BREAK.sub(" ", name.strip()) for name in given]
    if not names:
        raise InputError("", "is empty", "give a table with a header", where)
    unnamed, seen, twice = set[str](), set(names), []
    for i, name in enumerate(names):
        if NO_NAME.fullmatch(name) or INDEX.fullmatch(name):
            names[i] = _nameless(name, i, names)
            unnamed.add(names[i])
        elif not name.isprintable():
            right = "say with --set encoding=.. how it is written"
            raise InputError(f"column {show(name)}", "is not printable", right, where)
        elif name not in seen:  # it was taken out when it came first
            more = (f"{name} ({n})" for n in count(2))
            names[i] = next(new for new in more if new not in names)
            twice.append(f"WARNING: column {show(name)} appears again; that is called {names[i]!r}")
        seen.discard(name)
    return names, frozenset(unnamed), twice


def _nameless(name: str, i: int, names: list[str]) -> str:
    """What we call a column without a name: an index is "index", as in a frame."""
    level = INDEX.fullmatch(name)
    first = i == 0 or (level is not None and level[1] == "0")
    return "index" if first and "index" not in names else f"column {i + 1}"


def _stem(path: Path) -> str:
    """The name of a file without the suffix of its format."""
    name = path.name
    for suffix in (*PACKED, *TEXT, ".parquet", ".feather", ".xlsx", ".xlsm"):
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
            where = f"{batch.file}: row {batch.header}"
            if batch.unnamed and list(batch.rows[:1]) == [batch.header + 1]:
                right += f"; row {batch.header} is taken for the header"
            raise InputError(f"column {show(name)}", "is not there", right, where)


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
        raise InputError("columns", found, right, f"{batch.file}: row {batch.header}")
    for client, own in clients.items():
        yield replace(batch, cells={**common, **own}, client=client)


def _of_frame(frame: Any, form: Form) -> Iterator[Any]:
    """A pandas or polars frame, a table of Arrow, or what gives one, such as DuckDB's relations."""
    written = replace(PLAIN, decimal=form.decimal or ".")
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):
        frame = frame.collect()  # a lazy frame
    if not hasattr(frame, "iloc") and hasattr(frame, "__arrow_c_stream__"):
        arrow = need("pyarrow", "parquet", "tables of Arrow")
        if isinstance(frame, arrow.RecordBatchReader):
            raise InputError("table", "can be read once only", "give .read_all() of it")
        reader = arrow.RecordBatchReader.from_stream(frame)
        yield Head(reader.schema.names, written)
        yield from _cut_small(reader)
        return
    if not hasattr(frame, "columns"):
        kind = type(frame).__name__
        raise InputError("table", f"is a {kind}", "give a file, a folder or a data frame")
    index = _index(frame)
    # An index without a name is called as a file has it that was made from the frame.
    names = [
        "" if level.name is None and name == "index" else name for name, level in index.items()
    ]
    yield Head([*names, *map(str, frame.columns)], written)
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
    if hasattr(column.dtype, "freq"):  # periods
        column = column.dt.to_timestamp()
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
    with _damage(path, "Parquet"):
        schema, types = parquet.read_schema(path), import_module("pyarrow").types
        texts = [f.name for f in schema if types.is_string(f.type) or types.is_large_string(f.type)]
    # As dictionaries, so that a text that is repeated takes its room once.
    with _damage(path, "Parquet"), parquet.ParquetFile(path, read_dictionary=texts) as file:
        yield Head(file.schema_arrow.names, replace(PLAIN, decimal=form.decimal or "."))
        yield from _cut_small(file.iter_batches(batch_size=ROWS))


def _of_feather(path: Path, form: Form) -> Iterator[Any]:
    """A Feather file (version 2), which is the file format of Arrow."""
    arrow = need("pyarrow", "parquet", "Feather files")
    with _damage(path, "Feather"), arrow.OSFile(str(path)) as file:
        reader = arrow.ipc.open_file(file)
        yield Head(reader.schema.names, replace(PLAIN, decimal=form.decimal or "."))
        yield from _cut_small(reader.get_batch(i) for i in range(reader.num_record_batches))


@contextmanager
def _damage(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except (OSError, import_module("pyarrow").ArrowException) as error:
        found = f"cannot be read as {kind}: {' '.join(str(error).split())}"
        raise InputError("", found, "correct it", str(path)) from None


def _cut_small(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of Arrow as rows by column, not too many at once."""
    row = 2
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS):
            part = batch.slice(start, ROWS)
            columns = zip(part.schema.names, part.columns, strict=True)
            yield (
                range(row, row + part.num_rows),
                [_arrow(column, name) for name, column in columns],
            )
            row += part.num_rows


def _arrow(column: Any, name: str) -> Any:
    arrow = import_module("pyarrow")
    types = arrow.types
    if types.is_dictionary(column.type):
        words = _arrow(column.dictionary, name)
        return [None if i is None else words[i] for i in column.indices.to_pylist()]
    if types.is_string(column.type) or types.is_large_string(column.type):
        compute = import_module("pyarrow.compute")
        most, longest = csv.field_size_limit(), compute.max(compute.binary_length(column)).as_py()
        if (longest or 0) > most:
            found = f"has a text of {longest:,} bytes"
            raise InputError(f"column {show(name)}", found, f"leave out what is above {most:,}")
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
        _refuse_bombs(path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, SyntaxError) as error:
        found = f"cannot be read as Excel: {error}"
        raise InputError("", found, "save it again as .xlsx or .csv", f"{path}: row 1") from None
    with closing(book):
        sheet = book.sheetnames[0] if form.sheet is None else form.sheet
        if sheet not in book.sheetnames:
            raise InputError("sheet", f"is {sheet!r}", nearest(sheet, book.sheetnames), str(path))
        lines = book[sheet].iter_rows(values_only=True)
        part = list(islice(lines, ROWS))
        texts = [["" if cell is None else str(cell) for cell in each] for each in part]
        top = heading.above(texts)
        width, units = len((texts[top:] or [[]])[0]), heading.has_units(texts[top + 1 :])
        strings = [[c for c in each if isinstance(c, str)] for each in part[top + 1 + units :]]
        decimal = form.decimal or textfile.decimal_sign(strings, str(path))
        notes = [f"header taken from row {top + 1}"] if top else []
        notes += [f"row {top + 2} taken for units and left out"] if units else []
        yield Head((texts[top:] or [[]])[0], replace(PLAIN, decimal=decimal), top + 1, tuple(notes))
        row, part = top + 2 + units, part[top + 1 + units :]
        while part:
            kept = [(n, each) for n, each in enumerate(part, row) if set(each) != {None}]
            for n, each in kept:
                if set(each[width:]) - {None}:
                    found = f"has {len(each)} cells, but the header has {width}"
                    raise InputError("", found, "name every column", f"{path}: row {n}")
            filled = [(*each, *[None] * width)[:width] for _, each in kept]
            yield [n for n, _ in kept], tuple(zip(*filled, strict=True)) or [()] * width
            row += len(part)
            part = list(islice(lines, ROWS))


def _refuse_bombs(path: Path) -> None:
    """Parts of an Excel file have no entities, which may be short and stand for gigabytes."""

    def declared(*_: Any) -> None:
        raise ValueError("it declares entities, which no program that writes such files does")

    with zipfile.ZipFile(path) as parts:
        for part in parts.namelist():
            if part.endswith((".xml", ".rels")):
                with parts.open(part) as file:
                    parser = expat.ParserCreate()
                    parser.StartDoctypeDeclHandler = declared
                    begun: list[Any] = []
                    parser.StartElementHandler = lambda *_, begun=begun: begun.append(1)
                    while not begun and (data := file.read(4096)):
                        parser.Parse(data)


READERS = {
    ".parquet": _of_parquet, ".feather": _of_feather, ".xlsx": _of_excel, ".xlsm": _of_excel,
}  # fmt: skip
