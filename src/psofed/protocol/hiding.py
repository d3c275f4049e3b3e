"""Rule 19, the client's half: masks on its uploads, and the seeds that it tells about them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.methods.contract import Message, Method
from psofed.privacy.masks import Pairs
from psofed.protocol.checked_record import taken
from psofed.protocol.server import RefusedError
from psofed.protocol.unmasking import members

Array = NDArray[Any]
HASH = 32  # bytes of a hash of what came down


class Hiding:
    """What client `pairs.own` does so that the server learns sums only."""

    def __init__(self, method: Method, pairs: Pairs) -> None:
        assert method.task.privacy is not None
        privacy, size = method.task.privacy, method.task.cohorts.size
        self.method, self.pairs, self.least = method, pairs, privacy.fewest(size)
        self.ends = round(privacy.range * privacy.scale(size))
        self.revealed: tuple[int, bytes] | None = None  # a round, and the sum it helped with
        self.beyond = -1  # the last round in which its values were too large to be sent
        self.down = b""  # hash of what came down last, in this round or at the begin of its block

    def cohort(self, n: int) -> list[int]:
        """S_n, which follows from the seed and the round."""
        found: list[int] = sorted(self.method.cohort(n, {}).tolist())
        if self.pairs.own not in found:
            why = f"by the seed, client {self.pairs.own} is not in round {n}"
            raise RefusedError("stranger", why)
        return found

    def check(self, n: int, begin: bool) -> None:
        """Refuse what would make sums easier to read: other members, or a model that is known."""
        self.cohort(n)
        if n == self.beyond:
            self._refuse(n)
        if begin:
            raise RefusedError("kind", f"round {n}: with masks nobody begins anew")

    def hear(self, n: int, invitation: bytes) -> None:
        """All members get the same bytes; masks of those who did not do not cancel."""
        if self.method.begins(n) or invitation:
            self.down = blake2b(invitation, digest_size=HASH).digest()

    def hidden(self, upload: Message, n: int) -> Message:
        """An upload as it is sent.

        Values at the end of the range are not sent at all: a server that could drive all others
        there, by what it sends down, would know their part of the sum.
        """
        if upload is None:
            return None
        steps = np.asarray(upload).astype(np.uint32).astype(np.int32)
        if np.abs(steps.astype(np.int64)).max(initial=0) >= self.ends:
            self._refuse(n)
        return self.pairs.hidden(upload, self.cohort(n), n, self.down)

    def _refuse(self, n: int) -> None:
        """Whoever asks again gets the same sentence."""
        self.beyond = n
        why = f"round {n}: a value of the model is beyond [privacy] range, so nothing is sent"
        raise RefusedError("range", why)

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
        return self.pairs.told(cohort, present, n, self.down)

    def to_arrays(self) -> dict[str, Array]:
        """What is stored before seeds leave: a client that is killed must not tell others."""
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
