"""Where samples of a deployment come from: the experiment's stream, a table, lines, anything.

Lockstep sources give sample n when asked for it. Live sources are iterators of `Sample`: those with
y are learned from, those without y are questions.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.fleet.protocol.client import Source
from psofed.fleet.protocol.deployment import Deployment
from psofed.stages.surroundings import attack_in
from psofed.streams import contract
from psofed.streams.contract import BLOCK, MALFORMED, SkippedError, measured

if TYPE_CHECKING:
    from psofed.streams.data.live import Live

LONGEST = 2**20  # bytes of a line
ASK = "ask"  # true in a line: a question of which nothing is remembered
INFINITE = "not finite"


def replay(experiment: Experiment, k: int) -> Source:
    """The experiment's own stream of client k: what the simulation gives it (lockstep)."""
    return _Replay(experiment, k)


class _Replay:
    """The stream block by block; a step back starts from the beginning, as it has a memory."""

    def __init__(self, experiment: Experiment, k: int) -> None:
        self.experiment, self.clients = experiment, np.array([k])
        task = experiment.task(0)
        self.seeds, self.attack = task.seeds, attack_in(experiment.attack, task)
        self._rewind()

    def _rewind(self) -> None:
        self.first = self.end = 0  # the samples at hand are those of first..end-1
        self.x, self.y = np.empty((0, self.experiment.stream.taps)), np.empty(0)
        self.memory: Any = None

    def _advance(self) -> None:
        self.first, self.end = self.end, self.end + BLOCK
        stream, rounds = self.experiment.stream, (self.first, self.end)
        dtype, memory = self.experiment.dtype, self.memory
        samples = contract.samples(stream, self.seeds, self.clients, *rounds, dtype, memory)
        samples = contract.falsified(samples, self.attack, self.clients, self.first)
        self.memory, self.x, self.y = samples.memory, samples.x[0], samples.y[0]

    def __call__(self, start: int, stop: int) -> tuple[Array, Array]:
        if start < self.first:
            self._rewind()
        xs, ys = [], []
        while start < stop:
            if start >= self.end:
                self._advance()
                continue
            here = slice(start - self.first, stop - self.first)
            xs.append(self.x[here])
            ys.append(self.y[here])
            start = self.end
        return np.concatenate(xs), np.concatenate(ys)


@dataclass(frozen=True, eq=False)
class Sample:
    """Inputs x [L]; y to learn from, or None to be predicted."""

    x: Array
    y: float | None
    what_if: bool = False  # a question of which nothing is remembered
    clipped: str = ""  # which inputs were, in words
    jumps: bool = False  # whether one of these is far beyond, as if the sensor were broken


class MalformedError(ValueError):
    """A line that is not a sample, why, and of which kind it is."""

    def __init__(self, text: str, kind: str = MALFORMED) -> None:
        super().__init__(text)
        self.kind = kind


def parse(line: str, taps: int) -> Sample:
    """A line of JSON, {"x": [...], "y": ...}, or of CSV, L inputs and y; without y: a question."""
    text, what_if = line.strip(), False
    try:
        if text.startswith("{"):
            table = json.loads(text)
            what_if = table.pop(ASK, None) is True
            unknown = sorted(table.keys() - {"x", "y"})
            if "x" not in table or unknown:
                raise MalformedError('a JSON line is {"x": [...], "y": ...}, or without y')
            numbers = _of_json(table, taps)
        else:
            numbers = next(csv.reader([text]), [])
        if any(isinstance(number, bool | list | dict) for number in numbers):
            raise MalformedError("a value is not a number")
        row = np.array([float(number) for number in numbers])
    except (ValueError, TypeError, OverflowError, RecursionError, csv.Error) as error:
        if isinstance(error, MalformedError):
            raise
        raise MalformedError("a value is not a number, or the line is incomplete") from None
    if len(row) not in (taps, taps + 1):
        found = f"{len(row)} values instead of {taps} inputs and y"
        raise MalformedError(f"{found} (without y: a question)")
    if not np.isfinite(row).all():
        raise MalformedError("a value is not finite", INFINITE)
    y = float(row[taps]) if len(row) > taps and not what_if else None
    return Sample(row[:taps], y, what_if)


def _of_json(table: dict[str, Any], taps: int) -> list[Any]:
    """Inputs and y in one row, from JSON, where they have names."""
    values, y = table["x"], table.get("y")
    numbers = [*(values if isinstance(values, list) else [values])]
    if len(numbers) != taps:
        raise MalformedError(f"{len(numbers)} inputs instead of {taps}")
    return numbers + ([] if y is None else [y])


def checked(sample: Sample, taps: int, dtype: str, bound: float) -> Sample:
    """The sample in the precision of learning, or an error that says why it is unusable."""
    x = np.asarray(sample.x)
    if x.shape != (taps,):
        raise MalformedError(f"a sample has inputs of shape {x.shape} instead of {taps} numbers")
    row = np.empty(taps + 1, dtype)
    try:
        with np.errstate(over="ignore"):
            row[:taps] = x
            row[taps] = 0 if sample.y is None else sample.y
    except (ValueError, TypeError, OverflowError):
        raise MalformedError("a value is not a number") from None
    largest = np.abs(row).max()
    if not np.isfinite(largest):
        raise MalformedError(f"a value is not finite in {dtype}", INFINITE)
    if largest > bound:
        raise MalformedError(f"a value is above {bound:g}", "too large")
    return replace(sample, x=row[:taps], y=None if sample.y is None else float(row[taps]))


