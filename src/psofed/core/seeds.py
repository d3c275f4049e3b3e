"""Every random draw is a pure function of (seed, purpose, run, client, round).

The counter-based generator Philox 4x64-10 makes that literal: seed and purpose are its key; run,
client and round are three words of its counter; the fourth word counts the numbers of one draw.
So no draw depends on another, none has to be stored, and a device draws its own without the rest.
Small draws for many clients or rounds at once go through `Seeds.uniforms`, written here in NumPy;
long streams of one client go through NumPy's own Philox. Both read the same numbers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10


@dataclass(frozen=True)
class Seeds:
    """The source of all randomness of one Monte-Carlo run.

    >>> Seeds(seed=1, run=0).uniforms("mask", client=[0, 1], count=3).shape
    (2, 3)
    """

    seed: int
    run: int = 0

    def uniforms(
        self, purpose: str, *, client: ArrayLike = 0, round: ArrayLike = 0, count: int
    ) -> NDArray[np.float64]:
        """`count` numbers in [0, 1) for each (client, round); the two broadcast."""
        clients, rounds = np.broadcast_arrays(
            np.asarray(client, np.uint64), np.asarray(round, np.uint64)
        )
        blocks = -(-count // 4)
        # NumPy's Philox raises its counter before it draws: the first block is number 1.
        block = np.arange(1, blocks + 1, dtype=np.uint64)
        words = np.broadcast_arrays(
            block, rounds[..., None], clients[..., None], np.uint64(self.run)
        )
        raw = np.stack(philox(words, _key(self.seed, purpose)), axis=-1)
        raw = raw.reshape(*rounds.shape, 4 * blocks)[..., :count]
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def generator(self, purpose: str, *, client: int = 0, round: int = 0) -> np.random.Generator:
        """NumPy's generator at the first number of (purpose, client, round)."""
        # As arrays, because NumPy reads lists of large numbers as floating point.
        key = np.array(_key(self.seed, purpose), np.uint64)
        counter = np.array([0, round, client, self.run], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))

    def normals(self, purpose: str, clients: ArrayLike, count: int) -> NDArray[np.float64]:
        """`count` standard normals for each of `clients`, each client from its own stream."""
        ids = np.asarray(clients, np.uint64)
        out = np.empty((len(ids), count))
        generator = self.generator(purpose)
        bits = generator.bit_generator
        # Moving one generator costs a tenth of making one.
        state: Any = bits.state
        for row, client in zip(out, ids, strict=True):
            state["state"]["counter"][2] = client
            bits.state = state
            generator.standard_normal(out=row)
        return out


@lru_cache(maxsize=256)
def _key(seed: int, purpose: str) -> tuple[int, int]:
    digest = hashlib.blake2b(f"psofed:{purpose}:{seed}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def philox(counter: Any, key: tuple[int, int]) -> list[NDArray[np.uint64]]:
    """Philox 4x64-10 of Salmon et al. (2011), on arrays of counters."""
    c0, c1, c2, c3 = counter
    for i in range(_ROUNDS):
        k0, k1 = (np.uint64((k + i * w) % 2**64) for k, w in zip(key, _WEYL, strict=True))
        high0, low0 = _multiply(c0, _MULTIPLIERS[0])
        high1, low1 = _multiply(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return [c0, c1, c2, c3]


def _multiply(a: NDArray[np.uint64], b: np.uint64) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """High and low 64 bits of the 128-bit product, through 32-bit halves."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + (a0 * b0 >> _HALF)
    carry = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _HALF) + (carry >> _HALF), a * b


def subsets(uniforms: NDArray[np.float64], population: int) -> NDArray[np.intp]:
    """A uniform random subset of range(population) per row of `uniforms`, sorted.

    Floyd's method: as many uniforms as members, whatever the population's size.
    """
    size = uniforms.shape[-1]
    chosen = np.empty(uniforms.shape, np.intp)
    if size == population:
        chosen[...] = np.arange(population)
        return chosen
    for j in range(size):
        last = population - size + j
        pick = (uniforms[..., j] * (last + 1)).astype(np.intp)
        taken = (chosen[..., :j] == pick[..., None]).any(axis=-1)
        chosen[..., j] = np.where(taken, last, pick)
    chosen.sort(axis=-1)
    return chosen
