"""The files of a result folder; what is missing or damaged is named in an error."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.simulate import checkpoint

Array = NDArray[Any]
AGAIN = "make the result again"
# The file that shows the kind of a result, and the other files that its report needs.
KINDS = {
    "theory.json": ("theory.csv", "theory.txt", "experiment.toml"),
    "comparison.json": ("curves.csv", "comparison.txt", "frontier.csv", "experiment.toml"),
    "sweep.json": ("curves.csv", "experiment.toml"),
    "attack.json": ("experiment.toml",),
    "summary.json": ("curves.csv", "experiment.toml"),
    "scores.csv": ("summary.json", "plan.toml"),
    "advice.json": ("plan.toml",),
}


@dataclass(frozen=True)
class Result:
    """A result: where it came from, and its files by name."""

    name: str  # of its folder; nothing while it is being made
    files: Mapping[str, bytes]

    def where(self, name: str) -> str:
        """A file's name for messages."""
        return str(Path(self.name) / name)

    def text(self, name: str) -> str:
        """The text of a file."""
        if name not in self.files:
            raise InputError("", "is missing", AGAIN, self.where(name))
        try:
            return self.files[name].decode()
        except UnicodeDecodeError:
            raise InputError("", "is not text", AGAIN, self.where(name)) from None

    def table(self, name: str) -> dict[str, Any]:
        """The object in a JSON file."""
        try:
            table = json.loads(self.text(name))
        except (ValueError, RecursionError) as error:
            found = f"is not JSON: {error}"
            raise InputError("", found, "is the file complete?", self.where(name)) from None
        if not isinstance(table, dict):
            raise InputError("", "is not a JSON object", AGAIN, self.where(name))
        return table

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Errors about the content of a file become an InputError that names the file."""
        try:
            yield
        except KeyError as error:
            raise InputError(f"{error}", "is missing", AGAIN, self.where(name)) from None
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            found = f"is not as psofed writes it: {error}"
            raise InputError("", found, AGAIN, self.where(name)) from None

    def columns(
        self, name: str, wanted: Sequence[str], key: str = "round"
    ) -> dict[str, dict[str, Array]]:
        """A long table: the wanted columns of each method.

        The column `key`, if it is wanted, has to grow from row to row, as the x of a curve.
        """
        lines = csv.reader(StringIO(self.text(name), newline=""))
        head = next(lines, [])
        for column in ("method", *wanted):
            if column not in head:
                raise InputError(column, "is missing from the first line", AGAIN, self.where(name))
        places = [head.index(column) for column in wanted]
        found: dict[str, list[list[str]]] = {}
        try:
            for row in lines:
                if len(row) != len(head):
                    raise ValueError(f"has {len(row)} cells, not {len(head)}")
                found.setdefault(row[head.index("method")], []).append([row[i] for i in places])
            tables = {label: _numbers(rows) for label, rows in found.items()}
        except (ValueError, csv.Error) as error:
            at = f"line {lines.line_num}" if "cells" in str(error) else ""
            raise InputError(at, str(error), "is the file complete?", self.where(name)) from None
        curves = {label: dict(zip(wanted, t.T, strict=True)) for label, t in tables.items()}
        for label, curve in curves.items():
            if key in curve and not (np.diff(curve[key]) > 0).all():
                raise InputError(key, f"of {label!r} does not grow", AGAIN, self.where(name))
        return curves


def _numbers(rows: list[list[str]]) -> Array:
    """Cells as numbers; an empty cell is NaN."""
    return np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])


def kind(source: Result) -> str:
    """The file that shows the kind of the result: the one of the folder's experiment.

    A folder that was written twice, with --force, may hold more than one.
    """
    names = [name for name in KINDS if name in source.files]
    if "summary.json" in names:  # both runs and fits have one
        other = "summary.json" if "scores" in source.table("summary.json") else "scores.csv"
        names = [name for name in names if name != other]
    if len(names) > 1 and "experiment.toml" in source.files:
        try:
            experiment = tomllib.loads(source.text("experiment.toml"))
        except ValueError as error:
            found = f"is not TOML: {error}"
            raise InputError("", found, AGAIN, source.where("experiment.toml")) from None
        same = [n for n in names if source.table(n).get("experiment") == experiment]
        names = same or names
    return names[0] if names else ""


def gather(path: Path) -> Result:
    """The files of a result folder, or an InputError that says why it is not one."""
    if not path.is_dir():
        found = "is not a folder" if path.exists() else "does not exist"
        raise InputError(str(path), found, "give a folder with a result, as `psofed run` makes")
    files = {}
    for name in sorted({*KINDS, *(part for parts in KINDS.values() for part in parts)}):
        try:
            files[name] = (path / name).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            found, right = f"cannot be read: {error.strerror}", "make it readable"
            raise InputError("", found, right, str(path / name)) from None
    if not any(name in files for name in KINDS):
        if (path / checkpoint.NAME / checkpoint.IDENTITY).exists():
            raise InputError(str(path), "holds an unfinished result", "finish it with --resume")
        found = f"holds no result: none of {', '.join(KINDS)}"
        raise InputError(str(path), found, "give a folder that `psofed run` or another verb made")
    return Result(str(path), files)
