"""FedSCR: only blocks of the update that are large travel; the rest is kept for later.

Source: X. Wu, X. Yao, C.-L. Wang, "FedSCR: structure-based communication reduction for federated
learning", IEEE Trans. Parallel Distrib. Syst., 2021.

Faithful: the absolute values of an update are summed by structure, sums below a threshold are not
sent, and what is left out is added to the next update. rule = "fixed": the threshold is theta_0.
rule = "adaptive": it is theta_0 times a sigmoid of the weight divergence of the client, the
significance of its update, both at its last upload, and the mean variance of the clients' losses.

Ours: the structures are filters and channels in the original, here blocks of neighbouring features,
which carry no structure. rule = "mean": the threshold is c times the client's own mean block, since
theta_0 is in units of the model's weights. A client computes its threshold itself: its loss goes up
and the variance comes down, 4 bytes each, where public code sends three numbers up and a threshold
down. The loss is the mean of e^2/2 over a block of rounds.

Unverified: the abstract was read, the body was not. The adaptive rule is that of public code
(Plato), with theta_0 = 0.3 and unit factors, but for a mean variance over all exchanges so far,
where that code divides by two less.

Only the uplink shrinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.contract import (
    Array,
    Coded,
    Compressed,
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
    whole,
)


@dataclass(frozen=True)
class FedSCR(Paced):
    """g features to a block; the rule; c in units of the mean block, or theta_0 (`scale`); E."""

    name: ClassVar[str] = "fedscr"
    coded: ClassVar[Coded] = "down"
    block: int = 10  # g, features in a block
    threshold: float = 1.0  # c, in units of the mean block
    local_steps: int = 1  # E, rounds of a block
    rule: Literal["mean", "fixed", "adaptive"] = "mean"  # of the threshold
    scale: float = 0.3  # theta_0 of the rules "fixed" and "adaptive"

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """The largest blocks, of up to 10, that fill the model; our threshold and the published."""
        block = max(d for d in range(1, 11) if dim % d == 0)
        return cls(block), cls(block, rule="adaptive")

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """E, c and theta_0."""
        levels = {"threshold": (0.5, 1.0, 1.5), "scale": (0.1, 0.3, 1.0)}
        return {**super().choices(dim, rounds), **levels}

    def describe(self) -> str:
        steps = f" E={self.local_steps}" * (self.local_steps > 1)
        level = f"c={self.threshold:g}" if self.rule == "mean" else f"theta0={self.scale:g}"
        return f"FedSCR {self.rule} {level}{steps}"

    def check(self, dim: int, clients: int) -> None:
        """The block size divides D."""
        at_least_one(self, "local_steps", "block")
        if dim % self.block:
            raise InputError("block", f"is {self.block}, but dim is {dim}", "use a divisor of dim")
        for field in ("threshold", "scale"):
            if not getattr(self, field) >= 0:
                raise InputError(field, f"is {getattr(self, field)}", "use 0 or more")


Options = FedSCR


class Method(Compressed):
    """v = h + r_k; block i goes if B_i = sum |v_j| >= theta_k; r_k <- v - U.

    mean: theta_k = c b_k, b_k a running mean of mean(B). fixed: theta_0. adaptive: theta_0 at the
    first upload of k, then theta_0 / (1 + exp(-div_k - sig_k - var)), of its last upload div_k =
    sqrt(sum |h| / sum |w_k|) and sig_k = sqrt(|sum U / sum w_k|), 0 where the divisor is 0; var is
    the mean over all exchanges of the variance of the losses that came up.
    """

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.block, self.threshold, self.scale = options.block, options.threshold, options.scale
        self.blocks, self.rule = task.dim // options.block, options.rule
        self.adapts = options.rule == "adaptive"
        self.leading = self.blocks + self.adapts  # entries of an upload before its values

    def server(self) -> State:
        """Also the sum of the variances, and their number."""
        more = {"variances": np.zeros(()), "exchanges": np.zeros(())} if self.adapts else {}
        return super().server() | more

    def client(self) -> State:
        """Also r_k and, by rule, b_k; or div_k + sig_k, var, the sum of losses and its samples."""
        extra = {"residual": self.task.zeros(self.task.dim)}
        if self.rule == "mean":
            extra["mean"] = np.full((), -1.0)
        if self.adapts:
            extra |= {"score": np.full((), -1.0), "variance": np.zeros(())}
            extra |= {"loss": np.zeros(()), "seen": np.zeros(())}
        return super().client() | extra

    def download(self, server: State, k: Indices, n: int) -> Message:
        """w_n, after var if clients need it."""
        if not self.adapts:
            return super().download(server, k, n)
        w, variance = server["w"], server["variances"] / np.maximum(server["exchanges"], 1)
        return same(np.concatenate([variance[..., None], w], axis=-1, dtype=w.dtype), k)

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """w_k <- w_n; with var, a new sum of losses begins."""
        if self.adapts:
            client["variance"][...] = message.values[..., 0]
            client["loss"][...] = client["seen"][...] = 0
            message = whole(message.values[..., 1:])
        super().receive(client, k, n, message)

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """Eq. (5); the loss is e^2/2."""
        error = self.learner.learn(client["w"], z, y, self.step)
        if self.adapts:
            client["loss"] += np.square(error) / 2
            client["seen"] += 1

    def pack(self, client: State, h: Array, k: Indices, n: int) -> Message:
        v = (h + client["residual"]).reshape(*h.shape[:-1], self.blocks, self.block)
        sums = np.abs(v).sum(axis=-1)
        sent = sums >= self._threshold(client, sums)[..., None]
        client["residual"][:] = np.where(sent[..., None], 0, v).reshape(h.shape)
        heads = sent.astype(v.dtype)
        if self.adapts:
            update = np.where(sent[..., None], v, 0).sum(axis=(-2, -1))
            client["score"][...] = _score(client["w"], h, update)
            # A block without samples has no loss, which is said by a negative number.
            loss = np.where(client["seen"], client["loss"] / np.maximum(client["seen"], 1), -1.0)
            heads = np.concatenate([loss[..., None], heads], axis=-1, dtype=v.dtype)
        count, values = self.block * sent.sum(axis=-1), np.zeros_like(h)
        values[self._first(count)] = v[sent].ravel()
        return Message(np.concatenate([heads, values], axis=-1), self.leading + count)

    def _first(self, count: Array) -> Array:
        """The first `count` values of each row [..., D]: those of the blocks that are sent."""
        return np.arange(self.task.dim) < count[..., None]

    def _threshold(self, client: State, sums: Array) -> Array:
        """theta_k, for the sums B of this update."""
        if self.rule == "mean":
            old, now = client["mean"], sums.mean(axis=-1)
            client["mean"][...] = np.where(old < 0, now, 0.9 * old + 0.1 * now)
            return self.threshold * client["mean"]
        if not self.adapts:
            return np.full(sums.shape[:-1], self.scale)
        score = client["score"]
        sigmoid = 1 / (1 + np.exp(-np.maximum(score, 0) - client["variance"]))
        return self.scale * np.where(score < 0, 1, sigmoid)

    def unpack(self, message: Message, k: Indices, n: int) -> Array:
        heads, values = message.values[..., : self.leading], message.values[..., self.leading :]
        sent = heads[..., self.adapts :] > 0
        here = self._first(self.block * sent.sum(axis=-1))[..., : values.shape[-1]]
        update = np.zeros((*sent.shape, self.block), values.dtype)
        update[sent] = values[here].reshape(-1, self.block)
        return update.reshape(*sent.shape[:-1], self.task.dim)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """w_{n+1} = w_n + sum_k a_k U_k; then the variance of the losses."""
        super().fold(server, k, n, message, weights)
        if self.adapts and message.heard.any():
            losses = message.values[..., 0]
            known = message.heard & (losses >= 0)
            count = np.maximum(known.sum(axis=-1), 1)
            mean = np.where(known, losses, 0).sum(axis=-1) / count
            squares = np.where(known, np.square(losses - mean[..., None]), 0)
            server["variances"] += squares.sum(axis=-1) / count
            server["exchanges"] += known.any(axis=-1)

    def encode(self, values: Array, up: bool) -> bytes:
        """Up: a bitmap of the blocks, and their values; before the values, the loss if any."""
        if not up:
            return super().encode(values, up)
        bitmap = np.packbits(values[self.adapts : self.leading] > 0).tobytes()
        rest = np.concatenate([values[: self.adapts], values[self.leading :]])
        return bitmap + payload.encode(rest, self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        if not up:
            return sized(payload.decode(data, self.task.wire), self.adapts + self.task.dim)
        head = ceil(self.blocks / 8)
        bitmap = coding.unpack_bits(data[:head], self.blocks)
        values = payload.decode(data[head:], self.task.wire)
        sized(values, self.adapts + self.block * int(bitmap.sum()))
        return np.concatenate([values[: self.adapts], bitmap, values[self.adapts :]])


def _score(w: Array, h: Array, update: Array) -> Array:
    """div + sig, from w_k, its change h, and the sum of what of it is sent."""
    size, total = np.abs(w).sum(axis=-1), w.sum(axis=-1)
    divergence = np.where(size > 0, np.abs(h).sum(axis=-1) / np.where(size > 0, size, 1), 0)
    significance = np.where(total != 0, np.abs(update / np.where(total != 0, total, 1)), 0)
    return np.asarray(np.sqrt(divergence) + np.sqrt(significance))
