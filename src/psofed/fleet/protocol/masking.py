"""Rule 19: the sum over those who answered, where each answer alone is hidden by masks.

A client adds masks to its uploads, and reveals seeds of them when it is asked. If the whole cohort
has answered, the masks cancel and nobody is asked anything. Otherwise, and with self-masks always,
those who did answer are asked for the seeds of the masks that are left: once for each round, for
one set. What cannot be unmasked is not folded in, and the round is void.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.federation.contract import Array, Method
from psofed.federation.records import taken
from psofed.federation.round import opens
from psofed.fleet.protocol.wire import RefusedError
from psofed.stages import mask as masks
from psofed.stages.mask import Pairs
from psofed.stages.privacy import WORDS, Privacy

Uploads = dict[int, Array | None]  # by row; None: its client sent no values
HASH = 32  # bytes of a hash of what came down
FEW = "too few have answered for a sum"
ALONE = "not all who answered have revealed what the sum needs"
OLD = "no sample was learned since the last answer"
GARBAGE = "the masks do not cancel: somebody has other keys, or revealed wrong seeds"


class Masking:
    """What client `pairs.own` does so that the server learns sums only."""

    def __init__(self, method: Method, pairs: Pairs, privacy: Privacy) -> None:
        size = method.task.cohorts.size
        self.method, self.pairs, self.least = method, pairs, privacy.fewest(size)
        self.ends = round(privacy.range * privacy.scale(size))
        self.revealed: tuple[int, bytes] | None = None  # a round, and the sum it helped with
        self.silent = -1, ""  # the last round in which it must not answer, and why
        self.told = 0  # samples that it had learned when it answered or was started last
        self.down = b""  # hash of what came down last, in this round or at the begin of its block

    def cohort(self, n: int) -> list[int]:
        """S_n, which follows from the seed and the round."""
        found: list[int] = sorted(self.method.cohort(n, {}).tolist())
        if self.pairs.own not in found:
            why = f"by the seed, client {self.pairs.own} is not in round {n}"
            raise RefusedError("stranger", why)
        return found

    def check(self, n: int, begin: bool, learned: int | None) -> None:
        """Refuse what makes sums easier to read: other members, known models, nothing new."""
        self.cohort(n)
        if n == self.silent[0]:
            self._refuse(*self.silent)
        if begin:
            raise RefusedError("kind", f"round {n}: with masks nobody starts over")
        if learned is not None and learned <= self.told:
            raise RefusedError("masks", f"round {n}: {OLD}, so nothing is sent")

    def hear(self, n: int, invitation: bytes) -> None:
        """All members get the same bytes; masks of those who did not do not cancel."""
        if opens(self.method, n) or invitation:
            self.down = blake2b(invitation, digest_size=HASH).digest()

    def hidden(self, upload: Array | None, n: int, learned: int | None) -> Array | None:
        """An upload as it is sent, after so many samples; None: each round has one, by its clock.

        Nothing is sent at the end of the range: a server that could drive all others there, by what
        it sends down, would know their part of the sum. Nor by who has no new sample to hide with.
        """
        if upload is None:
            return None
        steps = np.asarray(upload).astype(np.uint32).astype(np.int32)
        if np.abs(steps.astype(np.int64)).max(initial=0) >= self.ends:
            self._refuse(n, "a value of the model is beyond [privacy] range")
        if learned is not None:
            if learned <= self.told:
                self._refuse(n, OLD)
            self.told = learned
        return self.pairs.hidden(upload, self.cohort(n), n, self.down)

    def _refuse(self, n: int, why: str) -> None:
        """Whoever asks again gets the same sentence."""
        self.silent = n, why
        raise RefusedError("masks", f"round {n}: {why}, so nothing is sent")

    def reveal(self, n: int, question: bytes) -> bytes:
        """The seeds for the sum over those who are present: for one set in a round, not too few."""
        cohort = self.cohort(n)
        present = members(cohort, question)
        if present is None or self.pairs.own not in present:
            raise RefusedError("masks", f"round {n}: asked for a sum without this client")
        if len(present) < self.least:
            raise RefusedError("masks", f"round {n}: asked for a sum of {len(present)}: too few")
        if self.revealed is not None and self.revealed[0] == n and self.revealed[1] != question:
            raise RefusedError("masks", f"round {n}: asked for a second sum, of others")
        self.revealed = n, question
        return self.pairs.revealed(cohort, present, n, self.down)

    def to_arrays(self) -> dict[str, Array]:
        """What is stored before seeds leave: a client that is killed must not reveal others."""
        heard = {"down": np.frombuffer(self.down, np.uint8)} if self.down else {}
        if self.revealed is None:
            return heard
        n, question = self.revealed
        return {"revealed": np.array([n, *question], np.int64), **heard}

    def restore(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`."""
        if "down" in arrays:
            self.down = taken(arrays, "down", np.uint8, (HASH,)).tobytes()
        if "revealed" in arrays:
            n, *asked = taken(arrays, "revealed", np.int64, (None,), 0).tolist()
            self.revealed = n, bytes(asked)


