"""Who is in, who is new, and who is there: the members of a deployment (rules 9 and 17).

Each has a row in the server's arrays. A row is used again when its client was removed, the number
of a client never. So the arrays are as large as the fleet, however many clients come and go. Who
changes the table of a server changes a copy of it, which takes its place when it is durable.

On the live clock, members that do not answer are asleep: they are not asked for some rounds, and
others are. That is no change of the membership: it is neither recorded nor logged, and a server
that starts again has nobody asleep.

Operators read and write names. Those of the first clients are in the file of the run, which both
ends have. Who joins later is named once as NAME=K; the server's record then has it, and the folder
of the authority. Seeds, topics and records have numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.core.schedule import GivenCohorts, Indices
from psofed.errors import InputError
from psofed.federation.membership import LAST, FleetCohorts
from psofed.federation.records import taken

NEVER = 2**62  # a round that never comes
VACANT, MEMBER, EXCLUDED, REMOVED = range(4)
WORDS = ("vacant", "member", "excluded", "removed")
FREE = {"ids": -1, "status": VACANT, "since": NEVER, "left": NEVER, "begun": False}  # such a row
LONGEST_NAME = 40  # characters
TAKEN_NAMES = ("server", "broker", "ca", "crl")  # files next to those of clients
NAMED = 5  # clients that a line names
NAME_RIGHT = f"use up to {LONGEST_NAME} letters, digits, -, _ and ., and not digits alone"


def fits(name: str) -> bool:
    """Whether a certificate, a file and an access list can have this name.

    >>> [fits(name) for name in ("gw00", "plant.7-b", "7", "a/b", "+", "server", "über", "-x", "")]
    [True, True, False, False, False, False, False, False, False]
    """
    good = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) is not None
    return (
        good
        and len(name) <= LONGEST_NAME
        and not name.isdecimal()
        and name.lower() not in TAKEN_NAMES
    )


class Names:
    """Which client has which name; one without a name is called by its number.

    >>> names = Names(["gw00", "1", "gw02"])
    >>> names(0), names(1), names(9), names.number("gw02"), names.number("3")
    ('gw00', '1', '9', 2, 3)
    >>> names.number("attic=7"), names(7), names.number("attic"), names.words([7, 0])
    (7, 'attic', 7, 'clients gw00, attic')
    """

    def __init__(self, listed: Iterable[str] = (), later: dict[int, str] | None = None) -> None:
        self.listed, self.later = tuple(listed), dict(later or {})

    def __call__(self, k: int) -> str:
        if 0 <= k < len(self.listed):
            return self.listed[k]
        return self.later.get(k, str(k))

    def copy(self) -> Names:
        """The same names, to which others can be added."""
        return Names(self.listed, self.later)

    def known(self) -> dict[int, str]:
        """By number, of all who have a name."""
        both = dict(enumerate(self.listed)) | self.later
        return {k: name for k, name in both.items() if name != str(k)}

    def number(self, text: str, free: int | None = None) -> int:
        """The number of who is called so, of NAME=K, or of a new name the next `free` one."""
        name, equals, digits = text.partition("=")
        if not equals and (known := self._numbers().get(name)) is not None:
            return known
        number = digits if equals else name
        if number.isascii() and number.isdecimal() and str(int(number[:20])) == number:
            k = int(number)
        elif free is not None and not equals:
            k = free
        else:
            right = "use the number of a client: 0, 1, 2, ..., or NAME=K for one that joins"
            raise InputError("the client", f"{text!r} is not known", right)
        if name != str(k):
            self._add(k, name)
        return k

    def words(self, clients: Iterable[int]) -> str:
        """The first few, and how many more there are."""
        found = sorted(clients)
        named = ", ".join(map(self, found[:NAMED]))
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        return f"client{'s' if len(found) > 1 else ''} {named}{more}"

    def _numbers(self) -> dict[str, int]:
        return {name: k for k, name in self.known().items()}

    def _add(self, k: int, name: str) -> None:
        """A name is given once, as a number is."""
        if not fits(name):
            raise InputError("the client", f"{name!r} cannot be a name", NAME_RIGHT)
        if self(k) not in (name, str(k)) or self._numbers().get(name, k) != k:
            found = f"{name!r} cannot be client {k}: one of them is called otherwise already"
            raise InputError("the client", found, "give each client a name of its own")
        self.later[k] = name


class MemberTable:
    """Who has which row: a member from round `since` on, and before round `left`."""

    def __init__(self, clients: int) -> None:
        self.ids = np.arange(clients)
        self.status = np.full(clients, MEMBER)
        self.since = np.zeros(clients, np.int64)
        self.left = np.full(clients, NEVER)
        self.begun = np.ones(clients, bool)  # whether it has had its first contact as a member
        self.next = clients  # the lowest number that nobody has had
        self.changes = 0  # so far
        self.names = Names()
        self._rows = {k: k for k in range(clients)}

    def copy(self) -> MemberTable:
        """The same table, to be changed."""
        found = copy(self)
        for name in FREE:
            setattr(found, name, getattr(self, name).copy())
        found._rows, found.names = dict(self._rows), self.names.copy()
        return found

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, k: object) -> bool:
        return k in self._rows

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._rows))  # another thread may ask

    def row(self, k: int) -> int | None:
        """The row of client k, if it has one."""
        return self._rows.get(k)

    def standing(self, k: int) -> int:
        """What client k is: a member, excluded, removed or, if it never was one, vacant."""
        row = self.row(k)
        if row is not None:
            return int(self.status[row])
        return REMOVED if 0 <= k < self.next and self.changes else VACANT

    def members(self, n: int) -> Indices:
        """The clients that are members in round n, in order."""
        return np.sort(self.ids[(self.since <= n) & (n < self.left)])

    @property
    def present(self) -> list[int]:
        """All who are members or will be, in order."""
        return sorted(self.ids[self.status == MEMBER].tolist())

    def add(self, k: int, since: int) -> int:
        """A new client; its row."""
        if not self.next <= k <= LAST:
            found = f"is {self._said(k)}" if k < self.next else "is too large"
            right = f"use {self.next} or more: numbers are never used again"
            right = right if self.next <= LAST else "all numbers have been used: start a new run"
            raise InputError("client", f"{self.names(k)} {found}", right)
        free = np.flatnonzero(self.status == VACANT)
        if not len(free):
            self._grow()
            free = np.flatnonzero(self.status == VACANT)
        row = int(free[0])
        self.ids[row], self.next = k, k + 1
        self._rows[k] = row
        self._enter(row, since)
        return row

    def readmit(self, k: int, since: int, block: int) -> int:
        """A client that was excluded before the block of rounds that is open; its row."""
        row = self.row(k)
        if row is None or self.status[row] != EXCLUDED:
            found = f"{self.names(k)} is {self._said(k)}"
            raise InputError("client", found, "name one that is excluded")
        if self.left[row] > block:
            found = f"{self.names(k)} was excluded in rounds that are still open"
            raise InputError("client", found, f"try again in round {since}")
        self._enter(row, since)
        return row

    def _enter(self, row: int, since: int) -> None:
        self.status[row], self.since[row], self.left[row] = MEMBER, since, NEVER
        self.begun[row] = False
        self.changes += 1

    def leave(self, k: int, status: int, at: int) -> int:
        """From round `at` on, client k is excluded or removed; the first round without it."""
        row = self.row(k)
        wrong = (EXCLUDED, REMOVED) if status == EXCLUDED else (REMOVED,)
        if row is None or self.status[row] in wrong:
            raise InputError("client", f"{self.names(k)} is {self.word(k)}", "name a member")
        if set(self.members(at).tolist()) <= {k} or self.present in ([k], []):
            found = f"{self.names(k)} is the last member in round {at}"
            raise InputError("client", found, "add another first")
        if self.status[row] == MEMBER:
            self.left[row] = max(at, int(self.since[row]))
        self.status[row] = status
        self.changes += 1
        return int(self.left[row])

    def begin(self, rows: Iterable[int], begun: bool) -> None:
        """These have had their first contact, or have it before them again."""
        self.begun[list(rows)] = begun

    def vacate(self, block: int, needed: Iterable[int] = ()) -> list[int]:
        """Free the rows of those who left before this block of rounds; which these are.

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
        return "not a member" if standing == VACANT else WORDS[standing]

    def _said(self, k: int) -> str:
        return "a member already" if self.standing(k) == MEMBER else self.word(k)

    def _grow(self) -> None:
        more = max(len(self) // 8, 1)
        for name, value in FREE.items():
            setattr(self, name, np.concatenate([getattr(self, name), np.full(more, value)]))

    def to_arrays(self) -> dict[str, Array]:
        """What is stored; nothing while nobody has come or gone."""
        if not self.changes:
            return {}
        numbers = np.array([self.next, self.changes], np.int64)
        later = json.dumps(self.names.later).encode() if self.names.later else b""
        named = {"fleet.names": np.frombuffer(later, np.uint8)} if later else {}
        columns = {f"fleet.{name}": getattr(self, name) for name in FREE}
        return {"fleet.numbers": numbers, **columns, **named}

    def restore(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`."""
        if "fleet.numbers" not in arrays:
            return
        numbers = taken(arrays, "fleet.numbers", np.int64, (2,), 1)
        self.next, self.changes = (int(number) for number in numbers)
        ids = taken(arrays, "fleet.ids", np.int64, (None,), -1, min(self.next - 1, LAST))
        most = {"status": REMOVED, "since": NEVER, "left": NEVER}
        for name in FREE:
            kind, least = getattr(self, name).dtype, -1 if name == "ids" else 0
            array = taken(arrays, f"fleet.{name}", kind, ids.shape, least, most.get(name, LAST))
            setattr(self, name, array.copy())
        if "fleet.names" in arrays:
            later = taken(arrays, "fleet.names", np.uint8, (None,)).tobytes()
            try:
                self.names.later = {int(k): str(name) for k, name in json.loads(later).items()}
            except (ValueError, AttributeError):
                found, right = "has no names", "restore the folder from a copy"
                raise InputError("the array 'fleet.names'", found, right) from None
        self._rows = {k: row for row, k in enumerate(self.ids.tolist()) if k >= 0}
        used = self.status != VACANT
        if len(self._rows) != used.sum() or (self.ids[used] < 0).any() or not self.present:
            found = "does not say who has which row"
            right = "restore the folder from a copy, or start with a new one"
            raise InputError("the array 'fleet.ids'", found, right)


class Presence:
    """By client that was asleep: the first round without it, and the first with it again."""

    def __init__(self) -> None:
        self._rounds: dict[int, tuple[int, int]] = {}

    def sleep(self, k: int, n: int) -> None:
        """Client k is asleep from round n on."""
        first, stop = self._rounds.get(k, (n, 0))
        self._rounds[k] = first if stop >= n else n, NEVER

    def wake(self, k: int, n: int) -> None:
        """It is awake from round n on; where it was asleep before stays known."""
        if k in self._rounds:
            first, stop = self._rounds[k]
            self._rounds[k] = first, min(stop, n)

    def forget(self, k: int) -> None:
        """Client k has left."""
        self._rounds.pop(k, None)

    def is_asleep(self, k: int) -> bool:
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


@dataclass(frozen=True, eq=False)
class Awake:
    """The members of a fleet who are not asleep, as cohorts are drawn from them."""

    table: MemberTable
    presence: Presence

    def members(self, n: int) -> Indices:
        """Those of round n, in order; all of them if all are asleep."""
        return self.presence.awake(self.table.members(n), n)


@dataclass(frozen=True, eq=False)
class RowCohorts(GivenCohorts):
    """The cohorts of a fleet, by row."""

    changes = True
    fleet: FleetCohorts | None = None
    room: int = 0  # rows of arrays over clients: as many as the table has

    @property
    def places(self) -> int:
        """Rows of arrays over clients."""
        return self.room or self.clients

    def cohort(self, n: Any) -> Indices:
        assert self.fleet is not None
        return self._rows(self.fleet.cohort(n))

    def there(self, n: int) -> Indices:
        assert self.fleet is not None
        return np.sort(self._rows(self.fleet.there(n)))

    def _rows(self, ids: Iterable[int]) -> Indices:
        assert self.fleet is not None
        table: MemberTable = self.fleet.history.table
        return np.array([table.row(int(k)) for k in ids], np.intp)
