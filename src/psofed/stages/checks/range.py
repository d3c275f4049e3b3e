"""A range of y: what lies outside it is refused, and so is what is not finite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.errors import InputError
from psofed.stages.checks.contract import OUTSIDE, Array, Memory, SampleCheck


@dataclass(frozen=True)
class InRange(SampleCheck):
    """The ends of the range; both belong to it.

    >>> check = Options(low=-5.0)
    >>> check.judge({}, np.zeros((2, 1)), np.array([1.0, -999.0]), np.zeros(2))[1].tolist()
    [0, 4]
    """

    name: ClassVar[str] = "range"
    low: float | None = None  # least y, as clients learn it; not set: none, or of a fit's warm-up
    high: float | None = None  # largest y

    def check(self) -> None:
        """The range is not empty."""
        super().check()
        low, high = self.ends
        if not low < high:
            raise InputError("low", f"is {low:g}, and high is {high:g}", "use less than high")

    @property
    def ends(self) -> tuple[float, float]:
        """The range as two numbers."""
        low = -np.inf if self.low is None else self.low
        return low, np.inf if self.high is None else self.high

    def judge(self, memory: Memory, x: Array, y: Array, prediction: Array) -> tuple[Array, Array]:
        """Refuse y outside the range."""
        low, high = self.ends
        return y, np.where((y < low) | (y > high), OUTSIDE, 0)


Options = InRange
