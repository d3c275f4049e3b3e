"""History: what a dashboard remembers, in one file of bounded size beside the server's record.

Lines are only appended, each with a checksum, so that a kill costs the last ones at most. From time
to time the file is rewritten, with old rounds further apart. It is for display only: nothing in the
protocol reads it, and while it is damaged or cannot be written, the server goes on without it.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from psofed.dashboard.watch import Note, Row
from psofed.errors import InputError
from psofed.protocol import store

NAME = "history"
FORMAT = "psofed history 1"
RECENT = 500  # rounds that are kept one by one
ROWS = 1000  # rows that are left when old ones are thinned
NOTES = 200
AGAIN = 5.0  # seconds until a disk that is full is tried again
LINES = 2000  # appended before the file is written anew


class History:
    """Rounds, notes and last contacts of a run, from a file and into it."""

    def __init__(self, folder: Path, about: Mapping[str, Any], n: int) -> None:
        """The history of the rounds before n; later ones are dropped if an older record is used."""
        self.path, self.about = folder / NAME, dict(about)
        self.rows: list[Row] = []
        self.notes: list[Note] = []
        self.contacts: dict[int, float] = {}
        self.warnings: list[str] = []  # about the file, for the operator
        self._file: int | None = None
        self._lines = 0
        self._failed: float | None = None  # when it could not be written
        self._read()
        self.rows = [row for row in self.rows if row.n < n]
        self._try(self._rewrite)

    def keep(self, clients: set[int]) -> None:
        """Contacts of others are forgotten: they have been removed."""
        self.contacts = {k: when for k, when in self.contacts.items() if k in clients}

    def add(
        self, rows: Iterable[Row] = (), notes: Iterable[Note] = (), contacts: Any = None
    ) -> None:
        """Write these; when this returns, a kill of the process does not undo it."""
        new: list[list[Any]] = [["row", *row] for row in rows]
        new += [["note", *note] for note in notes]
        new += [["contacts", contacts]] if contacts else []
        if not new:
            return
        for entry in new:
            self._take(entry)
        if self._file is not None:
            self._try(lambda: self._append(new))
        if self._lines > LINES or (self._failed is not None and monotonic() > self._failed + AGAIN):
            self._try(self._rewrite)  # it has these entries, too

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self) -> None:
        try:
            data = store.reader(self.path.parent)(NAME)
        except InputError as error:
            self.warnings.append(f"{NAME} {error.found}")
            return
        if data is None:
            return
        *lines, _ = data.split(b"\n")  # after the last line end there is nothing, or a torn line
        found = list(map(_parse, lines))
        good = found.index(None) if None in found else len(found)
        if good == 0 or found[0] != [FORMAT, self.about]:
            self.warnings.append(f"{NAME} is damaged or of another run; a new one begins")
            return
        if good < len(found):
            self.warnings.append(f"{NAME} is damaged in line {good + 1}; what followed is dropped")
        for entry in found[1:good]:
            self._take(entry)

    def _take(self, entry: Any) -> None:
        kind, rest = entry[0], entry[1:]
        if kind == "row":
            self.rows.append(Row(*rest))
            if len(self.rows) >= 2 * ROWS:
                self.rows = thinned(self.rows)
        elif kind == "note":
            self.notes = [*self.notes[1 - NOTES :], Note(*rest)]
        else:
            self.contacts |= {int(k): when for k, when in rest[0].items()}

    def _append(self, entries: Sequence[Any]) -> None:
        assert self._file is not None
        data = b"".join(map(_line, entries))
        if os.write(self._file, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._lines += len(entries)

    def _rewrite(self) -> None:
        """The whole file, in one step."""
        entries: list[Any] = [[FORMAT, self.about], ["contacts", self.contacts]]
        entries += [["row", *row] for row in self.rows] + [["note", *note] for note in self.notes]
        draft = self.path.with_name(f".{NAME}.draft")
        store.write(draft, b"".join(map(_line, entries)), durable=True)
        draft.replace(self.path)
        self.close()
        self._file = store.private(self.path, os.O_WRONLY | os.O_APPEND)
        self._lines = 0

    def _try(self, work: Callable[[], None]) -> None:
        """While the history cannot be written it is kept in memory; the operator is told once."""
        try:
            work()
            if self._failed is not None:
                self.warnings.append(f"{NAME} is kept on disk again")
            self._failed = None
        except OSError as error:
            if self._failed is None:
                self.warnings.append(f"{NAME} is kept in memory only: {error.strerror}")
            self._failed, self._lines = monotonic(), 0
            try:
                self.close()
            except OSError:
                self._file = None


def thinned(rows: Sequence[Row]) -> list[Row]:
    """The newest rounds, and of the older ones every 2nd, 4th, 8th, ... until they are few."""
    old, new = list(rows[:-RECENT]), rows[-RECENT:]
    spacing = 1
    while len(old) > ROWS - RECENT:
        spacing *= 2
        old = [row for row in old if row.n % spacing == 0]
    return [*old, *new]


def _line(entry: Any) -> bytes:
    text = json.dumps(entry, separators=(",", ":"), allow_nan=False).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parse(line: bytes) -> Any:
    """The entry of a line; None if it is not what was written."""
    head, _, text = line.partition(b" ")
    if head != b"%08x" % zlib.crc32(text):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
