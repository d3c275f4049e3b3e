"""The messages of MEMO-Fed: d values in few bits under one scale, and what goes with some of them.

An array that stands for d values has the scale s first (see `coding.compand`), or is the values
themselves if they are exact. Before it, a download has the bit about contacts; after it, an upload
may have the share of rounds in which the client had a sample, and moments of its inputs.

Values travel in coordinates in which the curvature B_k = V^-1 V^-T that both ends know is the
identity. There the rounding of a message moves the model by a part of what the message moves it. In
others, one that is rounded in a steep direction would move it far in a flat one, and what the next
messages say about that would be larger than the first.
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
DAMP = 0.03  # added to the curvature: flat directions would amplify the rounding of messages
WORTH = 2.0  # times as close to the curvature: then moments of columns are worth their bytes


@dataclass(frozen=True)
class Values:
    """How values travel: their number d, their bits (none: exact, in `wire`), and what follows."""

    size: int
    bits: int | None
    wire: str
    reported: tuple[int, ...]  # how many numbers may follow in an upload, if any do

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

    def due(self, contacts: int) -> bool:
        """Whether the next contact sends moments in any case: contacts 1, 4, 16, 64, ... do."""
        number = contacts + 1
        return number & (number - 1) == 0 and number.bit_length() % 2 == 1

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
        if len(data) - here not in {0, *(2 * count for count in self.reported if up)}:
            raise ValueError(f"{len(data)} bytes are not one of its messages")
        head, values = [] if up else [data[0] % 2], data[:here]
        if self.bits is None:
            numbers = payload.decode(values[len(head) :], self.wire)
        else:
            codes = coding.unpack(values[1:], self.bits, self.size)
            numbers = np.concatenate([[_scale(values[0] // 2 - SCALES)], codes])
        more = payload.decode(data[here:], "float16")
        if not np.isfinite(more).all():
            raise ValueError("moments are not finite")
        return np.concatenate([head, numbers, more])


def _scale(quarters: float) -> float:
    """s = 2^(e/4), or 0 if nothing is worth sending."""
    return float(2.0 ** (quarters / 4)) if quarters >= coding.SMALLEST else 0.0


def _quarters(scale: float) -> int:
    """e of s, which may have been rounded on its way."""
    return round(4 * log2(scale)) if scale > 0 else coding.SMALLEST - 1


@dataclass(frozen=True, eq=False)
class Curvature:
    """B_k, which the server takes for the curvature of a client's loss, from few numbers.

    It is that of Gaussian inputs with the client's moments. Of windows of one signal these are its
    mean and L autocovariances. A client whose curvature is not like that, as with the columns of a
    table, sends L means and L (L + 1) / 2 covariances instead; their number says which they are.
    """

    features: FeatureMap
    T: Array
    guess: Array  # [L, L]

    def numbers(self, signal: bool) -> int:
        """Means and covariances to send."""
        return self.means(signal) + len(self._places[signal])

    def means(self, signal: bool) -> int:
        """Numbers that are means."""
        return 1 if signal else len(self.guess)

    @cached_property
    def _places(self) -> dict[bool, list[tuple[Array, Array]]]:
        """Rows and columns of the covariances that share one number: of a signal, of columns."""
        L = len(self.guess)
        rows, columns = np.triu_indices(L)
        return {
            True: [(np.arange(L - lag), np.arange(lag, L)) for lag in range(L)],
            False: [(rows[i : i + 1], columns[i : i + 1]) for i in range(len(rows))],
        }

    def reported(self, mean: Array, square: Array, count: float, A: Array) -> Array:
        """The moments to send, from the means of x, x x^T and u u^T over so many samples."""
        signal, columns = (self.moments(mean, square, kind) for kind in (True, False))
        if len(A) + len(columns) >= count * (len(mean) + 1):  # as many as the samples have
            return signal
        close = self._excess(signal, count, A) <= WORTH * self._excess(columns, count, A)
        return signal if close else columns

    def _excess(self, moments: Array, count: float, A: Array) -> float:
        """The largest curvature over what the moments say: Newton steps bear a factor of two."""
        V = whitening(self.matrix(moments, count))
        return float(np.linalg.eigvalsh(V @ A @ V.T)[-1])

    def moments(self, mean: Array, square: Array, signal: bool) -> Array:
        """Means and covariances in half precision, from the means of x and of x x^T."""
        if signal:
            mean = np.full_like(mean, mean.mean())
        C = square - np.outer(mean, mean)
        means = mean[: self.means(signal)]
        reported = [*means, *(C[place].mean() for place in self._places[signal])]
        return np.clip(reported, -6e4, 6e4).astype(np.float16).astype(np.float64)

    def matrix(self, moments: Array, count: float) -> Array:
        """B = T^T R T + DAMP I for Gaussian inputs, drawn to the guess while n is small.

        Any numbers make it positive definite.
        """
        L, part = len(self.guess), count / (count + OWN)
        signal = len(moments) == self.numbers(signal=True)
        means = self.means(signal)
        C = np.zeros((L, L))
        for (rows, columns), value in zip(self._places[signal], moments[means:], strict=True):
            C[rows, columns] = C[columns, rows] = value
        values, vectors = np.linalg.eigh(part * C + (1 - part) * self.guess)
        # Rounded moments, or those of few samples, need not form a covariance: make it one.
        C = (vectors * np.maximum(values, 0)) @ vectors.T
        R = self.features.correlation(part * np.resize(moments[:means], L), C)
        B = self.T.T @ R.astype(self.T.dtype, copy=False) @ self.T
        return B.astype(np.float64) + DAMP * np.eye(len(B))


def whitening(B: Array) -> Array:
    """V with V B V^T = I."""
    return np.linalg.inv(np.linalg.cholesky(B))
