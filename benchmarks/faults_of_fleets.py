"""Planted faults in what lets a fleet live: members, table, the log, going back, full disks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from faults import Faults, fault

from psofed.fleet.protocol import (
    client,
    coordinator,
    durable,
    history,
    member,
    members,
    server,
)

FLEET: Faults = {}  # each is caught by the runs of fleets


@fault(durable, "rebound", "a row is used again with what it had of another", FLEET)
def _(good: Any) -> Any:
    return lambda server, table, begin=(), new=(), now=None: good(server, table, begin, (), now)


@fault(coordinator.Coordinator, "frames", "who is asked has begun, before the commit", FLEET)
def _(good: Any) -> Any:
    def frames(self: Any) -> Any:
        found = good(self)
        self.server.table.begun[[self.server._row(k) for k in found]] = True
        return found

    return frames


@fault(coordinator.Coordinator, "take", "the late answer of a removed client is folded in", FLEET)
def _(good: Any) -> Any:
    def take(self: Any, k: int, data: bytes) -> Any:
        known = self.server.table.row(k) is not None and not self.is_member(k)
        if known and int.from_bytes(data[5:9], "little") == self.n and len(data) > 9:
            self.server._drawn = sorted({*self.server.cohort, k})
        return good(self, k, data)

    return take


@fault(server.Server, "redraw", "who was removed is still waited for", FLEET)
def _(good: Any) -> Any:
    return lambda self, stay=(): None


@fault(server.Server, "redraw", "answers are forgotten when the cohort changes", FLEET)
def _(good: Any) -> Any:
    def redraw(self: Any, stay: Any = ()) -> None:
        self.answers, self._uploads = {}, {}
        good(self)

    return redraw


@fault(coordinator.Coordinator, "_become", "the record is made before the line of the log", FLEET)
def _(good: Any) -> Any:
    def become(self: Any, after: Any, changes: Any) -> None:
        if not self.held:
            self.log.count += len(changes)
            self._save(after)
            self.log.count -= len(changes)
        good(self, after, changes)

    return become


@fault(history.ChangeLog, "open", "what a crash left in the log counts", FLEET)
def _(good: Any) -> Any:
    def open(self: Any, count: int) -> None:
        self.count = count

    return open


@fault(durable, "put_back", "rounds are counted back at a restore", FLEET)
def _(good: Any) -> Any:
    def put_back(server: Any, state: Any, n: int, keep: bool) -> Any:
        after, changes = good(server, state, n, keep)
        return replace(after, n=n), changes

    return put_back


@fault(durable, "begin_all", "a restore leaves clients with their models", FLEET)
def _(good: Any) -> Any:
    return lambda server, now: now


@fault(members.MemberTable, "add", "who is added is a member of the open round", FLEET)
def _(good: Any) -> Any:
    return lambda self, k, since: good(self, k, max(since - 1, 0))


@fault(coordinator.Coordinator, "change", "a substitute gets the invitation of another", FLEET)
def _(good: Any) -> Any:
    def change(self: Any, act: str, clients: Any) -> Any:
        before = self.server.invite()
        found = good(self, act, clients)
        wrong = next(iter(before.values()))
        self.server._invited |= {k: wrong for k in self.server.invite() if k not in before}
        return found

    return change


@fault(members.RowCohorts, "cohort", "keys are drawn by row, not by number", FLEET)
def _(good: Any) -> Any:
    def cohort(self: Any, n: Any) -> Any:
        rows = np.sort(self._rows(self.fleet.there(n)))
        order = np.argsort(self.fleet._keys(np.array([n]), rows)[0], kind="stable")
        return np.sort(rows[order[: self.fleet.size]])

    return cohort


@fault(coordinator.Coordinator, "_follow", "an old copy believes one client", FLEET)
def _(good: Any) -> Any:
    def follow(self: Any, ahead: Any) -> None:
        good(self, ahead | dict.fromkeys((-1, -2, -3, -4), max(ahead.values())))

    return follow


@fault(server.Server, "_in_order", "the answer of who leaves counts twice", FLEET)
def _(good: Any) -> Any:
    def in_order(self: Any) -> Any:
        going = [self._row(k) for k in self._uploads if self.table.standing(k) != members.MEMBER]
        return {row: values * (2 if row in going else 1) for row, values in good(self).items()}

    return in_order


@fault(
    members.MemberTable, "add",
    "the numbers of those who were removed are used again", FLEET,
)  # fmt: skip
def _(good: Any) -> Any:
    def add(self: Any, k: int, since: int) -> Any:
        later = self.next
        if self.standing(k) == members.REMOVED:
            self.next = k
            self._rows.pop(k, None)
        row = good(self, k, since)
        self.next = max(self.next, later)
        return row

    return add


@fault(client.Client, "_exchange", "who starts over learns from before it joined", FLEET)
def _(good: Any) -> Any:
    def exchange(self: Any, n: int, message: Any, begin: bool) -> Any:
        position, learn = self.position, self._learn_now
        if begin:
            self._learn_now = lambda m: (self._replay(position, m), learn(m))
        try:
            return good(self, n, message, begin)
        finally:
            self.__dict__.pop("_learn_now", None)

    return exchange


@fault(members.MemberTable, "to_arrays", "a restart readmits those who were excluded", FLEET)
def _(good: Any) -> Any:
    def to_arrays(self: Any) -> Any:
        found = good(self)
        if found:
            out = found["fleet.status"] == members.EXCLUDED
            found["fleet.status"] = np.where(out, members.MEMBER, found["fleet.status"])
        return found

    return to_arrays


@fault(coordinator.Coordinator, "commit", "a round that the disk refused is folded twice", FLEET)
def _(good: Any) -> Any:
    def commit(self: Any) -> Any:
        if (folded := self.server.folded) is not None:
            self.server.now = replace(self.server.now, state=folded.state)
            self.server.folded = None
        return good(self)

    return commit


@fault(
    coordinator.Coordinator, "_become",
    "a change that the disk refused has happened all the same", FLEET,
)  # fmt: skip
def _(good: Any) -> Any:
    def become(self: Any, after: Any, changes: Any) -> None:
        try:
            good(self, after, changes)
        except OSError:
            self.server.become(after)
            raise

    return become


@fault(member.Member, "save", "an answer leaves though it could not be written", FLEET)
def _(good: Any) -> Any:
    def save(self: Any) -> bool:
        good(self)
        self.trouble = ""
        return True

    return save
