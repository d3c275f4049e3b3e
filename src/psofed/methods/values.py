"""The messages of MEMO-Fed: d values in few bits under one scale, and what goes with some of them.

An array that stands for d values has the scale first (see `coding.compand`), or is the values
themselves if they are exact. Before it, a download has the bit about contacts. After it, an upload
may have moments of the inputs, and then the count of samples. The number of entries, and of bytes,
says which: there are at least two moments, and one count. A client that has too few samples sends
their count alone, in one byte; its array is one longer than any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core import payload
from psofed.methods import coding

Array = NDArray[Any]
SCALES = 1 - coding.SMALLEST  # makes a scale a number from 0 on
OCTAVE = 16  # steps of a count for a factor of two: 4 % each, up to 2^15.9 in one byte


@dataclass(frozen=True)
class Values:
    """How values travel: their number d, their bits (none: exact, in `wire`), and the moments."""

    size: int
    bits: int | None
    wire: str
    moments: int

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
        """Q(v), as it travels."""
        return v if self.bits is None else coding.compand(v, self.bits)

    def restore(self, values: Array) -> Array:
        """What the other end makes of it."""
        return values if self.bits is None else coding.expand(values, self.bits)

    def upload(self, values: Array, moments: Array | None, count: float | None) -> Array:
        """An upload of its parts; those that are None are not sent."""
        more = [] if moments is None else [moments]
        return np.concatenate([values, *more, [] if count is None else [_steps(count)]])

    def only(self, count: float) -> Array:
        """An upload of a count alone."""
        message = np.zeros(self.entries + self.moments + 2)
        message[-1] = _steps(count)
        return message

    def split(self, message: Array) -> tuple[Array | None, Array | None, float | None]:
        """Values, moments and count of an upload; None is what was not sent."""
        if not len(message):
            return None, None, None
        values, more = message[: self.entries], message[self.entries :]
        count = float(2 ** (more[-1] / OCTAVE)) if len(more) not in (0, self.moments) else None
        if len(more) == self.moments + 2:
            return None, None, count
        return values, more[: self.moments] if len(more) > 1 else None, count

    def numbers(self, upload: Array) -> Array:
        """What an upload stands for: the values as they are restored, moments and count."""
        values, moments, count = self.split(upload)
        parts = (None if values is None else self.restore(values), moments, [count or 0.0])
        return np.concatenate([part for part in parts if part is not None])

    def lengths(self, counts: bool) -> tuple[int, ...]:
        """Entries that an upload can have: none of a client without samples, or with a count."""
        plain = self.entries, self.entries + self.moments
        counted = self.entries + 1, plain[1] + 1, plain[1] + 2
        return 0, *plain, *(counted if counts else ())

    def uploaded(self, length: int) -> int:
        """Bytes of an upload of so many entries."""
        more = length - self.entries
        if not length or more == self.moments + 2:
            return 1
        counted = more not in (0, self.moments)
        return self.nbytes(up=True) + 2 * (more - counted) + counted

    def encode(self, message: Array, up: bool) -> bytes:
        """d values in b bits under one scale; down: and a bit; up: moments in half precision."""
        if not len(message):
            return payload.NOTHING
        odd, rest = (0, message) if up else (int(message[0]), message[1:])
        values, more = rest[: self.entries], rest[self.entries :]
        if up and len(more) == self.moments + 2:
            return bytes([1 + int(more[-1])])
        if self.bits is None:
            data = (b"" if up else bytes([odd])) + payload.encode(values, self.wire)
        else:
            scale = int(values[0]) + SCALES
            data = bytes([2 * scale + odd]) + coding.pack(values[1:], self.bits)
        whole = len(more) if len(more) in (0, self.moments) else len(more) - 1
        return data + payload.encode(more[:whole], "float16") + bytes(map(int, more[whole:]))

    def decode(self, data: bytes, up: bool) -> Array:
        """The inverse of `encode`."""
        if data == payload.NOTHING:
            return np.empty(0)
        if up and len(data) == 1:
            return np.append(np.zeros(self.entries + self.moments + 1), data[0] - 1)
        here = self.nbytes(up)
        if self.bits is None:
            head = [] if up else [data[0]]
            values = payload.decode(data[len(head) : here], self.wire)
        else:
            head = [] if up else [data[0] % 2]
            codes = coding.unpack(data[1:here], self.bits, self.size)
            values = np.concatenate([[data[0] // 2 - SCALES], codes])
        told = (len(data) - here) // 2 * 2
        more = payload.decode(data[here : here + told], "float16")
        if len(more) not in (0, self.moments):
            raise ValueError(f"{len(more)} moments came")
        return np.concatenate([head, values, more, list(data[here + told :])])


def _steps(count: float) -> int:
    """A count on a scale of equal ratios, as one byte."""
    return int(np.clip(round(OCTAVE * np.log2(max(count, 1.0))), 0, 254))
