"""Masks that cancel in a sum: each two members of a cohort share one, and add it with both signs.

Client i sends v_i + sum_j sign(i, j) m_ij mod 2^32, with sign(i, j) = 1 for i < j and -1 for i > j.
Everything follows from the 32 bytes k_ij that only i and j have, the run, the round n and what came
down in it, d:

    p_ij = HKDF(k_ij, "pair", run, n, hash(d))   a seed of 16 bytes
    m_ij = ChaCha20(HKDF(p_ij, "mask"))          as many words as there are values

A server that sends one member another model than the others could make its part of the sum the
largest by far, and read it. But then the two ends of a pair have different masks, which stay.

If some do not answer, those who did tell the seeds p_ij that they share with them, of this round
alone, and the server takes these masks off. A server that lies about who did not answer could take
the masks off a single upload in this way. Against that there are *self-masks*: client i adds one
more for each j, from s_ij = HKDF(k_ij, "self", run, n, i). Who takes i for present tells s_ij, who
takes it for absent tells p_ij, and nobody tells both; client i itself tells both for those whom it
takes for absent. So each upload keeps a mask for every member that it takes for present and that
does not agree: the server learns sums over sets on which all their members agree, and no others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.extras import need

Words = NDArray[np.uint32]
SEED = 16  # bytes that are told of a mask
MOST_TOLD = 2 * SEED + 1  # of each member of a cohort, with what says for which sum


@dataclass(frozen=True, eq=False)
class Pairs:
    """What client `own` shares with each other client: 32 bytes, which nobody else has."""

    own: int
    keys: Mapping[int, bytes]
    run: int  # the digest of the run: masks of two runs have nothing in common
    self_masks: bool = False

    def hidden(self, words: Any, cohort: Sequence[int], n: int, down: bytes = b"") -> Words:
        """What is sent instead of these words."""
        found = np.asarray(words).astype(np.uint32)
        for j in cohort:
            if j != self.own:
                found = found + signed(stream(self.pair(j, n, down), len(found)), self.own, j)
                if self.self_masks:
                    found = found + stream(self.by_self(self.own, j, n), len(found))
        return found

    def told(
        self, cohort: Sequence[int], present: Collection[int], n: int, down: bytes = b""
    ) -> bytes:
        """Rule 19: the seeds that the sum over those who are `present` needs from this client."""
        asked = wanted(self.own, cohort, present, self)
        return b"".join(self._seed(*one, n, down) for one in asked)

    def _seed(self, kind: str, i: int, j: int, n: int, down: bytes) -> bytes:
        other = j if i == self.own else i
        return self.pair(other, n, down) if kind == "pair" else self.by_self(i, other, n)

    def pair(self, j: int, n: int, down: bytes = b"") -> bytes:
        """p_ij of this client and client j; `down`: a hash of what both have received."""
        return derived(self.keys[j], b"pair", self.run, n, more=down)

    def by_self(self, i: int, other: int, n: int) -> bytes:
        """s_ij: i is this client or the other."""
        return derived(self.keys[other], b"self", self.run, n, i)


def wanted(
    own: int, cohort: Sequence[int], present: Collection[int], settings: Any
) -> Iterator[tuple[str, int, int]]:
    """What client `own` tells, in order: the kind of a seed, whose upload it is on, shared with."""
    there = frozenset(present)
    for j in cohort:
        if j == own:
            continue
        if j not in there:
            yield "pair", own, j
            if settings.self_masks:
                yield "self", own, j
        elif settings.self_masks:
            yield "self", j, own


def left_over(
    told: Mapping[int, bytes], cohort: Sequence[int], present: Collection[int], size: int,
    settings: Any,
) -> Words:  # fmt: skip
    """The masks that are left in the sum over those who are `present`, from what they told."""
    found = np.zeros(size, np.uint32)
    for k in sorted(present):
        seeds = told[k]
        for at, (kind, i, j) in enumerate(wanted(k, cohort, present, settings)):
            mask = stream(seeds[at * SEED : (at + 1) * SEED], size)
            found = found + (signed(mask, i, j) if kind == "pair" else mask)
    return found


def signed(mask: Words, i: int, j: int) -> Words:
    """sign(i, j) m_ij."""
    return mask if i < j else -mask


def derived(key: bytes, kind: bytes, *numbers: int, more: bytes = b"") -> bytes:
    """A seed of 16 bytes by HKDF, from a key and what it is for."""
    about = b"psofed " + kind + b"".join(number.to_bytes(8, "little") for number in numbers)
    return _hkdf(key, about + more, SEED)


def stream(seed: bytes, size: int) -> Words:
    """m: so many words from a seed, by ChaCha20."""
    ciphers, key = _primitives()[0], _hkdf(seed, b"psofed mask", 32)
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, bytes(16)), None)
    return np.frombuffer(cipher.encryptor().update(bytes(4 * size)), "<u4").astype(np.uint32)


def _hkdf(key: bytes, about: bytes, size: int) -> bytes:
    _, hashes, kdf = _primitives()
    found: bytes = kdf.HKDFExpand(hashes.SHA256(), size, about).derive(key)
    return found


@cache
def _primitives() -> tuple[Any, Any, Any]:
    """Imported when the first mask is made: devices without masks need none of it."""
    home = "cryptography.hazmat.primitives"
    names = f"{home}.ciphers", f"{home}.hashes", f"{home}.kdf.hkdf"
    ciphers, hashes, kdf = (need(name, "privacy", "masks") for name in names)
    return ciphers, hashes, kdf
