"""Fleet: who is a member in which round, and the cohorts of a fleet that changes.

The first members are clients 0 to K-1. A `Change` holds from its round on: clients are added,
removed for good, excluded for a while or readmitted, or the server's state is put back. Who is
added or readmitted begins anew at its first contact: with a fresh state, and from the model that
the server then sends. The numbers of clients are never used again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from psofed.core.schedule import Indices, UniformCohorts
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.contract import Method, State
from psofed.federation.stage import resized

PART = 2**20  # keys that are drawn at once
LAST = 2**31 - 1  # the highest number of a client
ROUNDS = 256  # in which who is on is computed at once
ACTS = ("add", "remove", "exclude", "readmit")


@dataclass(frozen=True)
class Change:
    """What is different from a round on; one table [[fleet]] of a file."""

    round: int  # the first round in which it holds
    add: tuple[int, ...] = ()  # clients that join, each with a number that nobody has had
    remove: tuple[int, ...] = ()  # clients that leave for good
    exclude: tuple[int, ...] = ()  # clients that are not asked until they are readmitted
    readmit: tuple[int, ...] = ()  # clients that are asked again, and begin anew
    restore: int | None = None  # the server's state becomes that before this round
    void: int | None = None  # rounds from this one to `round` were not closed; not set: none
    keep: bool = False  # whether clients keep their models at a restore; else they begin anew

    def __post_init__(self) -> None:
        schema.check(self)
        if self.round < 0:
            raise InputError("round", f"is {self.round}", "use 0 or more")
        given = {"void": self.void is not None, "keep": self.keep}
        for key in [key for key in given if given[key] and self.restore is None]:
            raise InputError(key, "is given without restore", "use it with restore only")
        void = self.round if self.void is None else self.void
        if not 0 <= void <= self.round:
            raise InputError("void", f"is {void}", f"use 0 to {self.round}, the round")
        if self.restore is not None and not 0 <= self.restore <= void:
            found = f"is {self.restore}, but that round was not reached"
            raise InputError("restore", found, f"use 0 to {void}")

    def to_table(self) -> dict[str, Any]:
        """What is set, as plain values."""
        given = schema.values(self).items()
        return {key: value for key, value in given if value is not False and value != []}


def read(key: str, tables: Any) -> tuple[Change, ...]:
    """The changes of a file."""
    found = []
    for i, table in enumerate(schema.convert(key, tables, list)):
        try:
            found.append(schema.build(Change, schema.convert("", table, dict)))
        except InputError as error:
            raise error.inside(f"{key}[{i}]" + ("." if error.field else "")) from None
    return tuple(found)


class FleetHistory:
    """The members in every round, from the changes of a file.

    >>> changes = Change(5, add=(3,)), Change(8, exclude=(0,)), Change(9, remove=(1,))
    >>> history = FleetHistory(3, changes)
    >>> [history.members(n).tolist() for n in (4, 5, 8, 9)]
    [[0, 1, 2], [0, 1, 2, 3], [1, 2, 3], [2, 3]]
    >>> history.everybody, history.begins(3), history.begins(0)
    (4, [5], [])
    """

    def __init__(self, clients: int, changes: Iterable[Change] = ()) -> None:
        self.clients = clients
        # In the order of rounds, each with its place in the file.
        placed = sorted(enumerate(changes), key=lambda one: one[1].round)
        self.changes = tuple(change for _, change in placed)
        self.everybody = clients  # one more than the highest number that a client ever has
        self._here = set(range(clients))
        self._away: set[int] = set()  # excluded
        self._rounds: list[int] = []
        self._members = [np.arange(clients)]
        self._begins: dict[int, list[int]] = {}
        for i, change in placed:
            try:
                self._apply(change)
            except InputError as error:
                raise error.inside(f"fleet[{i}].") from None

    def _apply(self, change: Change) -> None:
        for k in change.add:
            if not self.everybody <= k <= LAST:
                right = f"use {self.everybody} or more: numbers are never used again"
                raise InputError("add", f"has {k}", right)
            self._begin(k, change.round)
            self.everybody = k + 1
        for k in change.readmit:
            self._leave("readmit", k, self._away, "is not excluded")
            self._begin(k, change.round)
        for k in change.exclude:
            self._leave("exclude", k, self._here, "is no member")
            self._away.add(k)
        for k in change.remove:
            known = self._away if k in self._away else self._here
            self._leave("remove", k, known, "is no member")
        if not self._here:
            raise InputError("remove", "leaves no member", "keep one at least")
        if change.restore is not None and not change.keep:
            for k in self._here:
                self._begin(k, change.round)
        self._rounds.append(change.round)
        self._members.append(np.array(sorted(self._here), np.intp))

    def _begin(self, k: int, n: int) -> None:
        self._here.add(k)
        self._begins.setdefault(k, []).append(n)

    def _leave(self, act: str, k: int, known: set[int], found: str) -> None:
        if k not in known:
            raise InputError(act, f"has {k}, which {found}", "name others")
        known.discard(k)

    def members(self, n: int) -> Indices:
        """Those of round n, in order."""
        return self._members[bisect_right(self._rounds, n)]

    def begins(self, k: int) -> list[int]:
        """The rounds from which on client k begins anew, at its first contact."""
        return self._begins.get(k, [])

    @cached_property
    def void(self) -> set[int]:
        """The rounds that were not closed."""
        spans = ((c.void, c.round) for c in self.changes if c.void is not None)
        return {n for span in spans for n in range(*span)}

    @property
    def edges(self) -> list[int]:
        """The rounds in which something changes."""
        return self._rounds


@dataclass(frozen=True, eq=False)
class FleetCohorts(UniformCohorts):
    """S_n: `size` of the members of round n, uniform, and as few others as possible change.

    Every client has a key for each round, and the smallest keys are in the cohort. So a client that
    joins takes the place of one other in the rounds in which it is selected, and one that leaves
    makes room for one; nothing else is different. The keys of the first K clients are such that
    without changes S_n is that of `UniformCohorts`.

    >>> from psofed.core.seeds import Seeds
    >>> history = FleetHistory(3, [Change(1, add=(3,))])
    >>> fleet = FleetCohorts(Seeds(0), clients=3, size=2, history=history)
    >>> fleet.cohort(0).tolist() == UniformCohorts(Seeds(0), 3, 2).cohort(0).tolist()
    True
    """

    changes: ClassVar[bool] = True
    history: Any = None  # `history.members(n)` are those of round n, in order

    def there(self, n: int) -> Indices:
        return self.history.members(n)

    def cohort(self, n: Any) -> Indices:
        """S_n of one round."""
        return self.select(np.array([n]), self.there(n))[0]

    def onward(self, n: int) -> Indices:
        """That of round n alone: the next may have another size."""
        return self.cohort(n)[None]

    def select(self, n: Indices, members: Indices) -> Indices:
        """The cohorts of rounds in which these are the members, as rows."""
        first, others = members[members < self.clients], members[members >= self.clients]
        keys = np.concatenate([self._first_keys(n)[:, first], self._keys(n, others)], axis=1)
        smallest = np.argsort(keys, axis=1, kind="stable")[:, : self.size]
        return np.sort(members[smallest], axis=1)

    def _keys(self, n: Indices, clients: Indices) -> Any:
        return self.seeds.uniforms("fleet", client=clients, round=n[:, None], count=1)[..., 0]

    def _first_keys(self, n: Indices) -> Any:
        """The keys of the first K clients: those of the cohort of K have the smallest."""
        keys, rows = self._keys(n, np.arange(self.clients)), np.arange(len(n))[:, None]
        outside = np.ones(keys.shape, bool)
        outside[rows, super().draw(n)] = False
        found = np.empty_like(keys)
        found[rows, np.lexsort((keys, outside))] = np.sort(keys, axis=1)
        return found

    def draw(self, n: ArrayLike) -> Indices:
        """Of rounds whose cohorts have one size."""
        rounds = np.atleast_1d(n)
        members, counts = self.many(rounds)
        return members.reshape(*np.shape(n), counts[0])

    def many(self, n: Indices) -> tuple[Indices, Indices]:
        drawn, counts = [np.empty(0, np.intp)], np.empty(len(n), np.intp)
        for rounds in self._stretches(n):
            rows = self.select(n[rounds], self.there(int(n[rounds][0])))
            drawn.append(rows.ravel())
            counts[rounds] = rows.shape[1]
        return np.concatenate(drawn), counts

    def _stretches(self, n: Indices) -> list[slice]:
        """Parts of ascending rounds in which nothing changes, not too long."""
        most = max(PART // self.clients, 1)
        edges = np.searchsorted(n, self._edges).tolist()
        starts = sorted({0, *range(0, len(n), most), *(i for i in edges if i < len(n))})
        return [slice(a, b) for a, b in zip(starts, [*starts[1:], len(n)], strict=True)]

    @cached_property
    def _edges(self) -> list[int]:
        return list(getattr(self.history, "edges", ()))


@dataclass(frozen=True, eq=False)
class AwakeCohorts(FleetCohorts):
    """The same of members who are switched off and on again: `size` of those who are on."""

    awake: Any = None  # (clients, first round, stop) to whether they are on: [client, round]

    def there(self, n: int) -> Indices:
        members: Indices = self.history.members(n)
        part, i = divmod(n, ROUNDS)
        if part not in self._parts:
            self._parts.clear()
            everybody, first = np.arange(self.history.everybody), part * ROUNDS
            self._parts[part] = self.awake(everybody, first, first + ROUNDS)
        return members[self._parts[part][members, i]]

    def many(self, n: Indices) -> tuple[Indices, Indices]:
        everybody = np.arange(self.history.everybody)
        length = max(PART // len(everybody), ROUNDS)
        parts = [self._some(n[i : i + length], everybody) for i in range(0, len(n), length)]
        members, counts = zip(*parts, strict=True)
        return np.concatenate(members), np.concatenate(counts)

    def _some(self, n: Indices, everybody: Indices) -> tuple[Indices, Indices]:
        """The cohorts of rounds in a row: who is not there has a key above all others."""
        here = self.awake(everybody, int(n[0]), int(n[-1]) + 1).T
        for i, members in enumerate(map(self.history.members, n.tolist())):
            if len(members) < len(everybody):
                here[i] &= np.isin(everybody, members)
        keys = np.concatenate([self._first_keys(n), self._keys(n, everybody[self.clients :])], 1)
        order = np.argsort(np.where(here, keys, 2.0), axis=1, kind="stable")
        chosen = np.sort(order[:, : self.size], axis=1)
        there = np.take_along_axis(here, chosen, axis=1)
        return chosen[there], there.sum(axis=1)


def row_axes(method: Method) -> dict[str, int]:
    """The axis over clients of each array of a server's state that has one.

    It is longer where there are more of them.
    """
    task: Any = method.task
    room = replace(task.cohorts, room=task.places + 1)
    small, large = method.server(), resized(method, replace(task, cohorts=room)).server()
    return {
        name: next(i for i, side in enumerate(array.shape) if side != large[name].shape[i])
        for name, array in small.items()
        if array.shape != large[name].shape
    }


def moved(state: State, fresh: State) -> State:
    """A state in arrays that may be longer; what is new is fresh."""
    found = {}
    for name, array in fresh.items():
        old = state[name]
        found[name] = old if old.shape == array.shape else array.copy()
        if old.shape != array.shape:
            found[name][tuple(map(slice, old.shape))] = old
    return found


def cleared(state: State, fresh: State, axes: Mapping[str, int], rows: Iterable[int]) -> State:
    """The state, in which nothing is known of the clients in these rows."""
    which = list(rows)
    for name, axis in axes.items():
        at = (slice(None),) * axis + (which,)
        state[name][at] = fresh[name][at]
    return state
