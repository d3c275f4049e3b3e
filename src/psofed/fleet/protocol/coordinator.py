"""The server's end of the line: frames in, frames out.

It knows no transport and no clock: its caller moves the bytes and decides when a round closes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from psofed.federation.membership import Change
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.confidence import Report
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.durable import Closed, DurableServer, has_rows
from psofed.fleet.protocol.members import EXCLUDED, MEMBER, REMOVED, Names
from psofed.fleet.protocol.signs import SIZE, Signs
from psofed.fleet.protocol.store import Disk
from psofed.fleet.protocol.wire import DOWN, UP, RefusedError, derive, seal, unseal


class Coordinator(DurableServer):
    """A durable server and the wire: the interface for the transport."""

    def __init__(
        self, plan: Deployment, disk: Disk, secret: bytes | None = None, start: int = 0
    ) -> None:
        super().__init__(plan, disk, start)
        self._secret, self._digest, self._most = secret, plan.digest, plan.largest
        self.reports: dict[int, Report] = {}  # by client that reports
        self.ahead: dict[int, int] = {}  # by client that says so: a round later than the open one
        self.doubles: Counter[int] = Counter()  # by client: signs that two devices have its number
        self.signs: dict[int, Signs] = {}  # by client: those of its last answer
        self.blanks: Counter[int] = Counter()  # by client: how often it has lost its state
        self._blank: set[int] = set()  # who has none, until it answers
        self._greeted: dict[int, int] = {}  # by client: the round of its last hello

    @property
    def missing(self) -> list[int]:
        """Members of the cohort that have not answered; nobody is asked while a round is held."""
        return [] if self.held else self.server.missing

    def seal(self) -> bool:
        """Rule 19: no answer is taken any more; whether some are asked now to unmask the sum."""
        return not self.held and self.server.seal()

    def frames(self) -> dict[int, bytes]:
        """What to send to each member that has not answered: first, and again later."""
        frames = {k: self._frame(k) for k in self.missing}
        self.server.sent[1] += sum(map(len, frames.values()))
        return frames

    def frame_for(self, k: int) -> bytes | None:
        """What to send to a client that has come back, if it is waited for."""
        if k not in self.missing:
            return None
        frame = self._frame(k)
        self.server.sent[1] += len(frame)
        return frame

    def _frame(self, k: int) -> bytes:
        """An invitation; rule 19: or what is asked of those who are in the sum."""
        if self.server.masks is not None and self.server.sealed:
            return self._down(k, wire.QUESTION, body=self.server.masks.question)
        kind = wire.BEGIN if self.server.begins(k) else wire.INVITE
        type = wire.IF_BLANK if k in self.server.newcomers else self.plan.wire
        more = {"incarnation": self.incarnation, "wire": type}
        return self._down(k, kind, **more, body=self.server.invitation(k))

    def _down(self, k: int, kind: int, **more: Any) -> bytes:
        frame = wire.encode(wire.Frame(kind, self._digest, self.n, **more))
        return seal(self._key(k), DOWN, frame)

    def _key(self, k: int) -> bytes | None:
        return None if self._secret is None else derive(self._secret, k)

    def hello(self, k: int) -> bytes:
        """The answer to a hello, and to a client of another run: which run this is.

        It says so to clients that are not members.
        """
        word = "" if self.is_member(k) else self.server.table.word(k)
        return self._down(k, wire.HELLO, body=wire.standing(word))

    def probe(self, k: int) -> bytes:
        """Rule 9: a hello to a member that is asleep; if it is there, it answers with its own."""
        return self._down(k, wire.HELLO, body=wire.standing(wire.ASLEEP))

    def is_member(self, k: int) -> bool:
        """Whether client k is one, or will be from the next round on."""
        return self.server.table.standing(k) == MEMBER

    def take(self, k: int, data: bytes) -> str:
        """One message on the channel of client k; returns its outcome in one word."""
        try:
            frame = self._admit(k, data)
        except RefusedError as error:
            self.server.reject(k, error.reason)
            return error.reason
        size = len(data)
        if frame.kind == wire.HELLO:
            self.server.sent[0] += size if frame.body else 0
            return self._greet(k, frame)
        try:
            if frame.kind == wire.SEEDS:
                self.server.sent[0] += size
                return self.server.take_seeds(k, frame.n, frame.body)
            if frame.wire == wire.IF_BLANK and self.server.knew(k, frame.n):
                self._greet(k, replace(frame, n=0, body=b""))
                if self.welcomes:
                    self.server.sent[0] += size
                    return "hello"
            at = len(frame.body) - SIZE * self.plan.signed
            outcome = self.server.collect(k, frame.n, frame.body[:at])
        except RefusedError as error:
            self.doubles[k] += 2 * (error.reason == "conflict")
            return error.reason
        if outcome == "accepted":
            self.server.sent[0] += size
            self.ahead.pop(k, None)
            self._blank.discard(k)
            if self.plan.signed:
                self.signs[k] = Signs.read(frame.body[at:])
        return outcome

    def _admit(self, k: int, data: bytes) -> wire.Frame:
        """A frame of this run, from a member or from who is in the open round."""
        if k < 0:
            raise RefusedError("stranger", "nobody has such a number")
        frame = self._read(unseal(self._key(k), UP, data))  # another file: it gets a hello
        if not self.is_member(k) and k not in self.server.cohort:
            reason = {EXCLUDED: "excluded", REMOVED: "removed"}
            standing = reason.get(self.server.table.standing(k), "stranger")
            raise RefusedError(standing, f"client {k} is {self.server.table.word(k)}")
        return frame

    def _greet(self, k: int, frame: wire.Frame) -> str:
        """A hello: whether its client can still answer the round that is open."""
        if (report := Report.read(frame.body)) is not None:
            self.reports[k] = report
        # One device goes back when it has lost its state; two take turns.
        back = frame.n < self._greeted.get(k, 0)
        self.doubles[k] += self._contradicts(k, frame.n, back)
        self._greeted[k] = frame.n
        self.ahead.pop(k, None)
        if frame.n <= self.n + 1:
            return "hello"
        self.ahead[k] = frame.n - 1  # it says that it has taken part in this one
        if self.server.now.behind and not self.held:
            self._follow(self.ahead)
            self._caught_up()
        return "ahead"

    def _contradicts(self, k: int, n: int, back: bool) -> bool:
        """Rule 17: a client that says it never took part, but has answered, is a newcomer again.

        A hello may be an old one. So what is sent then is for a client without state only; one that
        has a state says so, which is a contradiction, and is asked as before.
        """
        if n == 0 and self.server.knows(k) and k not in self._blank:
            self._blank.add(k)
            self.blanks[k] += 1
            if self.welcomes:
                self.server.welcome(k, True)
            return False
        if n > 0 and k in self._blank:
            self._blank.discard(k)
            self.blanks[k] -= 1
            self.server.welcome(k, False)
            return True
        return back

    @property
    def welcomes(self) -> bool:
        """Whether a client without state starts over by itself: nothing is remembered of it."""
        return self.plan.deploy.live and not self.plan.settled and not has_rows(self.server.now)

    def _read(self, data: bytes) -> wire.Frame:
        """Rules 3 and 11: a frame of this run, of a possible size."""
        frame = wire.decode(data, self._most)
        if frame.kind == wire.HELLO and len(data) > wire.REPORT:
            raise RefusedError("size", f"a hello of {len(data)} bytes")
        if frame.digest != self._digest:
            raise RefusedError("digest", f"the message is of run {frame.digest:08x}")
        masked = self.server.masks is not None
        if frame.kind in wire.INVITATIONS and not (masked and frame.kind == wire.SEEDS):
            raise RefusedError("kind", "the message is an invitation")
        if frame.kind == wire.UPLOAD and frame.wire not in (self.plan.wire, wire.IF_BLANK):
            raise RefusedError("type", f"the values are of type {frame.wire or 'none'}")
        if frame.kind == wire.UPLOAD and self.plan.signed and len(frame.body) < SIZE:
            raise RefusedError("size", "an answer has no signs")
        return frame

    def commit(self) -> Closed:
        """Rule 6: close the round and make it durable, or it is held."""
        closed = super().commit()
        self._caught_up()
        return closed

    def _caught_up(self) -> None:
        """Clients ahead of an earlier round need not be any more."""
        self.ahead = {k: later for k, later in self.ahead.items() if later > self.n}

    @property
    def names(self) -> Names:
        """Of all clients, for people."""
        return self.server.table.names

    def change(self, act: str, clients: Sequence[int], names: Names | None = None) -> list[Change]:
        """Rule 17; nothing is kept of those who have no row any more."""
        changes = super().change(act, clients, names)
        tables: tuple[dict[int, Any], ...] = (
            self._greeted, self.reports, self.ahead, self.doubles, self.signs, self.blanks,
        )  # fmt: skip
        for table in tables:
            for k in [k for k in table if self.server.table.row(k) is None]:
                del table[k]
        return changes
