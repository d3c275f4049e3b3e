"""LMS on the features of the experiment, RFF-KLMS: the paper's learner, and the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from psofed.core import equations
from psofed.federation.learners.contract import Array, Line


@dataclass(frozen=True)
class LMS(Line):
    """LMS has no options of its own: mu is the experiment's, or the method's."""

    name: ClassVar[str] = "lms"
    lms: ClassVar[bool] = True
    descends: ClassVar[bool] = True
    featured: ClassVar[bool] = True

    def size(self, taps: int, features: int) -> int:
        return features

    def learn(self, w: Array, z: Array, y: Any, step: float) -> Any:
        """`equations.lms`."""
        return equations.lms(w, z, y, step)


Options = LMS
