"""Every random draw is a pure function of (seed, purpose, run, client, round).

The counter-based generator Philox 4x64-10 makes that literal: seed and purpose are its key; run,
client and round are three words of its counter; the fourth word counts the numbers of one draw.
So no draw depends on another, none has to be stored, and a device draws its own without the rest.
Compiled code draws them, if it is there; NumPy, as written here, draws the same numbers, slower.

What a run draws once (client laws, features, masks, test set) comes from `seeds.world`; what it
draws on the way (samples, cohorts) from `seeds`. Runs that share a world differ in the latter only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psofed.core import native

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10


@dataclass(frozen=True)
class Seeds:
    """The source of all randomness of one Monte-Carlo run, or of several.

    With several runs their numbers are an axis [run, 1], which clients and rounds broadcast with.
    Clients may be named by their places: place i of run r is client ids[r, i], so that those who
    never take part need no place.

    >>> Seeds(seed=1, run=0).uniforms("mask", client=[0, 1], count=3).shape
    (2, 3)
    >>> Seeds(seed=1, run=(0, 1, 2, 3)).uniforms("mask", client=[0, 1], count=3).shape
    (4, 2, 3)
    """

    seed: int
    run: int | tuple[int, ...] = 0
    shared_world: int | None = None  # the run whose world all runs share, if they share one
    ids: Any = field(default=None, compare=False)  # [place] or [run, place]; None: by their numbers

    @property
    def world(self) -> Seeds:
        """The source of what is drawn once: of this run, or of the world that all runs share."""
        shared = self.shared_world
        if shared is None:
            return self
        run = shared if isinstance(self.run, int) else (shared,) * len(self.run)
        return Seeds(self.seed, run, ids=self.ids)

    def uniforms(
        self, purpose: str, *, client: ArrayLike | None = None, round: ArrayLike = 0, count: int
    ) -> NDArray[np.float64]:
        """`count` numbers in [0, 1) for each (client, round); the two broadcast.

        What all clients have in common is drawn without a client.
        """
        places = self._places(client, round)
        if native.available():
            return _compiled("uniforms", _key(self.seed, purpose), places, count)
        # NumPy's Philox raises its counter before it draws: the first block is number 1.
        block = np.arange(1, -(-count // 4) + 1, dtype=np.uint64)
        words = np.broadcast_arrays(block, *places[::-1, ..., None])
        raw = np.moveaxis(philox(words, _key(self.seed, purpose)), 0, -1)
        raw = raw.reshape(*places.shape[1:], 4 * len(block))[..., :count]
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def normals(
        self, purpose: str, client: ArrayLike, count: int, round: ArrayLike = 0
    ) -> NDArray[np.float64]:
        """`count` standard normals for each (client, round), each from its own stream."""
        places = self._places(client, round)
        if native.available():
            return _compiled("normals", _key(self.seed, purpose), places, count)
        out = np.empty((*places.shape[1:], count))
        for i in np.ndindex(places.shape[1:]):
            run, k, n = places[:, *i].tolist()
            one = Seeds(self.seed, run).generator(purpose, client=k, round=n)
            one.standard_normal(out=out[i])
        return out

    def clients(self, k: Any) -> Any:
        """The numbers of clients that are named by their places, if they are."""
        if self.ids is None:
            return k
        # Tables are made for more places than there are.
        known = np.minimum(k, self.ids.shape[-1] - 1)
        runs = () if self.ids.ndim == 1 else (np.arange(len(self.ids))[:, None],)
        return self.ids[(*runs, known)]

    def matrix(self, purpose: str, *shape: int) -> NDArray[np.float64]:
        """Standard normals of this shape, from the first number of `purpose` on; of each run."""
        if isinstance(self.run, int):
            return self.generator(purpose).standard_normal(shape)
        return np.stack([Seeds(self.seed, run).matrix(purpose, *shape) for run in self.run])

    def _places(self, client: ArrayLike | None, round: ArrayLike) -> NDArray[np.uint64]:
        """Run, client and round of each draw: [3, ...]."""
        run: Any = self.run if isinstance(self.run, int) else np.array(self.run)[:, None]
        # Nobody learns before round 0, but windows of such rounds are asked for: modulo 2^64.
        when: Any = round
        when = when % 2**64 if isinstance(when, int) else when
        words: Any = run, 0 if client is None else self.clients(client), when
        places = np.empty((3, *np.broadcast(*words).shape), np.uint64)
        places[0], places[1], places[2] = words
        return places

    def generator(self, purpose: str, *, client: int = 0, round: int = 0) -> np.random.Generator:
        """NumPy's generator at the first number of (purpose, client, round)."""
        # As arrays, because NumPy reads lists of large numbers as floating point.
        key = np.array(_key(self.seed, purpose), np.uint64)
        counter = np.array([0, round, client, self.run], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))

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


def _compiled(
    name: str, key: tuple[int, int], places: NDArray[np.uint64], count: int
) -> NDArray[np.float64]:
    out = np.empty((*places.shape[1:], count))
    native.function(name)(*key, places, places[0].size, count, out)
    return out


@lru_cache(maxsize=256)
def _key(seed: int, purpose: str) -> tuple[int, int]:
    digest = hashlib.blake2b(f"psofed:{purpose}:{seed}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


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
    if native.available():
        out, bits = np.empty(uniforms.shape, np.int64), np.zeros(population // 64 + 1, np.uint64)
        rows = uniforms.size // max(size, 1)
        native.function("subsets")(
            np.ascontiguousarray(uniforms), rows, size, population, bits, out
        )
        return out.astype(np.intp, copy=False)
    chosen = np.empty(uniforms.shape, np.intp)
    for j in range(size):
        last = population - size + j
        pick = (uniforms[..., j] * (last + 1)).astype(np.intp)
        taken = (chosen[..., :j] == pick[..., None]).any(axis=-1)
        chosen[..., j] = np.where(taken, last, pick)
    chosen.sort(axis=-1)
    return chosen
