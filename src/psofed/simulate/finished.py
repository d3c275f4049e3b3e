"""Finished runs: added in order, so that nothing grows with their number, and kept on disk.

The sums are written every few seconds, into a file that is always whole. So a kill costs the runs
of some seconds, and what is repeated has the same numbers.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.curves import PER_DB, STEADY_SHARE, Curves, Estimate, table_rounds, to_db
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.extras import machine
from psofed.federation import plugins, records
from psofed.federation.records import CHECKPOINT, IDENTITY, DamagedError, Record, VersionError
from psofed.stages.checks.contract import VERDICTS


@dataclass(frozen=True, eq=False)
class OneRun:
    """The outcome of one Monte-Carlo run."""

    mse: Array  # [method, mark]
    traffic: Array  # [up, down, multicast down; method; mark], bytes since the mark before
    floors: Array  # [ridge, noise], or empty: only the first runs compute them
    counts: Array  # [method, verdict]: samples of all clients, if there is a check; else zeros
    global_mse: Array  # [method, mark]: of w, where mse is that of clients' own models


class RunningMoments:
    """Mean and sum of squared deviations of arrays that are added one by one: Welford's rule."""

    def __init__(self, *shape: int) -> None:
        self.count, self.mean, self.squares = 0, np.zeros(shape), np.zeros(shape)

    def add(self, value: Array) -> None:
        """The next array."""
        self.count += 1
        deviation = value - self.mean
        self.mean += deviation / self.count
        self.squares += deviation * (value - self.mean)

    def stderr(self) -> Array:
        """The standard error of the mean; one value has no spread to estimate it from."""
        n = self.count
        return np.sqrt(self.squares / (n * (n - 1))) if n > 1 else np.full_like(self.mean, np.nan)


class Accumulator:
    """The sums over the runs so far."""

    def __init__(self, experiment: Experiment, each: bool = False) -> None:
        self.experiment = experiment
        self.each: list[Array] | None = [] if each else None  # the MSE of every run
        rounds, names = experiment.evaluated, table_rounds(experiment)
        methods = len(experiment.methods)
        self.mse = RunningMoments(methods, len(rounds))
        self.traffic = RunningMoments(3, methods, len(rounds))
        self.floors = RunningMoments(2)
        self.global_mse = RunningMoments(methods, len(rounds))
        self.personal = experiment.judge == "personal"
        self.kept = ("mse", "traffic", "floors") + ("global_mse",) * self.personal
        self.points = np.zeros((methods, len(names) + 1))
        self.products = np.zeros((len(names) + 1, methods, methods))
        self.counts = np.zeros((methods, len(VERDICTS)), np.int64)
        self._marks = np.searchsorted(rounds, names)
        self._steady = rounds >= rounds[-1] * (1 - STEADY_SHARE)

    @property
    def runs(self) -> int:
        """How many runs have been added."""
        return self.mse.count

    def add(self, run: OneRun) -> None:
        """Add the next run. A method that has diverged has an infinite or NaN mean from then on."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._add(run)

    def _add(self, run: OneRun) -> None:
        self.mse.add(run.mse)
        if self.each is not None:
            self.each.append(run.mse)
        self.traffic.add(run.traffic)
        self.counts += run.counts
        if run.floors.size:
            self.floors.add(run.floors)
        if self.personal:
            self.global_mse.add(run.global_mse)
        steady = run.mse[:, self._steady].mean(axis=1, keepdims=True)
        points = np.hstack([run.mse[:, self._marks], steady])
        before = points - self.points
        self.points += before / self.runs
        self.products += before.T[:, :, None] * (points - self.points).T[:, None, :]

    def steady(self) -> tuple[Array, Array]:
        """The steady MSE of each method in dB, and its standard error."""
        mean, n = self.points[:, -1], self.runs
        with np.errstate(invalid="ignore"):
            variance = np.diagonal(self.products[-1]) / max(n * (n - 1), 1)
            return to_db(mean), PER_DB * np.sqrt(variance) / mean

    def curves(self) -> Curves:
        """The curves of the runs so far."""
        up, down, multicast = self.traffic.mean.copy()
        floors = to_db(self.floors.mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = PER_DB * self.floors.stderr() / self.floors.mean
        estimates = map(Estimate, floors.tolist(), relative.tolist())
        return Curves(
            experiment=self.experiment,
            runs=self.runs,
            rounds=self.experiment.evaluated,
            mse=self.mse.mean.copy(),
            stderr=self.mse.stderr(),
            uplink=up,
            downlink=down,
            multicast=multicast,
            points=self.points.copy(),
            covariance=self.products / max(self.runs - 1, 1),
            floors=dict(zip(("ridge", "noise"), estimates, strict=True))
            if self.floors.count
            else {},
            counts=self.counts.copy() if self.experiment.check is not None else None,
            global_mse=self.global_mse.mean.copy() if self.personal else None,
            each=None if self.each is None else np.array(self.each),
        )

    def to_arrays(self) -> dict[str, Array]:
        """The sums as arrays, for a checkpoint."""
        arrays: dict[str, Array] = {"points": self.points, "products": self.products}
        if self.experiment.check is not None:
            arrays["counts"] = self.counts
        for name in self.kept:
            moments: RunningMoments = getattr(self, name)
            arrays |= {
                f"{name}_count": np.array(moments.count),
                f"{name}_mean": moments.mean,
                f"{name}_squares": moments.squares,
            }
        return arrays

    def load(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`; raises ValueError if the shapes do not fit the experiment."""
        for name, array in self.to_arrays().items():
            if arrays[name].shape != array.shape:
                raise ValueError(f"{name} has shape {arrays[name].shape}")
        self.points, self.products = arrays["points"], arrays["products"]
        self.counts = arrays.get("counts", self.counts)
        for name in self.kept:
            moments: RunningMoments = getattr(self, name)
            moments.count = int(arrays[f"{name}_count"])
            moments.mean, moments.squares = arrays[f"{name}_mean"], arrays[f"{name}_squares"]


