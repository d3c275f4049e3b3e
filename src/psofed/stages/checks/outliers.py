"""Outliers: a sample whose error is many times the median of the last ones is refused.

The scale is the median of the client's last |y - w^T z|, refused ones included, so a few outliers
cannot raise it, however large they are. If the world itself has changed, most of the last errors
are soon of the new kind: of errors that are alike, at most (window - 1) / 2 in a row are refused,
and after `window` samples nothing of the old world is left in the scale. The first two samples of a
client are refused, because nobody can tell which of them is wrong. A sensor that is stuck gives the
same x and y again and again: after `repeats` of them in a row there is nothing more to learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from psofed.errors import InputError
from psofed.federation import schema
from psofed.stages.checks import range as ranges
from psofed.stages.checks.contract import CLIPPED, EARLY, FAR, LEARNED, STUCK, Array, Memory

LEAST = 3  # errors that have a middle one


@dataclass(frozen=True)
class Outliers(ranges.Options):
    """How far off a sample may be, in medians of the last errors, and how often it may repeat.

    >>> check = Options(factor=4, window=5)
    >>> memory, x = check.memory(1, "float64"), np.zeros(1)
    >>> y = [1.0, -999, 2, 3, 50, 2]
    >>> [int(check.judge(memory, x, np.array(each), np.array(0.0))[1]) for each in y]
    [2, 2, 0, 0, 5, 0]
    """

    name: ClassVar[str] = "outliers"
    factor: float = 20.0  # an error may be this many times the median of the last ones
    window: int = 31  # errors that the median is of
    action: Literal["refuse", "clip"] = "refuse"  # "clip": learn with an error of just that size
    repeats: int = 5  # the same x and y may come this many times in a row

    def check(self) -> None:
        """The factor is at least 1, and the window has a middle."""
        super().check()
        schema.require(self, "factor", 1 <= self.factor < np.inf, "use 1 or more")
        if self.window < LEAST or not self.window % 2:
            raise InputError("window", f"is {self.window}", f"use an odd number, {LEAST} or more")
        schema.at_most(self, {"window": 1001})
        schema.positive(self, "repeats")

    def describe(self) -> str:
        clipped = ", clipped" if self.action == "clip" else ""
        return f"outliers beyond {self.factor:g} medians{clipped}"

    def memory(self, taps: int, dtype: str) -> Memory:
        """The last errors, as a ring, and their number so far; the last sample, and how often."""
        errors, last = np.zeros(self.window, dtype), np.full(taps + 1, np.nan, dtype)
        counts = {name: np.zeros((), np.int64) for name in ("count", "again")}
        return {"errors": errors, "last": last, **counts}

    def judge(self, memory: Memory, x: Array, y: Array, prediction: Array) -> tuple[Array, Array]:
        """Refuse or clip errors above `factor` times the scale; then they are part of it."""
        y, verdict = super().judge(memory, x, y, prediction)
        verdict = np.where((verdict == LEARNED) & self._stuck(memory, x, y), STUCK, verdict)
        error = np.abs(y - prediction)
        # The error of a model that has diverged is no number, and no fault of the sample.
        known = (verdict == LEARNED) & np.isfinite(error)
        limit = self.factor * self._scale(memory, error, known)
        early = known & (memory["count"] < LEAST)
        far = known & ~early & (error > limit)
        if self.action == "clip":
            y = np.where(far, prediction + np.copysign(limit, y - prediction), y)
        verdict = np.where(early, EARLY, verdict)
        return y, np.where(far, CLIPPED if self.action == "clip" else FAR, verdict)

    def _stuck(self, memory: Memory, x: Array, y: Array) -> Any:
        """Whether this sample has come more than `repeats` times in a row."""
        last, again = memory["last"], memory["again"]
        sample = np.concatenate([x, y[..., None]], axis=-1)
        again[...] = np.where((sample == last).all(axis=-1), again + 1, 1)
        last[...] = sample
        return again > self.repeats

    def _scale(self, memory: Memory, error: Array, known: Any) -> Array:
        """The median of the last errors and this one, which joins them; of an even number of
        errors the lower one in the middle.
        """
        ring, count = memory["errors"], memory["count"]
        here = (count % self.window)[..., None]
        old = np.take_along_axis(ring, here, -1)
        np.put_along_axis(ring, here, np.where(known[..., None], error[..., None], old), -1)
        count += known
        there = np.minimum(count, self.window)[..., None]
        ordered = np.sort(np.where(np.arange(self.window) < there, ring, np.inf), axis=-1)
        return np.take_along_axis(ordered, np.maximum(there - 1, 0) // 2, -1)[..., 0]


Options = Outliers
