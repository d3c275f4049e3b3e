"""Checkpoints: finished runs are on disk, complete or not at all, and are never computed again.

A finished run has its own file until the sums that contain it are on disk twice; then the file is
removed. So a kill at any instant, or one damaged file, loses no finished run.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from numpy.typing import NDArray

from psofed import records, records_legacy
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.provenance import changed, identity
from psofed.records import DamagedError, NewerError, Record
from psofed.simulate.accumulate import Accumulator, OneRun

Array = NDArray[Any]
NAME, IDENTITY, BESIDE = "checkpoint", "identity.json", "beside.json"
SECONDS = 2.0  # between two writings of the sums


def write(path: Path, arrays: dict[str, Array], durable: bool) -> None:
    """Put arrays into a file that is always whole."""
    records.write(path, records.pack(Record({"kind": "checkpoint"}, arrays)), durable)


def read(path: Path) -> dict[str, Array]:
    """What `write` wrote, or DamagedError."""
    data = path.read_bytes()
    old = data.startswith(records_legacy.CHECKPOINT)
    try:
        return (records_legacy.checkpoint if old else records.unpack)(data).arrays
    except DamagedError as error:
        raise DamagedError(f"{path} is damaged: {error}") from None
    except NewerError as error:
        raise error.inside(where=str(path)) from None


class Checkpoint:
    """The checkpoint of one experiment in a result folder."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder = folder / NAME
        self.identity = identity(experiment)
        self.warnings: list[str] = []
        self.failure: OSError | None = None  # of a thread that could not store its run
        self._saved, self._covered, self._when = 0, 0, -SECONDS

    def begin(self, beside: str = "") -> None:
        """Make an empty checkpoint, with a text beside it."""
        self.remove()
        self.folder.mkdir(parents=True)
        if beside:
            records.write(self.folder / BESIDE, beside.encode())
        text = json.dumps(self.identity, indent=2) + "\n"
        records.write(self.folder / IDENTITY, text.encode())

    @staticmethod
    def beside(folder: Path) -> str:
        """The text that is kept with the checkpoint in a result folder, if there is one."""
        path = folder / NAME / BESIDE
        return path.read_text() if path.is_file() else ""

    def exists(self) -> bool:
        """Whether there is something to resume."""
        return (self.folder / IDENTITY).exists()

    def resume(self, total: Accumulator) -> dict[int, OneRun]:
        """Load the sums into `total`; returns the finished runs beyond them."""
        self._check_identity()
        for name in ("total", "total.old"):
            path = self.folder / name
            try:
                if path.exists():
                    total.load(read(path))
                    break
            except (KeyError, ValueError, OSError) as error:
                self.warnings.append(f"{error}; it is skipped")
                path.unlink()  # or it would replace the good one
        runs = self._stored_runs()
        self._saved, self._covered = total.runs, min([total.runs, *runs])
        return {n: run for n in runs if n >= total.runs and (run := self._read_run(n)) is not None}

    def _read_run(self, number: int) -> OneRun | None:
        try:
            return OneRun(**read(self.folder / f"run-{number}"))
        except (TypeError, ValueError, OSError) as error:
            self.warnings.append(f"{error}; that run is repeated")
            return None

    def _check_identity(self) -> None:
        try:
            was = json.loads((self.folder / IDENTITY).read_text())
        except ValueError:
            was = {}
        now = json.loads(json.dumps(self.identity))
        if "unknown" in now:
            right = "start again with --force, or put it into a file"
            found = f"cannot know that this is the same experiment: {now['unknown'][0]}"
            raise InputError("--resume", found, right, str(self.folder.parent))
        differences = changed(was.pop("plugins", []), now.pop("plugins", []))
        differences += _differences("", was, now)
        if differences:
            right = "repeat the first command, or start again with --force"
            found = f"was started with other settings: {'; '.join(differences[:3])}"
            raise InputError("--resume", found, right, str(self.folder.parent))

    def save_run(self, number: int, run: OneRun) -> None:
        """Put one finished run on disk."""
        write(self.folder / f"run-{number}", vars(run), durable=False)

    def save_total(self, total: Accumulator) -> None:
        """Put the sums on disk every few seconds, and remove runs that are in them twice."""
        if self.failure is not None:
            raise self.failure
        if monotonic() - self._when < SECONDS or total.runs == self._saved:
            return
        path = self.folder / "total"
        if path.exists():
            path.replace(self.folder / "total.old")
        write(path, total.to_arrays(), durable=True)
        for number in range(self._covered, self._saved):
            (self.folder / f"run-{number}").unlink(missing_ok=True)
        self._covered, self._saved, self._when = self._saved, total.runs, monotonic()

    def count(self) -> int:
        """How many finished runs are on disk, of any experiment."""
        summed = 0
        for name in ("total.old", "total"):
            with suppress(OSError, KeyError, ValueError):
                summed = max(summed, int(read(self.folder / name)["mse_count"]))
        return summed + sum(number >= summed for number in self._stored_runs())

    def _stored_runs(self) -> list[int]:
        numbers = (path.name.removeprefix("run-") for path in self.folder.glob("run-*"))
        return sorted(int(number) for number in numbers if number.isdigit())

    def remove(self) -> None:
        """Remove the checkpoint: the result is written, or a new one begins."""
        (self.folder / IDENTITY).unlink(missing_ok=True)  # first: without it the rest is ignored
        shutil.rmtree(self.folder, ignore_errors=True)


def _differences(path: str, was: Any, now: Any) -> Any:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted(was.keys() | now.keys()):
            yield from _differences(f"{path}.{key}" if path else key, was.get(key), now.get(key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for i, (a, b) in enumerate(zip(was, now, strict=True)):
            yield from _differences(f"{path}[{i}]", a, b)
    elif was != now:
        yield f"{path} was {json.dumps(was)} and is {json.dumps(now)}"
