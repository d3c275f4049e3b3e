"""Sketched updates: subsampling, probabilistic quantisation, random rotation, and all of them.

Source: J. Konečný, H. B. McMahan, F. X. Yu, P. Richtárik, A. T. Suresh, D. Bacon, "Federated
learning: strategies for improving communication efficiency", 2016, arXiv 1610.05492; the quantiser
and the rotation: A. T. Suresh, F. X. Yu, S. Kumar, H. B. McMahan, ICML 2017, arXiv 1611.00429.

Faithful: an unbiased random subset of the update, scaled by D/M; one of 2^q levels between the
least and the largest value, drawn so that the mean is right; before both, a rotation by a
Walsh-Hadamard matrix times random signs. Subsets and signs are drawn afresh for each client and
block, from the shared seed.

Ours: 1 bit without rotation or subsampling is the default, because LMS updates are flat already.
The model is one vector; the original sketches each layer by itself.

Unverified: the original's settings, and whether its rotation is that of a client or of a round.

Only the uplink shrinks. A subset of M makes the update D/M times as noisy: it needs a step that is
smaller by up to M |S_n| / D.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log2
from typing import Any, ClassVar, Self

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
    codes,
    coding,
    equations,
    require,
    subsets,
    whole,
)


@dataclass(frozen=True)
class Sketch(Paced):
    """q bits a value, M values of the update (all if not set), rotated or not, after E steps."""

    name: ClassVar[str] = "sketch"
    coded: ClassVar[Coded] = "down"
    bits: int | None = 1  # q, of a value; None: all
    shared: int | None = None  # M, values of the update; not set: all
    rotate: bool = False  # whether it is rotated before
    local_steps: int = 1  # E, rounds of a block

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """One bit a value; two after a rotation; and two of a quarter of the values after one."""
        full = cls(2, max(padded(dim) // 4, 1), rotate=True)
        return cls(), cls(2, rotate=True), full

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """q, M of D (none: all) and E."""
        parts = {max(dim // part, 1): None for part in (2, 4, 8)}
        found = {"bits": (1, 2, 4), "shared": (None, *parts)}
        return {**super().choices(dim, rounds), **found}

    @property
    def sharing(self) -> tuple[int | None, str]:
        """M."""
        return self.shared, ""

    def describe(self) -> str:
        parts = [f"{self.bits} bit" if self.bits else "", f"M={self.shared}" if self.shared else ""]
        parts += [
            "rotated" if self.rotate else "",
            f"E={self.local_steps}" * (self.local_steps > 1),
        ]
        return " ".join(["Sketch", *filter(None, parts)])

    def check(self, dim: int, clients: int) -> None:
        """Bits and entries in their ranges."""
        at_least_one(self, "local_steps", "bits", "shared")
        require(self, "bits", self.bits is None or self.bits <= 24, "use 1 to 24, or leave it out")
        size = padded(dim) if self.rotate else dim
        if self.shared is not None and self.shared > size:
            raise InputError(
                "shared", f"is {self.shared}, but there are {size}", f"use 1 to {size}"
            )


Options = Sketch


def padded(dim: int) -> int:
    """The power of 2 at or above D, which the rotation needs."""
    return 2 ** ceil(log2(dim)) if dim > 1 else 1


class Method(Compressed):
    """In this order: rotate h, take M entries times D/M, quantise. The server undoes it."""

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.bits, self.rotate = options.bits, options.rotate
        self.size = padded(task.dim) if options.rotate else task.dim
        self.shared = self.count = options.shared or self.size
        self.luck = Ahead(self._uniforms, task.cohorts, self.shared)
        self.window = Ahead(self._window, task.cohorts, self.shared)
        self.signs = Ahead(self._signs, task.cohorts, self.size)

    def pack(self, client: State, h: Array, k: Indices, n: int) -> Message:
        if self.rotate:
            full = np.zeros((*h.shape[:-1], self.size))
            full[..., : self.task.dim] = h
            h = coding.hadamard(self.signs(k, n) * full).astype(h.dtype)
        if self.shared < self.size:
            h = h[equations.at(self.window(k, n))] * h.dtype.type(self.size / self.shared)
        if self.bits is None:
            return whole(h)
        return whole(coding.quantise(h, self.bits, self.luck(k, n)))

    def unpack(self, message: Message, k: Indices, n: int) -> Array:
        values = message.values
        if self.bits is not None:
            values = coding.restore(values, self.bits)
        if self.shared < self.size:
            full = np.zeros((*values.shape[:-1], self.size), values.dtype)
            full[equations.at(self.window(k, n))] = values
            values = full
        if self.rotate:
            values = (self.signs(k, n) * coding.hadamard(values))[..., : self.task.dim]
        return values

    def _uniforms(self, k: Any, n: Any) -> Array:
        return self.task.seeds.uniforms("sketch", client=k, round=n, count=self.shared)

    def _signs(self, k: Any, n: Any) -> Array:
        u = self.task.seeds.uniforms("signs", client=k, round=n, count=self.size)
        return np.where(u < 0.5, -1.0, 1.0)

    def _window(self, k: Any, n: Any) -> Array:
        u = self.task.seeds.uniforms(
            f"subsample:{self.shared}", client=k, round=n, count=self.shared
        )
        return subsets(u, self.size)

    def encode(self, values: Array, up: bool) -> bytes:
        """Up: lo and hi as values, then q bits each."""
        if not up or self.bits is None:
            return super().encode(values, up)
        return codes.Range(self.bits).encode(values, self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        if not up or self.bits is None:
            return super().decode(data, up)
        return codes.Range(self.bits).decode(data, self.task.wire, self.shared)
