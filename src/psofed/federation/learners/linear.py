"""LMS on the inputs themselves, a control: what a linear model of D = L + 1 numbers can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from psofed.core import equations
from psofed.federation.learners.contract import Array, Line


@dataclass(frozen=True)
class LinearLearner(Line):
    """No options: z = (1, x) / sqrt(L + 1), so that a step means about the same as with cosines."""

    name: ClassVar[str] = "linear"
    lms: ClassVar[bool] = True
    descends: ClassVar[bool] = True

    def size(self, taps: int, features: int) -> int:
        return taps + 1

    def learn(self, w: Array, z: Array, y: Any, step: float) -> Any:
        """`equations.lms`."""
        return equations.lms(w, z, y, step)


Options = LinearLearner
