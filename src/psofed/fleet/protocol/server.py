"""The server: it invites a cohort, collects the answers and folds them into the global model.

Clients are named by their numbers here, and by their rows in the method's arrays and the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from psofed.errors import InputError
from psofed.federation.contract import Array, Method, State
from psofed.federation.policy import Options
from psofed.federation.round import members, open_round
from psofed.federation.stage import around
from psofed.fleet.protocol import folding, server_state
from psofed.fleet.protocol.folding import BOUND, Folded, values_of
from psofed.fleet.protocol.masking import Unmasking, Uploads
from psofed.fleet.protocol.members import MemberTable, Presence
from psofed.fleet.protocol.server_state import Ledger, ServerState
from psofed.fleet.protocol.wire import RefusedError
from psofed.stages.defences.contract import Defended, Opinion
from psofed.stages.mask import Masked
from psofed.stages.selection import Selected

Bind = Callable[[MemberTable, Presence], Method]


class Server:
    """The handlers of the server. Nothing of a round counts until `commit`."""

    def __init__(self, method: Method, bound: float = BOUND, bind: Bind | None = None) -> None:
        self.bound, self._bind = bound, bind
        self.presence = Presence()  # who is asleep
        self.newcomers: set[int] = set()  # who starts over because it has no state any more
        self.now = server_state.first(method)
        self.masks: Unmasking | None = None  # if uploads are masked
        for stage in around(method):
            if isinstance(stage, Selected):
                refuse_policy(stage.policy.options)
            if isinstance(stage, Masked):
                self.masks = Unmasking(stage.privacy, method.task.cohorts.size)
        self.begin()

    @property
    def n(self) -> int:
        """The round that is open."""
        return self.now.n

    @property
    def method(self) -> Method:
        """The method, bound to the table of members."""
        return self.now.method

    @property
    def state(self) -> State:
        """The arrays of the method and of its stages."""
        return self.now.state

    @property
    def table(self) -> MemberTable:
        """Who is a member, and where."""
        return self.now.table

    @property
    def ledger(self) -> Ledger:
        """What became of all questions and messages."""
        return self.now.ledger

    @property
    def model(self) -> Array:
        """The global model, as the method has it."""
        return self.method.models(self.state, {})

    def opinion(self) -> Opinion | None:
        """What the defence thinks of each client, by row; None if there is none that does."""
        found = (stage for stage in around(self.method) if isinstance(stage, Defended))
        return next((stage.opinion(self.state) for stage in found), None)

    def become(self, after: ServerState) -> None:
        """Go on with another value, which is durable; of the open round, or of a later one."""
        same, self.now = after.n == self.n, after
        if same:
            self.redraw()
        else:
            self.begin()

    def bind(self, table: MemberTable) -> Method:
        """The method for this table."""
        assert self._bind is not None
        return self._bind(table, self.presence)

    def begin(self) -> None:
        """Nobody has been asked anything in the open round."""
        self._drawn: list[int] | None = None
        self.answers: dict[int, bytes] = {}  # what was accepted in it so far
        self._uploads: Uploads = {}
        self._invited: dict[int, bytes] = {}
        self.folded: Folded | None = None  # the open round, if no answer is taken any more
        self.sent = [0, 0]  # bytes up and down in it, if somebody counts them
        if self.masks is not None:
            self.masks.begin()

    def invite(self) -> dict[int, bytes]:
        """What goes down to each member of the cohort of this round.

        Encoded once: those asked already get the same bytes again, whoever comes or goes.
        """
        if new := [k for k in self.cohort if k not in self._invited]:
            rows = np.array([self._row(k) for k in new], np.intp)
            begin = {int(row) for k, row in zip(new, rows, strict=True) if self.begins(k)}
            message = open_round(self.method, self.state, rows, self.n, begin)
            for i, k in enumerate(new):
                values = message.row(i)
                body = b"" if values is None else self.method.encode(values, up=False)
                self._invited[k] = body
        return {k: self._invited[k] for k in self.cohort}

    def invitation(self, k: int) -> bytes:
        """That of a member of the cohort."""
        return self._invited[k] if k in self._invited else self.invite()[k]

    def begins(self, k: int) -> bool:
        """Whether a member has its first contact still before it, or again: it then starts over."""
        return k in self.newcomers or not self.table.begun[self._row(k)]

    def knows(self, k: int) -> bool:
        """Whether it has accepted an answer of this client, which has begun."""
        row = self._row(k)
        began = row >= 0 and bool(self.table.begun[row])
        return began and (k in self.answers or bool(self.ledger.accepted_at[row] >= 0))

    def knew(self, k: int, n: int) -> bool:
        """Whether it has accepted an answer of this client to a round before n, and none since."""
        row = self._row(k)
        return row >= 0 and k not in self.answers and 0 <= int(self.ledger.accepted_at[row]) < n

    def welcome(self, k: int, new: bool) -> None:
        """Rule 17: a client that has no state is a newcomer; it is none if it has one after all."""
        (self.newcomers.add if new else self.newcomers.discard)(k)
        if k not in self.answers:  # what it gets in the open round is another message now
            self._invited.pop(k, None)

    def _row(self, k: int) -> int:
        row = self.table.row(k)
        return -1 if row is None else row

    @property
    def cohort(self) -> list[int]:
        """S_n of this round, in order; drawn once, because every message asks for it."""
        if self._drawn is None:
            asleep = set(self.presence.asleep(self.n))
            if asleep and asleep >= set(self.table.members(self.n).tolist()):
                asleep = set()  # all are, so all are asked
            self._drawn = [k for k in self._selected() if k not in asleep]
        return self._drawn

    def _selected(self) -> list[int]:
        """S_n as the method has it, by number."""
        found: list[int] = self.table.ids[members(self.method, self.n, self.state)].tolist()
        return sorted(found)

    @property
    def asked(self) -> list[int]:
        """The cohort, and those of it who are not waited for any more."""
        gone: list[int] = self.table.ids[list(self.ledger.dropped)].tolist()
        return sorted({*self.cohort, *gone})

    def redraw(self, stay: Iterable[int] = ()) -> None:
        """The cohort of the open round has changed: those who have left are not waited for.

        Some `stay`, whoever is drawn.
        """
        self._drawn = None
        self._drawn = sorted({*self.cohort, *stay})
        for k in [k for k in self.answers if k not in self.cohort]:
            del self.answers[k], self._uploads[k]

    def sleep(self, clients: Iterable[int]) -> list[int]:
        """Rule 9: from the open round on these are not waited for; who is asked in their places.

        Within a block of rounds nobody can take a place: then the cohort is smaller until it ends.
        """
        before, missing = self.cohort, self.missing
        for k in clients:
            self.presence.sleep(k, self.n)
            if k in missing and (row := self.table.row(k)) is not None:
                self.ledger.dropped.add(row)  # it will count as lost
        self.redraw(stay=[k for k in before if not self.presence.is_asleep(k)])
        return [k for k in self.cohort if k not in before]

    @property
    def missing(self) -> list[int]:
        """Members of the cohort that have not answered yet, or not revealed what the sum needs."""
        if self.masks is not None and self.sealed:
            return self.masks.missing
        return [k for k in self.cohort if k not in self.answers]

    @property
    def sealed(self) -> bool:
        """Rule 19: whether it is decided who is in the sum, and they are asked to unmask it."""
        return self.masks is not None and bool(self.masks.present)

    def seal(self) -> bool:
        """Rule 19: no answer is taken any more; whether seeds are needed to unmask the sum."""
        if self.masks is None or self.sealed or not any(self.answers.values()):
            return False
        return self.masks.decide(self._selected(), self.answers)

    def take_seeds(self, k: int, n: int, body: bytes) -> str:
        """Rule 19: the seeds of a member, and for which sum. The first counts.

        Seeds for another sum may come from before a kill of this server.
        """
        try:
            if self.masks is None or not self.sealed or n != self.n:
                raise RefusedError("late", f"client {k} was not asked for seeds of round {n}")
            self.masks.take(k, n, body)
        except RefusedError as error:
            self.ledger.reject(self._row(k), error.reason)
            raise
        return "revealed"

    def collect(self, k: int, n: int, answer: bytes) -> str:
        """Rules 8 and 11: check one answer completely, then keep it. The first valid one counts.

        Returns "accepted" or "repeated"; a RefusedError has changed counters only.
        """
        try:
            values = self._check(k, n, answer)
        except RefusedError as error:
            self.ledger.reject(self._row(k), error.reason, n, n == self.n)
            raise
        if k in self.answers:
            for count in ("received", "repeated"):  # acknowledged, not folded in again
                self.ledger.counts[count] += 1
            return "repeated"
        self.answers[k], self._uploads[k] = answer, values
        self.newcomers.discard(k)
        return "accepted"

    def reject(self, k: int, reason: str) -> None:
        """Count a message that is no answer."""
        self.ledger.reject(self._row(k), reason)

    def _check(self, k: int, n: int, answer: bytes) -> Array | None:
        if n != self.n:
            found = f"client {k} answers round {n}: the server is in round {self.n}"
            raise RefusedError("late" if n < self.n else "early", found)
        if k in self.answers:
            if self.answers[k] != answer:
                raise RefusedError("conflict", f"client {k} answered round {n} twice, differently")
            return None
        if self.sealed:
            raise RefusedError("late", f"client {k} is not in the sum of round {n}")
        if k not in self.cohort:
            if self._row(k) in self.ledger.dropped:
                raise RefusedError("late", f"client {k} is not waited for in round {n} any more")
            raise RefusedError("stranger", f"client {k} is not asked in round {n}")
        if self.folded is not None:
            raise RefusedError("late", f"client {k} answers round {n}, which is closed")
        return values_of(self.now, k, answer, self.bound, self.masks is not None)

    def _in_order(self) -> Uploads:
        """By row, in the order of the clients' numbers."""
        return {self._row(k): self._uploads[k] for k in sorted(self._uploads)}

    def fold(self) -> Folded:
        """Rule 10: fold what arrived in client order; from now on, no answer is taken any more."""
        if self.folded is None:
            uploads = self._in_order()
            self.seal()  # in case nobody has: a sum that is not whole is then void
            masks, answered = self.masks, list(self.answers)
            self.folded = (
                folding.all_of(self.now, uploads)
                if masks is None
                else folding.sum_of(self.now, uploads, masks, answered)
            )
        return self.folded

    def closed(self) -> ServerState:
        """The value after this round."""
        folded = self.fold()
        rejected = dict.fromkeys(folded.left_out, "masks" if folded.void else "together")
        asked = [self._row(k) for k in self.cohort]
        return server_state.closed(self.now, folded.state, asked, folded.rows, rejected, self.sent)

    def commit(self) -> list[int]:
        """Rules 9 and 10: close the round; the members whose answers were folded in."""
        after = self.closed()
        found: list[int] = self.table.ids[self.fold().rows].tolist()
        self.become(after)
        return found

    def restore(self, arrays: dict[str, Array]) -> None:
        """Rule 6: continue after the last commit; nothing of an unfinished round is kept."""
        bind = None if self._bind is None else self.bind
        self.now = server_state.recorded(self.method, arrays, bind)
        self.begin()


def refuse_policy(policy: Options) -> None:
    """Policies are for simulations."""
    found = f"is {policy.name}, for which the protocol has no messages"
    if policy.scores == "client":
        found = f"is {policy.name}, whose weights clients could choose"
    raise InputError("policy", found, "deploy the method without it")
