"""Clip and review: changes are clipped to a robust scale, and whoever pushes one way loses weight.

Ours. The server sees only uploads, so it judges a client by their sizes and, because an attacker
that stays small must push the same way again and again, by the memory of its changes.

Scale. r_k is the root mean square of U_k. A client has one vote, v_k = max(r_k^2, (1 - SLOW) v_k):
it rises at once with what the client sends and falls slowly, so that a quiet hour is no news. A
client that sends back what it received has no vote. s^2 is the upper median of the votes of
those who sent the last 64 changes: what most do is usual, whatever it was before. First cohorts may
be mostly malicious: 16 changes, and more until `FEW` clients have a vote, are only looked at.
Clip. U_k is shortened to a root mean square of `clip` s.
Size. q_k, a running mean of r_k^2; whoever is far above s^2 loses weight.
Memory. m_k, a running mean of U_k / s on its entries. Once in K uploads, or in a hundred, all are
reviewed: along the few directions in which memories differ most, and in what these leave, nobody
may stand far outside the others. Honest changes average out; a push does not. No review lowers the
weight of more than a third: where more stand outside, the measure is wrong, and is stretched.

A weight is 1 for nearly everybody, and falls with the square of the excess. From an excess of 10 on
it is 0: the client is in quarantine, but still watched, so it comes back when it behaves. Where
nothing is clipped and all weights are 1, the fold is Algorithm 1 to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation import schema
from psofed.stages.defences import contract
from psofed.stages.defences.contract import Array, Opinion, Setting, State

RECENT, FIRST = 64, 16  # changes whose clients have a vote; the first are only looked at
FEW = 3  # clients needed before the usual size is known
FAST, SLOW = 0.2, 0.02  # what a new upload counts in q_k, and takes from a vote
CHANGES = 0.03  # what it counts in m_k
LARGEST, HUGE = 50.0, 1e100  # of r_k / s, and of r_k, in what is remembered
BIG, ASIDE, APART = 2.5, 3.0, 2.5  # limits: of size, along directions, of the rest
NARROW = 0.35  # the least width of a direction, in what is usual of the rest, of many clients
DIRECTIONS = 6  # at most, and no more than a fifth of the clients: each is one of its own
LEAST = 100  # uploads from one review to the next
OUT = 10.0  # an excess from which on nothing is left


@dataclass(frozen=True)
class Clip(contract.Options):
    """How large a change may be."""

    name: ClassVar[str] = "clip"
    clip: float = 4.0  # the most that an upload may change, in usual changes

    def describe(self) -> str:
        return "clip" if self.clip == Options.clip else f"clip {self.clip:g}"

    def check(self, clients: int, cohort: int) -> None:
        """Usual changes pass."""
        schema.positive(self, "clip")


Options = Clip


class Defence(contract.Defence):
    """U_k <- a_k min(1, clip s / r_k) U_k, a_k the weight of client k."""

    several = False

    def __init__(self, options: Options, setting: Setting) -> None:
        self.options, self.setting = options, setting
        self.directions = max(min(DIRECTIONS, setting.clients // 5, setting.dim // 2), 1)
        self.often = max(setting.clients, LEAST)  # uploads from one review to the next
        self.narrow = NARROW * (1 + 10 / setting.clients)

    def start(self) -> State:
        """Everybody is trusted, and nothing is known."""
        K, D, R = self.setting.places, self.setting.dim, self.directions
        angles = np.pi * np.outer(np.arange(1, R + 1), np.arange(D) + 0.5) / D
        return {
            "recent": np.full(RECENT, -1, np.int64), "count": np.zeros((), np.int64),
            "scale": np.zeros(()), "size": np.zeros(K), "vote": np.zeros(K),
            "memory": np.zeros((K, D)), "waiting": np.zeros((), np.int64), "weight": np.ones(K),
            "clipped": np.zeros(K),
            "directions": np.sqrt(2 / D) * np.cos(angles), "centre": np.zeros(R),
            "width": np.full(R, np.inf), "rest": np.full((), np.inf), "stretch": np.ones(()),
        }  # fmt: skip

    def defended(self, state: State, n: int, k: Indices, changes: Array, entries: Indices) -> Array:
        r, left = sizes(changes), np.zeros_like(changes)
        moved = r > 0
        if moved.any() and (s := self._scaled(state, k[moved], r[moved])) > 0:
            those = (array[moved] for array in (k, changes, entries, r))
            left[moved] = self._left(state, s, *those)
        return left

    def _left(
        self, state: State, s: float, k: Indices, changes: Array, entries: Indices, r: Array
    ) -> Array:
        """What is left of changes of sizes r where s is usual."""
        part = np.minimum(1.0, self.options.clip * s / r)
        U = np.where(np.isfinite(changes), changes, 0.0).astype(np.float64) * part[:, None]
        weight = state["weight"][k] * fallen(np.sqrt(state["size"][k]) / (BIG * s))
        memory = state["memory"]
        memory[k[:, None], entries] += CHANGES * (U / s - memory[k[:, None], entries])
        state["clipped"][k] += FAST * ((part < 1) - state["clipped"][k])
        state["waiting"] += len(k)
        if state["waiting"] >= self.often:
            state["waiting"][...] = 0
            self._review(state)
        same = (part == 1) & (weight == 1)
        return np.where(same[:, None], changes, (weight[:, None] * U).astype(changes.dtype))

    def _scaled(self, state: State, k: Indices, r: Array) -> float:
        """s, after the sizes r of a round; 0: nobody knows yet."""
        before, after = int(state["count"]), int(state["count"]) + len(k)
        state["recent"][np.arange(before, after) % RECENT] = k
        state["count"][...] = after
        state["size"][k] = self._sized(state, k, r)
        faded = (1 - SLOW) * np.minimum(state["vote"][k], _most(state))
        state["vote"][k] = np.maximum(np.minimum(r, HUGE) ** 2, faded)
        voters = np.unique(state["recent"][:after])
        if after >= FIRST and len(voters) >= min(FEW, self.setting.clients):
            state["scale"][...] = np.sqrt(upper(state["vote"][voters]))
        return float(state["scale"])

    def _sized(self, state: State, k: Indices, r: Array) -> Array:
        """q_k after a change of size r; what was out of all measure is forgotten."""
        old, new = np.minimum(state["size"][k], _most(state)), np.minimum(r, HUGE) ** 2
        return np.where(state["vote"][k] > 0, old + FAST * (new - old), new)

    def _review(self, state: State) -> None:
        """Weigh clients by how far they stand outside, along the directions or in the rest."""
        known = state["vote"] > 0
        m, V = state["memory"][known], state["directions"]
        G = V @ m.T @ m  # one step of the power iteration; and the mean is always looked at
        G[:1] = m.sum(axis=0)
        V[:] = orthonormal(G, V)
        along = m @ V.T
        state["centre"][:] = centre = np.array([middle(a) for a in along.T])
        state["width"][:] = [1.4826 * middle(a) for a in np.abs(along - centre).T]
        state["rest"][...] = middle(np.sqrt(rest(m, along)))
        state["stretch"][...] = 1.0
        far = np.sort(self.excess(state, m))
        state["stretch"][...] = max(1.0, far[len(far) - 1 - (len(far) - 1) // 3])
        state["weight"][known] = fallen(self.excess(state, m))

    def passes(self, state: State, k: Indices, changes: Array, entries: Indices) -> Array:
        """Whether such changes would be folded in whole, now and at the next review: [s]."""
        if not (s := float(state["scale"])) > 0:
            return np.zeros(len(k), bool)  # nothing is folded in yet
        r, m = sizes(changes), state["memory"][k]
        rows = np.arange(len(k))[:, None]
        m[rows, entries] += CHANGES * (changes / s - m[rows, entries])
        usual = np.sqrt(self._sized(state, k, r)) <= BIG * s
        return (r <= self.options.clip * s) & usual & (self.excess(state, m) <= 1)

    def excess(self, state: State, m: Array) -> Array:
        """How far memories m [k, D] are outside: 1 is as far as nobody honest should be."""
        return np.maximum(*self._outside(state, m))

    def _outside(self, state: State, m: Array) -> tuple[Array, Array]:
        """The same along the directions, and in what these leave."""
        along, usual, tiny = m @ state["directions"].T, float(state["rest"]), np.finfo(float).tiny
        width = ASIDE * np.maximum(state["width"], self.narrow * usual)
        aside = np.abs(along - state["centre"]) / np.maximum(width, tiny)
        apart = np.sqrt(rest(m, along)) / max(APART * usual, tiny)
        return aside.max(axis=1, initial=0.0) / state["stretch"], apart / state["stretch"]

    def opinion(self, state: State) -> Opinion:
        """The score of each client, what of it was clipped, and whether it is in quarantine."""
        s = float(state["scale"])
        big = np.sqrt(state["size"]) / (BIG * s) if s > 0 else np.zeros(len(state["size"]))
        aside, apart = self._outside(state, state["memory"])
        far = np.maximum(np.maximum(aside, apart), big)
        out = (state["weight"] == 0) | (big >= OUT)
        how = zip(big.tolist(), aside.tolist(), apart.tolist(), strict=True)
        words = [_in_words(*each) if gone else "" for each, gone in zip(how, out, strict=True)]
        return Opinion(far, state["clipped"].copy(), out, words)


def _most(state: State) -> float:
    """The largest q_k that is remembered."""
    return (LARGEST * float(state["scale"])) ** 2 or np.inf


def _in_words(big: float, aside: float, apart: float) -> str:
    """Why a client is too far out: what is largest.

    >>> _in_words(13.7, 0.2, 0.4), _in_words(0.5, 12, 3)
    ('its changes are 34 times the usual size', 'its changes push one way, 12 times the limit')
    """
    if big >= max(aside, apart):
        least = "at least " if BIG * big >= LARGEST else ""
        return f"its changes are {least}{min(BIG * big, LARGEST):.0f} times the usual size"
    if aside >= apart:
        return f"its changes push one way, {aside:.0f} times the limit"
    return f"its changes go where nobody else's go, {apart:.0f} times the limit"


def sizes(U: Array) -> Array:
    """Root mean squares; infinite where a number is none."""
    r = np.sqrt(np.mean(np.square(U, dtype=np.float64), axis=-1))
    return np.where(np.isnan(r), np.inf, r)


def middle(values: Array) -> float:
    """The lower median."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def upper(values: Array) -> float:
    """The upper median: no minority is above it, and at most half are."""
    return float(np.sort(values)[len(values) // 2])


def fallen(far: Array) -> Array:
    """The weight for an excess t: 1 up to 1, then t^-2, and from 10 on 0."""
    return np.where(far > 1, np.where(far < OUT, np.maximum(far, 1.0) ** -2, 0.0), 1.0)


def rest(m: Array, along: Array) -> Array:
    """|m_k|^2 without the directions, and without what only rounding leaves."""
    whole = np.vecdot(m, m)
    left = whole - np.vecdot(along, along)
    return np.where(left > 1e-9 * whole, left, 0.0)


def orthonormal(G: Array, before: Array) -> Array:
    """The rows of G, each without those before it, of length 1; as they were where none is left."""
    made: list[Any] = []
    for g, old in zip(G, before, strict=True):
        for v in made:
            g = g - (g @ v) * v
        length = float(np.linalg.norm(g))
        made.append(g / length if length > 1e-30 else old)
    return np.array(made)
