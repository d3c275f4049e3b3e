"""Masked sums: the server learns the sum of a cohort's uploads and no more.

An upload is whole numbers mod 2^32. Each two members of a cohort share a mask, and add it with both
signs: client i sends v_i + sum_j sign(i, j) m_ij, with sign(i, j) = 1 for i < j and -1 for i > j.
Eq. (11) needs the mean of the values on a window that all members share, so it does not matter to
the fold whether they are masked. In a simulation there are no masks, and the numbers are the same
to the bit.

Everything follows from the 32 bytes k_ij that only i and j have, the run, the round n and what came
down in it, d:

    p_ij = HKDF(k_ij, "pair", run, n, hash(d))   a seed of 16 bytes
    m_ij = ChaCha20(HKDF(p_ij, "mask"))          as many words as there are values

A server that sends one member another model than the others could make its part of the sum the
largest by far, and read it. But then the two ends of a pair have different masks, which stay.

If some do not answer, those who did reveal the seeds p_ij that they share with them, of this round
alone, and the server takes these masks off. A server that lies about who did not answer could take
the masks off a single upload in this way. Against that there are *self-masks*: client i adds one
more for each j, from s_ij = HKDF(k_ij, "self", run, n, i). Who takes i for present reveals s_ij,
who takes it for absent reveals p_ij, and nobody reveals both; client i itself reveals both for
those whom it takes for absent. So each upload keeps a mask for every member that it takes for
present and that does not agree: the server learns sums over sets on which all their members agree,
and no others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core import payload
from psofed.core.schedule import Indices
from psofed.extras import need
from psofed.federation.contract import Array, Message, Method, State, exchanged, sized, whole
from psofed.federation.stage import Stage
from psofed.stages.privacy import WORDS, Privacy

Words = NDArray[np.uint32]
SEED = 16  # bytes of the seed of a mask
MOST_TOLD = 2 * SEED + 1  # of each member of a cohort, with what says for which sum


class Masked(Stage):
    """Uploads that can be masked."""

    def __init__(self, inner: Method, privacy: Privacy) -> None:
        super().__init__(inner)
        self.privacy, self.entrywise = privacy, False
        self.range, self.scale = privacy.range, privacy.scale(self.task.cohorts.size)

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """What the method sends, as whole numbers."""
        found = self.inner.upload(client, k, n)
        steps = words(found.values, self.scale, self.range).astype(np.float64)
        return Message(steps, found.length)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """Eq. (11) with the mean of all, which stands for one upload of the whole cohort."""
        heard = message.heard
        if not heard.any():
            self.inner.fold(server, k, n, message, weights)
            return
        # Of several runs, all members of each have sent something.
        parts = message.values if heard.all() else message.values[heard]
        total = added(parts)
        average = mean(total, self.scale, self.range, parts.shape[-2])
        first = k[..., :1] if heard.all() else k[heard][:1]
        share = weights.sum(axis=-1, keepdims=True).astype(self.task.dtype)
        all_of = whole(average.astype(self.task.dtype)[..., None, :])
        self.inner.fold(server, first, n, all_of, share)

    def encode(self, values: Array, up: bool) -> bytes:
        """Four bytes for each value."""
        if not up or not len(values):
            return self.inner.encode(values, up)
        return np.asarray(values).astype("<u4").tobytes()

    def decode(self, data: bytes, up: bool) -> Array:
        if not up or data == payload.NOTHING:
            return self.inner.decode(data, up)
        found = np.frombuffer(data, "<u4").astype(np.float64)
        return sized(found, exchanged(self.inner, up).shape[-1])

    def extra(self, uploads: int) -> tuple[int, int, int]:
        """Rule 19: each gets the same question, and reveals its seeds."""
        asked, revealed = unmasking(self.privacy, uploads)
        return uploads * revealed, uploads * asked, asked


def unmasking(privacy: Privacy | None, count: int) -> tuple[int, int]:
    """Bytes of the question for seeds and of its answer, where all of `count` have uploaded.

    >>> unmasking(Privacy(masks=True, self_masks=True), 4), unmasking(Privacy(masks=True), 4)
    ((1, 49), (0, 0))
    """
    if privacy is None or not privacy.self_masks or not count:
        return 0, 0
    who = -(-count // 8)
    return who, who + SEED * (count - 1)


def words(values: Array, scale: int, most: float) -> Words:
    """Values in steps of 1/scale, those beyond `most` clipped to it; negative ones from 2^32 down.

    Each is off by half a step at most. A value that is not a number stays one end can see: `most`.

    >>> words(np.array([0.25, -0.25, 99.0]), 8, 64.0).tolist()
    [2, 4294967294, 512]
    """
    known = np.nan_to_num(np.asarray(values, np.float64), nan=most, posinf=most, neginf=-most)
    steps = np.rint(np.clip(known, -most, most) * scale).astype(np.int64)
    return (steps % WORDS).astype(np.uint32)


def added(parts: Array) -> Words:
    """The sum of words [..., s, m] over s, mod 2^32.

    >>> added(np.array([[1, 2], [4294967295, 5]], np.uint32)).tolist()
    [0, 7]
    """
    return parts.astype(np.uint32).sum(axis=-2, dtype=np.uint32)


def mean(total: Array, scale: int, most: float, count: int) -> NDArray[np.float64]:
    """What a sum of `count` values within `most` stands for, divided by their number.

    >>> mean(words(np.array([3.0, -3.0]), 8, 64.0), 8, 64.0, 4).tolist()
    [0.75, -0.75]
    >>> mean(words(np.array([300.0]), 8, 900.0), 8, 64.0, 4)
    Traceback (most recent call last):
    ValueError: no sum of 4 values within 64 is that: their masks do not cancel
    """
    signed = total.astype(np.uint32).astype(np.int32).astype(np.float64)
    if np.abs(signed).max(initial=0) > count * (most * scale + 0.5):
        found = f"no sum of {count} values within {most:g} is that"
        raise ValueError(f"{found}: their masks do not cancel")
    return signed / (scale * count)


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

    def revealed(
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
    """What client `own` reveals, in order: the kind of a seed, of whose upload, shared with."""
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
    revealed: Mapping[int, bytes], cohort: Sequence[int], present: Collection[int], size: int,
    settings: Any,
) -> Words:  # fmt: skip
    """The masks that are left in the sum over those who are `present`, from what they reveal."""
    found = np.zeros(size, np.uint32)
    for k in sorted(present):
        seeds = revealed[k]
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
    return kdf.HKDFExpand(hashes.SHA256(), size, about).derive(key)


@cache
def _primitives() -> tuple[Any, Any, Any]:
    """Imported when the first mask is made: devices without masks need none of it."""
    home = "cryptography.hazmat.primitives"
    names = f"{home}.ciphers", f"{home}.hashes", f"{home}.kdf.hkdf"
    ciphers, hashes, kdf = (need(name, "privacy", "masks") for name in names)
    return ciphers, hashes, kdf
