"""The attack of `adversary.py`: whatever malicious clients could do, as a few numbers.

Ours. It is the family in which an optimiser looks for what harms most:

    v_k = w + own (w_k - w) + a u        where it acts, and else  v_k = w + before (w_k - w)

u is a direction of root mean square 1 and a its length: `size` times the usual change of honest
members in this round, or the model, or what the defence would fold in whole, now and at its next
review. A sleeper waits `sleep` rounds, in which it is honest (before = 1), whispers (1e-6) or
shouts (3). From then on it acts in a part `duty` of each `period`; with `turns` groups only one of
them does, in turn. From the round `stop` on it is honest for good. Attackers push the same way, or
each its own (`apart`), or each on its own part of the entries (`split`), and another way after
each `wander` rounds; `noise` hides what they repeat.

Ways to push: "model" against the model, "sign" the same with all entries alike, "change" against
what honest members have learned, "random" a sign for each entry, "band" along eigenvectors `rank`
to rank + width - 1 of the features' correlation, in which mistakes live longer, the higher it is.

    psofed study attack FILE --attack ./benchmarks/adversary_attack.py:push=band,rank=25
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import guess
from psofed.federation import schema
from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import of_honest

HALVINGS = 8  # of the interval in which the largest push that passes is looked for, in powers
WIDEST = 1e2  # times the usual change: the largest push that is tried
Array = NDArray[Any]


@dataclass(frozen=True)
class Options(contract.Options):
    """What it sends, which way, and when."""

    name: ClassVar[str] = "adversary"
    omniscient: ClassVar[bool] = True
    adapts: ClassVar[bool] = True
    push: Literal["model", "sign", "change", "random", "band"] = "band"  # the direction u
    rank: int = 10  # of the band's first eigenvector
    width: int = 1  # of the band: how many eigenvectors
    unit: Literal["usual", "model", "passing"] = "usual"  # in what `size` is given
    size: float = 1.0  # how far it pushes
    own: float = 1.0  # how much of its honest change it sends, too
    apart: bool = False  # whether each attacker has a direction of its own
    noise: float = 0.0  # how much of u is redrawn in each round, against 1 that is not
    wander: int = 0  # rounds after which the signs are redrawn; 0: never
    split: int = 1  # parts of the entries; each attacker pushes on one of them
    sleep: int = 0  # rounds before it begins
    before: float = 1.0  # how much of its honest change it sends in these
    period: int = 100  # rounds of a burst and the pause after it
    duty: float = 1.0  # the part of a period that is burst
    turns: int = 1  # groups that act one after another, a period each
    stop: int = 0  # the round from which on it is honest for good; 0: never

    @property
    def linear(self) -> bool:
        """Features have a correlation, parameters of other models have none."""
        return self.push == "band"

    def describe(self) -> str:
        return f"adversary, {self.push}, {self.size:.3g} of {self.unit}"

    def check(self, clients: int, cohort: int) -> None:
        """Numbers of which there can be as many."""
        for key in ("width", "split", "period", "turns"):
            schema.require(self, key, getattr(self, key) >= 1, "use 1 or more")
        for key in ("rank", "sleep", "stop", "wander"):
            schema.require(self, key, getattr(self, key) >= 0, "use 0 or more")


class Attack(contract.Attack):
    """v_k = w + own (w_k - w) + a u."""

    options: Options

    def mix(self) -> None:
        return None

    def models(
        self, n: int, k: Any, w_k: Array, bad: Array, w: Array | None,
        passes: Callable[[Array], Array] | None = None,
    ) -> Array:  # fmt: skip
        """What all would send; `passes` says what the defence would let pass."""
        assert w is not None
        options, base = self.options, w[..., None, :].astype(np.float64)
        learned = w_k - base
        if options.stop and n >= options.stop:
            return w_k
        if n < options.sleep:
            return (base + options.before * learned).astype(w_k.dtype)
        place = self._place(k)
        u = self._direction(n, k, w_k, base, bad)
        if options.split > 1:
            parts = np.arange(u.shape[-1]) * options.split // u.shape[-1]
            u = np.where(parts == (place % options.split)[..., None], u, 0.0)
        kept = base + options.own * learned
        a = self._length(learned, base, bad)
        if options.unit == "passing" and passes is not None:
            a = options.size * _largest(kept, u, a, passes, w_k.dtype)
        now = n - options.sleep
        acts = (now % options.period) < options.duty * options.period
        acts &= place % options.turns == (now // options.period) % options.turns
        sent = np.where(acts[..., None], kept + a * u, w_k)
        return sent.astype(w_k.dtype)

    def _place(self, k: Any) -> Array:
        """Which of the attackers each member is, by its number."""
        who, ids = np.asarray(self.attackers.seeds.clients(np.asarray(k))), self.attackers.ids
        counted: Array = (ids < who[..., None]).sum(axis=-1)
        return counted

    def _length(self, learned: Array, base: Array, bad: Array) -> Array:
        """a [..., s or 1, 1]: `size` in its unit."""
        if self.options.unit == "model":
            return self.options.size * _rms(base)
        counted = (~bad | bad.all(axis=-1, keepdims=True))[..., None]
        square = np.where(counted, learned**2, 0.0).mean(axis=-1, keepdims=True)
        usual = np.sqrt(square.sum(axis=-2, keepdims=True) / counted.sum(axis=-2, keepdims=True))
        return usual if self.options.unit == "passing" else self.options.size * usual

    def _direction(self, n: int, k: Any, w_k: Array, base: Array, bad: Array) -> Array:
        """u [..., s, D]."""
        push = self.options.push
        if push == "model":
            u = -base
        elif push == "sign":
            u = -np.sign(base)
        elif push == "change":
            u = base - of_honest(w_k, bad)[0]
        else:
            count = self.options.width if push == "band" else base.shape[-1]
            seeds, epoch = self.attackers.seeds, n // (self.options.wander or n + 1)
            who = np.asarray(k) if self.options.apart else np.zeros_like(k)
            u = np.where(seeds.normals("adversary", who, count, round=epoch) < 0, -1.0, 1.0)
            u = u @ self._band if push == "band" else u
        u = u / np.maximum(_rms(u), 1e-300)
        if self.options.noise:
            u = u + self.options.noise * self._noise(n, k, base)
            u /= np.maximum(_rms(u), 1e-300)
        return np.broadcast_to(u, w_k.shape)

    def _noise(self, n: int, k: Any, base: Array) -> Array:
        """Something of root mean square 1, in the same band if there is one."""
        banded = self.options.push == "band"
        count = self.options.width if banded else base.shape[-1]
        g = self.attackers.seeds.normals("adversary noise", k, count, round=n)
        g = g @ self._band if banded else g
        return g / np.maximum(_rms(g), 1e-300)

    @cached_property
    def _band(self) -> Array:
        """The eigenvectors [width, D], or [run, width, D]."""
        taps, found = self.attackers.taps, []
        for features in self.attackers.maps:
            R = features.correlation(np.zeros(taps), guess(taps, 1.0, 0.5))
            vectors = np.linalg.eigh(R)[1][:, ::-1].T
            first = min(self.options.rank, len(R) - self.options.width)
            found.append(vectors[first : first + self.options.width])
        several = not isinstance(self.attackers.seeds.run, int)
        return np.array(found) if several else found[0]


def _largest(
    kept: Array, u: Array, usual: Array, passes: Callable[[Array], Array], dtype: Any
) -> Array:
    """The largest a [..., s, 1] of which kept + a u passes, or 0."""
    shape = (*u.shape[:-1], 1)
    low, high = np.zeros(shape), np.broadcast_to(WIDEST * usual, shape)
    for _ in range(HALVINGS):
        tried = np.where(low > 0, np.sqrt(low * high), high / 8)
        fine = passes((kept + tried * u).astype(dtype))[..., None]
        low, high = np.where(fine, tried, low), np.where(fine, high, tried)
    return low


def _rms(a: Array) -> Array:
    found: Array = np.sqrt(np.mean(np.square(a, dtype=np.float64), axis=-1, keepdims=True))
    return found
