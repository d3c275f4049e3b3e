"""The paper's stream with a slow drift: f turns into another and back, once in a period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.streams.change import Varying

Array = NDArray[Any]


@dataclass(frozen=True)
class Options(Varying):
    """The ranges of the paper's stream, and the rounds of a period."""

    name: ClassVar[str] = "drift"
    period: int = 10_000  # rounds until f is the same again

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.period < 2:
            raise InputError("period", f"is {self.period}", "use 2 rounds or more")

    def blend(self, rounds: Array) -> Array:
        """(1 - cos(2 pi n / period)) / 2."""
        turns = np.asarray(rounds) % self.period / self.period
        return (1 - np.cos(2 * np.pi * turns)) / 2
