"""A fleet that changes, for the compiled engine: what happens to its models between two chunks.

Who begins anew has the server's model at its first contact, or a fresh one if its method does not
learn when idle; the download of that round then changes nothing of it, or what it always does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.fleet import Chronicle, FleetCohorts
from psofed.simulate.draws import Draws
from psofed.simulate.layout import Models

Array = NDArray[Any]


def history(cohorts: Any) -> Chronicle | None:
    """The changes of a fleet, if there are any."""
    changes = isinstance(cohorts, FleetCohorts) and cohorts.roster.changes
    return cohorts.roster if changes else None


def contacts(draws: Draws, cohorts: Any) -> dict[int, list[int]]:
    """By round, the rows of those who then have their first contact after they begin anew."""
    found: dict[int, list[int]] = {}
    known = history(cohorts)
    if known is None:
        return found
    order = np.argsort(draws.members, kind="stable")
    when = np.repeat(np.arange(draws.rounds), np.diff(draws.start))[order]
    edges = np.searchsorted(draws.members[order], np.arange(len(draws.ids) + 1))
    for row, k in enumerate(draws.ids.tolist()):
        asked = when[edges[row] : edges[row + 1]]
        first = np.searchsorted(asked, known.begins(k))
        for n in {int(asked[i]) for i in first if i < len(asked)}:
            found.setdefault(n, []).append(row)
    return found


class Turns:
    """What happens before the rounds `cuts`, at which chunks have to begin."""

    def __init__(self, draws: Draws, cohorts: Any, idle: int) -> None:
        self.idle, self.contacts = idle, contacts(draws, cohorts)
        known = history(cohorts)
        changes = () if known is None else known.changes
        self.restores = {c.round: c.restore for c in changes if c.restore is not None}
        self.kept: dict[int, list[Array]] = {}
        self.cuts = {*self.contacts, *self.restores, *self.restores.values()}
        self.waiting = (
            np.zeros(len(draws.ids), bool) if known is None else draws.ids >= known.clients
        )

    def turn(self, n: int, models: Models) -> None:
        """Before round n, with which a chunk begins."""
        whole = [models.w, models.fit, models.average]
        if n in self.restores.values():
            self.kept[n] = [array.copy() for array in whole]
        if n in self.restores:
            for array, old in zip(whole, self.kept[self.restores[n]], strict=True):
                array[...] = old
        for row in self.contacts.get(n, ()):
            models.local[row, : self.idle] = models.w[: self.idle]
            models.local[row, self.idle :] = 0
            models.position[row], self.waiting[row] = n, False

    def settle(self, models: Models) -> None:
        """After a chunk: who has not begun yet has learned nothing."""
        models.local[self.waiting] = 0
