"""CMFL: a client does not send its update if the signs disagree with the last global update.

L. Wang, W. Wang, B. Li, "CMFL: mitigating communication overhead for federated
learning", ICDCS 2019.
With LMS, consecutive corrections partly undo each other, so the mean agreement is below one half,
and the literal rule sends next to nothing at its published thresholds. The usable form (ours) sets
the threshold so that a given share of the uploads passes, forces an upload after a few skips, and
divides by |S_n|.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Literal

import numpy as np

from psofed.core import payload
from psofed.errors import InputError
from psofed.methods import fedavg
from psofed.methods.contract import Array, Message, Messages, State, Task, Who

HISTORY = 400  # agreements from which the usable threshold is taken
PATIENCE = 3  # skips after which an upload is forced


@dataclass(frozen=True)
class Options(fedavg.Paced):
    """Which rule; its threshold v (literal) or the share of uploads to keep (usable); E."""

    name: ClassVar[str] = "cmfl"
    rule: Literal["literal", "usable"] = "usable"
    threshold: float = 0.8
    keep: float = 0.6
    local_steps: int = 10

    def describe(self) -> str:
        usable = self.rule == "usable"
        knob = f"keep={self.keep:g}" if usable else f"v={self.threshold:g}, literal"
        return f"CMFL {knob} E={self.local_steps}"

    def check(self, dim: int, clients: int) -> None:
        """The threshold and the share are between 0 and 1."""
        fedavg.at_least_one(self, "local_steps")
        for field in ("threshold", "keep"):
            if not 0 <= getattr(self, field) <= 1:
                raise InputError(field, f"is {getattr(self, field)}", "use 0 to 1")
        if self.rule == "literal" and self.policy is not None:
            found = "is given, but the literal rule has its own weights"
            raise InputError("policy", found, 'use rule = "usable", or leave it out')


class Method(fedavg.Method):
    """FedAvg with an upload only if r = #{j : sign h_j = sign g_j} / D is at least the threshold.

    g is the last global update that was not zero. In the first block all members upload.
    """

    stacked = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.usable = options.rule == "usable"
        self.threshold, self.keep = options.threshold, options.keep

    def server(self) -> State:
        """w, the signs of g, and the last agreements that were reported."""
        history = {"history": np.zeros(HISTORY), "count": np.zeros((), np.int64)}
        return super().server() | {"g": self.task.zeros(self.task.dim)} | history

    def client(self, k: int) -> State:
        """w_k, what came down with it, and how many uploads this client has skipped."""
        zeros = self.task.zeros
        more = {"signs": zeros(self.task.dim), "threshold": np.zeros(()), "skips": np.zeros(())}
        return super().client(k) | {"start": self.task.initial()} | more

    def download(self, server: State, k: Who, n: int) -> Message:
        """w_n, the signs of g and, if usable, the threshold."""
        if not self.begins(n):
            return None
        # One bit each: zero counts as minus, at both ends.
        parts = [server["w"], np.where(server["g"] > 0, 1, -1)]
        if self.usable:
            parts.append(self._quantile(server)[..., None])
        return np.concatenate(parts, axis=-1)

    def _quantile(self, server: State) -> Array:
        """The threshold that would have kept the wanted share of the last reports."""
        found = np.zeros(server["count"].shape)
        for r in np.ndindex(found.shape):  # of each run
            count = min(int(server["count"][r]), HISTORY) * (self.keep < 1)
            if count:
                found[r] = np.quantile(server["history"][r][:count], 1 - self.keep)
        return found

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """w_k <- w_n; the signs and the threshold are remembered."""
        if message is None:
            return
        D = self.task.dim
        client["w"][:] = client["start"][:] = message[..., :D]
        client["signs"][:] = message[..., D : 2 * D]
        client["threshold"][...] = message[..., 2 * D] if self.usable else self.threshold

    def upload(self, client: State, k: Who, n: int) -> Messages:
        """w_k if it is relevant; usable: with the agreement, which is sent in any case."""
        if not self.ends(n):
            return None
        w, h = client["w"], client["w"] - client["start"]
        agreement = ((h > 0) == (client["signs"] > 0)).mean(axis=-1)
        relevant = (agreement >= client["threshold"]) | (n < self.local_steps)
        if self.usable:
            relevant |= client["skips"] >= PATIENCE
        client["skips"][...] = np.where(relevant, 0, client["skips"] + 1)
        if w.ndim == 1:
            return self._message(w, agreement, relevant)
        rows = w.reshape(-1, self.task.dim), agreement.ravel(), relevant.ravel()
        return [self._message(*one) for one in zip(*rows, strict=True)]

    def _message(self, w: Array, agreement: Any, relevant: Any) -> Array:
        head = [agreement] if self.usable else []
        return np.concatenate([head, w if relevant else []]).astype(w.dtype)

    def lengths(self, n: int) -> tuple[int, ...] | None:
        head = int(self.usable)
        return (head, head + self.task.dim) if self.ends(n) else ()

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """The mean over the relevant uploads (literal), or the sum of a_k U_k (usable)."""
        if not self.ends(n):
            return
        head, models = int(self.usable), {}
        for k, message in uploads.items():
            if message is None:
                continue
            if self.usable:
                server["history"][server["count"] % HISTORY] = message[0]
                server["count"] += 1
            if len(message) > head:
                models[k] = message[head:]
        share = {k: weights[k] if self.usable else 1 / len(models) for k in models}
        before = server["w"].copy()
        super().fold(server, n, models, share)
        change = server["w"] - before
        if change.any():
            server["g"][:] = change

    def touched(self, server: State, n: int, uploads: Mapping[int, Message]) -> Any:
        """All entries, if any upload has more than the agreement."""
        head = int(self.usable)
        heard = any(m is not None and len(m) > head for m in uploads.values())
        return slice(None) if heard else slice(0)

    def encode(self, message: Array, up: bool) -> bytes:
        """Down: the signs as bits, then the values and the threshold."""
        if up or not len(message):
            return super().encode(message, up)
        D = self.task.dim
        signs = np.packbits(message[D : 2 * D] > 0).tobytes()
        values = np.concatenate([message[:D], message[2 * D :]])
        return signs + payload.encode(values, self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        if up or data == payload.NOTHING:
            return super().decode(data, up)
        D = self.task.dim
        head = ceil(D / 8)
        signs = np.unpackbits(np.frombuffer(data[:head], np.uint8), count=D) * 2.0 - 1
        values = payload.decode(data[head:], self.task.wire)
        return np.concatenate([values[:D], signs, values[D:]])
