"""Every random draw is a pure function of (seed, purpose, run, client, round).

The counter-based generator Philox 4x64-10 makes that literal: seed and purpose are its key; run,
client and round are three words of its counter; the fourth word counts the numbers of one draw.
So no draw depends on another, none has to be stored, and a device draws its own without the rest.
Small draws for many clients or rounds at once go through `Seeds.uniforms`, written here in NumPy;
long streams of one client go through NumPy's own Philox. Both read the same numbers.

What a run draws once (client laws, features, masks, test set) comes from `seeds.world`; what it
draws on the way (samples, cohorts) from `seeds`. Runs that share a world differ in the latter only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import local
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10
_spare: Any = local()
_FRESH = {
    "bit_generator": "Philox", "buffer": (0, 0, 0, 0), "buffer_pos": 4, "has_uint32": 0,
    "uinteger": 0,
}  # fmt: skip
_FEW = 128  # draws that are faster one by one
_ONE_BY_ONE = 64  # subsets that are


@dataclass(frozen=True)
class Seeds:
    """The source of all randomness of one Monte-Carlo run.

    >>> Seeds(seed=1, run=0).uniforms("mask", client=[0, 1], count=3).shape
    (2, 3)
    """

    seed: int
    run: int = 0
    shared_world: int | None = None  # the run whose world all runs share, if they share one

    @property
    def world(self) -> Seeds:
        """The source of what is drawn once: of this run, or of the world that all runs share."""
        return self if self.shared_world is None else Seeds(self.seed, self.shared_world)

    def uniforms(
        self, purpose: str, *, client: ArrayLike = 0, round: ArrayLike = 0, count: int
    ) -> NDArray[np.float64]:
        """`count` numbers in [0, 1) for each (client, round); the two broadcast."""
        if isinstance(round, int) and np.size(client) <= _FEW:
            ids = np.asarray(client)
            return self._one_by_one(purpose, ids, [round] * ids.size, count)
        clients, rounds = np.broadcast_arrays(
            np.asarray(client, np.uint64), np.asarray(round, np.uint64)
        )
        if rounds.size <= _FEW:
            return self._one_by_one(purpose, clients, rounds.ravel().tolist(), count)
        blocks = -(-count // 4)
        # NumPy's Philox raises its counter before it draws: the first block is number 1.
        block = np.arange(1, blocks + 1, dtype=np.uint64)
        words = np.broadcast_arrays(
            block, rounds[..., None], clients[..., None], np.uint64(self.run)
        )
        raw = np.moveaxis(philox(words, _key(self.seed, purpose)), 0, -1)
        raw = raw.reshape(*rounds.shape, 4 * blocks)[..., :count]
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _one_by_one(self, purpose: str, clients: Any, rounds: list[int], count: int) -> Any:
        """The same through NumPy's generator: faster for few draws, slower for many."""
        out = np.empty((*clients.shape, count))
        # A generator costs far more to make than to move; each thread keeps one.
        if not hasattr(_spare, "generator"):
            _spare.generator = self.generator(purpose)
        generator, key = _spare.generator, _key(self.seed, purpose)
        # Plain numbers: the generator reads them faster than arrays.
        bits, counter = generator.bit_generator, [0, 0, 0, self.run]
        state = _FRESH | {"state": {"counter": counter, "key": key}}
        rows = out.reshape(clients.size, count)
        for row, client, n in zip(rows, clients.ravel().tolist(), rounds, strict=True):
            counter[1:3] = n % 2**64, client
            bits.state = state
            generator.random(out=row)
        return out

    def matrix(self, purpose: str, *shape: int) -> NDArray[np.float64]:
        """Standard normals of this shape, from the first number of `purpose` on."""
        return self.generator(purpose).standard_normal(shape)

    def generator(self, purpose: str, *, client: int = 0, round: int = 0) -> np.random.Generator:
        """NumPy's generator at the first number of (purpose, client, round)."""
        # As arrays, because NumPy reads lists of large numbers as floating point.
        key = np.array(_key(self.seed, purpose), np.uint64)
        counter = np.array([0, round, client, self.run], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))

    def normals(
        self, purpose: str, clients: ArrayLike, count: int, round: int = 0
    ) -> NDArray[np.float64]:
        """`count` standard normals for each of `clients`, each client from its own stream."""
        ids = np.asarray(clients, np.uint64)
        out = np.empty((len(ids), count))
        moved = self.mover(purpose)
        for row, client in zip(out, ids, strict=True):
            moved(client, round).standard_normal(out=row)
        return out

    def mover(self, purpose: str) -> Callable[[Any, int], np.random.Generator]:
        """(client, round) to `generator`; all are one, moved: a tenth of the cost of making one."""
        generator = self.generator(purpose)
        bits = generator.bit_generator
        state: Any = bits.state

        def moved(client: Any, round: int) -> np.random.Generator:
            state["state"]["counter"][1:3] = round, client
            bits.state = state
            return generator

        return moved


