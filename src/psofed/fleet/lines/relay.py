"""A member whose client is a microcontroller behind a line: messages here, small frames there.

The gateway has the member's key and seals for it. It has no sample and no model, and what it says
of either is what the device has said: rules 5 and 11 are kept by the device, and by the server.
"""

from __future__ import annotations

import numpy as np

from psofed.core import payload
from psofed.errors import InputError
from psofed.federation.contract import exchanged
from psofed.federation.records import taken
from psofed.federation.schema import inside
from psofed.fleet.lines import frames
from psofed.fleet.lines.frames import Parts
from psofed.fleet.protocol import signs, wire
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.member import received
from psofed.fleet.protocol.store import Disk, in_words
from psofed.fleet.protocol.wire import UP, RefusedError, seal


class Relayed:
    """The interface for the transport, as Member is: on the other side it has a line, too."""

    def __init__(self, plan: Deployment, k: int, disk: Disk, key: bytes | None = None) -> None:
        method = plan.device(measured=True)
        if method.pace > 1:
            found = f"works in blocks of {method.pace} rounds, whose messages no line carries yet"
            raise InputError("method", found, "use PSO-Fed or Online-Fed, or local_steps = 1")
        self.plan, self.k, self.key = plan, k, key
        self.size = payload.size(plan.wire)
        window, whole = (exchanged(method, up=True).shape[-1], method.task.dim)
        # Bytes of an invitation, of one to start over, and of an answer.
        self._asks = window * self.size, (whole if method.idle else window) * self.size
        self._answers = window * self.size + signs.SIZE * plan.signed
        self.store = plan.store(disk, f"gateway of client {k}")
        self.incarnation, self.last = 0, -1  # the highest start, and the last round answered
        self.trouble = ""  # why the last record could not be written
        self.standing = ""  # what the server says that this client is, if it is not a member
        self.foreign: int | None = None  # the digest of the device, if it is of another run
        self.refused: dict[str, int] = {}
        self._parts: Parts | None = None  # of the answer that is waited for
        self._answer: tuple[int, bytes] = (-1, b"")
        if (arrays := self.store.load()) is not None:
            with inside(where=self.store.file):
                limits = np.array([0, -1]), np.array([wire.LAST_INCARNATION, frames.LAST_ROUND])
                self.incarnation, self.last = taken(
                    arrays, "numbers", np.int64, (2,), *limits
                ).tolist()

    def hello(self) -> bytes:
        """The message after each connect, with the round after the last one that was answered."""
        frame = wire.Frame(wire.HELLO, self.plan.digest, self.last + 1)
        return seal(self.key, UP, wire.encode(frame))

    def take(self, data: bytes) -> tuple[list[bytes], bytes | None, str]:
        """A message of the server: frames for the device, an answer, the outcome in words."""
        try:
            frame = received(self.plan, self.key, self.incarnation, data)
            if frame.kind == wire.HELLO:
                word = wire.word(frame.body)
                self.standing = "" if word == wire.ASLEEP else word
                return [], self.hello() if word == wire.ASLEEP else None, "greeted"
            return self._ask(frame)
        except RefusedError as error:
            self.refused[error.reason] = self.refused.get(error.reason, 0) + 1
            return [], None, str(error)

    def _ask(self, frame: wire.Frame) -> tuple[list[bytes], bytes | None, str]:
        """An invitation: what its device has answered already is said again without it."""
        self.standing = ""
        begin = frame.kind == wire.BEGIN
        if begin and frame.wire == wire.IF_BLANK and frame.n != self.last >= 0:
            return [], self.hello(), "probed"
        if frame.n < self.last or frame.n > frames.LAST_ROUND:
            raise RefusedError("late", f"round {frame.n} after round {self.last}, or beyond 2^24")
        if len(frame.body) != self._asks[begin]:
            found = f"received {len(frame.body)} bytes for round {frame.n}, not {self._asks[begin]}"
            raise RefusedError("size", found)
        if self.foreign is not None:
            raise RefusedError("foreign", f"the device is of run {self.foreign:08x}, not of this")
        if frame.incarnation > self.incarnation:
            self.incarnation = frame.incarnation
            self.save()
        if self._answer[0] == frame.n:
            return [], self._say(), "repeated"
        if self._parts is None or self._parts.n != frame.n:
            self._parts = Parts(frame.n, self._answers, self.size)
        return frames.split(frame.n, frame.body, self.size, begin), None, "asked"

    def hear(self, frame: bytes) -> bytes | None:
        """A frame of the device: what goes to the server, if it says hello, or all has come."""
        greeting = frames.greeting(frame)
        if greeting is not None:
            last, digest = greeting
            self._parts = None  # what it says now need not go with what it has said before
            self.foreign = None if digest == self.plan.digest else digest
            if self.foreign is None and last != self.last:  # it has lost what it had, or gone on
                self.last, self._answer = last, (-1, b"")
                self.save()
            return self.hello() if self.foreign is None else None
        parts, known = self._parts, self._answer[0]
        if parts is None or parts.n == known or (body := parts.take(frame)) is None:
            return None
        self.last, self._answer = parts.n, (parts.n, body)
        return self._say() if self.save() else None

    def _say(self) -> bytes | None:
        """The answer, once it is durable that there is one."""
        if self.trouble and not self.save():
            return None
        n, body = self._answer
        reply = wire.Frame(wire.UPLOAD, self.plan.digest, n, wire=self.plan.wire, body=body)
        return seal(self.key, UP, wire.encode(reply))

    def save(self) -> bool:
        """Whether the disk takes how far it is; if not, no answer leaves."""
        try:
            self.store.save({"numbers": np.array([self.incarnation, self.last], np.int64)})
            self.trouble = ""
        except OSError as error:
            self.trouble = in_words(error)
        return not self.trouble
