"""What the members of a cohort draw, for the cohorts of many rounds at once: the same, sooner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import GivenCohorts, UniformCohorts, Who

Array = NDArray[Any]
ROUNDS = 32  # that are drawn at once


class Ahead:
    """`draw(k, n)`, a pure function of clients and rounds that broadcasts, asked once in a while.

    Drawing for many cohorts costs little more than for one. Whoever asks for others than the
    cohort of round n gets what `draw` gives.

    >>> tens = Ahead(lambda k, n: 10 * k + n, GivenCohorts(()))
    >>> tens(3, 7)
    37
    """

    def __init__(
        self, draw: Callable[[Any, Any], Array], cohorts: UniformCohorts | GivenCohorts
    ) -> None:
        self.draw, self.cohorts = draw, cohorts
        self.first, self.members, self.drawn = -ROUNDS, np.empty(0, np.intp), np.empty(0)

    def __call__(self, k: Who, n: int) -> Array:
        """The draws of one client, or of several as rows. They are not to be changed."""
        if isinstance(k, int) or not isinstance(self.cohorts, UniformCohorts):
            return self.draw(k, n)
        if not self.first <= n < self.first + ROUNDS:
            self.first = n
            rounds = np.arange(n, n + ROUNDS)
            self.members = self.cohorts.cohort(rounds)
            self.drawn = self.draw(self.members, rounds[:, None])
        i = n - self.first
        same = k.tobytes() == self.members[i].tobytes()
        return self.drawn[i] if same else self.draw(k, n)
