"""QSGD and FedPAQ: the update in stochastic levels of its norm.

Source: D. Alistarh, D. Grubic, J. Li, R. Tomioka, M. Vojnovic, "QSGD: communication-efficient SGD
via gradient quantization and encoding", NIPS 2017, arXiv 1610.02132. With E > 1 it is FedPAQ: A.
Reisizadeh, A. Mokhtari, H. Hassani, A. Jadbabaie, R. Pedarsani, AISTATS 2020, arXiv 1909.13014.

Faithful: the quantiser, with the 2-norm and l levels; of FedPAQ the E local steps, the cohorts, and
that the difference to the received model is quantised, not the model.

Ours: codes of fixed length, one sign bit and log2(l + 1) bits rounded up; the original has Elias
codes, which are shorter where most levels are 0.

Unverified: the papers' rules are from memory; their settings are not used.

Only the uplink shrinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log2
from typing import Any, ClassVar

import numpy as np

from psofed.contract import (
    Ahead,
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
    whole,
)


@dataclass(frozen=True)
class QSGD(Paced):
    """l levels (none: no compression) and E."""

    name: ClassVar[str] = "qsgd"
    coded: ClassVar[Coded] = "down"
    levels: int | None = 15  # l; None: no compression
    local_steps: int = 1  # E, rounds of a block

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """l that fill whole bits, and E."""
        return {**super().choices(dim, rounds), "levels": (1, 3, 7, 15)}

    def describe(self) -> str:
        name = "QSGD" if self.local_steps == 1 else f"FedPAQ E={self.local_steps}"
        return f"{name} {self.levels} levels" if self.levels else name

    def check(self, dim: int, clients: int) -> None:
        """Levels and E in their ranges."""
        at_least_one(self, "local_steps", "levels")
        if self.levels is not None and self.levels >= 2**16:
            raise InputError("levels", f"is {self.levels}", "use 1 to 65535, or leave it out")


Options = QSGD


class Method(Compressed):
    """U_j = |h| sign(h_j) floor(l |h_j| / |h| + u_j) / l, u_j ~ U(0, 1)."""

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.levels = options.levels
        self.luck = Ahead(self._uniforms, task.cohorts, task.dim)

    def _uniforms(self, k: Any, n: Any) -> Array:
        return self.task.seeds.uniforms("qsgd", client=k, round=n, count=self.task.dim)

    def pack(self, client: State, h: Array, k: Indices, n: int) -> Message:
        if self.levels is None:
            return whole(h)
        norm = np.sqrt(np.vecdot(h, h))[..., None]
        scaled = np.abs(h) * (self.levels / np.where(norm > 0, norm, np.inf))
        codes = np.minimum(np.floor(scaled + self.luck(k, n)), self.levels)
        signed = np.copysign(codes, h)
        return whole(np.concatenate([norm, signed], axis=-1).astype(h.dtype))

    def unpack(self, message: Message, k: Indices, n: int) -> Array:
        values = message.values
        if self.levels is not None:
            values = values[..., 1:] * (values[..., :1] / self.levels)
        return values

    def encode(self, values: Array, up: bool) -> bytes:
        """Up: the norm as a value, then a sign and a level for each entry, in fixed length."""
        if not up or self.levels is None:
            return super().encode(values, up)
        codes = 2 * np.abs(values[1:]).astype(np.int64) + np.signbit(values[1:])
        bits = 1 + ceil(log2(self.levels + 1))
        return payload.encode(values[:1], self.task.wire) + coding.pack(codes, bits)

    def decode(self, data: bytes, up: bool) -> Array:
        if not up or self.levels is None:
            return super().decode(data, up)
        head = payload.size(self.task.wire)
        codes = coding.unpack(data[head:], 1 + ceil(log2(self.levels + 1)), self.task.dim)
        if (codes >> 1 > self.levels).any():
            raise ValueError(f"a level above {self.levels}")
        signed = np.where(codes & 1, -1.0, 1.0) * (codes >> 1)
        return np.concatenate([payload.decode(data[:head], self.task.wire), signed])
