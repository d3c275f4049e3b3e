"""The messages of MEMO-Fed: d values in few bits under one scale, and what goes with some of them.

An array that stands for d values has the scale s first (see `coding.compand`), or is the values
themselves if they are exact. Before it, a download has the bit about contacts; after it, an upload
may have moments of the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2

import numpy as np

from psofed.core import coding, payload
from psofed.core.features import FeatureMap
from psofed.core.native import Array

SCALES = 1 - coding.SMALLEST  # makes a scale a number from 0 on
OWN = 20.0  # samples at which a client's own moments weigh as much as the guess


@dataclass(frozen=True)
class Values:
    """How values travel: their number d, their bits (none: exact, in `wire`), and what follows."""

    size: int
    bits: int | None
    wire: str
    moments: int  # that some uploads have; 0: none

    @property
    def entries(self) -> int:
        """Entries of an array that stands for d values."""
        return self.size + (self.bits is not None)

    def nbytes(self, up: bool) -> int:
        """Bytes of d values; a scale and the bit about contacts share one byte."""
        if self.bits is None:
            return self.size * payload.size(self.wire) + (not up)
        return 1 + ceil(self.size * self.bits / 8)

    def quantise(self, v: Array) -> Array:
        """Q(v), as it travels: the scale s, which no value exceeds, then their codes."""
        if self.bits is None:
            return v
        codes = coding.compand(v, self.bits)
        codes[0] = _scale(codes[0])
        return codes

    def restore(self, values: Array) -> Array:
        """What the other end makes of it."""
        if self.bits is None:
            return values
        codes = values.copy()
        codes[0] = _quarters(values[0])
        return coding.expand(codes, self.bits)

    def more(self, contacts: int) -> bool:
        """Whether the next contact sends the moments: contacts 1, 4, 16, 64, ... do."""
        number, told = contacts + 1, self.moments > 0
        return told and number & (number - 1) == 0 and number.bit_length() % 2 == 1

    def uploaded(self, length: int) -> int:
        """Bytes of an upload of so many entries."""
        return self.nbytes(up=True) + 2 * (length - self.entries) if length else 1

    def encode(self, message: Array, up: bool) -> bytes:
        """d values in b bits under one scale; down: and a bit; up: moments in half precision."""
        if not len(message):
            return payload.NOTHING
        odd, rest = (0, message) if up else (int(message[0]), message[1:])
        values, more = rest[: self.entries], rest[self.entries :]
        if self.bits is None:
            data = (b"" if up else bytes([odd])) + payload.encode(values, self.wire)
        else:
            scale = _quarters(values[0]) + SCALES
            data = bytes([2 * scale + odd]) + coding.pack(values[1:], self.bits)
        return data + payload.encode(more, "float16")

    def decode(self, data: bytes, up: bool) -> Array:
        """The inverse of `encode`; a ValueError for bytes that it cannot have made."""
        message = self._read(data, up)
        if self.encode(message, up) != data:
            raise ValueError("bits that stand for nothing are set")
        return message

    def _read(self, data: bytes, up: bool) -> Array:
        if data == payload.NOTHING:
            return np.empty(0)
        here = self.nbytes(up)
        if len(data) - here not in ({0, 2 * self.moments} if up else {0}):
            raise ValueError(f"{len(data)} bytes are none of its messages")
        head, values = [] if up else [data[0] % 2], data[:here]
        if self.bits is None:
            numbers = payload.decode(values[len(head) :], self.wire)
        else:
            codes = coding.unpack(values[1:], self.bits, self.size)
            numbers = np.concatenate([[_scale(values[0] // 2 - SCALES)], codes])
        return np.concatenate([head, numbers, payload.decode(data[here:], "float16")])


def _scale(quarters: float) -> float:
    """s = 2^(e/4), or 0 if nothing is worth sending."""
    return float(2.0 ** (quarters / 4)) if quarters >= coding.SMALLEST else 0.0


def _quarters(scale: float) -> int:
    """e of s, which may have been rounded on its way."""
    return round(4 * log2(scale)) if scale > 0 else coding.SMALLEST - 1


@dataclass(frozen=True, eq=False)
class Curvature:
    """T^T R T of a client, from moments of its inputs that are cheap to send.

    For windows of one signal these are its mean and L autocovariances, else L means and the
    L (L + 1) / 2 covariances of the columns.
    """

    features: FeatureMap
    T: Array
    guess: Array  # [L, L]
    signal: bool

    @property
    def means(self) -> int:
        """Numbers that are means."""
        return 1 if self.signal else len(self.guess)

    @property
    def numbers(self) -> int:
        """Numbers to send."""
        return self.means + len(self._places)

    @cached_property
    def _places(self) -> list[tuple[Array, Array]]:
        """Rows and columns of the covariances that share one number."""
        L = len(self.guess)
        if self.signal:
            return [(np.arange(L - lag), np.arange(lag, L)) for lag in range(L)]
        rows, columns = np.triu_indices(L)
        return [(rows[i : i + 1], columns[i : i + 1]) for i in range(len(rows))]

    def moments(self, mean: Array, square: Array) -> Array:
        """The numbers to send, in half precision, from the means of x and of x x^T."""
        if self.signal:
            mean = np.full_like(mean, mean.mean())
        C = square - np.outer(mean, mean)
        told = [*mean[: self.means], *(C[place].mean() for place in self._places)]
        return np.clip(told, -6e4, 6e4).astype(np.float16).astype(np.float64)

    def matrix(self, moments: Array, count: float) -> Array:
        """T^T R T for Gaussian inputs with these moments, drawn to the guess while n is small."""
        L, part = len(self.guess), count / (count + OWN)
        C = np.zeros((L, L))
        for (rows, columns), value in zip(self._places, moments[self.means :], strict=True):
            C[rows, columns] = C[columns, rows] = value
        values, vectors = np.linalg.eigh(part * C + (1 - part) * self.guess)
        # Rounded moments, or those of few samples, need not form a covariance: make it one.
        C = (vectors * np.maximum(values, 0)) @ vectors.T
        R = self.features.correlation(part * np.resize(moments[: self.means], L), C)
        return self.T.T @ R.astype(self.T.dtype, copy=False) @ self.T
