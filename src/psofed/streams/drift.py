"""The paper's stream with a slow drift: f turns into another and back, once in a period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.streams import paper

Array = NDArray[Any]


def wave(rounds: Array, period: int) -> Array:
    """a_n of a drift: (1 - cos(2 pi n / period)) / 2."""
    turns = np.asarray(rounds) % period / period
    return (1 - np.cos(2 * np.pi * turns)) / 2


def check_period(period: int) -> None:
    """Refuse what is no period."""
    if period < 2:
        raise InputError("period", f"is {period}", "use 2 rounds or more")


@dataclass(frozen=True)
class Options(paper.Options):
    """The ranges of the paper's stream, and the rounds of a period."""

    name: ClassVar[str] = "drift"
    changes: ClassVar[bool] = True
    period: int = 10_000  # rounds until f is the same again

    def __post_init__(self) -> None:
        super().__post_init__()
        check_period(self.period)

    def later(self, x: Array) -> Array:
        """f of the inputs in reverse order, as after a change."""
        return self.function(x[..., ::-1])

    def blend(self, rounds: Array) -> Array:
        """(1 - cos(2 pi n / period)) / 2."""
        return wave(rounds, self.period)
