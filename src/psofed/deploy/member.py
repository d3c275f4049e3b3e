"""The client's end of the line: an invitation in, an answer out, durable before it leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.deploy import wire
from psofed.deploy.client import Client, Source
from psofed.deploy.plan import Plan
from psofed.deploy.server import RefusedError
from psofed.deploy.store import Disk, Store
from psofed.errors import InputError

Array = NDArray[Any]


class Member:
    """Client, store and wire: what the transport talks to."""

    def __init__(self, plan: Plan, k: int, disk: Disk, source: Source | None = None) -> None:
        if not 0 <= k < plan.experiment.clients:
            most = plan.experiment.clients - 1
            raise InputError("--id", f"is {k}", f"use 0 to {most}, as the experiment has it")
        self.plan, self.k = plan, k
        self.client = Client(plan.method(), k, source, plan.deploy.bound)
        self.store = Store(disk, plan.about(f"client {k}"))
        self.incarnation = 0  # the highest that was seen
        self.refused: dict[str, int] = {}
        self._digest = plan.digest
        arrays = self.store.load()
        if arrays is not None:
            self.client.restore(arrays)
            self.incarnation = int(arrays["incarnation"])

    def hello(self) -> bytes:
        """What is said after each connect: a server that waits for this client asks again.

        It carries the round after the last one taken part in, so that a server whose newest record
        was damaged learns that it has fallen behind.
        """
        return wire.encode(wire.Frame(wire.HELLO, self._digest, self.client.last_round + 1))

    def take(self, data: bytes) -> tuple[bytes | None, str]:
        """One message from the server: the answer, and what happened in one word or sentence."""
        try:
            frame = self._read(data)
            if frame.kind == wire.HELLO:
                return None, "welcome"
            known = frame.n == self.client.last_round
            answer = self.client.take_part(frame.n, frame.body)
        except (wire.WireError, RefusedError) as error:
            self.refused[error.reason] = self.refused.get(error.reason, 0) + 1
            return None, str(error)
        if not known or frame.incarnation > self.incarnation:
            self.incarnation = frame.incarnation
            self.save()
        type = self.plan.deploy.wire
        reply = wire.Frame(wire.UPLOAD, self._digest, frame.n, wire=type, body=answer)
        return wire.encode(reply), "repeated" if known else "answered"

    def _read(self, data: bytes) -> wire.Frame:
        """Rules 3 and 7: a frame of this run, from no server that was replaced."""
        frame = wire.decode(
            data, wire.size(wire.INVITE, 32 * self.plan.experiment.features.dim + 64)
        )
        if frame.digest != self._digest:
            found = f"the server runs another experiment ({frame.digest:08x}, not"
            advice = f"{self._digest:08x}); give both the same file"
            raise wire.WireError("digest", f"{found} {advice}")
        if frame.kind == wire.HELLO:
            return frame
        if frame.kind != wire.INVITE or frame.wire != self.plan.deploy.wire:
            raise wire.WireError("kind", "a message came that is no invitation to this run")
        if frame.incarnation < self.incarnation:
            found = f"server start {frame.incarnation} was replaced by {self.incarnation}"
            raise wire.WireError("fenced", f"{found}; stop the old server")
        if self.client.source is not None and frame.n >= self.plan.experiment.rounds:
            # Or a wrong number would have the client learn for days to catch up.
            found = f"round {frame.n} was asked for, the experiment has"
            raise wire.WireError("round", f"{found} {self.plan.experiment.rounds}")
        return frame

    def save(self) -> None:
        """Rule 5: one durable record of the model, the position, the round and the answer."""
        incarnation = np.array(self.incarnation, np.int64)
        self.store.save({**self.client.to_arrays(), "incarnation": incarnation})
