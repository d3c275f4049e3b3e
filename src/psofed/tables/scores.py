"""Scores: errors per client, before learning (prequential) and of frozen models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from psofed.core.native import Array
from psofed.federation.options import Options
from psofed.streams.data.rounds import Rounds
from psofed.tables.intervals import Intervals

Kind = Literal["kernel", "alone", "free", "raw"]  # shares, does not, needs no method; sends samples
BINS = 48  # of the curves over time
APART = 1_000  # clients whose errors are kept block by block, each for itself
FINEST = 160  # blocks, before neighbours are joined
FEWEST = 20  # blocks, that joining leaves
WORST = 10
ROUNDING = 1e-12  # relative: a variance below is that of a constant
SHOWN = 0.9  # the level of the intervals in tables of one line


def block_marks(first: int, stop: int, per_day: float | None) -> Array:
    """The ends of the blocks of rounds first..stop-1: whole days, where there are enough of them.

    Within a day errors rise and fall with the hours; a block of whole days has all of them.
    """
    length = max(stop - first, 1)
    if per_day is not None and 2 <= per_day <= length / FEWEST:
        days = np.ceil(length / per_day / FINEST)
        marks = first + np.rint(
            np.arange(1, length // (days * per_day) + 1) * days * per_day
        ).astype(int)
        marks[-1] = stop  # what is left belongs to the last block
        return np.asarray(marks)
    return first + np.linspace(0, length, min(FINEST, length) + 1).astype(int)[1:]


@dataclass(eq=False)
class Truth:
    """Count, sum and sum of squares of the targets of each client, in one part of the rounds."""

    count: Array
    total: Array
    square: Array

    @classmethod
    def empty(cls, clients: int) -> Truth:
        """Nothing yet."""
        return cls(*(np.zeros(clients) for _ in range(3)))

    def add(self, y: Array, counted: Array) -> None:
        """Targets y [B, K] where they are counted."""
        known = np.where(counted, y, 0).astype(np.float64)
        self.count += counted.sum(axis=0)
        self.total += known.sum(axis=0)
        self.square += np.square(known).sum(axis=0)

    @property
    def variance(self) -> float:
        """Of all clients' targets around their common mean."""
        count = self.count.sum()
        if not count:
            return float("nan")
        square = self.square.sum() / count
        found = square - (self.total.sum() / count) ** 2
        return float(found) if found > ROUNDING * square else 0.0


