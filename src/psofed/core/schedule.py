"""Who takes part in round n, and which entries travel: both ends compute it, nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psofed.core.seeds import Seeds, subsets

Indices = NDArray[np.intp]
Who = int | Indices  # one client, or several at once


class Schedule(Protocol):
    """`entries(k, n)`: the positions of the ones of S_{k,n}, one row for each client of `k`."""

    def entries(self, k: Who, n: int) -> Indices: ...


@dataclass(frozen=True, eq=False)
class Rotating:
    """S_{k,n} = (S_{k,0} + tau n) mod D: the right circular shift in closed form.

    `masks` has one row per client, or a single row that all share (coordinated).

    >>> Rotating(masks=np.array([[0, 3]]), shift=2, dim=5).entries(k=7, n=1).tolist()
    [2, 0]
    """

    masks: Indices
    shift: int
    dim: int

    def entries(self, k: Who, n: int) -> Indices:
        row = k * 0 if len(self.masks) == 1 else k
        # Reduced first, so that a late round cannot overflow.
        return (self.masks[row] + self.shift * n % self.dim) % self.dim


@dataclass(frozen=True, eq=False)
class Sequential:
    """`Rotating` whose initial masks are drawn from the seed, client by client, when needed."""

    seeds: Seeds
    dim: int
    shared: int
    shift: int
    coordinated: bool
    block: bool
    _drawn: dict[int, Indices] = field(default_factory=dict, repr=False)
    _all: Rotating | None = field(default=None, repr=False)

    def initial(self, clients: ArrayLike) -> Indices:
        """S_{k,0} for each of `clients`, or the one row that all share."""
        ids = np.zeros(1, np.intp) if self.coordinated else np.atleast_1d(clients)
        if not self.block:
            # The count of uniforms is part of the draw: masks of different M are unrelated.
            purpose = f"mask{'' if self.coordinated else 's'}:{self.shared}"
            u = self.seeds.world.uniforms(purpose, client=ids, count=self.shared)
            return subsets(u, self.dim)
        offset = self.seeds.world.uniforms("offset", client=ids, count=1) * (not self.coordinated)
        return ((offset * self.dim).astype(np.intp) + np.arange(self.shared)) % self.dim

    def entries(self, k: Who, n: int) -> Indices:
        if not isinstance(k, int):
            return _of_several(self, tuple(k.tolist()), n)
        return Rotating(self._mask(k), self.shift, self.dim).entries(0, n)

    def draw(self, k: Indices, n: int) -> Indices:
        """The windows of clients `k`, whose masks are drawn with those of all clients before."""
        rows = 1 if self.coordinated else int(k.max(initial=0)) + 1
        if self._all is None or len(self._all.masks) < rows:
            masks = self.initial(np.arange(2 * rows))
            object.__setattr__(self, "_all", Rotating(masks, self.shift, self.dim))
        assert self._all is not None
        return self._all.entries(k, n)

    def _mask(self, k: int) -> Indices:
        """S_{k,0}, as one row."""
        row = 0 if self.coordinated else k
        if row not in self._drawn:
            self._drawn[row] = self.initial(row)
        return self._drawn[row]


@dataclass(frozen=True)
class Stochastic:
    """S_{k,n} is a fresh uniform M-subset for every round: of each client, or common to all."""

    seeds: Seeds
    dim: int
    shared: int
    coordinated: bool

    def draw(self, k: ArrayLike, n: ArrayLike) -> Indices:
        """The windows of clients `k` at rounds `n`; the two broadcast."""
        ids = np.zeros_like(k) if self.coordinated else k
        purpose = f"fresh mask{'' if self.coordinated else 's'}:{self.shared}"
        uniforms = self.seeds.world.uniforms(purpose, client=ids, round=n, count=self.shared)
        return subsets(uniforms, self.dim)

    def entries(self, k: Who, n: int) -> Indices:
        return self.draw(k, n) if isinstance(k, int) else _of_several(self, tuple(k.tolist()), n)


@lru_cache(maxsize=64)
def _of_several(schedule: Sequential | Stochastic, clients: tuple[int, ...], n: int) -> Indices:
    """Remembered for a while: client and server both ask for the windows of a cohort."""
    windows = schedule.draw(np.array(clients, np.intp), n)
    windows.flags.writeable = False
    return windows


@dataclass(frozen=True)
class UniformCohorts:
    """S_n: `size` of `clients`, uniform without replacement, sorted; a function of (seed, run, n).

    >>> UniformCohorts(Seeds(0), clients=3, size=3).cohort(5).tolist()
    [0, 1, 2]
    """

    seeds: Seeds
    clients: int
    size: int

    def cohort(self, n: ArrayLike) -> Indices:
        return _one_cohort(self, n) if isinstance(n, int) else self.draw(n)

    def draw(self, n: ArrayLike) -> Indices:
        """The cohorts of one round or of many."""
        return subsets(self.seeds.uniforms("cohort", round=n, count=self.size), self.clients)


@lru_cache(maxsize=64)
def _one_cohort(cohorts: UniformCohorts, n: int) -> Indices:
    """Remembered for a while: all methods that run in lockstep ask for the same one."""
    members = cohorts.draw(n)
    members.flags.writeable = False
    return members


@dataclass(frozen=True, eq=False)
class GivenCohorts:
    """S_n from a list."""

    members: tuple[Any, ...]

    def cohort(self, n: Any) -> Indices:
        return np.asarray(self.members[n], np.intp)


def exchanges(mask: Indices, shift: int, dim: int) -> NDArray[np.intp]:
    """How often each entry travels over D rounds: g |{s in S_0 : s = i mod g}|, g = gcd(tau, D).

    >>> exchanges(np.array([0]), shift=2, dim=4).tolist()
    [2, 0, 2, 0]
    """
    g = gcd(shift, dim)
    return g * np.bincount(mask % g, minlength=g)[np.arange(dim) % g]


def is_even(dim: int, shared: int, shift: int, block: bool) -> bool:
    """Whether every entry is sure to be exchanged M times in D rounds, before masks are drawn.

    A block has M/g entries in each residue class mod g = gcd(tau, D) iff g divides M; a random
    subset has them for sure only if g = 1 or the whole model is shared.
    """
    g = gcd(shift, dim)
    return shared == dim or g == 1 or (block and shared % g == 0)
