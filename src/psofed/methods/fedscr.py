"""FedSCR: only blocks of the update that are large travel; the rest is kept for later.

X. Wu, X. Yao, C.-L. Wang, "FedSCR: structure-based communication reduction for federated learning",
IEEE Trans. Parallel Distrib. Syst., 2021. Its structures are filters and channels; here they are
blocks of neighbouring features, which carry no structure. Only the uplink shrinks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np

from psofed.core import payload
from psofed.errors import InputError
from psofed.methods import fedavg
from psofed.methods.contract import Array, State, Task, Who


@dataclass(frozen=True)
class Options(fedavg.Paced):
    """g features to a block, the threshold c in units of the mean block, and E."""

    name: ClassVar[str] = "fedscr"
    block: int = 10
    threshold: float = 1.0
    local_steps: int = 1

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """The largest blocks, of up to 10, that fill the model."""
        return (cls(max(d for d in range(1, 11) if dim % d == 0)),)

    def describe(self) -> str:
        steps = f" E={self.local_steps}" * (self.local_steps > 1)
        return f"FedSCR c={self.threshold:g}{steps}"

    def check(self, dim: int, clients: int) -> None:
        """The block size divides D."""
        fedavg.at_least_one(self, "local_steps", "block")
        if dim % self.block:
            raise InputError("block", f"is {self.block}, but dim is {dim}", "use a divisor of dim")
        if not self.threshold >= 0:
            raise InputError("threshold", f"is {self.threshold}", "use 0 or more")


class Method(fedavg.Compressed):
    """v = h + r_k; block i goes if B_i = sum |v_j| >= c b_k, b_k the running mean; r_k <- v - U."""

    stacked = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.block, self.threshold = options.block, options.threshold
        self.blocks = task.dim // options.block

    def client(self, k: int) -> State:
        """Also the residual r_k and the mean block b_k."""
        extra = {"residual": self.task.zeros(self.task.dim), "mean": np.full((), -1.0)}
        return super().client(k) | extra

    def pack(self, client: State, h: Array, k: Who, n: int) -> Array | list[Array]:
        v = (h + client["residual"]).reshape(*h.shape[:-1], self.blocks, self.block)
        sums = np.abs(v).sum(axis=-1)
        old, now = client["mean"], sums.mean(axis=-1)
        client["mean"][...] = np.where(old < 0, now, 0.9 * old + 0.1 * now)
        sent = sums >= self.threshold * client["mean"][..., None]
        client["residual"][:] = np.where(sent[..., None], 0, v).reshape(h.shape)
        if h.ndim == 1:
            return _message(sent, v)
        rows = sent.reshape(-1, self.blocks), v.reshape(-1, self.blocks, self.block)
        return [_message(blocks, values) for blocks, values in zip(*rows, strict=True)]

    def unpack(self, message: Any, k: Who, n: int) -> Array:
        if isinstance(message, list):
            heads = np.array([one[: self.blocks] for one in message])
            values = np.concatenate([one[self.blocks :] for one in message])
        else:
            heads, values = message[..., : self.blocks], message[..., self.blocks :]
        sent = heads > 0
        update = np.zeros((*sent.shape, self.block), values.dtype)
        update[sent] = values.reshape(-1, self.block)
        return update.reshape(*sent.shape[:-1], self.task.dim)

    def encode(self, message: Array, up: bool) -> bytes:
        """Up: a bitmap of the blocks, and their values."""
        if not up or not len(message):
            return super().encode(message, up)
        bitmap = np.packbits(message[: self.blocks] > 0).tobytes()
        return bitmap + payload.encode(message[self.blocks :], self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        head = ceil(self.blocks / 8)
        if not up or len(data) < head:
            return super().decode(data, up)
        bitmap = np.unpackbits(np.frombuffer(data[:head], np.uint8), count=self.blocks)
        values = payload.decode(data[head:], self.task.wire)
        if len(values) != bitmap.sum() * self.block:
            raise ValueError(f"{bitmap.sum()} blocks were announced, {len(values)} values came")
        return np.concatenate([bitmap, values])


def _message(sent: Array, v: Array) -> Array:
    """Which blocks go, and their values."""
    return np.concatenate([sent, v[sent].reshape(-1)]).astype(v.dtype)