@dataclass(eq=False)
class Score:
    """The score of one contender. Errors are sums of squares per client [K], in scaled units."""

    title: str
    clients: int
    kind: Kind = "kernel"
    options: Options | None = None  # what a plan can hold; None: no method of a plan
    # By part of the rounds ("prequential", "frozen", "choice"), then by model ("global", "own").
    errors: dict[str, dict[str, Array]] = field(default_factory=dict)
    absolute: dict[str, dict[str, Array]] = field(default_factory=dict)  # without the square
    curve: Array = field(default_factory=lambda: np.zeros(BINS))
    up: int = 0
    down: int = 0
    multicast: int = 0
    messages: int = 0  # one up or one down
    largest: int = 0  # bytes of the longest message
    setup: int = 0  # bytes of each client once, before round 0
    # Of the last part, by model: sums of squares in each block of time [B, K]; of very many clients
    # all together [B, 1].
    blocks: dict[str, Array] = field(default_factory=dict)
    # What a check made of the samples: seen, learned, and refused by reason; nothing without one.
    checked: dict[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Up and down, point to point."""
        return self.up + self.down

    def add(self, part: str, model: str, errors: Array) -> Array:
        """Errors [B, K], zero where nothing is counted; returns their squares.

        A model that has overflowed has no number to say: its error is infinite.
        """
        squares = np.square(errors, dtype=np.float64)
        for sums, more in ((self.errors, squares), (self.absolute, np.abs(errors))):
            ours = sums.setdefault(part, {})
            before = ours.get(model, np.zeros(self.clients))
            known = np.where(np.isnan(more), np.inf, more)
            ours[model] = before + known.sum(axis=0, dtype=np.float64)
        return squares

    def add_blocks(self, model: str, errors: Array, block: Array, count: int) -> None:
        """The same, by the block of time of each row; blocks do not decrease."""
        wide = self.clients if self.clients <= APART else 1
        sums = self.blocks.setdefault(model, np.zeros((count, wide)))
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        found = np.add.reduceat(errors, starts, axis=0, dtype=np.float64)
        sums[block[starts]] += found if wide > 1 else found.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of all contenders, on the same samples."""

    scores: list[Score]
    truths: dict[str, Truth]  # by part of the rounds
    marks: Array  # rounds: the ends of the bins of the curves
    counts: Array  # samples in each bin
    days: float  # the time over which bytes were sent
    clients: list[str]
    intervals: Intervals | None = None  # of the first contender
    worst: list[dict[str, Any]] = field(default_factory=list)  # moments of its frozen model

    def error(self, j: int, part: str, model: str = "global") -> float:
        """Mean squared error over the variance of the target, all clients together."""
        truth, sums = self.truths[part], self.scores[j].errors.get(part, {}).get(model)
        if sums is None or not truth.count.sum():
            return float("nan")
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.float64(sums.sum()) / truth.count.sum() / np.float64(truth.variance))

    def by_client(self, j: int, part: str, model: str) -> Array:
        """The same for each client, over the variance of all; NaN for clients without samples."""
        truth, sums = self.truths[part], self.scores[j].errors.get(part, {}).get(model)
        if sums is None:
            return np.full(len(self.clients), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(sums / truth.count / truth.variance)

    def curves(self) -> dict[str, Any]:
        """The errors of all over time, in bins."""
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = self.counts * self.truths["prequential"].variance
            methods = {score.title: _list(score.curve / scale) for score in self.scores}
        return {"round": self.marks.tolist(), "methods": methods}

    def rows(self, unit: float) -> list[dict[str, Any]]:
        """One entry per contender: errors over the variance and in units of the target; bytes."""
        rows: list[dict[str, Any]] = []
        for j, score in enumerate(self.scores):
            rows.append({
                "method": score.title,
                "prequential": self.error(j, "prequential"),
                "frozen": self.error(j, "frozen"),
                **self._units(score, "prequential", unit),
                **self._units(score, "frozen", unit),
                "prequential_own": self.error(j, "prequential", "own"),
                "frozen_own": self.error(j, "frozen", "own"),
                **self._promise(j, unit),
                "up_bytes": score.up, "down_bytes": score.down, "largest_message": score.largest,
                "bytes_per_device_and_day": score.bytes / len(self.clients) / max(self.days, 1e-9),
                "setup_bytes_per_device": score.setup,
            })  # fmt: skip
        return rows

    def _units(self, score: Score, part: str, unit: float) -> dict[str, float]:
        """Root of the mean squared error, and mean absolute error, of all clients together."""
        square, far = (
            sums.get(part, {}).get("global", np.array(np.nan)).sum()
            / (self.truths[part].count.sum() or np.nan)
            for sums in (score.errors, score.absolute)
        )
        return {f"{part}_rmse": float(np.sqrt(square)) * unit, f"{part}_mae": float(far) * unit}

    def _promise(self, j: int, unit: float) -> dict[str, float]:
        """Coverage and width in the last part; the width that is best in hindsight, if constant."""
        values, learned = [float("nan")] * 3, self.intervals
        if j == 0 and learned is not None:
            last = learned.summary("last", SHOWN, unit)
            best = learned.together(learned.constant(SHOWN)) * unit
            values = [last["coverage"], last["width"], best]
        return dict(zip(("coverage_90", "width_90", "constant_width_90"), values, strict=True))


class Worst:
    """The moments at which the frozen model of the first contender erred most."""

    def __init__(self) -> None:
        self.rows = np.empty((0, 5))  # squared error, client, time, prediction, label

    def add(self, y: Array, guess: Array, time: Array, judged: Array) -> None:
        """Labels and predictions [B, K], where they are judged."""
        k = np.nonzero(judged)[1]
        y, guess, time = (each[judged].astype(np.float64) for each in (y, guess, time))
        error = np.nan_to_num(np.square(y - guess), nan=np.inf)
        rows = np.concatenate([self.rows, np.column_stack([error, k, time, guess, y])])
        self.rows = rows[np.argsort(-rows[:, 0], kind="stable")[:WORST]]

    def result(self, score: Score, rounds: Rounds) -> list[dict[str, Any]]:
        """As plain values, in the units of the target."""
        found, table = [], rounds.table
        for error, k, time, *values in self.rows:
            guess, y = _list(rounds.recipe.restore(np.array(values)))
            total = float(score.errors["frozen"]["global"].sum())
            share = _list(error / total if 0 < total < np.inf else np.nan)
            when = f"{time:.12g}"
            if table.ticks.dates:
                when = str(np.datetime64(round(time), "s"))[:16].replace("T", " ")
            found.append({"client": table.clients[int(k)], "time": when, "predicted": guess,
                          "actual": y, "share": share})  # fmt: skip
        return found


def _list(values: Any) -> Any:
    """Numbers with five digits, so that files stay small; nothing where there is none.

    >>> _list(np.array([0.123456789, np.inf]))
    [0.12346, None]
    """
    if np.ndim(values):
        return [_list(value) for value in values]
    return float(f"{values:.5g}") if np.isfinite(values) else None