class Unmasking:
    """The second half of a masked round, at the server: who is in the sum, and their seeds."""

    def __init__(self, settings: Privacy, cohort: int) -> None:
        self.settings, self.least = settings, settings.fewest(cohort)
        self.begin()

    def begin(self) -> None:
        """A new round."""
        self.cohort: tuple[int, ...] = ()
        self.present: tuple[int, ...] = ()  # those who are in the sum, once that is decided
        self.seeds: dict[int, bytes] = {}

    def decide(self, cohort: Sequence[int], answered: Collection[int]) -> bool:
        """Nobody else is in the sum; whether those who are have to be asked for seeds."""
        whole = len(answered) == len(cohort) and not self.settings.self_masks
        if whole or len(answered) < self.least:
            return False
        self.cohort, self.present = tuple(cohort), tuple(sorted(answered))
        return True

    @property
    def missing(self) -> list[int]:
        """Those who have not revealed theirs yet."""
        return [k for k in self.present if k not in self.seeds]

    @property
    def question(self) -> bytes:
        """Who is in the sum: a bit for each member of the cohort, in order."""
        return bits(self.cohort, self.present)

    def size(self, k: int) -> int:
        """Bytes that client k has to reveal."""
        count = sum(1 for _ in masks.wanted(k, self.cohort, self.present, self.settings))
        return count * masks.SEED

    def take(self, k: int, n: int, body: bytes) -> None:
        """What client k reveals in round n: for which sum, and its seeds. The first counts."""
        if k not in self.present:
            raise RefusedError("stranger", f"client {k} is not in the sum of round {n}")
        question = self.question
        if not body.startswith(question):
            raise RefusedError("late", f"client {k} revealed seeds of round {n} for another sum")
        seeds = body[len(question) :]
        if len(seeds) != self.size(k):
            raise RefusedError("size", f"client {k} revealed {len(body)} bytes")
        if self.seeds.setdefault(k, seeds) != seeds:
            raise RefusedError("conflict", f"client {k} revealed round {n} twice, differently")

    def opened(self, uploads: Uploads, answered: Sequence[int]) -> tuple[Uploads, str]:
        """The uploads, by row; the first without the masks that are left in the sum of all.

        None of them, and why, if that is not possible.
        """
        found = dict(uploads)
        if not any(values is not None and len(values) for values in found.values()):
            return found, ""  # a round without uploads
        if len(answered) < self.least:
            return {}, FEW
        if self.missing:
            return {}, ALONE
        if self.present:
            first = next(iter(found))
            words = np.asarray(found[first])
            left = masks.left_over(self.seeds, self.cohort, self.present, len(words), self.settings)
            found[first] = (words - left.astype(np.float64)) % WORDS
        return found, ""


def bits(cohort: Sequence[int], present: Collection[int]) -> bytes:
    """A set of members of a cohort."""
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
