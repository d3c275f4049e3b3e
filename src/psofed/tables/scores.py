"""Scores: errors per client, before learning (prequential) and of frozen models; how one errs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds
from psofed.streams.data.rounds import Rounds
from psofed.tables.intervals import MONTHS, Intervals

Array = NDArray[Any]
BINS = 48  # of the curves over time
APART = 1_000  # clients whose errors are kept block by block, each for itself
FINEST = 160  # blocks, before neighbours are joined
FEWEST = 20  # blocks, that joining leaves
POINTS = 1_500  # pairs of prediction and label that are kept
WORST = 10
CLIENTS = 100  # whose errors are kept by season


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
        return float(self.square.sum() / count - (self.total.sum() / count) ** 2)


@dataclass(eq=False)
class Score:
    """The score of one contender. Errors are sums of squares per client [K], in scaled units."""

    title: str
    clients: int
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
        """Errors [B, K], zero where nothing is counted; returns their squares."""
        squares = np.square(errors, dtype=np.float64)
        for sums, more in ((self.errors, squares), (self.absolute, np.abs(errors))):
            ours = sums.setdefault(part, {})
            before = ours.get(model, np.zeros(self.clients))
            ours[model] = before + more.sum(axis=0, dtype=np.float64)
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
    portrait: dict[str, Any] = field(default_factory=dict)  # how its frozen model errs

    def rmse(self, j: int, part: str, model: str = "global") -> float:
        """Root of the mean squared error of all clients together, in scaled units."""
        return float(np.sqrt(self._mean(self.scores[j].errors, part, model)))

    def mae(self, j: int, part: str, model: str = "global") -> float:
        """Mean absolute error of all clients together, in scaled units."""
        return self._mean(self.scores[j].absolute, part, model)

    def _mean(self, sums: dict[str, dict[str, Array]], part: str, model: str) -> float:
        found, count = sums.get(part, {}).get(model), self.truths[part].count.sum()
        return float("nan") if found is None or not count else float(found.sum() / count)

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

    def curve(self, j: int) -> Array:
        """The error over time, in bins."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(
                self.scores[j].curve / self.counts / self.truths["prequential"].variance
            )

    def per_day(self, j: int) -> float:
        """Bytes per device and day, up and down."""
        return self.scores[j].bytes / len(self.clients) / max(self.days, 1e-9)

    def find(self, title: str) -> int:
        """The contender of that title."""
        return [score.title for score in self.scores].index(title)


class Portrait:
    """How the frozen model of the first contender errs, where and when; bounded, plain values."""

    def __init__(self, clients: int, calendar: bool, seeds: Seeds) -> None:
        self.calendar, self.seeds = calendar, seeds
        self.seasons = np.zeros((2, len(MONTHS), clients))  # squared errors, counts
        self.hours = np.zeros((2, 24))
        self.worst = np.empty((0, 5))  # squared error, client, time, prediction, label
        self.drawn = np.empty((0, 3))  # a random number, label, prediction

    def add(self, y: Array, guess: Array, time: Array, judged: Array, first: int) -> None:
        """Labels and predictions [B, K] of rounds first.., where they are judged."""
        k = np.nonzero(judged)[1]
        y, guess, time = (each[judged].astype(np.float64) for each in (y, guess, time))
        error = np.nan_to_num(np.square(y - guess), nan=np.inf)
        if self.calendar:
            moment = time.astype("datetime64[s]")
            month = moment.astype("datetime64[M]").astype(int) % 12
            hour = moment.astype("datetime64[h]").astype(int) % 24
            for sums, values in enumerate((error, np.ones(len(error)))):
                np.add.at(self.seasons[sums], ((month + 1) % 12 // 3, k), values)
                np.add.at(self.hours[sums], hour, values)
        rows = np.concatenate([self.worst, np.column_stack([error, k, time, guess, y])])
        self.worst = rows[np.argsort(-rows[:, 0], kind="stable")[:WORST]]
        luck = self.seeds.generator("portrait", round=first).random(len(y))
        pairs = np.concatenate([self.drawn, np.column_stack([luck, y, guess])])
        self.drawn = pairs[np.argsort(pairs[:, 0])[:POINTS]]

    def result(self, scores: Scores, rounds: Rounds) -> dict[str, Any]:
        """Everything, in the units of the target; errors over its variance."""
        if not len(self.drawn):
            return {}
        table, methods = rounds.table, scores.scores
        found: dict[str, Any] = {
            "method": methods[0].title,
            "curves": {
                "round": scores.marks.tolist(),
                "methods": {s.title: _list(scores.curve(j)) for j, s in enumerate(methods)},
            },
            "pairs": _list(rounds.recipe.restore(self.drawn[:, 1:].T)),
            "worst": [self._bad(row, scores, rounds) for row in self.worst],
            "unused": {
                "edges": [self._when(edge) for edge in rounds.edges],
                "rounds": np.rint((rounds.edges[1:] - table.start) / table.tick).tolist(),
                "counts": {reason: parts.tolist() for reason, parts in rounds.unused.items()},
            },
        }
        return found | (self._parts(scores, table.clients) if self.calendar else {})

    def _parts(self, scores: Scores, names: list[str]) -> dict[str, Any]:
        variance, (sums, counts) = scores.truths["frozen"].variance, self.seasons

        def error(total: Any, count: Any) -> Any:
            with np.errstate(divide="ignore", invalid="ignore"):
                return _list(np.float64(total) / np.float64(count) / variance)

        some = np.flatnonzero(counts.sum(axis=1))
        rows = [
            {"client": names[k], "all": error(sums[:, k].sum(), counts[:, k].sum()),
             "seasons": error(sums[some, k], counts[some, k])}
            for k in np.flatnonzero(counts.sum(axis=0))[:CLIENTS]
        ]  # fmt: skip
        whole = error(sums[some].sum(axis=1), counts[some].sum(axis=1))
        return {
            "seasons": {"names": [MONTHS[s] for s in some], "all": whole, "by_client": rows},
            "hours": {"error": error(*self.hours), "samples": self.hours[1].astype(int).tolist()},
        }

    def _bad(self, row: Array, scores: Scores, rounds: Rounds) -> dict[str, Any]:
        error, k, time = row[:3]
        guess, y = _list(rounds.recipe.restore(row[3:]))
        total = float(scores.scores[0].errors["frozen"]["global"].sum())
        share = _list(error / total if total > 0 else np.nan)
        return {"client": rounds.table.clients[int(k)], "time": self._when(time),
                "predicted": guess, "actual": y, "share": share}  # fmt: skip

    def _when(self, time: float) -> str:
        if not self.calendar:
            return f"{time:.12g}"
        return str(np.datetime64(round(time), "s"))[:16].replace("T", " ")


def _list(values: Any) -> Any:
    """Numbers with five digits, so that files stay small; nothing where there is none.

    >>> _list(np.array([0.123456789, np.inf]))
    [0.12346, None]
    """
    if np.ndim(values):
        return [_list(value) for value in values]
    return float(f"{values:.5g}") if np.isfinite(values) else None
