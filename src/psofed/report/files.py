"""A result as text and as a folder: tables, csv and json; all of its files, or none."""

from __future__ import annotations

import csv
import json
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psofed.errors import InputError, unwritable
from psofed.extras import versions
from psofed.federation.records import CHECKPOINT, IDENTITY

if TYPE_CHECKING:
    from psofed.federation.plugins import Written

GAP = "  "
ROOM = 20  # columns that a cell of words needs at least, to be wrapped


def summary(
    command: str, made: Written, more: Mapping[str, Any], name: str = "experiment"
) -> dict[str, Any]:
    """A result for scripts: how it was made, and what is known of it."""
    table = {"command": command, "versions": versions(), name: made.table, **more}
    about = {"plugins": made.plugins, "threat": table.pop("threat", "")}
    return plain(table | {key: value for key, value in about.items() if value})


def plain(value: Any) -> Any:
    """JSON has no NaN or infinity: they become null."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def json_text(table: Any) -> str:
    """A table as a file for scripts."""
    return json.dumps(table, indent=2) + "\n"


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as a csv file, in the columns of all of them."""
    buffer, table = StringIO(), list(rows)
    keys = list(dict.fromkeys(key for row in table for key in row))
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([cell(row.get(key, "")) for key in keys] for row in table)
    return buffer.getvalue()


def cell(value: Any) -> Any:
    """Numbers with as many digits as needed; empty where there is no number."""
    if not isinstance(value, float):
        return value
    if not abs(value) < float("inf"):
        return ""
    return int(value) if value.is_integer() else f"{value:.9g}"


@dataclass(frozen=True)
class Grid:
    """Rows of cells, the heading first, that know which columns may be left out on a screen."""

    rows: list[list[str]]
    left: tuple[int, ...] = (0,)  # columns to the left; the others are to the right
    least: tuple[int, ...] = ()  # columns that may be left out, the least important first
    where: str = ""  # the file that holds them all
    title: str = ""  # on a page
    note: str = ""  # on a page, below
    bars: bool = False  # on a page, numbers have bars on one scale

    def __str__(self) -> str:
        """The whole table, as wide as it is.

        >>> print(Grid([["method", "dB"], ["Online-Fed", "-11.9"], ["PSO-Fed", "-9"]]))
        method         dB
        -----------------
        Online-Fed  -11.9
        PSO-Fed        -9
        """
        return _aligned(self.rows, self.left)

    def within(self, width: int) -> str:
        """No line is wider, as far as words wrap and there are columns that may be left out."""
        kept = list(range(len(self.rows[0])))
        text = self._of(kept, width)
        for column in self.least:
            if max(map(len, text.splitlines())) > width:
                kept.remove(column)
                text = self._of(kept, width)
        return "\n".join([text, *self._note(kept)])

    def _of(self, kept: list[int], width: int) -> str:
        """Some of the columns; the last one is wrapped if it is one of words."""
        rows = [[row[i] for i in kept] for row in self.rows]
        left = tuple(place for place, column in enumerate(kept) if column in self.left)
        used = sum(max(map(len, column)) + len(GAP) for column in zip(*rows, strict=True))
        room = width - used + max(len(row[-1]) for row in rows) + len(GAP)
        if len(kept) - 1 in left[1:] and room >= ROOM:
            rows = [line for row in rows for line in _split(row, room)]
        return _aligned(rows, left)

    def _note(self, kept: list[int]) -> list[str]:
        missing = [head for i, head in enumerate(self.rows[0]) if i not in kept]
        if not missing:
            return []
        see = f"; see {self.where}" if self.where else ""
        return [f"Not shown: {'; '.join(missing)}{see}."]


def _split(row: list[str], room: int) -> list[list[str]]:
    """The row with its last cell on as many lines as it needs."""
    first, *more = textwrap.wrap(row[-1], room) or [""]
    return [[*row[:-1], first], *([*[""] * (len(row) - 1), line] for line in more)]


def _aligned(rows: list[list[str]], left: tuple[int, ...]) -> str:
    """Columns padded to equal width: some to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = enumerate(zip(row, widths, strict=True))
        cells = [c.ljust(width) if i in left else c.rjust(width) for i, (c, width) in padded]
        lines.append(GAP.join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


Block = str | Grid


def joined(blocks: Iterable[Block]) -> str:
    """All of it as text, with whole tables."""
    return "\n".join(map(str, blocks))


def sentences(words: str) -> list[str]:
    """Words as a sentence, if there are any."""
    return [f"{words[:1].upper()}{words[1:]}."] if words else []


def ratio(value: float | None) -> str:
    """An error over a variance.

    >>> ratio(0.25), ratio(1e9), ratio(float("nan"))
    ('0.250', 'diverged', '-')
    """
    if value is None or value != value:
        return "-"
    return f"{value:.3f}" if value < 1000 else "diverged"


class ResultFolder:
    """The folder for results. Opened before the work begins, so that errors are found at once."""

    def __init__(self, path: Path, resumes: bool = False) -> None:
        self.path = path
        self._made = [p for p in (path, *path.parents) if not p.exists()]
        try:
            names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
            if names - {CHECKPOINT} and not (resumes and is_unfinished(path)):
                raise InputError(str(path), "is not empty", "give another --out")
            path.mkdir(parents=True, exist_ok=True)
            probe = path / ".probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            self.discard()
            raise unwritable(path, error, "give another --out") from None

    def write(self, files: dict[str, bytes]) -> None:
        """All files or none: they get their names only when every one has been written."""
        drafts = {name: self.path / f".{name}.draft" for name in files}
        try:
            for name, data in files.items():
                drafts[name].write_bytes(data)
            for name, draft in drafts.items():
                draft.replace(self.path / name)
        except BaseException as error:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)
            self.discard()
            if not isinstance(error, OSError):
                raise
            right = "free some space, or give a new --out"
            raise unwritable(self.path, error, right) from None

    def discard(self) -> None:
        """Remove the folders that were made and not used."""
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()


def is_unfinished(path: Path) -> bool:
    """Whether the folder holds runs that can be continued."""
    return (path / CHECKPOINT / IDENTITY).exists()


def default_folder(path: Path) -> Path:
    """`path`, or the first of path-2, path-3, ... that is free."""
    names = (path if i == 1 else path.with_name(f"{path.name}-{i}") for i in count(1))
    return next(name for name in names if not name.exists())
