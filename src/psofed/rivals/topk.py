"""Top-k with error feedback: the k largest entries of the update, the rest kept for later.

Source: S. U. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with memory", NeurIPS 2018, arXiv
1809.07599; S. P. Karimireddy, Q. Rebjock, S. Stich, M. Jaggi, "Error feedback fixes SignSGD and
other gradient compression schemes", ICML 2019, arXiv 1901.09847.

Faithful: a worker adds its memory to the step, sends the k largest entries, and keeps the rest.

Ours: only the cohort takes part, so that a memory may be old; the share of it that is kept; E local
steps. Entries of equal size: the first. Positions are sent too, as a list or as a bitmap.

Unverified: the papers' rules are from memory; their settings are not used.

Only the uplink shrinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

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
    equations,
    geometric,
    payload,
    require,
    whole,
)


@dataclass(frozen=True)
class TopK(Paced):
    """k, the share gamma of the rest that is remembered, and E."""

    name: ClassVar[str] = "topk"
    coded: ClassVar[Coded] = "down"
    kept: int = 5  # entries that are sent
    memory: float = 1.0  # share of the rest that is kept for later
    local_steps: int = 1  # E, rounds of a block

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """k = 5."""
        return (cls(min(5, dim)),)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """k and E."""
        return {**super().choices(dim, rounds), "kept": geometric(1, dim)}

    def describe(self) -> str:
        steps = f" E={self.local_steps}" * (self.local_steps > 1)
        return f"Top-{self.kept}{steps}{'' if self.memory else ', no memory'}"

    def check(self, dim: int, clients: int) -> None:
        """k fits, gamma is a share."""
        at_least_one(self, "local_steps", "kept")
        if self.kept > dim:
            raise InputError("kept", f"is {self.kept}, but dim is {dim}", f"use 1 to {dim}")
        require(self, "memory", 0 <= self.memory <= 1, "use 0 to 1")


Options = TopK


class Method(Compressed):
    """v = h + r_k; U = v on the k largest |v_j|; r_k <- gamma (v - U)."""

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.kept, self.memory = options.kept, options.memory

    def client(self) -> State:
        """Also the residual r_k."""
        return super().client() | {"residual": self.task.zeros(self.task.dim)}

    def pack(self, client: State, h: Array, k: Indices, n: int) -> Message:
        v = h + client["residual"]
        kept = equations.largest(v, self.kept)
        here = equations.at(kept)
        values = np.concatenate([kept, v[here]], axis=-1)
        v[here] = 0
        client["residual"][:] = self.memory * v
        return whole(values)

    def unpack(self, message: Message, k: Indices, n: int) -> Array:
        update = np.zeros((*k.shape, self.task.dim), message.values.dtype)
        kept = message.values[..., : self.kept].astype(np.intp)
        update[equations.at(kept)] = message.values[..., self.kept :]
        return update

    def encode(self, values: Array, up: bool) -> bytes:
        """Up: which entries, as a bitmap or as a list, whichever is shorter, and their values."""
        if not up:
            return super().encode(values, up)
        positions = coding.encode_positions(values[: self.kept], self.task.dim)
        return positions + payload.encode(values[self.kept :], self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        if not up:
            return super().decode(data, up)
        head = max(len(data) - self.kept * payload.size(self.task.wire), 0)
        positions = coding.decode_positions(data[:head], self.kept, self.task.dim)
        return np.concatenate([positions, payload.decode(data[head:], self.task.wire)])
