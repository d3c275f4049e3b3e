"""Signs: what a client on the live clock says of its samples in each answer, in two bytes.

    byte 0: samples learned since the last answer
    byte 1: 5 bits, samples that were not learned as they were; 3 bits, what is wrong

A count has a few digits; what rounding down leaves out goes with the next answer. No weight and no
fold depends on signs (rule 12), and they are not part of the answer that is stored (rule 5).
"""

from __future__ import annotations

from typing import NamedTuple

SIZE = 2
STUCK, ENDED, EXPIRY = 1, 2, 4  # same labels; no samples will come; a certificate ends soon
DIGITS = 4, 2  # bits of each count, after the first one
MOST = 255, 31  # codes


class Signs(NamedTuple):
    """Samples learned, samples that were not learned as they were, and what is wrong."""

    learned: int
    skipped: int
    wrong: int = 0

    def to_bytes(self) -> bytes:
        """Both bytes; counts are rounded down.

        >>> [Signs.read(Signs(n, n).to_bytes()).learned for n in (0, 31, 33, 1000, 10**9)]
        [0, 31, 32, 992, 507904]
        """
        pairs = zip(self[:2], DIGITS, MOST, strict=True)
        learned, skipped = (min(_code(count, digits), most) for count, digits, most in pairs)
        return bytes([learned, skipped << 3 | self.wrong])

    @staticmethod
    def read(data: bytes) -> Signs:
        """The inverse, for any two bytes."""
        learned, more = data
        return Signs(_count(learned, DIGITS[0]), _count(more >> 3, DIGITS[1]), more & 7)


def _code(count: int, digits: int) -> int:
    shift = max(count.bit_length() - digits - 1, 0)
    return (shift << digits) + (count >> shift)


def _count(code: int, digits: int) -> int:
    shift = max((code >> digits) - 1, 0)
    return (code - (shift << digits)) << shift
