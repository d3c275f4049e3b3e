"""How a table is written: text files of any encoding and separator, line by line, within limits."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from psofed.core import native
from psofed.errors import InputError
from psofed.federation import schema
from psofed.streams.data.columns import TextColumn

SINCE_1970 = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # dates as numbers: so many a second
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
HEAD = 1 << 16  # bytes from which the encoding is found
LINES = 1024  # from which separator and decimal sign are found
LONGEST = 8_000_000  # characters of a line
UNPACKED = 10_000_000  # bytes from which on a file that was packed too well is refused
RATIO = 300  # no table of measurements is packed so well
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
OTHERS = {  # what is not a table of text, by its first bytes
    b"\xd0\xcf\x11\xe0": "an old Excel file (.xls)", b"PK\x03\x04": "a zip archive (as .xlsx)",
    b"\x1f\x8b": "packed by gzip", b"PAR1": "Parquet", b"%PDF": "PDF", b"SQLite": "a database",
    b"<?xml": "XML", b"<html": "HTML", b"<!doc": "HTML", b'{"': "JSON", b"[{": "JSON",
}  # fmt: skip
RIGHT = "save it as .csv or .xlsx, or unpack it; packed tables are named .csv.gz"
EXCEL = re.compile("sep=.", re.IGNORECASE)  # a line for Excel only
RAISE = "if it is meant, give --set large=true"
COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
POINT = re.compile(r"[+-]?\d+\.\d+([eE][+-]?\d+)?")
GROUPS = {  # both signs in one number: the last one is the decimal sign
    ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+"),
    ".": re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+"),
}
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # 1,234: also one number and three decimals


@dataclass(frozen=True)
class Form:
    """The [form] table of a plan. What is not set is found out, or refused if it is not clear.

    >>> Form(sep=";", decimal=",").to_table()
    {'sep': ';', 'decimal': ','}
    """

    sep: str | None = None  # between cells; not set: comma, semicolon, tab or bar
    decimal: str | None = None  # "." or ","
    encoding: str | None = None  # such as utf-8, utf-16, latin-1
    time_format: str | None = None  # of dates, as in strptime; or s, ms, us, ns since 1970
    day_first: bool | None = None  # whether 01/02/2024 is in February
    sheet: str | None = None  # of an Excel file; not set: the first one
    large: bool = False  # whether there are no limits of size

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
        self._check_encoding()
        form = self.time_format
        if form is not None and "%" not in form and form not in SINCE_1970:
            right = f"use signs such as %d.%m.%Y %H:%M, or {', '.join(SINCE_1970)} since 1970"
            raise InputError("time_format", f"is {form!r}", right)

    def _check_encoding(self) -> None:
        if self.encoding is None:
            return
        try:
            text = "a".encode(self.encoding).decode(self.encoding)
        except (LookupError, ValueError, TypeError, AttributeError):
            text = ""
        if text != "a":
            right = "use one such as utf-8, utf-16 or latin-1"
            raise InputError("encoding", f"is {self.encoding!r}", right)

    def to_table(self) -> dict[str, Any]:
        """As plain values: only what is set."""
        return {
            key: value
            for key, value in schema.values(self).items()
            if (key, value) != ("large", False)
        }


UNKNOWN = Form()  # everything is found out


def _parse(table: Any) -> Form:
    form: Form = schema.build(Form, table)
    return form


form_of = schema.section(_parse)


class TextTable:
    """A CSV file: its rows as lists of cells, and the form in which it is written."""

    def __init__(self, path: Path, form: Form) -> None:
        self.path, self.large = path, form.large
        self.packed: gzip.GzipFile | None = None
        self.file = self._open()
        head = self.file.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
        for mark, kind in OTHERS.items():
            if head[:8].lower().startswith(mark.lower()):
                self.file.close()
                raise InputError("", f"is {kind}, not a table of text", RIGHT, f"{path}: row 1")
        encoding = form.encoding or encoding_of(head)
        # Bytes that make no sense become surrogates; the cell that holds them is refused by name.
        self.text = io.TextIOWrapper(self.file, encoding, "surrogateescape", newline="")
        try:
            self._begin(form, encoding)
        except BaseException:
            self.__exit__()
            raise

    def _begin(self, form: Form, encoding: str) -> None:
        """Find out what is not told, from the first lines."""
        path, lines = self.path, iter(self.text)
        first = list(islice(lines, LINES))
        if first and EXCEL.fullmatch(first[0].strip()):
            found = f"is {first[0].strip()!r}, a line for Excel"
            raise InputError("", found, "delete it: the header comes first", f"{path}: row 1")
        sep = form.sep or separator(first, str(path))
        rows = [row for row in _parsed(first, sep)[1:] if row]
        decimal = form.decimal or decimal_sign(rows, str(path))
        self.form = Form(sep, decimal, encoding)
        self.sep, self.lines = sep, chain(first, lines)
        self.rows: Iterator[list[str]] = csv.reader(self.lines, delimiter=sep)

    def _open(self) -> IO[bytes]:
        if self.path.name.lower().endswith(".gz"):
            self._check_promise()
            self.packed = gzip.GzipFile(self.path)
        raw: Any = self.packed or open(self.path, "rb", buffering=0)  # noqa: SIM115
        return io.BufferedReader(_Lines(raw, self._too_long), HEAD)

    def _too_long(self, size: int) -> None:
        if size > LONGEST and not self.large:
            found = f"has a line of more than {LONGEST:,} bytes"
            raise InputError("", found, RAISE, f"{self.path}: row 1")

    def batches(self, rows: int, width: int) -> Iterator[list[list[str]] | list[TextColumn]]:
        """So many rows at a time; a file that was packed too well is refused.

        They come by column while each line has so many plain cells, and then by row.
        """
        while lines := list(islice(self.lines, rows)):
            self._check_size()
            found = columns(lines, self.sep, width)
            if found is None:  # quotes, for example, which may go on in the next lines
                self.rows = csv.reader(chain(lines, self.lines), delimiter=self.sep)
                break
            yield found
        while part := list(islice(self.rows, rows)):
            self._check_size()
            yield part

    def _check_promise(self) -> None:
        """gzip ends with the size of what it has packed (RFC 1952); if it is large, look inside."""
        size = self.path.stat().st_size
        with open(self.path, "rb") as file:
            file.seek(max(size - 4, 0))
            if int.from_bytes(file.read(4), "little") <= RATIO * size:
                return
        with gzip.GzipFile(self.path) as packed:
            try:
                while packed.tell() <= UNPACKED and packed.read(HEAD):
                    pass
            except (EOFError, zlib.error, OSError):
                return  # a damaged file, which ends with any number; the reader says where
            self._refuse(packed.tell(), packed.fileobj.tell())  # type: ignore[union-attr]

    def _check_size(self) -> None:
        if self.packed is not None:
            self._refuse(self.packed.tell(), self.packed.fileobj.tell())  # type: ignore[union-attr]

    def _refuse(self, unpacked: int, packed: int) -> None:
        if not self.large and unpacked > UNPACKED and unpacked > RATIO * packed:
            found = f"unpacks to more than {RATIO} times its size"
            raise InputError("", found, RAISE, f"{self.path}: row 2")

    def __enter__(self) -> TextTable:
        return self

    def __exit__(self, *_: Any) -> None:
        self.text.close()
        if self.packed is not None:
            self.packed.close()


def columns(lines: list[str], sep: str, width: int) -> list[TextColumn] | None:
    """The columns of lines that have so many plain cells each; None: ask the csv module."""
    if not native.available() or not sep.isascii():
        return None
    text = "".join(lines).encode("utf-8", "surrogateescape")
    out, ends = np.empty(len(text) + 1, np.uint8), np.empty(width, np.int64)
    shape = len(lines), width
    fits = native.function("transpose")(
        np.frombuffer(text, np.uint8),
        len(text),
        ord(sep),
        *shape,
        csv.field_size_limit(),
        out,
        ends,
    )
    if not fits:
        return None
    starts = [0, *ends.tolist()]
    parts = [out[i : j - 1].tobytes() for i, j in zip(starts, ends.tolist(), strict=False)]
    return [TextColumn(part.decode("utf-8", "surrogateescape"), len(lines)) for part in parts]


class _Lines(io.RawIOBase):
    """Bytes of a file, while no line in it is too long: that costs a look at each block."""

    def __init__(self, raw: Any, check: Callable[[int], None]) -> None:
        self.raw, self.check, self.length = raw, check, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """More bytes."""
        count = int(self.raw.readinto(buffer))
        data = bytes(buffer[:count])
        last = max(data.rfind(b"\n"), data.rfind(b"\r"))
        self.length = self.length + count if last < 0 else count - last
        self.check(self.length)
        return count

    def close(self) -> None:
        """The file too."""
        self.raw.close()
        super().close()


def encoding_of(head: bytes) -> str:
    """The encoding of a file that begins with these bytes: by its mark, or by what fits.

    >>> encoding_of("t;y".encode("utf-16")), encoding_of(b"t;y"), encoding_of(b"Z\\xfcrich")
    ('utf-16', 'utf-8', 'latin-1')
    """
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


def separator(lines: list[str], file: str) -> str:
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
        raise InputError("", found_, "say which with --set sep=..", f"{file}: row 1")
    return best[0] if best else ","


def _widths(lines: list[str], sep: str) -> list[int]:
    """Cells in each row; the last line may be cut off inside a quoted cell."""
    if sep not in lines[0] if lines else True:
        return []
    rows = _parsed(lines, sep)
    return [len(row) for row in (rows if len(rows) < LINES // 2 else rows[:-1]) if row]


def _parsed(lines: list[str], sep: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=sep))
    except csv.Error:
        return []


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
