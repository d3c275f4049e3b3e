"""Scores: errors per client, before learning (prequential) and of frozen models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.fit.intervals import Intervals

Array = NDArray[Any]
BINS = 48  # of the curves over time
APART = 1_000  # clients whose errors are kept block by block, each for itself


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
    # By block its first round and [B, K], prequential, own models; NaN: not counted. Rarely kept.
    trace: list[tuple[int, Array]] | None = None
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
