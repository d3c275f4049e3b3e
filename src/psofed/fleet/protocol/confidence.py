"""How far the answers of a deployed client may be off: learned from its own labels.

It is sent only if an operator wants that (`Report`), to be shown: no weight and no fold depends on
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import exp, isfinite, log, log10
from statistics import median
from struct import Struct
from typing import NamedTuple

import numpy as np

from psofed.core import conformal
from psofed.core.conformal import ALPHA, LARGEST, LEVELS, SMALLEST
from psofed.core.native import Array
from psofed.federation.records import number, taken
from psofed.stages.mix import EXPERTS

REPORTED = 0.9  # the level whose coverage a client may report to its server
WIDEST = 100.0  # of |theta| in a record: those of errors from SMALLEST to LARGEST are smaller
FORMAT, LARGEST_COUNT = Struct("<IIfII"), 2**32 - 1  # of a report
WINDOW = 1000  # labels over which the error of a client is averaged
LEAST, MOST = 1e-30, 1e30  # of a squared error
WAITING = 1024  # questions whose labels may still come; for older ones the model is asked again


@dataclass(frozen=True)
class Forecast:
    """The answer to a question, and the radius of its interval at each level."""

    y: float
    radii: tuple[float, ...]
    labels: int  # from which the radii were learned

    def interval(self, level: float) -> tuple[float, float] | None:
        """The low and the high end; None while there are fewer labels than 1 / (1 - level)."""
        j = conformal.which(level)
        if self.labels < round(1 / float(ALPHA[j])):
            return None
        return self.y - self.radii[j], self.y + self.radii[j]


class Confidence:
    """The radii of one client (core/conformal.py), and how often they were right.

    A label that comes later than its question is compared with the answer that was given then, and
    with the radii of then.
    """

    def __init__(self) -> None:
        self.theta: list[float] = conformal.start().tolist()
        self.labels = 0
        self.square, self.recent = 0.0, 0  # mean square of errors, of how many since this start
        self.inside = [0] * len(LEVELS)
        self._asked: dict[bytes, tuple[float, list[float], int]] = {}  # answer, log q, number
        self._questions = 0

    def forecast(self, y: float) -> Forecast:
        """The answer y to a question, with the radii of now."""
        return Forecast(y, tuple(map(exp, accumulate(self.theta, max))), self.labels)

    def answer(self, x: Array, y: float) -> Forecast:
        """The answer y to a question x; it is remembered until the label comes."""
        promised = list(accumulate(self.theta, max))
        key = x.tobytes()
        self._asked.pop(key, None)
        self._questions += 1
        self._asked[key] = y, promised, self._questions
        if len(self._asked) > WAITING:
            del self._asked[next(iter(self._asked))]
        return self.forecast(y)

    def learn(self, x: Array, guess: float, y: float) -> None:
        """A label: of a question, or of a sample that would have been answered with `guess`."""
        found = self._asked.pop(x.tobytes(), None) if self._asked else None
        promised, number = None, self._questions
        if found is not None:
            guess, promised, number = found
        promised = promised or list(accumulate(self.theta, max))
        error = abs(y - guess)
        self.recent += 1  # labels before this one are forgotten slowly
        square = error * error if error < MOST**0.5 else MOST
        self.square += (square - self.square) / min(self.recent, WINDOW)
        size = log(min(max(error, SMALLEST), LARGEST) if isfinite(error) else LARGEST)
        for j, most in enumerate(promised):
            self.inside[j] += size <= most
        conformal.adapt_one(self.theta, self.labels, size, promised, self._questions - number)
        self.labels += 1

    def coverage(self, level: float) -> float:
        """The share of all labels so far that were inside; NaN before the first."""
        return self.inside[conformal.which(level)] / self.labels if self.labels else float("nan")

    def to_arrays(self) -> dict[str, Array]:
        """What a record holds of it: before the first label, nothing."""
        if not self.labels:
            return {}
        return {
            "radius.theta": np.array(self.theta), "radius.labels": np.array(self.labels, np.int64),
            "radius.inside": np.array(self.inside, np.int64),
        }  # fmt: skip

    def restore(self, arrays: dict[str, Array]) -> None:
        """The inverse; before the first label, a record holds nothing."""
        if "radius.theta" in arrays:
            levels = (len(LEVELS),)
            theta = taken(arrays, "radius.theta", np.float64, levels, -WIDEST, WIDEST)
            self.labels = number(arrays, "radius.labels")
            inside = taken(arrays, "radius.inside", np.int64, levels, 0, self.labels)
            self.theta, self.inside = theta.tolist(), inside.tolist()


class Report(NamedTuple):
    """What a client reports: labels and those inside their interval, the mean of (y - guess)^2 and
    from how many labels, samples that were refused or clipped; with a mix, a byte of each weight.
    """

    labels: int
    inside: int
    square: float
    recent: int
    refused: int
    trust: bytes = b""

    @staticmethod
    def of(found: Confidence, refused: int, weights: Array | None = None) -> Report:
        """What a client may report, with how many samples it has refused and whom it trusts."""
        inside = found.inside[conformal.which(REPORTED)]
        shares = np.zeros(0) if weights is None else np.nan_to_num(weights)
        trust = np.rint(255 * shares).astype(np.uint8).tobytes()
        return Report(found.labels, inside, found.square, found.recent, refused, trust)

    @staticmethod
    def read(body: bytes) -> Report | None:
        """The inverse of `to_bytes`; None: nothing sensible."""
        if len(body) not in (FORMAT.size, FORMAT.size + len(EXPERTS)):
            return None
        report = Report._make((*FORMAT.unpack(body[: FORMAT.size]), body[FORMAT.size :]))
        square = isfinite(report.square) and report.square >= 0
        return report if square and report.inside <= report.labels > 0 < report.recent else None

    def to_bytes(self) -> bytes:
        """The body of a hello; counts that do not fit are the largest that do."""
        numbers = self[:-1]
        most = (n if isinstance(n, float) else min(n, LARGEST_COUNT) for n in numbers)
        return FORMAT.pack(*most) + self.trust

    @property
    def coverage(self) -> float:
        """The share of labels that were inside their interval."""
        return round(self.inside / self.labels, 4)

    @property
    def trusted(self) -> str | None:
        """Its experts with their weights, largest first; None: it has no mix.

        >>> Report(9, 8, 0.5, 9, 0, bytes([51, 0, 0, 204, 0, 0])).trusted
        'ridge 80 %, own 20 %'
        """
        each = sorted(zip(self.trust, EXPERTS, strict=False), key=lambda one: -one[0])
        shown = [f"{name} {weight / 255:.0%}".replace("%", " %") for weight, name in each if weight]
        return ", ".join(shown) or None

    @property
    def decibels(self) -> float:
        """The error in dB."""
        return 10 * log10(min(max(self.square, LEAST), MOST))


class Summary(NamedTuple):
    """The error as clients see it: the median in dB, the median distance to it, of how many."""

    db: float
    spread: float
    clients: int


def summary(reports: Iterable[Report]) -> Summary | None:
    """Median and median absolute deviation: few clients that err or lie do not move them much."""
    errors = [report.decibels for report in reports]
    if not errors:
        return None
    middle = median(errors)
    spread = median(abs(error - middle) for error in errors)
    return Summary(round(middle, 2), round(spread, 2), len(errors))
