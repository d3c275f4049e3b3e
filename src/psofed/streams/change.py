"""The paper's stream with an abrupt change: from one round on, f takes its inputs in reverse order.

The inputs keep their law, and a window read backwards has the same law, so the best error that can
be reached is the same before and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.streams import paper

Array = NDArray[Any]


def step(rounds: Array, at: int) -> Array:
    """a_n of an abrupt change: 0 before, 1 after."""
    return (np.asarray(rounds) >= at).astype(np.float64)


def check_at(at: int) -> None:
    """Refuse what is no round."""
    if at < 0:
        raise InputError("at", f"is {at}", "use the number of a round, from 0 on")


@dataclass(frozen=True)
class Options(paper.Options):
    """The ranges of the paper's stream, and the round at which f changes."""

    name: ClassVar[str] = "change"
    changes: ClassVar[bool] = True
    at: int = 2500  # the round at which f changes

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at(self.at)

    def later(self, x: Array) -> Array:
        """f of the inputs in reverse order."""
        return self.function(x[..., ::-1])

    def blend(self, rounds: Array) -> Array:
        """0 before, 1 after."""
        return step(rounds, self.at)
