"""Planted faults in what lets a fleet live: members, seats, the log, going back, full disks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from faults import Faults, fault

from psofed.protocol import (
    change_log,
    client,
    coordinator,
    membership,
    orders,
    seats,
    server,
    snapshots,
)

FLEET: Faults = {}  # each is caught by the runs of fleets


@fault(membership, "_reseat", "a seat is used again with the rows of who sat there", FLEET)
def _(good: Any) -> Any:
    return lambda server, begin, new=(): good(server, begin)


@fault(coordinator.Coordinator, "frames", "who is asked has begun, before the commit", FLEET)
def _(good: Any) -> Any:
    def frames(self: Any) -> Any:
        found = good(self)
        self.server.seats.begun[[self.server._row(k) for k in found]] = True
        return found

    return frames


@fault(coordinator.Coordinator, "take", "the late answer of a removed client is folded in", FLEET)
def _(good: Any) -> Any:
    def take(self: Any, k: int, data: bytes) -> Any:
        known = self.server.seats.row(k) is not None and not self.is_member(k)
        if known and int.from_bytes(data[5:9], "little") == self.n and len(data) > 9:
            self.server._drawn = self.n, sorted({*self.server.cohort, k})
        return good(self, k, data)

    return take


@fault(server.Server, "redraw", "who was removed is still waited for", FLEET)
def _(good: Any) -> Any:
    return lambda self, stay=(): None


@fault(server.Server, "redraw", "answers are forgotten when the cohort changes", FLEET)
def _(good: Any) -> Any:
    def redraw(self: Any, stay: Any = ()) -> None:
        self._answers, self._uploads = {}, {}
        good(self)

    return redraw


@fault(coordinator.Coordinator, "_changed", "the record is made before the line of the log", FLEET)
def _(good: Any) -> Any:
    def changed(self: Any, changes: Any) -> None:
        self.log.count += len(changes)
        self._save()
        self.log.count -= len(changes)
        self.log.add(changes)

    return changed


@fault(change_log.ChangeLog, "open", "what a crash left in the log counts", FLEET)
def _(good: Any) -> Any:
    def open(self: Any, count: int) -> None:
        self.count = count

    return open


@fault(membership, "put_back", "rounds are counted back at a restore", FLEET)
def _(good: Any) -> Any:
    def put_back(server: Any, state: Any, n: int, keep: bool) -> Any:
        found = good(server, state, n, keep)
        server.n = n
        return found

    return put_back


@fault(membership, "begin_all", "a restore leaves clients with their models", FLEET)
def _(good: Any) -> Any:
    return lambda server: None


@fault(seats.Seats, "add", "who is added is a member of the open round", FLEET)
def _(good: Any) -> Any:
    return lambda self, k, since: good(self, k, max(since - 1, 0))


@fault(coordinator.Coordinator, "change", "a substitute gets the invitation of another", FLEET)
def _(good: Any) -> Any:
    def change(self: Any, act: str, clients: Any) -> Any:
        before = list(self._frames.values())
        found = good(self, act, clients)
        self._frames = {k: f if f in before else before[0] for k, f in self._frames.items()}
        return found

    return change


@fault(seats.SeatedCohorts, "cohort", "keys are drawn by seat, not by number", FLEET)
def _(good: Any) -> Any:
    def cohort(self: Any, n: Any) -> Any:
        rows = np.sort(self._rows(self.fleet.there(n)))
        return self.fleet.select(np.array([n]), rows)[0]

    return cohort


@fault(snapshots.Snapshots, "note", "the journal lacks the last round", FLEET)
def _(good: Any) -> Any:
    def note(self: Any, n: int, answers: Any) -> None:
        if (late := self.__dict__.pop("late", None)) is not None:
            good(self, *late)
        self.late = n, dict(answers)

    return note


@fault(coordinator.Coordinator, "_follow", "an old copy believes one client", FLEET)
def _(good: Any) -> Any:
    def follow(self: Any) -> None:
        self.ahead |= dict.fromkeys((-1, -2, -3, -4), max(self.ahead.values()))
        good(self)

    return follow


@fault(server.Server, "_in_order", "the answer of who leaves counts twice", FLEET)
def _(good: Any) -> Any:
    def in_order(self: Any) -> Any:
        going = [self._row(k) for k in self._uploads if self.seats.standing(k) != seats.MEMBER]
        return {row: values * (2 if row in going else 1) for row, values in good(self).items()}

    return in_order


@fault(seats.Seats, "add", "the numbers of those who were removed are used again", FLEET)
def _(good: Any) -> Any:
    def add(self: Any, k: int, since: int) -> Any:
        later = self.next
        if self.standing(k) == seats.REMOVED:
            self.next = k
            self._rows.pop(k, None)
        row = good(self, k, since)
        self.next = max(self.next, later)
        return row

    return add


@fault(client.Client, "_begin", "who begins anew learns from before it joined", FLEET)
def _(good: Any) -> Any:
    def begin(self: Any, n: int, message: Any) -> None:
        position = self.position
        good(self, n, message)
        self.position = position

    return begin


@fault(seats.Seats, "to_arrays", "a restart readmits those who were excluded", FLEET)
def _(good: Any) -> Any:
    def to_arrays(self: Any) -> Any:
        found = good(self)
        if found:
            out = found["fleet.status"] == seats.EXCLUDED
            found["fleet.status"] = np.where(out, seats.MEMBER, found["fleet.status"])
        return found

    return to_arrays


@fault(coordinator.Coordinator, "commit", "a round that the disk refused is folded twice", FLEET)
def _(good: Any) -> Any:
    def commit(self: Any) -> Any:
        self._held = None
        return good(self)

    return commit


@fault(orders, "undone", "a change that the disk refused has happened all the same", FLEET)
def _(good: Any) -> Any:
    @contextmanager
    def undone(server: Any) -> Iterator[None]:
        yield

    return undone


@fault(client.Member, "save", "an answer leaves though it could not be written", FLEET)
def _(good: Any) -> Any:
    def save(self: Any) -> bool:
        good(self)
        self.trouble = ""
        return True

    return save
