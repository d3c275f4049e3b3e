"""What the members of a cohort draw, for the cohorts of many rounds at once: the same, sooner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import GivenCohorts, UniformCohorts, Who

Array = NDArray[Any]
ROUNDS, MOST = 32, 2**18  # rounds that are drawn at once, and numbers


class Ahead:
    """`draw(k, n)`, a pure function of clients and rounds that broadcasts; `count` numbers of each.

    Drawing for many cohorts costs little more than for one. Whoever asks for clients that are not
    in the cohort of round n gets what `draw` gives.

    >>> tens = Ahead(lambda k, n: 10 * k + n, GivenCohorts(()), count=1)
    >>> tens(3, 7)
    37
    """

    def __init__(
        self,
        draw: Callable[[Any, Any], Array],
        cohorts: UniformCohorts | GivenCohorts,
        count: int,
    ) -> None:
        self.draw, self.cohorts, self.rounds = draw, cohorts, 0
        if isinstance(cohorts, UniformCohorts):
            self.rounds = min(max(MOST // max(cohorts.size * count, 1), 1), ROUNDS)
        self.first, self.members, self.drawn = 0, np.empty((0, 0), np.intp), np.empty(0)

    def __call__(self, k: Who, n: int) -> Array:
        """The draws of one client, or of several as rows. They are not to be changed."""
        if isinstance(k, int) or not self.rounds:
            return self.draw(k, n)
        if not self.first <= n < self.first + len(self.members):
            self._fill(n)
        members, drawn = self.members[n - self.first], self.drawn[n - self.first]
        if k.tobytes() == members.tobytes():
            return drawn
        rows = members.searchsorted(k)
        if (members.take(rows, mode="clip") == k).all():
            found: Array = drawn[rows]
            return found
        self.rounds = 0  # this method talks to others than the cohorts: no use in drawing ahead
        return self.draw(k, n)

    def _fill(self, n: int) -> None:
        """Draw for the cohorts of round n and those after it."""
        rounds = np.arange(n, n + self.rounds)
        assert isinstance(self.cohorts, UniformCohorts)
        self.first, self.members = n, self.cohorts.draw(rounds)
        self.drawn = self.draw(self.members, rounds[:, None])
