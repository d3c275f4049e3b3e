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

from psofed.contract import (
    Anchored,
    Array,
    Coded,
    Indices,
    InputError,
    Message,
    Paced,
    State,
    Task,
    at_least_one,
    coding,
    payload,
    same,
    sized,
    some,
)

HISTORY = 400  # agreements from which the usable threshold is taken
PATIENCE = 3  # skips after which an upload is forced


@dataclass(frozen=True)
class CMFL(Paced):
    """Which rule; its threshold v_0 and decay (literal), or the share of uploads to keep; E."""

    name: ClassVar[str] = "cmfl"
    coded: ClassVar[Coded] = "both"
    rule: Literal["literal", "usable"] = "usable"  # the paper's, or one that keeps a share
    threshold: float = 0.8  # v_0, equal signs (literal)
    decay: Literal["none", "sqrt"] = "none"  # of the literal threshold: v_0 / sqrt(t + 1)
    keep: float = 0.6  # share of uploads that are sent (usable)
    local_steps: int = 10  # E, rounds of a block

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
        at_least_one(self, "local_steps")
        for field in ("threshold", "keep"):
            if not 0 <= getattr(self, field) <= 1:
                raise InputError(field, f"is {getattr(self, field)}", "use 0 to 1")
        if self.rule == "usable" and self.decay != "none":
            found = f"is {self.decay!r}, but the usable rule sets its threshold itself"
            raise InputError("decay", found, 'leave it out, or use rule = "literal"')
        if self.rule == "literal" and self.policy is not None:
            found = "is given, but the literal rule has its own weights"
            raise InputError("policy", found, 'use rule = "usable", or leave it out')


Options = CMFL


class Method(Anchored):
    """FedAvg with an upload only if r = #{j : sign h_j = sign g_j} / D is at least the threshold.

    g is the last global update that was not zero. In the first block all members upload. Literal:
    v_t = v_0, or v_0 / sqrt(t + 1) in block t = 0, 1, ...
    """

    entrywise = False

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.usable = options.rule == "usable"
        self.head = int(self.usable)  # values of an upload before those of w_k: the agreement
        self.threshold, self.keep = options.threshold, options.keep
        self.decays = options.decay == "sqrt"

    def server(self) -> State:
        """w, the signs of g, and the last agreements that were reported."""
        history = {"history": np.zeros(HISTORY), "count": np.zeros((), np.int64)}
        return super().server() | {"g": self.task.zeros(self.task.dim)} | history

    def client(self) -> State:
        """w_k, what came down with it, and how many uploads this client has skipped."""
        signs = {"signs": self.task.zeros(self.task.dim)}
        return super().client() | signs | {"threshold": np.zeros(()), "skips": np.zeros(())}

    def download(self, server: State, k: Indices, n: int) -> Message:
        """The signs of g, the threshold if usable, and w_n."""
        # One bit each: zero counts as minus, at both ends.
        threshold = [self._quantile(server)[..., None]] if self.usable else []
        signs = np.where(server["g"] > 0, 1, -1)
        return same(np.concatenate([signs, *threshold, server["w"]], axis=-1), k)

    def _quantile(self, server: State) -> Array:
        """The threshold that would have kept the wanted share of the last reports."""
        found = np.zeros(server["count"].shape)
        for r in np.ndindex(found.shape):  # of each run
            count = min(int(server["count"][r]), HISTORY) * (self.keep < 1)
            if count:
                found[r] = np.quantile(server["history"][r][:count], 1 - self.keep)
        return found

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """w_k <- w_n; the signs and the threshold are remembered."""
        D, values = self.task.dim, message.values
        client["w"][:] = client["start"][:] = values[..., -D:]
        client["signs"][:] = values[..., :D]
        client["threshold"][...] = values[..., D] if self.usable else self._threshold(n)

    def _threshold(self, n: int) -> float:
        """v_t of the block that round n belongs to."""
        return self.threshold / sqrt(n // self.pace + 1) if self.decays else self.threshold

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """w_k if it is relevant; usable: with the agreement, which is sent in any case."""
        w, h = client["w"], client["w"] - client["start"]
        agreement = ((h > 0) == (client["signs"] > 0)).mean(axis=-1)
        relevant = (agreement >= client["threshold"]) | (n < self.pace)
        if self.usable:
            relevant |= client["skips"] >= PATIENCE
        client["skips"][...] = np.where(relevant, 0, client["skips"] + 1)
        values = np.concatenate([agreement[..., None][..., : self.head], w], -1, dtype=w.dtype)
        return some(values, relevant, self.head)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """The mean over the relevant uploads (literal), or the sum of a_k U_k (usable)."""
        if self.usable and k.size:
            self._remember(server, message)
        sent = message.length > self.head
        if not sent.any():
            return
        if not self.usable:
            weights = np.broadcast_to(1 / np.maximum(sent.sum(axis=-1, keepdims=True), 1), k.shape)
        before, shares = server["w"].copy(), np.where(sent, weights, 0)
        models = Message(message.values[..., self.head :], message.length)
        super().fold(server, k, n, models, shares.astype(before.dtype))
        change = server["w"] - before
        np.copyto(server["g"], change, where=change.any(axis=-1, keepdims=True))

    def _remember(self, server: State, message: Message) -> None:
        """The agreements that were reported, the oldest of which give way."""
        reported = np.nonzero(message.heard)
        turn = server["count"][..., None] + message.heard.cumsum(axis=-1) - 1
        place = turn[reported] % HISTORY
        server["history"][(*reported[:-1], place)] = message.values[(*reported, 0)]
        server["count"] += message.heard.sum(axis=-1)

    def encode(self, values: Array, up: bool) -> bytes:
        """Down: the signs as bits, then the threshold and the values."""
        if up:
            return super().encode(values, up)
        D = self.task.dim
        signs = np.packbits(values[:D] > 0).tobytes()
        return signs + payload.encode(values[D:], self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        D = self.task.dim
        if up:
            return sized(super().decode(data, up), self.head, self.head + D)
        bits = ceil(D / 8)
        signs = coding.unpack_bits(data[:bits], D) * 2.0 - 1
        values = sized(payload.decode(data[bits:], self.task.wire), self.head + D)
        return np.concatenate([signs, values])
