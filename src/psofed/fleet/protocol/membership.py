"""Rule 17: who joins, leaves and returns, and the server's state that is put back.

Each function returns what a server whose round n is open becomes, and from which round on what
holds. The server itself is not changed: that is done when the new value is durable.

The log has one line of JSON for each change, in the order in which they were made. The record says
how many lines count, and a line is durable before the record that counts it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.contract import State
from psofed.federation.membership import Change, cleared, moved, row_axes
from psofed.federation.records import reading, taken
from psofed.fleet.protocol.members import EXCLUDED, REMOVED, MemberTable
from psofed.fleet.protocol.server import Server
from psofed.fleet.protocol.server_state import ServerState
from psofed.fleet.protocol.store import Disk, put
from psofed.stages.defences.contract import OWN

Next = tuple[ServerState, list[Change]]
LOG = "fleet.jsonl"


def change(server: Server, act: str, clients: Sequence[int]) -> Next:
    """Add, remove, exclude or readmit clients: all of them, or an error.

    Who comes is a member from the next round on that begins a block, and begins anew. Who goes is
    not asked any more at once, unless its answer of the open round is there.
    """
    table, since, new = server.table.copy(), next_begin(server.now), set[int]()
    block = server.n - server.n % server.method.pace  # in which the cohort of this round began
    rounds, rows = dict.fromkeys(clients, since), set[int]()
    if act == "add":
        new = {*table.vacate(block, server.ledger.dropped), *(table.add(k, since) for k in clients)}
    elif act == "readmit":
        rows = {table.readmit(k, since, block) for k in clients}
    else:
        for k in clients:
            at = server.n + (k in server.answers)
            rounds[k] = table.leave(k, EXCLUDED if act == "exclude" else REMOVED, at)
    changes = [Change(n, **dict[str, Any]({act: (k,)})) for k, n in rounds.items()]
    return rebound(server, table, rows | new, new), changes


def put_back(server: Server, state: State, n: int, keep: bool) -> Next:
    """The server's state becomes that before round n; the open round is void."""
    now, begin, axes = server.now, next_begin(server.now), row_axes(server.method)
    change = Change(begin, restore=n, void=now.n, keep=keep)
    with reading("the snapshot"):
        same = {
            name: taken(state, name, array.dtype, array.shape, -np.inf, np.inf).copy()
            for name, array in now.own.items()
            if name not in axes
        }
    after = replace(now, state=now.state | same)
    after = after if keep else begin_all(server, after)
    return after.skipped(begin), [change]


def begin_all(server: Server, now: ServerState) -> ServerState:
    """All members begin anew at their next contact."""
    table = now.table.copy()
    table.begin(range(len(table)), False)
    table.changes += 1
    return rebound(server, table, range(len(table)), now=now)


def has_rows(now: ServerState) -> bool:
    """Whether the method remembers something of each client."""
    return any(not name.startswith(OWN) for name in row_axes(now.method))


def next_begin(now: ServerState, n: int | None = None) -> int:
    """The first round after round n, or after the open one, in which a cohort begins."""
    return ((now.n if n is None else n) // now.method.pace + 1) * now.method.pace


def rebound(
    server: Server,
    table: MemberTable,
    begin: Iterable[int] = (),
    new: Iterable[int] = (),
    now: ServerState | None = None,
) -> ServerState:
    """Cohorts are drawn from this table, and arrays have a row for each client in it.

    Of who begins anew the method knows nothing, of who is new the defence does not, either.
    """
    now = now or server.now
    method, ledger = server.bind(table), now.ledger.copy()
    ledger.resize(len(table), new)
    fresh, axes = method.server(), row_axes(method)
    state = moved(now.copied(), fresh)
    for name, axis in axes.items():
        rows = new if name.startswith(OWN) else begin
        state = cleared(state, fresh, {name: axis}, rows)
    return replace(now, method=method, state=state, table=table, ledger=ledger)


class ChangeLog:
    """The changes of a deployment since its first day."""

    def __init__(self, disk: Disk) -> None:
        self.disk, self.count = disk, 0
        self._there: int | None = None  # lines in the file, if that is known

    def open(self, count: int) -> None:
        """Believe so many lines; what a crash has left behind them is cut off."""
        self.count, self._there = count, None
        data = self.disk.read(LOG)
        if data is not None and (data.count(b"\n") != count or data[-1:] not in (b"", b"\n")):
            lines = data.split(b"\n")[:count]
            put(self.disk, LOG, b"".join(line + b"\n" for line in lines))
        self._there = count

    def add(self, changes: Iterable[Change]) -> None:
        """More lines, durable when this returns."""
        lines = [json.dumps(change.to_table()) + "\n" for change in changes]
        if self._there != self.count:  # a disk that was full may have left lines that do not count
            self.open(self.count)
        new, self._there = LOG not in self.disk.names(), None
        self.disk.append(LOG, "".join(lines).encode())
        self.disk.sync(LOG)
        if new:
            self.disk.sync_folder()
        self.count += len(lines)
        self._there = self.count

    def last(self) -> Change | None:
        """The newest of them; None also if they cannot be read, because a server can go on."""
        try:
            found = changes(self.disk.read(LOG), self.count, self.disk.name)
        except InputError:
            return None
        return found[-1] if found else None


def changes(data: bytes | None, count: int, where: str) -> list[Change]:
    """The changes in a log."""
    lines = (data or b"").splitlines()[:count]
    try:
        found = [schema.build(Change, json.loads(line)) for line in lines]
        if len(found) == count:
            return found
    except (ValueError, TypeError, AttributeError):
        pass
    raise InputError(
        f"{where}/{LOG}", "is damaged", "only a simulation needs it: the members are in the record"
    )