@lru_cache(maxsize=256)
def _key(seed: int, purpose: str) -> tuple[int, int]:
    digest = hashlib.blake2b(f"psofed:{purpose}:{seed}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def uniforms_of(
    seed: int, purpose: str, run: ArrayLike, client: ArrayLike, round: ArrayLike, count: int
) -> NDArray[np.float64]:
    """`count` numbers in [0, 1) for each (run, client, round); the three broadcast."""
    words = (np.asarray(word, np.uint64) for word in (round, client, run))
    words = np.broadcast_arrays(*words)
    blocks = -(-count // 4)
    # NumPy's Philox raises its counter before it draws: the first block is number 1.
    block = np.arange(1, blocks + 1, dtype=np.uint64)
    shape = words[0].shape
    raw = philox(np.broadcast_arrays(block, *(w[..., None] for w in words)), _key(seed, purpose))
    raw = np.moveaxis(raw, 0, -1).reshape(*shape, 4 * blocks)[..., :count]
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def philox(counter: Any, key: tuple[int, int]) -> NDArray[np.uint64]:
    """Philox 4x64-10 of Salmon et al. (2011), on arrays of counters [4, ...]."""
    words = np.array(counter, np.uint64)
    shape = (2, *[1] * (words.ndim - 1))
    factors = np.array(_MULTIPLIERS, np.uint64).reshape(shape)
    for i in range(_ROUNDS):
        keys = [(k + i * weyl) % 2**64 for k, weyl in zip(key, _WEYL, strict=True)]
        high, low = _multiply(words[::2], factors)
        even = high[::-1] ^ words[1::2] ^ np.array(keys, np.uint64).reshape(shape)
        words[::2], words[1::2] = even, low[::-1]
    return words


def _multiply(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> tuple[Any, Any]:
    """High and low 64 bits of the 128-bit products, through 32-bit halves."""
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
    if 0 < uniforms.size <= _ONE_BY_ONE * size:
        lasts = np.arange(population - size, population)
        picks = (uniforms * (lasts + 1)).astype(np.intp).reshape(-1, size).tolist()
        rows = [_subset(row, lasts.tolist()) for row in picks]
        return np.array(rows, np.intp).reshape(uniforms.shape)
    for j in range(size):
        last = population - size + j
        pick = (uniforms[..., j] * (last + 1)).astype(np.intp)
        taken = (chosen[..., :j] == pick[..., None]).any(axis=-1)
        chosen[..., j] = np.where(taken, last, pick)
    chosen.sort(axis=-1)
    return chosen


def _subset(picks: list[int], lasts: list[int]) -> list[int]:
    """The same for one row: a set is faster than arrays of one."""
    chosen: set[int] = set()
    for pick, last in zip(picks, lasts, strict=True):
        chosen.add(last if pick in chosen else pick)
    return sorted(chosen)