def read_lines(handle: int) -> Iterator[bytes]:
    """The lines of an open file as they arrive; of a very long line, the first part only.

    Without Python's buffers: a thread that waits for input would hold their lock at the end of the
    process, and Python would then abort.
    """
    os.set_blocking(handle, True)
    rest, skip = b"", False
    while data := os.read(handle, 2**16):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            if not skip:
                yield line
            skip = False
        if len(rest) > LONGEST:
            if not skip:
                yield rest
            rest, skip = b"", True
    if not skip:
        yield rest


class NamedCells:
    """Lines of a measured stream: JSON by column, or CSV after a line with the names."""

    def __init__(self, live: Live) -> None:
        self.live, self.names = live, list[str]()

    def __call__(self, line: str) -> Sample | None:
        """A sample or a question; None: a line with the names of columns."""
        text = line.strip()
        try:
            if text.startswith("{"):
                row = json.loads(text)
            else:
                cells = [cell.strip() for cell in next(csv.reader([text]), [])]
                if not self.names:
                    self.names = cells
                    return None
                if len(cells) != len(self.names):
                    raise MalformedError(f"{len(cells)} cells instead of {len(self.names)}")
                row = dict(zip(self.names, cells, strict=True))
            if row.pop(ASK, None) is True:
                return Sample(self.what_if(row), None, what_if=True)
            found = self.live(row)
            return Sample(*found, clipped=self.live.clipped, jumps=self.live.jumps)
        except InputError as error:
            kind = error.kind if isinstance(error, SkippedError) else MALFORMED
            raise MalformedError(f"{error.field} {error.found}", kind) from None
        except (ValueError, RecursionError, csv.Error) as error:
            if isinstance(error, MalformedError):
                raise
            raise MalformedError("the line is incomplete") from None

    def what_if(self, question: dict[str, Any]) -> Array:
        """The inputs of a row of which nothing is remembered."""
        return self.live.what_if(question)


class Numbers:
    """Lines of numbers: `parse`."""

    def __init__(self, taps: int) -> None:
        self.taps = taps

    def __call__(self, line: str) -> Sample:
        return parse(line, self.taps)

    def what_if(self, question: dict[str, Any]) -> Array:
        """The inputs x of {"x": [...]}."""
        return parse(json.dumps({**question, ASK: True}), self.taps).x


Reading = NamedCells | Numbers  # how lines are read, and what other programs ask


def reading(stream: Any, k: int, ahead: float = inf) -> Reading:
    """How the lines of client k are read: by column, if the stream knows columns.

    `ahead`: seconds by which a row may be ahead of this machine's clock.
    """
    return NamedCells(stream.live(k, ahead)) if measured(stream) else Numbers(stream.taps)


def lines(source: Iterable[str | bytes], read: Reading) -> Iterator[Sample | MalformedError]:
    """The samples of lines as they arrive; a malformed line is returned as an error."""
    for number, line in enumerate(source, 1):
        if line.strip():
            try:
                sample = read(line if isinstance(line, str) else line.decode())
                if sample is not None:
                    yield sample
            except UnicodeDecodeError:
                yield MalformedError(f"line {number}: it is not UTF-8")
            except MalformedError as error:
                yield MalformedError(f"line {number}: {error}", error.kind)


def recorded(stream: Any, path: str | Path, k: int | None = None) -> tuple[Array, Array]:
    """x and y of a file: rows of the measured table's columns (of client k), or L inputs and y."""
    return stream.recorded(path, k) if measured(stream) else table(path, stream.taps)


def table(path: str | Path, taps: int) -> tuple[Array, Array]:
    """x and y of a CSV file whose last column is y; a first line of names is skipped."""
    rows = []
    for number, line in enumerate(schema.read_text(path, "a CSV").splitlines(), 1):
        if not line.strip():
            continue
        try:
            sample = parse(line, taps)
            if sample.y is None:
                raise MalformedError(f"{taps} values instead of {taps} inputs and y")
        except MalformedError as error:
            if number == 1 and not any(cell.strip()[:1].isdigit() for cell in line.split(",")):
                continue  # names of columns
            raise InputError(f"line {number}", str(error), "correct it", str(path)) from None
        rows.append((*sample.x, sample.y))
    if not rows:
        raise InputError(str(path), "has no samples", f"give {taps} inputs and y per line")
    array = np.array(rows)
    return array[:, :taps], array[:, taps]


def test_set(plan: Deployment) -> Callable[[Array], float] | None:
    """A function from w to 10 log10 of its mean square error; None without test samples.

    On the lockstep clock the data is the experiment's, and so is its test set.
    """
    task, path = plan.method().task, plan.deploy.test
    if path:
        x, y = recorded(plan.experiment.stream, path)
    elif plan.deploy.live:
        return None
    else:
        x, y, _ = plan.experiment.draw_test(task.seeds)
    learner, z = task.learner, task.features(x.astype(task.dtype))

    def decibels(w: Array) -> float:
        error = float(np.mean(np.square(y - learner.predict(w, z))))
        return 10 * float(np.log10(max(error, 1e-300)))

    return decibels


def targets(plan: Deployment) -> str:
    """What `test_set` tests on, in words: the targets of a file were measured."""
    return "measured targets" if plan.deploy.test else plan.experiment.judged


test_set.__test__ = False  # type: ignore[attr-defined]  # not a test for pytest
