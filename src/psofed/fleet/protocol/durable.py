"""The durable server: one record per round, and what an operator asks of it (rules 6, 17 and 18).

The next value of its state is made completely, then recorded, and only then gone on with. Who is
not waited for (rule 9) is not recorded, but it changes whom the server asks. Functions at the end
return what a server whose round n is open becomes, and from which round on; they do not change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np

from psofed.errors import InputError
from psofed.federation.contract import Array, State
from psofed.federation.membership import Change, cleared, moved, row_axes
from psofed.federation.records import number, taken
from psofed.federation.schema import inside
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.history import ChangeLog, Snapshots
from psofed.fleet.protocol.members import EXCLUDED, REMOVED, MemberTable, Names, RowCohorts
from psofed.fleet.protocol.server import Server
from psofed.fleet.protocol.server_state import ServerState
from psofed.fleet.protocol.store import SELDOM, Disk, put
from psofed.stages.defences.contract import OWN

Next = tuple[ServerState, list[Change]]
MODEL = "model.npy"  # in the state folder: the global model after the last commit
LARGE = 2**16  # bytes of an array of the defence that is not in the record of every round
OFTEN = 64  # rounds from one record of these to the next


@dataclass(frozen=True)
class Closed:
    """The outcome of a round."""

    n: int
    asked: int
    accepted: int
    missing: tuple[int, ...]
    up: int  # bytes of the frames that were accepted, and of reports
    down: int  # bytes of the frames that were sent, repetitions included
    left_out: tuple[int, ...]  # answered, but could not be folded in
    gap: int  # rounds since the entry that waits longest was last folded in (rule 4)
    void: str = ""  # why nothing was folded in, of a masked round (rule 19)
    why: str = ""  # what was wrong with the first who was left out


class DurableServer:
    """A server with its folder: what it knows survives a kill at any moment."""

    def __init__(self, plan: Deployment, disk: Disk, start: int = 0) -> None:
        self.plan = plan
        self.server = Server(plan.method(), plan.deploy.bound, plan.bind)
        self.store = plan.store(disk, "server")
        self.seldom = plan.store(disk, "server", SELDOM)
        self.incarnation, self.first = 0, False  # its starts so far; whether this is the first
        self.log = ChangeLog(disk)
        kept = 0 if plan.settled else plan.deploy.keep  # then there is no going back
        self.snapshots = Snapshots(disk, plan.about("server"), plan.deploy.snapshots, kept)
        self._restore(start)
        self.server.table.names.listed = plan.names.listed

    def _restore(self, start: int) -> None:
        """Rule 7: continue after the last commit, with a higher incarnation, durable before use."""
        arrays = self.store.load()
        self.first = arrays is None
        if arrays is not None:
            known = {f"state.{name}" for name in self.server.state}  # another defence has others
            large = {k: a for k, a in (self.seldom.load() or {}).items() if k in known}
            with inside(where=self.store.file):
                self.server.restore(large | arrays)
                self.incarnation = number(arrays, "incarnation", 0, wire.LAST_INCARNATION)
                logged = number(arrays, "logged")
            self.log.open(logged)
            self._publish(self.server.now)  # a crash may have torn it
        self.incarnation = max(self.incarnation + 1, start)
        if self.incarnation > wire.LAST_INCARNATION:
            raise InputError(self.store.disk.name, "was started too often", "start a new run")
        self._save(self.server.now)

    @property
    def n(self) -> int:
        """The round that is open."""
        return self.server.n

    @property
    def held(self) -> bool:
        """Whether the open round is folded, but the disk has not taken it yet."""
        return self.server.folded is not None

    def commit(self) -> Closed:
        """Rule 6: close the round in one durable record; after an OSError it is held, and nothing
        of it has happened yet: the next call tries to write it again."""
        after = self.server.closed()
        closed = self._outcome(after)
        after = replace(after, behind=after.behind and 2 * closed.accepted <= closed.asked)
        self._save(after)
        self._publish(after)
        self.snapshots.keep(after.n, after.own)
        self.server.become(after)
        return closed

    def _outcome(self, after: ServerState) -> Closed:
        """What is said about the round that is about to be closed."""
        folded, asked, ids = self.server.fold(), self.server.asked, self.server.table.ids
        answered = set(ids[folded.rows].tolist())
        missing, out = [k for k in asked if k not in answered], ids[folded.left_out].tolist()
        counts, gap = (len(asked), len(answered)), int(after.n - after.fresh.min())
        up, down = self.server.sent
        outcome = folded.void, folded.why if out else ""
        return Closed(self.n, *counts, tuple(missing), up, down, tuple(out), gap, *outcome)

    def _publish(self, after: ServerState) -> None:
        """The global model as a separate file, for other programs."""
        file = BytesIO()
        np.save(file, after.method.models(after.state, {}))
        put(self.store.disk, MODEL, file.getvalue(), durable=False)

    def _save(self, after: ServerState) -> None:
        """One record; on the live clock without what a defence remembers of many clients: that is
        a slow mean, of which a kill costs what at most `OFTEN` rounds have added."""
        if after.n > wire.LAST_ROUND:
            raise InputError("the round", f"is {after.n}", "it is too large: start a new run")
        numbers = {"incarnation": self.incarnation, "logged": self.log.count}
        arrays = after.to_arrays() | {k: np.array(n, np.int64) for k, n in numbers.items()}
        live, large = self.plan.deploy.live, {}
        for name in [name for name in arrays if live and name.startswith(f"state.{OWN}")]:
            if arrays[name].nbytes > LARGE:
                large[name] = arrays.pop(name)
        if large and after.n % OFTEN == 0:
            self.seldom.save(large)
        self.store.save(arrays)

    def _become(self, after: ServerState, changes: Sequence[Change]) -> None:
        """Log, then the record, then this server: a line that the record does not count is not
        believed, and what the disk does not take has not happened."""
        if self.held:
            found = f"cannot be written: round {self.n} is held"
            right = "nothing was changed; try again when it can be"
            raise InputError(self.store.disk.name, found, right)
        count = self.log.count
        try:
            if changes:
                self.log.add(changes)
            self._save(after)
        except OSError:
            self.log.count = count
            raise
        self.server.become(after)

    def change(self, act: str, clients: Sequence[int], names: Names | None = None) -> list[Change]:
        """Rule 17: "add", "remove", "exclude" or "readmit" clients: all of them, or an error.

        Who joins may have a name, among the `names` of all.
        """
        self._refuse_settled()
        after, changes = changed(self.server, act, clients, names)
        self._become(after, changes)
        if act in ("remove", "exclude"):
            for k in clients:
                self.server.presence.forget(k)
        return changes

    def sleep(self, clients: Sequence[int]) -> list[int]:
        """Rule 9: these are not asked any more until they wake; who is asked in their places."""
        bound = isinstance(self.server.method.task.cohorts, RowCohorts)
        if not bound and not self.plan.listed:
            self.server.become(rebound(self.server, self.server.table))
        return self.server.sleep(clients)

    def wake(self, k: int) -> None:
        """Rule 9: client k is asked again, from the next round on in which a cohort begins."""
        self.server.presence.wake(k, next_begin(self.server.now))

    def put_back(self, n: int, keep: bool = False) -> Change:
        """Rule 18: the model of round n again, from the next round on; the open one is void."""
        self._refuse_settled()
        if keep and self.plan.world.methods[0].differs:
            name = self.plan.world.methods[0].name
            found = f"is not possible with {name} that sends differences: some are void"
            raise InputError("--keep-clients", found, "leave it out")
        after, (change,) = put_back(self.server, self.snapshots.state(n), n, keep)
        self._become(after, [change])
        with suppress(OSError):  # the next commit writes it again
            self._publish(after)
        return change

    def _refuse_settled(self) -> None:
        if self.plan.settled:
            name = self.plan.world.methods[0].name
            found = f"cannot change with {name}: {self.plan.settled}"
            raise InputError("the fleet", found, "start a new run")

    def warm(self, w: Array) -> None:
        """A first start with this model, which clients get at their first contact."""
        if not self.first:
            where = self.store.disk.name
            raise InputError(where, "has a state already", "leave origin out, or give a new folder")
        now = self.server.now
        if now.own.keys() != {"w"} or self.plan.settled:
            name = self.plan.world.methods[0].name
            why = self.plan.settled or "its server keeps more than a model"
            raise InputError("deploy.origin", f"is not possible with {name}: {why}", "leave it out")
        state = now.state | {"w": w.astype(now.state["w"].dtype)}
        after = begin_all(self.server, replace(now, state=state))
        self._become(after, [])
        self._publish(after)
        self.server.begin()

    def revive(self) -> None:
        """Rule 18: go on from an old copy. Clients say how far they are, most of them honestly."""
        self._refuse_settled()
        after, changes = replace(self.server.now, behind=True), []
        if has_rows(after):
            # What it remembers of them is older than they are: they start over, in a round that
            # none of them has answered, because an answer that is repeated begins nothing.
            after, copied = begin_all(self.server, after), after.n
            after = after.skipped(next_begin(after))
            changes = [Change(after.n, restore=copied)]
        self._become(after, changes)

    def _follow(self, ahead: dict[int, int]) -> None:
        """Open a round behind those that clients know; less than half of a cohort cannot name one.

        The last round was closed with a whole cohort, so as many as that know it.
        """
        alone = len(self.server.table.present) == 1
        few = 0 if alone else max((len(self.server.cohort) - 1) // 2, 1)
        if len(ahead) <= few:
            return
        known, last = sorted(ahead.values(), reverse=True)[few], self.log.last()
        now = self.server.now
        copied = now.n
        if last is not None and last.restore is not None and last.round == now.n:
            copied = last.restore  # nothing has happened since
        after = now.skipped(next_begin(now, known))
        keep = not has_rows(now)
        self._become(after, [Change(after.n, restore=copied, keep=keep)])


def changed(server: Server, act: str, clients: Sequence[int], names: Names | None = None) -> Next:
    """Add, remove, exclude or readmit clients: all of them, or an error.

    Who comes is a member from the next round on that begins a block, and starts over. Who goes is
    not asked any more at once, unless its answer of the open round is there.
    """
    table, since, new = server.table.copy(), next_begin(server.now), set[int]()
    table.names = names or table.names
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
    with inside(where="the snapshot"):
        same = {
            name: taken(state, name, array.dtype, array.shape, -np.inf, np.inf).copy()
            for name, array in now.own.items()
            if name not in axes
        }
    after = replace(now, state=now.state | same)
    after = after if keep else begin_all(server, after)
    return after.skipped(begin), [change]


def begin_all(server: Server, now: ServerState) -> ServerState:
    """All members start over at their next contact."""
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
    server: Server, table: MemberTable, begin: Iterable[int] = (), new: Iterable[int] = (),
    now: ServerState | None = None,
) -> ServerState:  # fmt: skip
    """Cohorts are drawn from this table, and arrays have a row for each client in it.

    Of who starts over the method knows nothing, of who is new the defence does not, either.
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
