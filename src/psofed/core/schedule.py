"""Who takes part in round n, and which entries travel: both ends compute it; it is not sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import gcd
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psofed.core.seeds import Seeds, subsets

Indices = NDArray[np.intp]
MOST = 2**16  # clients whose masks are kept as a table
AHEAD, NUMBERS = 32, 2**18  # rounds that are drawn at once, and numbers
PART = 1024  # members of cohorts that are drawn at once
KEPT = 8  # such parts that are remembered


class Schedule(Protocol):
    """`entries(k, n)`: the positions of the ones of S_{k,n}.

    `k` are clients [..., s], `n` a round, or rounds that broadcast: a row of positions for each.
    """

    def entries(self, k: Indices, n: Any) -> Indices: ...


@dataclass(frozen=True, eq=False)
class Rotating:
    """S_{k,n} = (S_{k,0} + tau n) mod D: the right circular shift in closed form.

    `masks` has one row per client, or a single row that all share (coordinated).

    >>> Rotating(masks=np.array([[0, 3]]), shift=2, dim=5).entries(k=np.array([7]), n=1).tolist()
    [[2, 0]]
    """

    masks: Indices
    shift: int
    dim: int

    def entries(self, k: Indices, n: Any) -> Indices:
        return rotated(self.masks[k * 0 if len(self.masks) == 1 else k], self.shift, n, self.dim)


def rotated(mask: Indices, shift: int, n: Any, dim: int) -> Indices:
    """(S + tau n) mod D; `n` has one axis less than `mask`, or none."""
    if not shift % dim and np.shape(n) == mask.shape[:-1]:
        return mask  # nothing moves
    # Reduced first, so that a late round cannot overflow.
    moved = shift % dim * (n % dim)
    return (mask + (moved if isinstance(n, int) else moved[..., None])) % dim


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
    _table: list[Indices] = field(default_factory=list, repr=False)  # one array, once it is drawn

    def initial(self, clients: ArrayLike) -> Indices:
        """S_{k,0} for each of `clients`, or the one row that all share."""
        ids = None if self.coordinated else np.atleast_1d(clients)
        if not self.block:
            # The count of uniforms is part of the draw: masks of different M are unrelated.
            purpose = f"mask{'' if self.coordinated else 's'}:{self.shared}"
            u = self.seeds.world.uniforms(purpose, client=ids, count=self.shared)
            return subsets(np.atleast_2d(u), self.dim)
        offset = self.seeds.world.uniforms("offset", client=ids, count=1) * (not self.coordinated)
        offset = np.atleast_2d(offset)
        return ((offset * self.dim).astype(np.intp) + np.arange(self.shared)) % self.dim

    def entries(self, k: Indices, n: Any) -> Indices:
        return rotated(self._masks(k), self.shift, n, self.dim)

    def _masks(self, k: Indices) -> Indices:
        """S_{k,0} for each of several clients, from a table of all clients up to the last."""
        if self.coordinated:
            k = k * 0
        rows = int(k.max(initial=0)) + 1
        if rows > MOST and isinstance(self.seeds.run, int):
            for one in k.ravel().tolist():
                if one not in self._drawn:
                    self._drawn[one] = self.initial(one)[0]
            masks = np.array([self._drawn[one] for one in k.ravel().tolist()])
            return masks.reshape(*k.shape, self.shared)
        if not self._table or self._table[0].shape[-2] < rows:
            self._table[:] = [self.initial(np.arange(2 * rows))]
        table = self._table[0]
        return table[k] if table.ndim == 2 else table[np.arange(len(table))[:, None], k]


@dataclass(frozen=True)
class Stochastic:
    """S_{k,n} is a fresh uniform M-subset for every round: of each client, or common to all."""

    seeds: Seeds
    dim: int
    shared: int
    coordinated: bool

    def draw(self, k: ArrayLike, n: ArrayLike) -> Indices:
        """The windows of clients `k` at rounds `n`; the two broadcast."""
        ids = None if self.coordinated else k
        purpose = f"fresh mask{'' if self.coordinated else 's'}:{self.shared}"
        drawn = subsets(
            self.seeds.world.uniforms(purpose, client=ids, round=n, count=self.shared), self.dim
        )
        shape = np.broadcast_shapes(drawn.shape[:-1], np.shape(k))
        if drawn.shape[:-1] == shape:
            return drawn
        return np.ascontiguousarray(np.broadcast_to(drawn, (*shape, self.shared)))

    def entries(self, k: Indices, n: Any) -> Indices:
        return self.draw(k, n)


@dataclass(frozen=True, eq=False)
class Groups:
    """S_{k,n} is one of ceil(D/M) fixed groups of M neighbouring entries; `turns` says which one.

    If M does not divide D, the last group is filled up with the first entries: all have M.

    >>> in_turn = Rotating(np.array([[0]]), shift=1, dim=3)
    >>> Groups(in_turn, dim=5, shared=2).entries(np.array([0]), 2).tolist()
    [[4, 0]]
    """

    turns: Schedule  # of one group of ceil(D/M)
    dim: int
    shared: int

    def entries(self, k: Indices, n: Any) -> Indices:
        first: Indices = self.shared * self.turns.entries(k, n)  # [..., 1]
        return (first + np.arange(self.shared)) % self.dim


@dataclass(frozen=True)
class UniformCohorts:
    """S_n: `size` of `clients`, uniform without replacement, sorted: of (seed, run, n)."""

    seeds: Seeds
    clients: int
    size: int
    absent: int = 0  # clients that never take part
    room: int = 0  # rows of arrays over clients, if not all have one
    changes: ClassVar[bool] = False  # whether clients join and leave
    begin: ClassVar[int] = 0  # the first round in which anybody may be there
    _parts: dict[int, Indices] = field(default_factory=dict, repr=False, compare=False)

    @property
    def places(self) -> int:
        """Rows of arrays over clients."""
        return self.room or self.clients

    def present(self) -> Indices:
        """The clients that may take part, in order; the absent ones are drawn once."""
        if not self.absent:
            return np.arange(self.clients)
        gone = subsets(self.seeds.world.uniforms("absent", count=self.absent), self.clients)
        return np.setdiff1d(np.arange(self.clients), gone)

    def there(self, n: int) -> Indices:
        """Those of them who are there in round n."""
        return self.present()

    def cohort(self, n: ArrayLike | int) -> Indices:
        return self.onward(n)[0] if isinstance(n, int) else self.draw(n)

    def onward(self, n: int) -> Indices:
        """The cohorts of round n and of some rounds after it, as rows. Do not change them."""
        # Remembered for a while: all methods that run in lockstep ask for the same ones.
        rounds = max(PART // max(self.size, 1), 1)
        part, i = divmod(n, rounds)
        members = self._parts.get(part)
        if members is None:
            if len(self._parts) >= KEPT:
                self._parts.clear()
            members = self.draw(np.arange(part * rounds, (part + 1) * rounds))
            members.flags.writeable = False
            self._parts[part] = members
        return members[i:]

    def draw(self, n: ArrayLike) -> Indices:
        """The cohorts of one round or of many."""
        u = self.seeds.uniforms("cohort", round=n, count=self.size)
        if not self.absent:
            return subsets(u, self.clients)
        return _present(self)[subsets(u, self.clients - self.absent)]

    def is_silent(self, n: int) -> bool:
        """Whether no client takes part in round n, with any method."""
        return False

    def many(self, n: Indices) -> tuple[Indices, Indices]:
        """The members of many rounds, one cohort after another, and how many each has."""
        drawn = self.draw(n)
        return drawn.ravel(), np.full(len(n), self.size)


@dataclass(frozen=True, eq=False)
class PresentCohorts(UniformCohorts):
    """A uniform cohort without clients that have not begun or have stopped: first_k <= n < stop_k.

    Rounds that are not busy are silent: no client is asked.
    """

    first: Any = None  # by client, as the next
    stop: Any = None
    busy: Any = None  # by round; None: all are

    @property
    def begin(self) -> int:  # type: ignore[override]
        """The first round in which anybody may be there."""
        return int(np.min(self.first))

    def is_silent(self, n: int) -> bool:
        return self.busy is not None and not self.busy[n]

    def there(self, n: int) -> Indices:
        k = self.present()
        return k[(self.first[k] <= n) & (n < self.stop[k])]

    def cohort(self, n: ArrayLike) -> Indices:
        drawn = super().cohort(n)
        if isinstance(n, int) and self._full[0] <= n < self._full[1]:
            return drawn
        return drawn[(self.first[drawn] <= n) & (n < self.stop[drawn])]

    @cached_property
    def _full(self) -> tuple[int, int]:
        """The rounds in which everybody is there: first and stop."""
        return int(np.max(self.first)), int(np.min(self.stop))

    def many(self, n: Indices) -> tuple[Indices, Indices]:
        drawn, when = self.draw(n), n[:, None]
        here = (self.first[drawn] <= when) & (when < self.stop[drawn])
        here &= True if self.busy is None else self.busy[when]
        return drawn[here], here.sum(axis=1)


@lru_cache(maxsize=4)
def _present(cohorts: UniformCohorts) -> Indices:
    return cohorts.present()


@dataclass(frozen=True, eq=False)
class GivenCohorts:
    """S_n from a list."""

    changes: ClassVar[bool] = False
    begin: ClassVar[int] = 0
    members: tuple[Any, ...]
    clients: int = 0
    size: int = 1

    @property
    def places(self) -> int:
        """Rows of arrays over clients."""
        return self.clients

    def there(self, n: int) -> Indices:
        return np.arange(self.clients)

    def is_silent(self, n: int) -> bool:
        return False

    def cohort(self, n: Any) -> Indices:
        return np.asarray(self.members[n], np.intp)


class Ahead:
    """`draw(k, n)`, a pure function of clients and rounds that broadcasts; `count` numbers of each.

    Drawing for many cohorts costs little more than for one. For clients that are not in the cohort
    of round n, `draw` is called directly.

    >>> tens = Ahead(lambda k, n: 10 * k + n, GivenCohorts(()), count=1)
    >>> tens(np.array([3, 4]), 7).tolist()
    [37, 47]
    """

    def __init__(
        self,
        draw: Callable[[Any, Any], NDArray[Any]],
        cohorts: UniformCohorts | GivenCohorts,
        count: int,
    ) -> None:
        self.draw, self.cohorts, self.rounds = draw, cohorts, 0
        if isinstance(cohorts, UniformCohorts):
            self.rounds = min(max(NUMBERS // max(cohorts.size * count, 1), 1), AHEAD)
        self.first, self.members, self.drawn = 0, np.empty((0, 0), np.intp), np.empty(0)

    def __call__(self, k: Indices, n: int) -> NDArray[Any]:
        """The draws of clients, as rows. Do not change them."""
        if not self.rounds:
            return self.draw(k, n)
        if not self.first <= n < self.first + len(self.members):
            self._fill(n)
        members, drawn = self.members[n - self.first], self.drawn[n - self.first]
        if k.shape == members.shape and (k == members).all():
            return drawn
        if k.ndim > 1:
            return self.draw(k, n)
        rows = members.searchsorted(k)
        if len(members) and (members.take(rows, mode="clip") == k).all():
            found: NDArray[Any] = drawn[rows]
            return found
        self.rounds = 0  # the members are not the task's cohorts: do not draw ahead
        return self.draw(k, n)

    def _fill(self, n: int) -> None:
        """Draw for the cohorts of round n and those after it."""
        assert isinstance(self.cohorts, UniformCohorts)
        self.first, self.members = n, self.cohorts.onward(n)[: self.rounds]
        rounds = n + np.arange(len(self.members))
        drawn = self.draw(self.members, rounds.reshape(-1, *[1] * (self.members.ndim - 1)))
        # What is common to all members was drawn once.
        shape = self.members.shape + drawn.shape[self.members.ndim :]
        self.drawn = np.broadcast_to(drawn, shape)


def is_even(dim: int, shared: int, shift: int, block: bool) -> bool:
    """Whether every entry is sure to be exchanged M times in D rounds, before masks are drawn.

    A block has M/g entries in each residue class mod g = gcd(tau, D) iff g divides M; a random
    subset has them for sure only if g = 1 or the whole model is shared.
    """
    g = gcd(shift, dim)
    return shared == dim or g == 1 or (block and shared % g == 0)
