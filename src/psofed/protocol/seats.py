"""Seats: the members of a deployment, each with a row in the server's arrays (rule 17).

A seat is used again when its client was removed, the number of a client never. So the arrays are as
large as the fleet, however many clients come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.fleet import LAST, FleetCohorts
from psofed.core.schedule import GivenCohorts, Indices
from psofed.errors import InputError
from psofed.protocol.checked_record import taken
from psofed.protocol.naps import NEVER, Naps

Array = NDArray[Any]
VACANT, MEMBER, EXCLUDED, REMOVED = range(4)
WORDS = ("vacant", "member", "excluded", "removed")
NAMES = ("ids", "status", "since", "left", "begun")


class Seats:
    """Who sits where: member from round `since` on, and before round `left`.

    >>> seats = Seats(2)
    >>> seats.add(2, since=5), seats.leave(0, EXCLUDED, at=3)
    (2, None)
    >>> seats.members(4).tolist(), seats.members(5).tolist(), seats.standing(0)
    ([1], [1, 2], 2)
    """

    def __init__(self, clients: int) -> None:
        self.ids = np.arange(clients)
        self.status = np.full(clients, MEMBER)
        self.since = np.zeros(clients, np.int64)
        self.left = np.full(clients, NEVER)
        self.begun = np.ones(clients, bool)  # whether it has had its first contact as a member
        self.next = clients  # the lowest number that nobody has had
        self.changes = 0  # so far
        self.naps = Naps()
        self.spare = 0  # members that are asked besides those who are needed
        self._rows = {k: k for k in range(clients)}

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, k: object) -> bool:
        return k in self._rows

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._rows))  # another thread may ask

    def row(self, k: int) -> int | None:
        """The seat of client k, if it has one."""
        return self._rows.get(k)

    def standing(self, k: int) -> int:
        """What client k is: a member, excluded, removed or, if it never was one, vacant."""
        row = self.row(k)
        if row is not None:
            return int(self.status[row])
        return REMOVED if 0 <= k < self.next and self.changes else VACANT

    def members(self, n: int) -> Indices:
        """The clients that are members in round n, in order; those who are asleep are left out."""
        return self.naps.awake(np.sort(self._seated(n)), n)

    def _seated(self, n: int) -> Indices:
        """The same, with those who are asleep."""
        found: Indices = self.ids[(self.since <= n) & (n < self.left)]
        return found

    @property
    def present(self) -> list[int]:
        """All who are members or will be, in order."""
        return sorted(self.ids[self.status == MEMBER].tolist())

    def add(self, k: int, since: int) -> int:
        """A new client; its seat."""
        if not self.next <= k <= LAST:
            found = f"is {self._said(k)}" if k < self.next else "is too large"
            right = f"use {self.next} or more: numbers are never used again"
            right = right if self.next <= LAST else "all numbers have been used: start a new run"
            raise InputError("client", f"{k} {found}", right)
        free = np.flatnonzero(self.status == VACANT)
        if not len(free):
            self._grow()
            free = np.flatnonzero(self.status == VACANT)
        row = int(free[0])
        self.ids[row], self.next = k, k + 1
        self._rows[k] = row
        self._sit(row, since)
        return row

    def readmit(self, k: int, since: int, block: int) -> int:
        """A client that was excluded before the block of rounds that is open; its seat."""
        row = self.row(k)
        if row is None or self.status[row] != EXCLUDED:
            raise InputError("client", f"{k} is {self._said(k)}", "name one that is excluded")
        if self.left[row] > block:
            found = f"{k} was excluded in rounds that are still open"
            raise InputError("client", found, f"try again in round {since}")
        self._sit(row, since)
        return row

    def _sit(self, row: int, since: int) -> None:
        self.status[row], self.since[row], self.left[row] = MEMBER, since, NEVER
        self.begun[row] = False
        self.changes += 1

    def leave(self, k: int, status: int, at: int) -> None:
        """From round `at` on, client k is excluded or removed."""
        row = self.row(k)
        wrong = (EXCLUDED, REMOVED) if status == EXCLUDED else (REMOVED,)
        if row is None or self.status[row] in wrong:
            raise InputError("client", f"{k} is {self.word(k)}", "name a member")
        if set(self._seated(at).tolist()) <= {k} or self.present in ([k], []):
            raise InputError("client", f"{k} is the last member in round {at}", "add another first")
        if self.status[row] == MEMBER:
            self.left[row] = max(at, int(self.since[row]))
        self.status[row] = status
        self.naps.forget(k)
        self.changes += 1

    def vacate(self, block: int, needed: Iterable[int] = ()) -> list[int]:
        """Free the seats of those who left before this block of rounds; which these are.

        Some are `needed`: what their clients were asked in the open round is not counted yet.
        """
        gone = (self.status == REMOVED) & (self.left <= block)
        gone[list(needed)] = False
        rows: list[int] = np.flatnonzero(gone).tolist()
        for row in rows:
            del self._rows[int(self.ids[row])]
            self.ids[row], self.status[row], self.since[row] = -1, VACANT, NEVER
        return rows

    def word(self, k: int) -> str:
        """What client k is, for people."""
        standing = self.standing(k)
        return "no member" if standing == VACANT else WORDS[standing]

    def _said(self, k: int) -> str:
        return "a member already" if self.standing(k) == MEMBER else self.word(k)

    def _grow(self) -> None:
        more = max(len(self) // 8, 1)
        self.ids = np.concatenate([self.ids, np.full(more, -1)])
        self.status = np.concatenate([self.status, np.full(more, VACANT)])
        self.since = np.concatenate([self.since, np.full(more, NEVER)])
        self.left = np.concatenate([self.left, np.full(more, NEVER)])
        self.begun = np.concatenate([self.begun, np.zeros(more, bool)])

    def to_arrays(self) -> dict[str, Array]:
        """What is stored; nothing while nobody has come or gone."""
        if not self.changes:
            return {}
        numbers = np.array([self.next, self.changes], np.int64)
        return {"fleet.numbers": numbers, **{f"fleet.{n}": getattr(self, n) for n in NAMES}}

    def restore(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`."""
        if "fleet.numbers" not in arrays:
            return
        numbers = taken(arrays, "fleet.numbers", np.int64, (2,), 1)
        self.next, self.changes = (int(number) for number in numbers)
        ids = taken(arrays, "fleet.ids", np.int64, (None,), -1, min(self.next - 1, LAST))
        most = {"status": REMOVED, "since": NEVER, "left": NEVER}
        for name in NAMES:
            kind, least = getattr(self, name).dtype, -1 if name == "ids" else 0
            array = taken(arrays, f"fleet.{name}", kind, ids.shape, least, most.get(name, LAST))
            setattr(self, name, array.copy())
        self._rows = {k: row for row, k in enumerate(self.ids.tolist()) if k >= 0}
        seated = self.status != VACANT
        if len(self._rows) != seated.sum() or (self.ids[seated] < 0).any() or not self.present:
            found = "does not say who sits where"
            right = "restore the folder from a copy, or start with a new one"
            raise InputError("the array 'fleet.ids'", found, right)


@dataclass(frozen=True, eq=False)
class SeatedCohorts(GivenCohorts):
    """The cohorts of a fleet, by seat."""

    changes = True
    fleet: FleetCohorts | None = None

    def cohort(self, n: Any) -> Indices:
        assert self.fleet is not None
        return self._rows(self.fleet.cohort(n))

    def there(self, n: int) -> Indices:
        assert self.fleet is not None
        return np.sort(self._rows(self.fleet.there(n)))

    def _rows(self, ids: Iterable[int]) -> Indices:
        assert self.fleet is not None
        seats: Seats = self.fleet.roster
        return np.array([seats.row(int(k)) for k in ids], np.intp)
