"""Clip and review: changes are clipped to a robust scale, and whoever pushes one way loses weight.

Ours. The server sees only uploads, so it judges a client by their sizes and, because an attacker
that stays small must push the same way again and again, by the memory of its changes.

Scale. r_k is the root mean square of U_k; s is the median of the last 64 of them. Cohorts at the
beginning may have a malicious majority, so the first 16 uploads are only looked at, and s is the
quartile until there are 64. Where most changes are 0, as before clients have learned, it is the
median of the last that was not of each client, and until `FEW` clients have had one nothing is
folded in. After the warm-up s is at most `CAP` times the least it has been, so that nobody can blow
it up, however patient.
Clip. U_k is shortened to a root mean square of `clip` s.
Size. q_k, a running mean of (r_k / s)^2; whoever is far above the median of all loses weight.
Memory. m_k, a running mean of U_k / s on its entries. Once in K uploads, or in a hundred, all are
reviewed: along the few directions in which memories differ most, and in what these leave, nobody
may stand far outside the others. Honest changes average out; a push does not.

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

RING, FIRST = 64, 16  # uploads whose sizes make the scale; the first are only looked at
FEW = 3  # clients without whom nobody knows what is usual
WARM, CAP = 2, 3.0  # after so many times K uploads the scale is at most so many times its least
SIZES, CHANGES = 0.1, 0.02  # what a new upload counts in q_k and m_k
LARGEST = 100.0  # of r_k / s, in q_k
USUAL = (1.0, 2.0, 4.0)  # the median of all q_k: at least, before it is known, at most
BIG, ASIDE, APART = 3.0, 3.0, 2.5  # how far out is too far: in size, along directions, in the rest
DIRECTIONS = 6  # at most, and no more than a fifth of the clients: each is one of its own
LEAST = 100  # uploads from one review to the next
OUT = 10.0  # an excess from which on nothing is left


@dataclass(frozen=True)
class Options(contract.Options):
    """How large a change may be."""

    name: ClassVar[str] = "clip"
    clip: float = 6.0  # the most that an upload may change, in usual changes

    def describe(self) -> str:
        return "clip" if self.clip == Options.clip else f"clip {self.clip:g}"

    def check(self, clients: int, cohort: int) -> None:
        """Usual changes pass."""
        schema.positive(self, "clip")


class Defence(contract.Defence):
    """U_k <- a_k min(1, clip s / r_k) U_k, a_k the weight of client k."""

    def __init__(self, options: Options, setting: Setting) -> None:
        self.options, self.setting = options, setting
        self.directions = min(DIRECTIONS, max(setting.clients // 5, 1), setting.dim)
        self.often = max(setting.clients, LEAST)  # uploads from one review to the next
        self.floor = 0.5 * (1 + 10 / setting.clients)  # of the rest: the least width of a direction

    def start(self) -> State:
        """Everybody is trusted, and nothing is known."""
        K, D, R = self.setting.places, self.setting.dim, self.directions
        angles = np.pi * np.outer(np.arange(1, R + 1), np.arange(D) + 0.5) / D
        return {
            "ring": np.zeros(RING), "latest": np.zeros(K), "count": np.zeros((), np.int64),
            "scale": np.zeros(()),
            "least": np.full((), np.inf), "waiting": np.zeros((), np.int64),
            "size": np.zeros(K), "usual": np.full((), USUAL[1]), "memory": np.zeros((K, D)),
            "contacts": np.zeros(K, np.int64), "weight": np.ones(K), "clipped": np.zeros(K),
            "directions": np.sqrt(2 / D) * np.cos(angles), "centre": np.zeros(R),
            "width": np.full(R, np.inf), "rest": np.full((), np.inf),
        }  # fmt: skip

    def defended(self, state: State, n: int, k: Indices, changes: Array, entries: Indices) -> Array:
        """What is left of the changes; several runs one after another."""
        if k.ndim == 1:
            return self._round(state, k, changes, entries)
        out = np.empty_like(changes)
        for r in range(len(k)):
            alone = {name: array[r, ...] for name, array in state.items()}
            out[r] = self._round(alone, k[r], changes[r], entries[r])
        return out

    def _round(self, state: State, k: Indices, changes: Array, entries: Indices) -> Array:
        r = sizes(changes.astype(np.float64))
        moved = r > 0  # who sends back what it got says nothing about itself
        state["latest"][k[moved]] = r[moved]
        s, left = self._scaled(state, r), np.zeros_like(changes)
        if s > 0 and moved.any():
            those = (array[moved] for array in (k, changes, entries, r))
            left[moved] = self._left(state, s, *those)
        return left

    def _left(
        self, state: State, s: float, k: Indices, changes: Array, entries: Indices, r: Array
    ) -> Array:
        """What is left of changes of sizes r where s is usual."""
        U = changes.astype(np.float64)
        part = np.minimum(1.0, self.options.clip * s / np.maximum(r, s))
        U = np.where(np.isfinite(U), U, 0.0) * part[:, None]
        weight = state["weight"][k] * self._small(state, k, r / s)
        memory = state["memory"]
        memory[k[:, None], entries] += CHANGES * (U / s - memory[k[:, None], entries])
        state["clipped"][k] += SIZES * ((part < 1) - state["clipped"][k])
        state["contacts"][k] += 1
        state["waiting"] += len(k)
        if state["waiting"] >= self.often:
            state["waiting"][...] = 0
            self._review(state)
        same = (part == 1) & (weight == 1)
        return np.where(same[:, None], changes, (weight[:, None] * U).astype(changes.dtype))

    def _scaled(self, state: State, r: Array) -> float:
        """s, after the sizes r of a round."""
        count = int(state["count"])
        state["ring"][(count + np.arange(len(r))) % RING] = r
        state["count"] += len(r)
        known = state["ring"][: count + len(r)]
        if len(known) < FIRST:
            return 0.0  # the first cohort may be malicious as a whole
        s = middle(known) if len(known) == RING else ranked(known, (len(known) - 1) // 4)
        latest = state["latest"][state["latest"] > 0]
        if not s > 0 and len(latest) >= min(FEW, self.setting.clients):
            s = middle(latest)
        if count + len(r) > WARM * self.setting.clients:
            if 0 < s < state["least"]:
                state["least"][...] = s
            s = min(s, CAP * float(state["least"]))
        state["scale"][...] = s
        return s

    def _small(self, state: State, k: Indices, ratio: Array) -> Array:
        """q_k, and the weight that is left for its excess."""
        square = np.minimum(ratio, LARGEST) ** 2
        new = np.where(state["contacts"][k] > 0, SIZES, 1.0)
        state["size"][k] += new * (square - state["size"][k])
        return fallen(np.sqrt(state["size"][k] / state["usual"]) / BIG)

    def _review(self, state: State) -> None:
        """Who stands outside the others, along the directions in which memories differ, or else."""
        known = state["contacts"] > 0
        m, V = state["memory"][known], state["directions"]
        G = V @ m.T @ m  # one step of the power iteration; and the mean is always looked at
        G[:1] = m.sum(axis=0)
        V[:] = orthonormal(G, V)
        along = m @ V.T
        state["centre"][:] = centre = np.array([middle(a) for a in along.T])
        state["width"][:] = [1.4826 * middle(a) for a in np.abs(along - centre).T]
        state["rest"][...] = middle(np.sqrt(rest(m, along)))
        state["usual"][...] = np.clip(middle(state["size"][known]), USUAL[0], USUAL[2])
        state["weight"][known] = fallen(self.excess(state, m))

    def passes(self, state: State, k: Indices, changes: Array, entries: Indices) -> Array:
        """Whether such changes would be folded in whole, now and at the next review: [s]."""
        s = float(state["scale"])
        if not s > 0:
            return np.zeros(len(k), bool)  # nothing is folded in yet
        r, m = sizes(changes) / s, state["memory"][k]
        rows = np.arange(len(k))[:, None]
        m[rows, entries] += CHANGES * (changes / s - m[rows, entries])
        new = np.where(state["contacts"][k] > 0, SIZES, 1.0)
        q = state["size"][k] + new * (np.minimum(r, LARGEST) ** 2 - state["size"][k])
        usual = np.sqrt(q / state["usual"]) <= BIG
        return (r <= self.options.clip) & usual & (self.excess(state, m) <= 1)

    def excess(self, state: State, m: Array) -> Array:
        """How far memories m [k, D] are outside: 1 is as far as nobody honest should be."""
        return np.maximum(*self._outside(state, m))

    def _outside(self, state: State, m: Array) -> tuple[Array, Array]:
        """The same along the directions, and in what these leave."""
        if not np.isfinite(state["rest"]):
            return np.zeros(len(m)), np.zeros(len(m))
        along, usual, tiny = m @ state["directions"].T, float(state["rest"]), np.finfo(float).tiny
        width = ASIDE * np.maximum(state["width"], self.floor * usual)
        aside = np.abs(along - state["centre"]) / np.maximum(width, tiny)
        apart = np.sqrt(rest(m, along)) / max(APART * usual, tiny)
        return aside.max(axis=1, initial=0.0), apart

    def opinion(self, state: State) -> Opinion:
        """How far out each client is, what of it was clipped, and whether it is in quarantine."""
        big = np.sqrt(state["size"] / state["usual"]) / BIG
        aside, apart = self._outside(state, state["memory"])
        far = np.maximum(np.maximum(aside, apart), big)
        out = (state["weight"] == 0) | (big >= OUT)
        words = [""] * len(far)
        for k in np.flatnonzero(out):
            words[k] = _in_words(float(big[k]), float(aside[k]), float(apart[k]))
        return Opinion(far, state["clipped"].copy(), out, words)


def _in_words(big: float, aside: float, apart: float) -> str:
    """Why a client is too far out: what is largest.

    >>> _in_words(13.7, 0.2, 0.4), _in_words(0.5, 12, 3)
    ('its changes are 41 times the usual size', 'its changes push one way, 12 times the limit')
    """
    if big >= max(aside, apart):
        capped = LARGEST / USUAL[2] ** 0.5  # larger ones need not be told apart
        least = "at least " if BIG * big >= capped else ""
        return f"its changes are {least}{min(BIG * big, capped):.0f} times the usual size"
    if aside >= apart:
        return f"its changes push one way, {aside:.0f} times the limit"
    return f"its changes go where nobody else's go, {apart:.0f} times the limit"


def sizes(U: Array) -> Array:
    """Root mean squares; infinite where a number is none."""
    r = np.sqrt(np.mean(np.square(U, dtype=np.float64), axis=-1))
    return np.where(np.isnan(r), np.inf, r)


def ranked(values: Array, place: int) -> float:
    """The value at this place, counted from the smallest."""
    return float(np.sort(values)[place])


def middle(values: Array) -> float:
    """The lower median."""
    return ranked(values, (len(values) - 1) // 2)


def fallen(far: Array) -> Array:
    """The weight for an excess t: 1 up to 1, then t^-2, and from 10 on 0."""
    return np.where(far > 1, np.where(far < OUT, np.maximum(far, 1.0) ** -2, 0.0), 1.0)


def rest(m: Array, along: Array) -> Array:
    """|m_k|^2 without the directions."""
    return np.maximum(np.vecdot(m, m) - np.vecdot(along, along), 0.0)


def orthonormal(G: Array, before: Array) -> Array:
    """The rows of G, each without those before it, of length 1; as they were where none is left."""
    made: list[Any] = []
    for g, old in zip(G, before, strict=True):
        for v in made:
            g = g - (g @ v) * v
        length = float(np.linalg.norm(g))
        made.append(g / length if length > 1e-30 else old)
    return np.array(made)
