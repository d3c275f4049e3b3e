"""Naps: members that do not answer are not asked for some rounds, and others are (rule 9).

A nap is no change of the membership: it is neither recorded nor logged, and a server that starts
again knows of none. Only the live clock has naps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from psofed.core.schedule import Indices

if TYPE_CHECKING:
    from psofed.protocol.server import Server

NEVER = 2**62  # a round that never comes


class Naps:
    """By client: the first round without it, and the first with it again.

    >>> naps = Naps()
    >>> naps.begin(2, 7), naps.end(2, 9), naps.begin(1, 8)
    (None, None, None)
    >>> [naps.awake(np.arange(3), n).tolist() for n in (6, 7, 8, 9)]
    [[0, 1, 2], [0, 1], [0], [0, 2]]
    """

    def __init__(self) -> None:
        self._rounds: dict[int, tuple[int, int]] = {}

    def begin(self, k: int, n: int) -> None:
        """Client k is asleep from round n on."""
        first, stop = self._rounds.get(k, (n, 0))
        self._rounds[k] = first if stop >= n else n, NEVER

    def end(self, k: int, n: int) -> None:
        """It is awake from round n on; where it was asleep before stays known."""
        if k in self._rounds:
            first, stop = self._rounds[k]
            self._rounds[k] = first, min(stop, n)

    def forget(self, k: int) -> None:
        """Client k has been removed."""
        self._rounds.pop(k, None)

    def __contains__(self, k: int) -> bool:
        """Whether client k is asleep, and nothing says when it will not be."""
        return k in self._rounds and self._rounds[k][1] == NEVER

    def asleep(self, n: int) -> list[int]:
        """Those of round n."""
        return [k for k, (first, stop) in self._rounds.items() if first <= n < stop]

    def awake(self, members: Indices, n: int) -> Indices:
        """The members of round n without those; all, if that would be nobody."""
        if not self._rounds:
            return members
        found = members[~np.isin(members, self.asleep(n))]
        return found if len(found) else members


def begin(server: Server, clients: Iterable[int]) -> list[int]:
    """From the open round on these are not waited for; the others who are asked in their places.

    Within a block of rounds nobody can take a place: then the cohort is smaller until it ends.
    """
    before, missing = server.cohort, server.missing
    for k in clients:
        row = server.seats.row(k)
        server.seats.naps.begin(k, server.n)
        if k in missing and row is not None:
            server.ledger.drop(row, server.n)
    server.redraw(stay=[k for k in before if k not in server.seats.naps])
    return [k for k in server.cohort if k not in before]


def end(server: Server, k: int) -> None:
    """Client k is asked again, from the next round on in which a cohort begins."""
    n = server.n + 1
    while not server.method.begins(n):
        n += 1
    server.seats.naps.end(k, n)
