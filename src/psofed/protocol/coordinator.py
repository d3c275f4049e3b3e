"""The server's end of the line: frames in, frames out, one durable record per round.

It knows no transport and no clock: its caller moves the bytes and decides when a round closes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.methods.contract import Method
from psofed.privacy.masks import MOST_TOLD
from psofed.protocol import wire
from psofed.protocol.change_log import ChangeLog
from psofed.protocol.checked_record import number, reading, taken
from psofed.protocol.deployment import Deployment
from psofed.protocol.orders import Orders
from psofed.protocol.reports import Report, sensible
from psofed.protocol.seal import DOWN, UP, derive, seal, unseal
from psofed.protocol.seats import EXCLUDED, MEMBER, REMOVED
from psofed.protocol.server import RefusedError, Server, allowed
from psofed.protocol.snapshots import Snapshots
from psofed.protocol.store import SELDOM, Disk

Array = NDArray[Any]
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
    left_out: tuple[int, ...]  # answered, but together the model would not have been finite
    gap: int  # rounds since the entry that waits longest was last folded in (rule 4)
    void: str = ""  # why nothing was folded in, of a masked round (rule 19)


class Coordinator(Orders):
    """Server, store and wire: the interface for the transport."""

    def __init__(
        self, plan: Deployment, disk: Disk, secret: bytes | None = None, start: int = 0
    ) -> None:
        self.plan, self._secret = plan, secret
        self.server = Server(plan.method(), plan.deploy.bound, plan.seated)
        self.store = plan.store(disk, "server")
        self.seldom = plan.store(disk, "server", SELDOM)
        self.incarnation = 0
        self.first = False  # whether this is the first start
        self.fresh = np.zeros(self.server.method.task.dim, np.int64)  # by entry: last folded
        self._digest = plan.digest
        self.coverage: dict[int, tuple[int, int]] = {}  # by client that tells: labels, inside
        self.errors: dict[int, Report] = {}  # by client that tells its own
        self.ahead: dict[int, int] = {}  # by client that says so: a round later than the open one
        self.doubles: Counter[int] = Counter()  # by client: signs that two devices have its number
        self.unasked: Counter[int] = Counter()  # by client: answers to what we did not ask
        self.settled = 0  # rounds before this one were closed a minute ago, says the caller
        self.huge: Counter[int] = Counter()  # by client: answers that were too large or not finite
        self._greeted: dict[int, int] = {}  # by client: the round of its last hello
        self.traffic = np.zeros(2, np.int64)  # bytes up and down in all rounds that were closed
        self._up = self._down = 0
        self._frames: dict[int, bytes] = {}
        self.behind = False  # whether this is an old copy: clients know later rounds
        self.log = ChangeLog(disk)
        self.snapshots = Snapshots(disk, plan.about("server"))
        self.snapshots.most *= not plan.settled  # there is no going back
        self._held: Closed | None = None  # a round that is folded in, but not durable yet
        self._restore(start)

    def _restore(self, start: int) -> None:
        """Rule 7: continue after the last commit, with a higher incarnation, durable before use."""
        arrays = self.store.load()
        self.first = arrays is None
        if arrays is not None:
            with reading(self.store.file):
                self.server.restore((self.seldom.load() or {}) | arrays)
                self.incarnation = number(arrays, "incarnation", 0, wire.LAST_INCARNATION)
                self.fresh = taken(arrays, "fresh", np.int64, self.fresh.shape, 0, self.server.n)
                if "traffic" in arrays:  # older records have none
                    self.traffic = taken(arrays, "traffic", np.int64, (2,), 0)
                logged = number(arrays, "logged", default=0)
            self.log.open(logged)
            self.snapshots.open(self.server.n)
            self.behind = "behind" in arrays
            self._publish()  # a crash may have torn it
        self.incarnation = max(self.incarnation + 1, start)
        if self.incarnation > wire.LAST_INCARNATION:
            raise InputError(self.store.disk.name, "was started too often", "start a new run")
        self._save()
        self._open()

    def _open(self) -> None:
        """Encode the invitations once: repeated ones have the same bytes."""
        if self.server.n > wire.LAST_ROUND:
            raise InputError("the round", f"is {self.server.n}", "it is too large: start a new run")
        self._frames = {k: self._frame(k, body) for k, body in self.server.invite().items()}
        self._up = self._down = 0

    def _forget(self) -> None:
        """Nothing is kept of those who have no seat any more."""
        tables: tuple[dict[int, Any], ...] = self._greeted, self.coverage, self.errors
        for table in (*tables, self.ahead, self.doubles, self.huge, self.unasked):
            for k in [k for k in table if self.server.seats.row(k) is None]:
                del table[k]

    def _frame(self, k: int, body: bytes) -> bytes:
        n, kind = self.server.n, wire.BEGIN if self.server.begins(k) else wire.INVITE
        frame = wire.Frame(kind, self._digest, n, self.incarnation, self.plan.wire, body)
        return seal(self._key(k), DOWN, wire.encode(frame))

    def _key(self, k: int) -> bytes | None:
        return None if self._secret is None else derive(self._secret, k)

    @property
    def n(self) -> int:
        """The round that is open, or held."""
        return self.server.n if self._held is None else self._held.n

    @property
    def held(self) -> bool:
        """Whether the last round is folded in, but the disk has not taken it yet."""
        return self._held is not None

    @property
    def complete(self) -> bool:
        """Whether all who are needed have answered."""
        return self.server.complete

    @property
    def missing(self) -> list[int]:
        """Members of the cohort that have not answered; nobody is asked while a round is held."""
        return self.server.missing if self._held is None else []

    def seal(self) -> bool:
        """Rule 19: no answer is taken any more; whether some are asked now to unmask the sum."""
        if self._held is not None or not self.server.seal():
            return False
        assert self.server.masks is not None
        frame = wire.Frame(wire.QUESTION, self._digest, self.n, body=self.server.masks.question)
        asked = self.server.masks.present
        self._frames = {k: seal(self._key(k), DOWN, wire.encode(frame)) for k in asked}
        return True

    @property
    def sealed(self) -> bool:
        """Rule 19: whether it is decided who is in the sum."""
        return self.server.sealed

    def frames(self) -> dict[int, bytes]:
        """What to send to each member that has not answered: first, and again later."""
        frames = {k: self._frames[k] for k in self.missing}
        self._down += sum(map(len, frames.values()))
        return frames

    def frame_for(self, k: int) -> bytes | None:
        """What to send to a client that has come back, if it is waited for."""
        if k not in self.missing:
            return None
        self._down += len(self._frames[k])
        return self._frames[k]

    def hello(self, k: int) -> bytes:
        """The answer to a hello, and to a client of another run: which run this is.

        Who is no member is told so.
        """
        return self._hello(k, "" if self.is_member(k) else self.server.seats.word(k))

    def probe(self, k: int) -> bytes:
        """Rule 9: a hello to a member that is asleep; if it is there, it answers with its own."""
        return self._hello(k, wire.ASLEEP)

    def _hello(self, k: int, word: str) -> bytes:
        frame = wire.Frame(wire.HELLO, self._digest, self.n, body=wire.standing(word))
        return seal(self._key(k), DOWN, wire.encode(frame))

    def is_member(self, k: int) -> bool:
        """Whether client k is one, or will be from the next round on."""
        return self.server.seats.standing(k) == MEMBER

    def take(self, k: int, data: bytes) -> str:
        """One message on the channel of client k; returns its outcome in one word."""
        if k < 0:
            self.server.reject(k, "stranger")
            return "stranger"
        try:
            frame = self._read(unseal(self._key(k), UP, data))  # another file: it gets a hello
            if not self.is_member(k) and k not in self.server.cohort:
                reason = {EXCLUDED: "excluded", REMOVED: "removed"}
                standing = reason.get(self.server.seats.standing(k), "stranger")
                raise wire.WireError(standing, f"client {k} is {self.server.seats.word(k)}")
            if frame.kind == wire.HELLO:
                self._up += len(data) if frame.body else 0
                return self._greet(k, frame)
            if self._held is not None and frame.n > self._held.n:
                raise wire.WireError("early", f"round {frame.n} is not open")
            if frame.kind == wire.SEEDS:
                self._up += len(data)
                return self.server.tell(k, frame.n, frame.body)
            outcome = self.server.collect(k, frame.n, frame.body)
        except wire.WireError as error:
            self.server.reject(k, error.reason)
            return error.reason
        except RefusedError as error:
            self.doubles[k] += 2 * (error.reason == "conflict")
            self.huge[k] += error.reason in ("bound", "finite")
            self.unasked[k] += error.reason == "early" or frame.n < self.settled
            return error.reason
        if outcome == "accepted":
            self._up += len(data)
            self.ahead.pop(k, None)
        return outcome

    def _greet(self, k: int, frame: wire.Frame) -> str:
        """A hello: whether its client can still answer the round that is open."""
        if (told := wire.told(frame.body)) is not None:
            self.coverage[k] = told
        report = wire.reported(frame.body)
        if report is not None and (said := sensible(*report)) is not None:
            self.errors[k] = said
        # One device goes back once, when it has lost its state; two take turns.
        self.doubles[k] += frame.n < self._greeted.get(k, 0)
        self._greeted[k] = frame.n
        self.ahead.pop(k, None)
        if frame.n <= self.n + 1:
            return "hello"
        self.ahead[k] = frame.n - 1  # it says that it has taken part in this one
        if self.behind and self._held is None:
            self._follow()
        return "ahead"

    def _read(self, data: bytes) -> wire.Frame:
        """Rules 3 and 11: a frame of this run, of a possible size."""
        most = limit(self.server.method, self.n)
        frame = wire.decode(data, max(most, wire.TELLING))
        most = wire.TELLING if frame.kind == wire.HELLO else most
        if len(data) > most:
            raise wire.WireError("size", f"received {len(data)} bytes, {most} are possible")
        if frame.digest != self._digest:
            raise wire.WireError("digest", f"the message is of run {frame.digest:08x}")
        masked = self.server.masks is not None
        if frame.kind in wire.INVITATIONS and not (masked and frame.kind == wire.SEEDS):
            raise wire.WireError("kind", "the message is an invitation")
        if frame.kind == wire.UPLOAD and frame.wire != self.plan.wire:
            raise wire.WireError("type", f"the values are of type {frame.wire or 'none'}")
        return frame

    def commit(self) -> Closed:
        """Rule 6: close the round and make it durable, in one record.

        An OSError says that the disk does not take it. The round is then held: nobody is asked
        anything, and the next call tries to write it again, but folds nothing twice.
        """
        if self._held is None:
            self._held = self._fold()
        self._save()
        self._publish()
        self.snapshots.keep(self.server.n, self.server.state)
        closed, self._held = self._held, None
        self._open()
        return closed

    def _fold(self) -> Closed:
        n, cohort = self.n, self.server.asked
        self.snapshots.note(n, self.server.answers)
        answered = self.server.commit()
        self.behind &= 2 * len(answered) <= len(cohort)
        self.fresh[self.server.touched] = n + 1
        self.traffic += (self._up, self._down)
        missing = tuple(k for k in cohort if k not in answered)
        out = tuple(self.server.left_out)
        gap = int(self.server.n - self.fresh.min())
        self.ahead = {k: later for k, later in self.ahead.items() if later > self.server.n}
        sent, void = (self._up, self._down), self.server.void
        return Closed(n, len(cohort), len(answered), missing, *sent, out, gap, void)

    def _publish(self) -> None:
        """The global model as a separate file, for other programs."""
        file = BytesIO()
        np.save(file, self.server.model)
        self.store.disk.write("model.new.npy", file.getvalue())
        self.store.disk.rename("model.new.npy", MODEL)

    def _save(self) -> None:
        """One record; on the live clock without what a defence remembers of many clients.

        That is a slow mean over the uploads of a client, saved every few rounds: a kill costs what
        the uploads of at most `OFTEN` rounds have added to it, and nothing else.
        """
        more = {"incarnation": np.array(self.incarnation, np.int64), "fresh": self.fresh}
        arrays = {**self.server.to_arrays(), **more, "traffic": self.traffic}
        arrays |= {"logged": np.array(self.log.count, np.int64)} if self.log.count else {}
        arrays |= {"behind": np.array(True)} if self.behind else {}
        live, large = self.plan.deploy.clock == "live", {}
        for name in [name for name in arrays if live and name.startswith("defence.")]:
            if arrays[name].nbytes > LARGE:
                large[name] = arrays.pop(name)
        if large and self.server.n % OFTEN == 0:
            self.seldom.save(large)
        self.store.save(arrays)


def limit(method: Method, n: int) -> int:
    """The largest frame that can come up in round n."""
    sizes, privacy = allowed(method, n), method.task.privacy
    if sizes is not None and privacy is not None and privacy.masks:
        sizes = sizes | {MOST_TOLD * method.task.cohorts.size}  # rule 19
    # Methods whose length varies send positions, codes and values: never more than this.
    return wire.size(wire.UPLOAD, max(sizes) if sizes is not None else 32 * method.task.dim + 64)
