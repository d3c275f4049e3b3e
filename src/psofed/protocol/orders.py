"""Orders: what an operator tells a server, durable when it returns (rules 17 and 18).

Also who is not waited for (rule 9): that is neither durable nor an order, but changes whom it asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from psofed.core.fleet import Change
from psofed.errors import InputError
from psofed.protocol import membership, naps
from psofed.protocol.change_log import ChangeLog
from psofed.protocol.deployment import Deployment
from psofed.protocol.seats import SeatedCohorts
from psofed.protocol.server import Server
from psofed.protocol.snapshots import Snapshots, replayed
from psofed.protocol.store import Store
from psofed.protocol.undo import undone

Array = NDArray[Any]


class Orders:
    """A server that can be told to change its fleet and to go back; `Coordinator` is the rest."""

    plan: Deployment
    server: Server
    store: Store
    log: ChangeLog
    snapshots: Snapshots
    first: bool
    behind: bool
    ahead: dict[int, int]
    _frames: dict[int, bytes]

    @property
    def n(self) -> int:
        """The round that is open."""
        raise NotImplementedError

    @property
    def held(self) -> bool:
        """Whether the disk has not taken the last round yet."""
        raise NotImplementedError

    def _frame(self, k: int, body: bytes) -> bytes:
        raise NotImplementedError

    def _open(self) -> None:
        raise NotImplementedError

    def _save(self) -> None:
        raise NotImplementedError

    def _publish(self) -> None:
        raise NotImplementedError

    def _forget(self) -> None:
        raise NotImplementedError

    def change(self, act: str, clients: Sequence[int]) -> list[Change]:
        """Rule 17: "add", "remove", "exclude" or "readmit" clients: all of them, or an error."""
        self._refuse_settled()
        membership.check(self.server, act, clients)
        with self._durably():
            changes = getattr(membership, act)(self.server, clients)
            self._changed(changes)
        self._ask_others()
        return list(changes)

    def _ask_others(self) -> None:
        """The cohort has changed: those who have been asked already get the same bytes again."""
        new = {k: body for k, body in self.server.invite().items() if k not in self._frames}
        self._frames = {k: f for k, f in self._frames.items() if k in self.server.cohort}
        self._frames |= {k: self._frame(k, body) for k, body in new.items()}

    def sleep(self, clients: Sequence[int]) -> list[int]:
        """Rule 9: these are not asked any more until they wake; who is asked in their places."""
        seated = isinstance(self.server.method.task.cohorts, SeatedCohorts)
        if not seated and not self.plan.listed:
            membership.seat(self.server)
        others = naps.begin(self.server, clients)
        self._ask_others()
        return others

    def wake(self, k: int) -> None:
        """Rule 9: client k is asked again from the next round on."""
        naps.end(self.server, k)

    def over_select(self, spare: int) -> None:
        """Rule 9: so many more members are asked in each round; the first answers close it."""
        if self.plan.listed:
            raise InputError("--spare", f"is not possible: {self.plan.listed}", "leave it out")
        self.server.seats.spare = spare
        membership.seat(self.server)
        self.server.redraw()
        self._open()

    def put_back(self, n: int, keep: bool = False, without: Sequence[int] = ()) -> Change:
        """Rule 18: the model of round n again, from the next round on; the open one is void.

        Without clients: the answers since then are folded in again, but for theirs.
        """
        self._refuse_settled()
        if keep and self.plan.world.methods[0].differs:
            name = self.plan.world.methods[0].name
            found = f"is not possible with {name} that sends differences: some are void"
            raise InputError("--keep-clients", found, "leave it out")
        state = self.snapshots.state(n)
        if without:
            state = replayed(self.server, state, self.snapshots.answers(n, self.n), without)
        with self._durably():
            change = membership.put_back(self.server, state, n, keep)
            change = replace(change, without=tuple(without))
            self._changed([change])
        with suppress(OSError):  # the next commit writes it again
            self._publish()
        self._open()
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
            raise InputError(where, "has a state already", "leave --from out, or give a new folder")
        if self.server.state.keys() != {"w"} or self.plan.settled:
            name = self.plan.world.methods[0].name
            why = self.plan.settled or "its server keeps more than a model"
            raise InputError("--from", f"is not possible with {name}: {why}", "leave it out")
        self.server.state["w"][:] = w
        membership.begin_all(self.server)
        self._save()
        self._publish()
        self._open()

    @contextmanager
    def _durably(self) -> Iterator[None]:
        """What the disk does not take, or what is refused half-way, has not happened."""
        if self.held:
            found = f"cannot be written: round {self.n} is held"
            right = "nothing was changed; try again when it can be"
            raise InputError(self.store.disk.name, found, right)
        count = self.log.count
        try:
            with undone(self.server):
                yield
        except (OSError, InputError):
            self.log.count = count
            raise

    def _changed(self, changes: Sequence[Change]) -> None:
        """Log, then the record: a line that the record does not count is not believed."""
        self.log.add(changes)
        self._forget()
        self._save()

    def revive(self) -> None:
        """Rule 18: go on from an old copy. Clients tell how far they are, most of them honestly."""
        self._refuse_settled()
        self.behind, copied = True, self.n
        if membership.has_rows(self.server):
            # What it remembers of them is older than they are: they begin anew, in a round that
            # none of them has answered, because an answer that is repeated begins nothing.
            with self._durably():
                membership.begin_all(self.server)
                self.server.skip(membership.next_begin(self.server))
                self._changed([Change(self.n, restore=copied)])
        self._save()
        self._open()

    def _follow(self) -> None:
        """Open a round behind those that clients know; less than half of a cohort cannot name one.

        The last round was closed with a whole cohort, so as many as that know it.
        """
        alone = len(self.server.seats.present) == 1
        few = 0 if alone else max((len(self.server.cohort) - 1) // 2, 1)
        if len(self.ahead) <= few:
            return
        known, last = sorted(self.ahead.values(), reverse=True)[few], self.log.last()
        copied = self.n
        if last is not None and last.restore is not None and last.round == self.n:
            copied = last.restore  # nothing has happened since
        with self._durably():
            self.server.skip(membership.begin_after(self.server, known))
            keep = not membership.has_rows(self.server)
            self._changed([Change(self.n, restore=copied, keep=keep)])
        self.ahead = {k: later for k, later in self.ahead.items() if later > self.n}
        self._open()