NOTE, TOTAL = "note.json", "total"
SECONDS = 2.0  # between two writings of the sums


def write(path: Path, arrays: dict[str, Array], durable: bool) -> None:
    """Put arrays into a file that is always whole."""
    records.write(path, records.pack(Record({"kind": "checkpoint"}, arrays)), durable)


def read(path: Path) -> dict[str, Array]:
    """What `write` wrote, or DamagedError."""
    try:
        return records.unpack(path.read_bytes()).arrays
    except DamagedError as error:
        raise DamagedError(f"{path} is damaged: {error}") from None
    except VersionError as error:
        raise error.inside(where=str(path)) from None


class Checkpoint:
    """The checkpoint of one experiment in a result folder: its sums, written every few seconds."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder = folder / CHECKPOINT
        self.identity = identity(experiment)
        self.warnings: list[str] = []
        self._when = -SECONDS

    def begin(self, note: str = "") -> None:
        """Make an empty checkpoint, with a text next to it."""
        self.remove()
        self.folder.mkdir(parents=True)
        if note:
            records.write(self.folder / NOTE, note.encode())
        text = json.dumps(self.identity, indent=2) + "\n"
        records.write(self.folder / IDENTITY, text.encode())

    @staticmethod
    def note(folder: Path) -> str:
        """The text that is kept with the checkpoint in a result folder, if there is one."""
        path = folder / CHECKPOINT / NOTE
        return path.read_text() if path.is_file() else ""

    def exists(self) -> bool:
        """Whether there is something to resume."""
        return (self.folder / IDENTITY).exists()

    def resume(self, total: Accumulator) -> None:
        """Load the sums into `total`; damaged ones are started over, with a warning."""
        self._check_identity()
        path = self.folder / TOTAL
        try:
            if path.exists():
                total.load(read(path))
        except (KeyError, ValueError, OSError) as error:
            self.warnings.append(f"{error}; its runs are repeated")

    def _check_identity(self) -> None:
        try:
            was = json.loads((self.folder / IDENTITY).read_text())
        except ValueError:
            was = {}
        now = json.loads(json.dumps(self.identity))
        if "unknown" in now:
            found = f"may hold another experiment: {now['unknown'][0]}"
            raise InputError(str(self.folder.parent), found, "put it into a file")
        differences = changed(was.pop("plugins", []), now.pop("plugins", []))
        differences += _differences("", was, now)
        if differences:
            found = f"was started with other settings: {'; '.join(differences[:3])}"
            right = "repeat the first command, or give another --out"
            raise InputError(str(self.folder.parent), found, right)

    def save(self, total: Accumulator, at_once: bool = False) -> None:
        """Put the sums on disk, every few seconds or at once."""
        if total.runs and (at_once or monotonic() - self._when >= SECONDS):
            write(self.folder / TOTAL, total.to_arrays(), durable=True)
            self._when = monotonic()

    def count(self) -> int:
        """How many finished runs are on disk, of any experiment."""
        try:
            return int(read(self.folder / TOTAL)["mse_count"])
        except (OSError, KeyError, ValueError):
            return 0

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


def identity(experiment: Experiment) -> dict[str, Any]:
    """What must be the same for a result to be continued: all but the number of runs."""
    with plugins.naming(lambda plugin: plugin.file, lenient=True) as named:
        table = experiment.to_table()
    del table["runs"]
    learners = [part.learner for _, part in experiment.parts()]
    needed = {name: version(name) for learner in learners for name in learner.packages}
    same: dict[str, Any] = {"experiment": table, "versions": machine() | needed}
    if named.used:
        same["plugins"] = [plugin.about() for plugin in named.used.values()]
    if named.nameless:
        same["unknown"] = named.nameless
    return same


def changed(was: list[dict[str, str]], now: list[dict[str, str]]) -> list[str]:
    """In words, which plug-ins are not those that were used before."""
    before = {each["digest"]: each["file"] for each in was}
    lines = []
    for each in now:
        if each["digest"] not in before:
            old = [digest for digest, file in before.items() if file == each["file"]]
            then = (
                f"has changed: its digest was {old[0]} and is" if old else "is new: its digest is"
            )
            lines.append(f"{each['path']} {then} {each['digest']}")
    return lines
