"""A result folder: all of its files, or none; with the command and versions that made them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from contextlib import suppress
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

from psofed.curves import Curves
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.extras import have
from psofed.provenance import changed, versions, written
from psofed.report import claims, summaries
from psofed.report.html import with_report
from psofed.simulate import checkpoint


def render(
    curves: Curves, command: str, figures: dict[str, tuple[list[int], str]]
) -> dict[str, bytes]:
    """Every file of a result by name. `figures` gives the rows and the title of each picture."""
    made = written(curves.experiment.to_table)
    files = made.sources | {
        "experiment.toml": made.toml.encode(),
        "curves.csv": curves_csv(curves).encode(),
        "summary.json": (json.dumps(summary(curves, command), indent=2) + "\n").encode(),
    }
    files = with_report(files)
    if not can_draw():
        return files
    from psofed.report.figures import both, learning_curves

    for name, (which, title) in figures.items():
        files |= both(learning_curves(curves, which, title), name)
    return files


def can_draw() -> bool:
    """Whether matplotlib is there."""
    return have("matplotlib")


def summary(curves: Curves, command: str) -> dict[str, Any]:
    """What `summary.json` holds: how it was made, the table, the floors and the claims."""
    experiment = curves.experiment
    made = written(experiment.to_table)
    table: dict[str, Any] = {
        "command": command,
        "versions": versions(),
        "seed": experiment.seed,
        "runs": curves.runs,
        "runs_asked": experiment.runs,
        "rounds": experiment.rounds,
        "targets": experiment.judged,
        "experiment": made.table,
        "methods": summaries.summary(curves),
        "floors_db": {k: {"value": v.value, "stderr": v.stderr} for k, v in curves.floors.items()},
    }
    if experiment.threat:
        table["threat"] = experiment.threat
    if made.plugins:
        table["plugins"] = made.plugins
    if claims.is_paper(experiment):
        table["claims"] = [claim.to_table() for claim in claims.judge(curves)]
    return plain(table)


def plain(value: Any) -> Any:
    """JSON has no NaN or infinity: they become null."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def curves_csv(curves: Curves) -> str:
    """The curves as a long table: what curves.csv holds."""
    lines: list[str] = []
    for about, columns in curves.tables():
        own = {key: cell(value) for key, value in about.items() if key not in columns}
        lines = lines or [_line([*own, *columns])]
        begin = _line(own.values())  # once for all rounds: it takes longer than their numbers
        cells = (map(str, map(cell, column.tolist())) for column in columns.values())
        lines += [f"{begin},{','.join(row)}" for row in zip(*cells, strict=True)]
    return "\n".join([*lines, ""])


def _line(cells: Iterable[Any]) -> str:
    """A line of a csv file, without its end."""
    buffer = StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()


def is_finished(path: Path, experiment: Experiment) -> bool:
    """Whether the folder holds the whole result of this experiment, with nothing left to do."""
    if (path / checkpoint.NAME / checkpoint.IDENTITY).exists():
        return False
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    made = written(experiment.to_table)
    differences = changed(summary.get("plugins", []), made.plugins)
    if differences and len(made.plugins) == len(summary.get("plugins", [])):
        found = f"holds the result of another plug-in: {differences[0]}"
        raise InputError(str(path), found, "give another --out, or start again with --force")
    same = summary.get("experiment") == plain(made.table)
    return same and summary.get("runs") == experiment.runs


def cell(value: Any) -> Any:
    """Numbers with as many digits as needed; empty where there is no number."""
    if not isinstance(value, float):
        return value
    if not abs(value) < float("inf"):
        return ""
    return int(value) if value.is_integer() else f"{value:.9g}"


class ResultFolder:
    """The folder for results. Opened before the work begins, so that errors are found at once."""

    def __init__(self, path: Path, force: bool = False, resume: bool = False) -> None:
        self.path = path
        self._made = [p for p in (path, *path.parents) if not p.exists()]
        try:
            if not force:
                self._refuse(path, resume)
            path.mkdir(parents=True, exist_ok=True)
            probe = path / ".probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            self.discard()
            found = f"cannot be written: {error.strerror}"
            raise InputError(str(path), found, "give another --out") from None

    def _refuse(self, path: Path, resume: bool) -> None:
        """Refuse a folder whose files would be lost."""
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
        unfinished = (path / checkpoint.NAME / checkpoint.IDENTITY).exists()
        if unfinished and not resume:
            right = "continue with --resume, or start again with --force"
            raise InputError(str(path), "holds an unfinished result", right)
        if names - {checkpoint.NAME} and not unfinished:
            found = "has other files and nothing to resume" if resume else "is not empty"
            raise InputError(str(path), found, "give another --out, or --force")

    def write(self, files: dict[str, bytes], stale: Iterable[str] = ()) -> None:
        """All files or none: they get their names only when every one has been written.

        Files named in `stale` that are not written again are removed: they are of another run.
        """
        drafts = {name: self.path / f".{name}.draft" for name in files}
        try:
            for name, data in files.items():
                drafts[name].write_bytes(data)
            for name, draft in drafts.items():
                draft.replace(self.path / name)
            for name in set(stale) - set(files):
                (self.path / name).unlink(missing_ok=True)
        except BaseException as error:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)
            self.discard()
            if not isinstance(error, OSError):
                raise
            found = f"cannot be written: {error.strerror}"
            raise InputError(
                str(self.path), found, "free some space, or give a new --out"
            ) from None

    def discard(self) -> None:
        """Remove the folders that were made and not used."""
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()


def default_folder(path: Path, resume: bool) -> Path:
    """`path`, or the first of path-2, path-3, ... that is free; the last one taken, to resume."""
    names = (path if i == 1 else path.with_name(f"{path.name}-{i}") for i in count(1))
    free, last = path, path
    for free in names:
        if not free.exists():
            break
        last = free
    return last if resume else free
