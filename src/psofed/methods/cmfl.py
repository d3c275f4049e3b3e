"""CMFL: a client does not send its update if the signs disagree with the last global update.

Source: L. Wang, W. Wang, B. Li, "CMFL: mitigating communication overhead for federated learning",
ICDCS 2019.

Faithful: rule = "literal": the server sends the signs of its last update, a client uploads if the
share of equal signs is at least v_t, and the server takes the mean of the uploads; decay = "sqrt"
is the decreasing threshold v_t = v_0 / sqrt(t + 1) of exchange t, decay = "none" a constant one.

Ours: rule = "usable": the threshold is the quantile of the last 400 agreements that lets a given
share pass, an upload is forced after 3 skips, and the divisor is |S_n|. In the first exchange all
upload, a zero has the sign of a negative number, and a skipped upload costs one byte.

Unverified: the paper was not at hand: v_0 = 0.8 is the value of public trials, and where its count
of exchanges begins is a guess.

With LMS, consecutive corrections partly undo each other, so the mean agreement is below one half.
The literal rule with a constant v_0 = 0.8 therefore sends next to nothing, and with the decreasing
one next to everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.core import payload
from psofed.errors import InputError
from psofed.methods import fedavg
from psofed.methods.contract import Array, Coded, Message, Messages, State, Task, Who

HISTORY = 400  # agreements from which the usable threshold is taken
PATIENCE = 3  # skips after which an upload is forced


@dataclass(frozen=True)
class Options(fedavg.Paced):
    """Which rule; its threshold v_0 and decay (literal), or the share of uploads to keep; E."""

    name: ClassVar[str] = "cmfl"
    coded: ClassVar[Coded] = "both"
    rule: Literal["literal", "usable"] = "usable"
    threshold: float = 0.8
    decay: Literal["none", "sqrt"] = "none"  # of the literal threshold: v_0 / sqrt(t + 1)
    keep: float = 0.6
    local_steps: int = 10

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """The usable form, and the published one with its decreasing threshold."""
        return cls(), cls(rule="literal", decay="sqrt", local_steps=1)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """E, and the share of uploads; the decreasing threshold passes all but a few at any v_0."""
        return {**super().choices(dim, rounds), "keep": (0.3, 0.6, 0.9)}

    def describe(self) -> str:
        shrinks = "/sqrt(t+1)" if self.decay == "sqrt" else ""
        knob = f"usable keep={self.keep:g}"
        if self.rule == "literal":
            knob = f"literal v={self.threshold:g}{shrinks}"
        return f"CMFL {knob} E={self.local_steps}"

    def check(self, dim: int, clients: int) -> None:
        """The threshold and the share are between 0 and 1."""
        fedavg.at_least_one(self, "local_steps")
        for field in ("threshold", "keep"):
            if not 0 <= getattr(self, field) <= 1:
                raise InputError(field, f"is {getattr(self, field)}", "use 0 to 1")
        if self.rule == "usable" and self.decay != "none":
            found = f"is {self.decay!r}, but the usable rule sets its threshold itself"
            raise InputError("decay", found, 'leave it out, or use rule = "literal"')
        if self.rule == "literal" and self.policy is not None:
            found = "is given, but the literal rule has its own weights"
            raise InputError("policy", found, 'use rule = "usable", or leave it out')


class Method(fedavg.Method):
    """FedAvg with an upload only if r = #{j : sign h_j = sign g_j} / D is at least the threshold.

    g is the last global update that was not zero. In the first block all members upload. Literal:
    v_t = v_0, or v_0 / sqrt(t + 1) in block t = 0, 1, ...
    """

    stacked = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.usable = options.rule == "usable"
        self.threshold, self.keep = options.threshold, options.keep
        self.decays = options.decay == "sqrt"

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
        """The signs of g, the threshold if usable, and w_n."""
        if not self.begins(n):
            return None
        # One bit each: zero counts as minus, at both ends.
        threshold = [self._quantile(server)[..., None]] if self.usable else []
        signs = np.where(server["g"] > 0, 1, -1)
        return np.concatenate([signs, *threshold, server["w"]], axis=-1)

    def head(self, up: bool) -> int:
        """Up the agreement; down the signs and the threshold."""
        return int(self.usable) + (0 if up else self.task.dim)

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
        client["w"][:] = client["start"][:] = message[..., -D:]
        client["signs"][:] = message[..., :D]
        client["threshold"][...] = message[..., D] if self.usable else self._threshold(n)

    def _threshold(self, n: int) -> float:
        """v_t of the block that round n belongs to."""
        return self.threshold / sqrt(n // self.local_steps + 1) if self.decays else self.threshold

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
        """Down: the signs as bits, then the threshold and the values."""
        if up or not len(message):
            return super().encode(message, up)
        D = self.task.dim
        signs = np.packbits(message[:D] > 0).tobytes()
        return signs + payload.encode(message[D:], self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        if up or data == payload.NOTHING:
            return super().decode(data, up)
        D = self.task.dim
        head = ceil(D / 8)
        signs = np.unpackbits(np.frombuffer(data[:head], np.uint8), count=D) * 2.0 - 1
        return np.concatenate([signs, payload.decode(data[head:], self.task.wire)])
