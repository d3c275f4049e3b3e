"""What clients tell of their own errors, if they are asked to, and what a server makes of it.

It is shown to operators and used for nothing: no weight and no fold depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, log10
from statistics import median
from typing import NamedTuple

WINDOW = 1000  # labels over which the error of a client is averaged
SMALLEST, LARGEST = 1e-30, 1e30  # of a squared error


class Report(NamedTuple):
    """The mean of (y - guess)^2, from how many labels; samples that were refused or clipped."""

    square: float
    labels: int
    refused: int

    @property
    def decibels(self) -> float:
        """The error in dB.

        >>> Report(0.01, 500, 0).decibels
        -20.0
        """
        return 10 * log10(min(max(self.square, SMALLEST), LARGEST))


class Running:
    """The mean square of a client's errors before it learned from a label, forgetting slowly."""

    def __init__(self) -> None:
        self.square, self.labels = 0.0, 0

    def learn(self, error: float) -> None:
        """One label."""
        self.labels += 1
        size = error * error if abs(error) < LARGEST**0.5 else LARGEST
        self.square += (size - self.square) / min(self.labels, WINDOW)


class Summary(NamedTuple):
    """The error as clients see it: the median in dB, the median distance to it, of how many."""

    db: float
    spread: float
    clients: int


def summary(reports: Iterable[Report]) -> Summary | None:
    """Median and median absolute deviation: few clients that err or lie do not move them much.

    >>> summary([Report(0.1, 9, 0), Report(0.1, 9, 0), Report(1e30, 9, 0)])
    Summary(db=-10.0, spread=0.0, clients=3)
    """
    errors = [report.decibels for report in reports]
    if not errors:
        return None
    middle = median(errors)
    spread = median(abs(error - middle) for error in errors)
    return Summary(round(middle, 2), round(spread, 2), len(errors))


def sensible(square: float, labels: int, refused: int) -> Report | None:
    """What was told, unless it cannot be."""
    return Report(square, labels, refused) if isfinite(square) and square >= 0 < labels else None
