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


class Varying(paper.Options):
    """Eq. (1) with f_n = (1 - a_n) f + a_n later, a_n = `blend(n)`."""

    changes: ClassVar[bool] = True

    def blend(self, rounds: Array) -> Array:
        """a_n."""
        raise NotImplementedError

    def later(self, x: Array) -> Array:
        """f of the inputs in reverse order."""
        return paper.f(x[..., ::-1])

    def clean(self, x: Array, first: int) -> Array:
        """f_n(x) of rounds first, first + 1, ..."""
        a = self.blend(np.arange(first, first + x.shape[-2])).astype(x.dtype)
        return (1 - a) * paper.f(x) + a * self.later(x)


@dataclass(frozen=True)
class Options(Varying):
    """The ranges of the paper's stream, and the round at which f changes."""

    name: ClassVar[str] = "change"
    at: int = 2500  # the round at which f changes

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at < 0:
            raise InputError("at", f"is {self.at}", "use the number of a round, from 0 on")

    def blend(self, rounds: Array) -> Array:
        """0 before, 1 after."""
        return (np.asarray(rounds) >= self.at).astype(np.float64)
