"""Fleet: who is a member in which round, and the cohorts of a fleet that changes.

The first members are clients 0 to K-1. A `Change` holds from its round on: clients are added,
removed for good, excluded for a while or readmitted, or the server's state is put back. Who is
added or readmitted starts over at its first contact: with a fresh state, and from the model that
the server then sends. The numbers of clients are never used again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from psofed.core.schedule import Indices, UniformCohorts
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.contract import Method, State
from psofed.federation.schema import inside
from psofed.federation.stage import resized

PART = 2**20  # keys that are drawn at once
LAST = 2**31 - 1  # the highest number of a client
ROUNDS = 256  # in which who is on is computed at once
OFF = 2.0  # a key above all others
ACTS = ("add", "remove", "exclude", "readmit")


@dataclass(frozen=True)
class Change(schema.Fields):
    """What is different from a round on; one table [[fleet]] of a file."""

    round: int  # the first round in which it holds
    add: tuple[int, ...] = ()  # clients that join, each with a number that nobody has had
    remove: tuple[int, ...] = ()  # clients that leave for good
    exclude: tuple[int, ...] = ()  # clients that are not asked until they are readmitted
    readmit: tuple[int, ...] = ()  # clients that are asked again, and start over
    restore: int | None = None  # the server's state becomes that before this round
    void: int | None = None  # rounds from this one to `round` were not closed; not set: none
    keep: bool = False  # whether clients keep their models at a restore; else they start over

    def __post_init__(self) -> None:
        schema.check(self)
        schema.require(self, "round", self.round >= 0, "use 0 or more")
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


read = schema.each(schema.section(partial(schema.build, Change)))  # the changes of a file


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
        self.edges: list[int] = []  # the rounds in which something changes
        self._members = [np.arange(clients)]
        self._begins: dict[int, list[int]] = {}
        for i, change in placed:
            with inside(f"fleet[{i}]."):
                self._apply(change)

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
            self._leave("exclude", k, self._here, "is not a member")
            self._away.add(k)
        for k in change.remove:
            known = self._away if k in self._away else self._here
            self._leave("remove", k, known, "is not a member")
        if not self._here:
            raise InputError("remove", "leaves no member", "keep at least one")
        if change.restore is not None and not change.keep:
            for k in self._here:
                self._begin(k, change.round)
        self.edges.append(change.round)
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
        return self._members[bisect_right(self.edges, n)]

    def begins(self, k: int) -> list[int]:
        """The rounds from which on client k starts over, at its first contact."""
        return self._begins.get(k, [])

    @cached_property
    def void(self) -> set[int]:
        """The rounds that were not closed."""
        spans = ((c.void, c.round) for c in self.changes if c.void is not None)
        return {n for span in spans for n in range(*span)}


@dataclass(frozen=True, eq=False)
class FleetCohorts(UniformCohorts):
    """S_n: `size` of the members of round n, uniform, and as few others as possible change.

    Every client has a key for each round, and the smallest keys are in the cohort. So a client that
    joins takes the place of one other in the rounds in which it is selected, and one that leaves
    makes room for one; nothing else is different. The keys of the first K clients are such that
    without changes S_n is that of `UniformCohorts`. Members that are not `awake` are not asked.
    """

    changes: ClassVar[bool] = True
    history: Any = None  # `history.members(n)` are those of round n, in order
    awake: Any = None  # (clients, first round, stop) to whether they are on: [client, round]

    def there(self, n: int) -> Indices:
        members: Indices = self.history.members(n)
        if self.awake is None:
            return members
        part, i = divmod(n, ROUNDS)
        if part not in self._parts:
            self._parts.clear()
            everybody, first = np.arange(self.history.everybody), part * ROUNDS
            self._parts[part] = self.awake(everybody, first, first + ROUNDS)
        return members[self._parts[part][members, i]]

    def cohort(self, n: Any) -> Indices:
        """S_n of one round."""
        there = self.there(n)
        order = np.argsort(self._keys(np.array([n]), there)[0], kind="stable")
        return np.sort(there[order[: self.size]])

    def onward(self, n: int) -> Indices:
        """That of round n alone: the next may have another size."""
        return self.cohort(n)[None]

    def many(self, n: Indices) -> tuple[Indices, Indices]:
        # In parts of the rounds, not too long, in which the members are the same.
        most = max(PART // self.clients, ROUNDS)
        edges = np.searchsorted(n, self.history.edges).tolist()
        starts = sorted({0, *range(0, len(n), most), *(i for i in edges if i < len(n))})
        parts = [n[a:b] for a, b in zip(starts, [*starts[1:], len(n)], strict=True)]
        members, counts = zip(*map(self._some, parts), strict=True)
        return np.concatenate(members), np.concatenate(counts)

    def _some(self, n: Indices) -> tuple[Indices, Indices]:
        """The cohorts of rounds in a row; those who are off have a key above all others."""
        members: Indices = self.history.members(int(n[0]))
        keys = self._keys(n, members)
        if self.awake is not None:
            keys[~self.awake(members, int(n[0]), int(n[-1]) + 1).T] = OFF
        chosen = np.sort(np.argsort(keys, axis=1, kind="stable")[:, : self.size], axis=1)
        there = np.take_along_axis(keys, chosen, axis=1) < OFF
        return members[chosen[there]], there.sum(axis=1)

    def _keys(self, n: Indices, members: Indices) -> Any:
        """The keys of members [round, member]; of the first K, those of S_n have the smallest."""
        first, others = members[members < self.clients], members[members >= self.clients]
        keys, rows = self._drawn(n, np.arange(self.clients)), np.arange(len(n))[:, None]
        outside = np.ones(keys.shape, bool)
        outside[rows, self.draw(n)] = False  # S_n of a fleet that does not change
        found = np.empty_like(keys)
        found[rows, np.lexsort((keys, outside))] = np.sort(keys, axis=1)
        return np.concatenate([found[:, first], self._drawn(n, others)], axis=1)

    def _drawn(self, n: Indices, clients: Indices) -> Any:
        return self.seeds.uniforms("fleet", client=clients, round=n[:, None], count=1)[..., 0]


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
