"""Rule 19: the sum over those who answered, where each answer alone is hidden by masks.

If the whole cohort has answered, the masks cancel and nobody is asked anything. Otherwise, and with
self-masks always, those who did answer are asked for the seeds of the masks that are left: once for
each round, for one set. What cannot be unmasked is not folded in, and the round is void.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.methods.contract import Message, Method
from psofed.privacy import masks
from psofed.privacy.settings import WORDS, Privacy

FEW = "too few have answered for a sum"
ALONE = "not all who answered have told what the sum needs"
GARBAGE = "the masks do not cancel: somebody has other keys, or told wrong seeds"


class Unmasking:
    """The second half of a masked round, at the server: who is in the sum, and what they told."""

    def __init__(self, settings: Privacy, cohort: int) -> None:
        self.settings, self.least = settings, settings.fewest(cohort)
        self.begin()

    def begin(self) -> None:
        """A new round."""
        self.cohort: tuple[int, ...] = ()
        self.present: tuple[int, ...] = ()  # those who are in the sum, once that is decided
        self.told: dict[int, bytes] = {}
        self.void = ""  # why nothing of the round could be folded in

    def decide(self, cohort: Sequence[int], answered: Collection[int]) -> bool:
        """Nobody else is in the sum; whether those who are have to be asked for seeds."""
        whole = len(answered) == len(cohort) and not self.settings.self_masks
        if whole or len(answered) < self.least:
            return False
        self.cohort, self.present = tuple(cohort), tuple(sorted(answered))
        return True

    @property
    def missing(self) -> list[int]:
        """Those who have not told yet."""
        return [k for k in self.present if k not in self.told]

    @property
    def question(self) -> bytes:
        """Who is in the sum: a bit for each member of the cohort, in order."""
        return bits(self.cohort, self.present)

    def size(self, k: int) -> int:
        """Bytes that client k has to tell."""
        count = sum(1 for _ in masks.wanted(k, self.cohort, self.present, self.settings))
        return count * masks.SEED

    def opened(self, uploads: Mapping[int, Message], answered: Sequence[int]) -> dict[int, Message]:
        """The uploads, by row; the first without the masks that are left in the sum of all.

        None of them, if that is not possible.
        """
        found = dict(uploads)
        if not any(message is not None and len(message) for message in found.values()):
            return found  # a round without uploads
        if len(answered) < self.least:
            self.void = FEW
        elif self.missing:
            self.void = ALONE
        if self.void:
            return {}
        if self.present:
            first = next(iter(found))
            words = np.asarray(found[first])
            left = masks.left_over(self.told, self.cohort, self.present, len(words), self.settings)
            found[first] = (words - left.astype(np.float64)) % WORDS
        return found


def unmasking(method: Method) -> Unmasking | None:
    """For the server of a method whose uploads are masked."""
    privacy = method.task.privacy
    if privacy is None or not privacy.masks:
        return None
    return Unmasking(privacy, method.task.cohorts.size)


def bits(cohort: Sequence[int], present: Collection[int]) -> bytes:
    """A set of members of a cohort.

    >>> bits([3, 5, 8], {3, 8}), members([3, 5, 8], bytes([5]))
    (b'\\x05', [3, 8])
    """
    flags: NDArray[Any] = np.array([k in present for k in cohort], np.uint8)
    return np.packbits(flags, bitorder="little").tobytes()


def members(cohort: Sequence[int], data: bytes) -> list[int] | None:
    """The inverse; None if these are no bits of such a cohort."""
    if len(data) != -(-len(cohort) // 8):
        return None
    flags = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if flags[len(cohort) :].any():
        return None
    return [k for k, flag in zip(cohort, flags, strict=False) if flag]
