"""How a table is written: text files of any encoding, separator and decimal sign."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psofed.core import native
from psofed.errors import InputError
from psofed.federation import schema
from psofed.streams.data import heading
from psofed.streams.data.columns import TextColumn
from psofed.streams.data.heading import parsed

SINCE_1970 = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # dates as numbers: so many a second
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
LONGEST = 10_000_000  # characters of a line
HEAD = 1 << 16  # bytes from which the encoding is found
ROWS = 4096  # in a batch
LINES = 1024  # from which separator and decimal sign are found
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
OTHERS = {  # what is not a table of text, by its first bytes
    b"\xd0\xcf\x11\xe0": "an old Excel file (.xls)", b"PK\x03\x04": "a zip archive (as .xlsx)",
    b"\x1f\x8b": "packed by gzip", b"PAR1": "Parquet", b"%PDF": "PDF", b"SQLite": "a database",
    b"<?xml": "XML", b"<html": "HTML", b"<!doc": "HTML", b'{"': "JSON", b"[{": "JSON",
}  # fmt: skip
PACKED = (".gz", ".bz2", ".xz", ".zip")
RIGHT = "save it as .csv or .xlsx, or unpack it; packed tables are named .csv.gz, .csv.zip, .."
EXCEL = re.compile("sep=(.)", re.IGNORECASE)  # a line for Excel only
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile)
COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
POINT = re.compile(r"[+-]?\d+\.\d+([eE][+-]?\d+)?")
GROUPS = {  # both signs in one number: the last one is the decimal sign
    ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+"),
    ".": re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+"),
}
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # 1,234: also one number and three decimals


@dataclass(frozen=True)
class Form:
    """The [form] table of a plan. What is not set is found out, or refused if it is not clear."""

    sep: str | None = None  # between cells; not set: comma, semicolon, tab or bar
    decimal: str | None = None  # "." or ","
    encoding: str | None = None  # such as utf-8, utf-16, latin-1
    time_format: str | None = None  # of dates, as in strptime; or s, ms, us, ns since 1970
    sheet: str | None = None  # of an Excel file; not set: the first one

    def __post_init__(self) -> None:
        schema.check(self)
        if self.sep in ("tab", "\\t"):  # as people type it
            object.__setattr__(self, "sep", "\t")
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise InputError("sep", f"is {self.sep!r}", "use one character, such as ; or tab")
        if self.decimal not in (None, ".", ","):
            raise InputError("decimal", f"is {self.decimal!r}", "use . or ,")
        if self.sep == self.decimal == ".":
            raise InputError("sep", "is the decimal sign too", "give another one")
        try:
            known = self.encoding is None or "a".encode(self.encoding).decode(self.encoding) == "a"
        except (LookupError, ValueError, TypeError, AttributeError):
            known = False
        if not known:
            right = "use one such as utf-8, utf-16 or latin-1"
            raise InputError("encoding", f"is {self.encoding!r}", right)
        form = self.time_format
        if form is not None and "%" not in form and form not in SINCE_1970:
            right = f"use signs such as %d.%m.%Y %H:%M, or {', '.join(SINCE_1970)} since 1970"
            raise InputError("time_format", f"is {form!r}", right)

    def to_table(self) -> dict[str, Any]:
        """As plain values: only what is set."""
        return schema.values(self)

    @property
    def notes(self) -> str:
        """How a file is written, where it is not as every program expects it."""
        parts = []
        if self.encoding not in ("utf-8", "utf-8-sig"):
            parts.append(f"encoding {self.encoding}")
        if self.sep != ",":
            parts.append(f"cells separated by {SEPARATORS.get(str(self.sep), repr(self.sep))}")
        if self.decimal != ".":
            parts.append("decimals after a comma")
        return ", ".join(parts)


UNKNOWN = Form()  # everything is found out


class Head(NamedTuple):
    """How a table begins: its columns, how it is written, and what is not of its rows."""

    names: list[str]
    form: Form
    row: int = 1  # where the names stand
    notes: tuple[str, ...] = ()


form_of = schema.section(partial(schema.build, Form))


def parts(path: Path, form: Form) -> Iterator[Any]:
    """The head of a CSV file; then rows by column: their numbers, and the cells."""
    row = 1
    try:
        with _opened(path, form) as file:
            lines: Iterator[str] = _lines(path, file)
            first = list(islice(lines, LINES))
            head, begin = _head(path, first, form, file.encoding)
            yield head
            sep, width, row = str(head.form.sep), len(head.names), begin
            lines = chain(first, lines)
            rows = csv.reader(lines, delimiter=sep)
            for _ in range(begin):
                next(rows, None)
            while texts := list(islice(lines, ROWS)):
                cells = columns(texts, sep, width)
                if cells is None:  # quotes, for example, which may go on in the next lines
                    rows = csv.reader(chain(texts, lines), delimiter=sep)
                    break
                yield range(row + 1, row + 1 + len(texts)), cells
                row += len(texts)
            while some := list(islice(rows, ROWS)):
                numbered = enumerate(some, row + 1)
                kept = [(n, cells) for n, cells in numbered if not _aside(cells, width)]
                _check_width(path, kept, width)
                yield [n for n, _ in kept], tuple(zip(*(each for _, each in kept), strict=True))
                row += len(some)
    except (csv.Error, UnicodeError, OSError, *DAMAGED) as error:
        if isinstance(error, csv.Error):
            wrong = f"is not CSV: {error}", "look for a stray quote"
        elif isinstance(error, UnicodeError):
            wrong = (f"is not {getattr(error, 'encoding', 'text')} after all",
                     "say how it is written with --set encoding=..")  # fmt: skip
        elif isinstance(error, OSError) and error.errno is not None:
            raise
        else:
            wrong = f"is damaged: {error}", "fetch it again"
        raise InputError("", *wrong, f"{path}: after row {row}") from None


def _lines(path: Path, file: io.TextIOWrapper) -> Iterator[str]:
    """The lines of a file, none so long that memory would not hold it."""
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            found, right = f"has a line of {LONGEST:,} characters or more", "give one row per line"
            raise InputError("", found, right, str(path))
        yield line


def _opened(path: Path, form: Form) -> io.TextIOWrapper:
    openers = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile, ".zip": _unzipped}
    opener: Any = openers.get(path.suffix.lower(), partial(open, mode="rb", buffering=0))
    file = io.BufferedReader(opener(path), HEAD)
    try:
        head = file.peek(HEAD)[:HEAD]
        for mark, kind in OTHERS.items():
            if head[:8].lower().startswith(mark.lower()):
                raise InputError("", f"is {kind}, not a table of text", RIGHT, f"{path}: row 1")
        # Bytes that make no sense become surrogates; the cell that holds them is refused by name.
        encoding = form.encoding or encoding_of(head)
        return io.TextIOWrapper(file, encoding, "surrogateescape", newline="")
    except BaseException:
        file.close()
        raise


def _unzipped(path: Path) -> Any:
    """The one file of an archive."""
    with zipfile.ZipFile(path) as archive:
        names = [n for n in archive.namelist() if not (n.endswith("/") or n.startswith("__MACOSX"))]
        if len(names) != 1:
            found, right = f"has {len(names)} files", "unpack it: a folder is a table too"
            raise InputError("", found, right, str(path))
        try:
            return archive.open(names[0])
        except (RuntimeError, NotImplementedError) as error:
            raise InputError("", f"cannot be unpacked: {error}", "unpack it", str(path)) from None


def _head(path: Path, lines: list[str], form: Form, encoding: str) -> tuple[Head, int]:
    """The head of a file, from its first lines where it is not told; and the rows that it has."""
    top = heading.comments(lines)
    if top < len(lines) and (mark := EXCEL.fullmatch(lines[top].strip())):
        form, top = replace(form, sep=form.sep or mark[1]), top + 1
    sep, more = _cut(lines[top:], form.sep, f"{path}: row {top + 1}")
    names = (parsed(lines[top + more :], sep) or [[]])[0]
    before = parsed([lines[top - 1].lstrip("# ")], sep) if top and not more else []
    if before and len(before[0]) == len(names) > 1 and not heading.is_header(names):
        names, more = before[0], -1  # a header that begins with #
    more += heading.above(parsed(lines[top + more :], sep)) if more >= 0 else 0
    rows = parsed(lines[top + more :], sep)
    names = names if more < 0 else (rows or [[]])[0]
    below = [row for row in rows[1:] if row]
    units = heading.has_units(below)
    found = Form(sep, form.decimal or decimal_sign(below[units:], str(path)), encoding)
    row = top + more + 1
    notes = [f"header taken from row {row}"] if row > 1 else []
    notes += [f"row {row + 1} taken for units and left out"] if units else []
    return Head(names, found, row, tuple(notes)), row + units


def _cut(lines: list[str], sep: str | None, where: str) -> tuple[str, int]:
    """The separator, and how many lines stand above the header: below it all are cut alike."""
    signs = [sep] if sep is not None else list(SEPARATORS)
    for i in range(min(heading.ABOVE, len(lines) - 1)):
        even = any(len(set(widths)) == 1 for s in signs if (widths := _widths(lines[i:], s)))
        cut = sep or (separator(lines[i:], where) if even else ",")
        if even and (i == 0 or heading.is_header(parsed(lines[i : i + 1], cut)[0])):
            return cut, i
    return sep or separator(lines, where), 0


def _aside(cells: list[str], width: int) -> bool:
    """Whether a line is empty, or a remark between the rows."""
    return not cells or (len(cells) != width and cells[0].startswith("#"))


def _check_width(path: Path, kept: list[tuple[int, list[str]]], width: int) -> None:
    for number, cells in kept:
        if len(cells) != width:
            found = f"has {len(cells)} cells, but the header has {width}"
            right = "correct it, or give --set sep=..; quote a cell that has the separator in it"
            raise InputError("", found, right, f"{path}: row {number}")


def columns(lines: list[str], sep: str, width: int) -> list[TextColumn] | None:
    """The columns of lines that have so many plain cells each; None: ask the csv module."""
    if not native.available() or not sep.isascii():
        return None
    text = "".join(lines).encode("utf-8", "surrogateescape")
    out, ends = np.empty(len(text) + 1, np.uint8), np.empty(width, np.int64)
    shape = len(lines), width
    data, limit = np.frombuffer(text, np.uint8), csv.field_size_limit()
    if not native.function("transpose")(data, len(text), ord(sep), *shape, limit, out, ends):
        return None
    starts = [0, *ends.tolist()]
    parts = [out[i : j - 1].tobytes() for i, j in zip(starts, ends.tolist(), strict=False)]
    return [TextColumn(part.decode("utf-8", "surrogateescape"), len(lines)) for part in parts]


def encoding_of(head: bytes) -> str:
    """The encoding of a file that begins with these bytes: by its mark, or by what fits."""
    for mark, name in BOMS.items():
        if head.startswith(mark):
            return name
    if b"\x00" in head:  # in UTF-16, every second byte of plain text
        even, odd = head[::2].count(0), head[1::2].count(0)
        if max(even, odd) > 0.3 * len(head) / 2:
            return "utf-16-be" if even > odd else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        # Windows puts its quotes and dashes where Latin-1 has control characters.
        return "cp1252" if any(0x80 <= byte < 0xA0 for byte in head) else "latin-1"
    return "utf-8"


def separator(lines: list[str], where: str) -> str:
    """The sign that cuts the header and every line of the first block into as many cells.

    >>> separator(["t;x,y;z", "1;2,5;3"], "")
    ';'
    """
    widths = {sep: _widths(lines, sep) for sep in SEPARATORS}
    cut = {sep: w for sep, w in widths.items() if w and w[0] > 1}
    even = {sep: w[0] for sep, w in cut.items() if len(set(w)) == 1}
    # Where no sign fits every line, some line is wrong, and will be named.
    found = even or {sep: w[0] for sep, w in cut.items()}
    best = [sep for sep, width in found.items() if width == max(found.values())]
    if len(best) > 1:
        found_ = f"can be cut by {SEPARATORS[best[0]]} or by {SEPARATORS[best[1]]}"
        raise InputError("", found_, "say which with --set sep=..", where)
    return best[0] if best else ","


def _widths(lines: list[str], sep: str) -> list[int]:
    """Cells in each row; the last line may be cut off inside a quoted cell."""
    if sep not in lines[0] if lines else True:
        return []
    rows = parsed(lines, sep)
    return [len(row) for row in (rows if len(rows) < LINES // 2 else rows[:-1]) if row]


def decimal_sign(rows: list[list[str]], file: str) -> str:
    """The decimal sign of the numbers in the first block.

    >>> decimal_sign([["1,5", "2"]], ""), decimal_sign([["1.5", "1,234"]], "")
    (',', '.')
    """
    cells = [cell.strip() for row in rows for cell in row if "," in cell]
    grouped = {sign: [c for c in cells if GROUPS[sign].fullmatch(c)] for sign in GROUPS}
    if bool(grouped[","]) != bool(grouped["."]):
        return "," if grouped[","] else "."
    commas = [cell for cell in cells if COMMA.fullmatch(cell)]
    if not commas:
        return "."
    points = [c.strip() for row in rows for c in row if "." in c and POINT.fullmatch(c.strip())]
    sure = {
        ",": [c for c in commas if not THOUSANDS.fullmatch(c)],
        ".": [c for c in points if not THOUSANDS.fullmatch(c)],
    }
    if bool(sure[","]) != bool(sure["."]):
        return "," if sure[","] else "."
    here = f"has {commas[0]!r}" + (f" and {points[0]!r}" if points else "")
    both = commas[0].replace(",", "."), commas[0].replace(",", "")
    found = f"{here}: {commas[0]!r} can be {both[0]} or {both[1]}"
    raise InputError("", found, "say which with --set decimal=, or decimal=.", f"{file}: row 2")
