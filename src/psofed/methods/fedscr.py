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

from psofed.core import payload
from psofed.errors import InputError
from psofed.methods import fedavg
from psofed.methods.contract import Array, Coded, Message, State, Task, Who


@dataclass(frozen=True)
class Options(fedavg.Paced):
    """g features to a block; the rule; c in units of the mean block, or theta_0 (`scale`); E."""

    name: ClassVar[str] = "fedscr"
    coded: ClassVar[Coded] = "down"
    block: int = 10
    threshold: float = 1.0
    local_steps: int = 1
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
        fedavg.at_least_one(self, "local_steps", "block")
        if dim % self.block:
            raise InputError("block", f"is {self.block}, but dim is {dim}", "use a divisor of dim")
        for field in ("threshold", "scale"):
            if not getattr(self, field) >= 0:
                raise InputError(field, f"is {getattr(self, field)}", "use 0 or more")


class Method(fedavg.Compressed):
    """v = h + r_k; block i goes if B_i = sum |v_j| >= theta_k; r_k <- v - U.

    mean: theta_k = c b_k, b_k a running mean of mean(B). fixed: theta_0. adaptive: theta_0 at the
    first upload of k, then theta_0 / (1 + exp(-div_k - sig_k - var)), of its last upload div_k =
    sqrt(sum |h| / sum |w_k|) and sig_k = sqrt(|sum U / sum w_k|), 0 where the divisor is 0; var is
    the mean over all exchanges of the variance of the losses that came up.
    """

    stacked = True

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

    def client(self, k: int) -> State:
        """Also r_k and, by rule, b_k; or div_k + sig_k, var, the sum of losses and its samples."""
        extra = {"residual": self.task.zeros(self.task.dim)}
        if self.rule == "mean":
            extra["mean"] = np.full((), -1.0)
        if self.adapts:
            extra |= {"score": np.full((), -1.0), "variance": np.zeros(())}
            extra |= {"loss": np.zeros(()), "seen": np.zeros(())}
        return super().client(k) | extra

    def download(self, server: State, k: Who, n: int) -> Message:
        """w_n, and var if clients need it."""
        w = super().download(server, k, n)
        if w is None or not self.adapts:
            return w
        variance = server["variances"] / np.maximum(server["exchanges"], 1)
        return np.concatenate([variance[..., None], w], axis=-1, dtype=w.dtype)

    def head(self, up: bool) -> int:
        """var, before w_n."""
        return 0 if up else int(self.adapts)

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """w_k <- w_n; with var, a new sum of losses begins."""
        if message is not None and self.adapts:
            client["variance"][...] = message[..., 0]
            client["loss"][...] = client["seen"][...] = 0
            message = message[..., 1:]
        super().receive(client, k, n, message)

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """Eq. (5); the loss is e^2/2."""
        error = self.learner.learn(client["w"], z, y, self.step)
        if self.adapts:
            client["loss"] += np.square(error) / 2
            client["seen"] += 1

    def pack(self, client: State, h: Array, k: Who, n: int) -> Array | list[Array]:
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
        if h.ndim == 1:
            return _message(heads, sent, v)
        rows = (array.reshape(-1, *array.shape[h.ndim - 1 :]) for array in (heads, sent, v))
        return [_message(*one) for one in zip(*rows, strict=True)]

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

    def unpack(self, message: Any, k: Who, n: int) -> Array:
        if isinstance(message, list):
            heads = np.array([one[: self.leading] for one in message])
            values = np.concatenate([one[self.leading :] for one in message])
        else:
            heads, values = message[..., : self.leading], message[..., self.leading :]
        sent = heads[..., self.adapts :] > 0
        update = np.zeros((*sent.shape, self.block), values.dtype)
        update[sent] = values.reshape(-1, self.block)
        return update.reshape(*sent.shape[:-1], self.task.dim)

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """w_{n+1} = w_n + sum_k a_k U_k; then the variance of the losses."""
        super().fold(server, n, uploads, weights)
        if self.adapts and self.ends(n):
            losses = np.array([m[0] for m in uploads.values() if m is not None and len(m)])
            losses = losses[losses >= 0]
            if len(losses):
                server["variances"] += losses.var()
                server["exchanges"] += 1

    def encode(self, message: Array, up: bool) -> bytes:
        """Up: a bitmap of the blocks, and their values; before the values, the loss if any."""
        if not up or not len(message):
            return super().encode(message, up)
        bitmap = np.packbits(message[self.adapts : self.leading] > 0).tobytes()
        values = np.concatenate([message[: self.adapts], message[self.leading :]])
        return bitmap + payload.encode(values, self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        head = ceil(self.blocks / 8)
        if not up or len(data) < head + self.adapts:
            return super().decode(data, up)
        bitmap = np.unpackbits(np.frombuffer(data[:head], np.uint8), count=self.blocks)
        values = payload.decode(data[head:], self.task.wire)
        if len(values) != bitmap.sum() * self.block + self.adapts:
            raise ValueError(f"{bitmap.sum()} blocks were announced, {len(values)} values came")
        return np.concatenate([values[: self.adapts], bitmap, values[self.adapts :]])


def _message(heads: Array, sent: Array, v: Array) -> Array:
    """The loss, if it is sent; which blocks go; their values."""
    return np.concatenate([heads, v[sent].reshape(-1)]).astype(v.dtype)


def _score(w: Array, h: Array, update: Array) -> Array:
    """div + sig, from w_k, its change h, and the sum of what of it is sent."""
    size, total = np.abs(w).sum(axis=-1), w.sum(axis=-1)
    divergence = np.where(size > 0, np.abs(h).sum(axis=-1) / np.where(size > 0, size, 1), 0)
    significance = np.where(total != 0, np.abs(update / np.where(total != 0, total, 1)), 0)
    return np.asarray(np.sqrt(divergence) + np.sqrt(significance))
