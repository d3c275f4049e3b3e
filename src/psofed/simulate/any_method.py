"""The executor in NumPy: any method of the contract, round by round, its clients as a stack.

Methods whose handlers take several runs at once compute them so: arrays are [run, client, ...], not
[client, ...]. Each run has the numbers that it has alone, whatever stands next to it: nothing is
summed over runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from psofed.core import native
from psofed.core.features import OwnMap, SeveralMaps
from psofed.core.schedule import Indices, UniformCohorts
from psofed.federation import round as rounds
from psofed.federation.clients import Clients, EachRound, Members, RoundSamples, SampleFeed, stacked
from psofed.federation.contract import Array, Method, State, Task
from psofed.federation.membership import Change, FleetCohorts, FleetHistory, cleared, row_axes
from psofed.federation.round import Sizes
from psofed.simulate import kernel
from psofed.simulate.draws import CHUNK_SAMPLES, Chunk, Draws
from psofed.stages.checks import contract as check
from psofed.stages.defences.contract import OWN
from psofed.streams.contract import BLOCK as DRAWN

BLOCK = 8  # rounds of several runs whose features are computed at once; of one run, more


class Moment(NamedTuple):
    """The state before a round, and the bytes of the round before it: up, down, multicast down."""

    server: State
    clients: State
    traffic: tuple[Any, Any, Any]
    runs: int = 0  # that it is of, if of several


@dataclass(frozen=True, eq=False)
class PlacedCohorts(UniformCohorts):
    """Cohorts that were drawn before: [round, place], or [round, run, place]."""

    drawn: Any = None
    all_places: Any = None  # [place], or [run, place]

    def present(self) -> Indices:
        found: Indices = self.all_places
        return found

    def cohort(self, n: Any) -> Indices:
        found: Indices = self.drawn[n]
        return found

    def onward(self, n: int) -> Indices:
        found: Indices = self.drawn[n:]
        return found


def placed(task: Task, draws: Draws) -> Task:
    """The task of one run, its clients named by their places."""
    cohorts: Any = task.cohorts
    seeds = replace(task.seeds, ids=draws.ids)
    drawn, room = draws.members.reshape(-1, cohorts.size), len(draws.ids)
    known = PlacedCohorts(seeds, task.clients, cohorts.size, cohorts.absent, room, drawn=drawn)
    return replace(task, seeds=seeds, cohorts=known)


def joined(tasks: list[Task], draws: list[Draws]) -> Task:
    """The tasks of several runs as one, their clients named by their places."""
    first: Any = tasks[0]
    cohorts: Any = [task.cohorts for task in tasks]
    room = max(len(each.ids) for each in draws)
    everybody = all(np.array_equal(each.ids, np.arange(first.clients)) for each in draws)
    # Filled with clients that nobody asks for.
    filled = [np.pad(each.ids, (0, room - len(each.ids))) for each in draws]
    ids = None if everybody else np.stack(filled)
    runs: Any = tuple(task.seeds.run for task in tasks)
    seeds = replace(first.seeds, run=runs, ids=ids)
    size = first.cohorts.size
    members = np.stack([each.members.reshape(-1, size) for each in draws], axis=1)
    known = PlacedCohorts(
        seeds, first.clients, size, first.cohorts.absent, room, drawn=members,
        all_places=np.stack([each.present() for each in cohorts]) if everybody else None,
    )  # fmt: skip
    return replace(first, seeds=seeds, cohorts=known, features=JointFeatures(tasks))


class JointFeatures(SeveralMaps):
    """All runs in one call, compiled where the maps are."""

    def __init__(self, tasks: list[Task]) -> None:
        self.maps = [task.features for task in tasks]
        self.dim, self.dtype = tasks[0].features.dim, np.dtype(tasks[0].dtype)
        known = all(kernel.supports(each) and not isinstance(each, OwnMap) for each in self.maps)
        self.tables: list[Any] = []
        if known and native.available():
            self.tables = [kernel.feature_map(each, self.dtype) for each in self.maps]
            self.structs = [native.struct(each) for each in self.tables]
        self.own = [kernel.outside(each) for each in self.maps]

    def __call__(self, x: Array) -> Array:
        return self.blocks(x[None])[0]

    def blocks(self, x: Array) -> Array:
        """The same with an axis before that of the runs."""
        if not self.tables:
            return _applied(self.maps, x)
        if self.own[0] is not None:
            x = _applied(self.own, x)
        flat = x.reshape(*x.shape[:2], -1, x.shape[-1])
        z = np.empty((*x.shape[:-1], self.dim), self.dtype)
        kernel.fill_features_of_runs(np.ascontiguousarray(flat, self.dtype), self.structs, z)
        return z


def _applied(features: Sequence[Any], x: Array) -> Array:
    """The map of each run for its part of x [round, run, ...]."""
    some = [np.stack([each(row) for row in x[:, r]]) for r, each in enumerate(features)]
    return np.stack(some, axis=1)


class RunSamples:
    """x, z and y of a run, round by round, shared by the methods that run in lockstep.

    With `task`, that of several runs at once, there are as many `draws`. `everybody`: somebody asks
    for the features of all clients; else they are computed for those who are asked for.
    """

    def __init__(self, *draws: Draws, task: Task | None = None, everybody: bool = True) -> None:
        self.draws, self.gaps, self.everybody = draws, draws[0].gaps, everybody
        self.runs = len(draws) if task is not None else 0
        self.room = max(len(each.ids) for each in draws)
        length = max(CHUNK_SAMPLES // max(self.room * len(draws), 1) // DRAWN, 1) * DRAWN
        self.chunks = [each.chunks(length) for each in draws]
        self.parts = self.before = [next(each) for each in self.chunks]
        self.dtype: Any = self.parts[0].x.dtype if task is None else task.dtype
        self.features: Any = None if task is None else task.features
        if task is None:
            self.features = kernel.compiled(draws[0].features, self.dtype)
        self.rows = np.arange(len(draws))[:, None]
        self.block = BLOCK if self.runs else 4 * BLOCK  # divides the rounds of a chunk
        self.begin = -self.block
        self.x = self.z = self.y = np.empty(0)
        self.some: dict[Any, tuple[Array, Array, Array]] = {}

    @property
    def first(self) -> int:
        """The first round of the chunk that is loaded."""
        return self.parts[0].first

    def move_to(self, n: int) -> None:
        """Load the samples of round n; rounds are asked for in order."""
        if n - self.first >= self.parts[0].y.shape[1]:
            self.before, self.parts = self.parts, [next(each) for each in self.chunks]

    def known(self, n: int) -> Indices | None:
        """Those who have a sample."""
        return np.flatnonzero(~np.isnan(self.of(n, None)[2])) if self.gaps else None

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]:
        """x_{k,n}, z_{k,n} and y_{k,n} of a round that was moved to.

        For some clients they are remembered: other methods ask for the same ones.
        """
        if not self.begin <= n < self.begin + self.block:
            self._fill(n)
        i = n - self.begin
        if clients is None:
            return self.x[i], self.z[i], self.y[i]
        key = n, clients.tobytes()
        if key not in self.some:
            here: Any = (self.rows, clients) if self.runs else clients
            x, y = self.x[i][here], self.y[i][here]
            self.some[key] = x, self.z[i][here] if self.everybody else self.features(x), y
        return self.some[key]

    def _fill(self, n: int) -> None:
        i = (n - self.first) // self.block * self.block
        self.begin, here = self.first + i, slice(i, i + self.block)
        self.some.clear()
        # Round by round in memory, as methods read them.
        self.x = self._by_round([part.x[:, here] for part in self.parts])
        self.y = self._by_round([part.y[:, here] for part in self.parts])
        if self.everybody:
            features = self.features.blocks if self.runs else self.features
            self.z = features(self.x)

    def _by_round(self, parts: list[Array]) -> Array:
        """Arrays [client, round, ...] of each run as one, [round, client, ...] if it is one."""
        if not self.runs:
            return np.ascontiguousarray(parts[0].swapaxes(0, 1))
        rounds, rest = parts[0].shape[1], parts[0].shape[2:]
        found = np.zeros((rounds, self.runs, self.room, *rest), self.dtype)
        for r, part in enumerate(parts):
            found[:, r, : len(part)] = part.swapaxes(0, 1)
        return found

    def past(self, k: int, start: int, stop: int) -> tuple[Array, Array, Array]:
        """x, z and y of one client in rounds start..stop-1 of this chunk or the one before."""
        chunk: Chunk = self.parts[0] if start >= self.first else self.before[0]
        here = slice(start - chunk.first, stop - chunk.first)
        x, y = chunk.x[k, here], chunk.y[k, here]
        if self.gaps:
            x, y = x[~np.isnan(y)], y[~np.isnan(y)]
        return x, self.features(x), y


class WhenAsked:
    """The feed of lazy clients: they catch up when they are selected, all samples at once."""

    def __init__(self, clients: Clients, samples: RunSamples, begun: Array | None = None) -> None:
        self.clients, self.samples = clients, samples
        self.position = [0] * clients.count
        self.begun = np.ones(clients.count, bool) if begun is None else begun

    def known(self, n: int) -> Indices | None:
        return self.samples.known(n)

    def before(self, n: int, k: Indices, new: Collection[int]) -> None:
        """Before the samples of an old chunk are discarded, all clients learn from them."""
        for one in new:
            self.position[one] = n
        if n and n == self.samples.first:
            for one in np.flatnonzero(self.begun).tolist():
                self._catch_up(self.clients.states, one, one, n)

    def now(self, n: int, members: Members) -> None:
        """The newest sample, and those before it if they were not learned from yet."""
        for row, one in enumerate(members.k.tolist()):
            self._catch_up(members.stack, row, one, n + 1)

    def _catch_up(self, states: State, row: int, k: int, stop: int) -> None:
        if self.position[k] < stop:
            past = self.samples.past(k, self.position[k], stop)
            alone = {name: array[row : row + 1] for name, array in states.items()}
            self.clients.method.learn(alone, *(each[None] for each in past))
            self.position[k] = stop


def play(method: Method, samples: RunSamples, sizes: Sizes | None = None) -> Iterator[Moment]:
    """The moments before rounds 0, 1, ..., N. State is live: the next step changes it."""
    runs, count = samples.runs, samples.draws[0].rounds
    server = stacked(method.server(), runs) if runs else method.server()
    clients, cohorts = Clients(method, samples.room, runs), method.task.cohorts
    fleet = None
    if isinstance(cohorts, FleetCohorts):
        fleet = Membership(method, cohorts.history, server)
    feed, sizes = _feed(clients, samples, fleet), sizes or Sizes(method)
    sent: Any = (0, 0, 0)
    for n in range(count):
        yield Moment(server, clients.states, sent, runs)
        samples.move_to(n)
        if fleet is None:
            sent = rounds.play(n, server, clients, feed, sizes)
        elif fleet.turn(n):
            sent = rounds.play(n, server, clients, feed, sizes, fleet.begin)
        else:
            rounds.skip(n, clients, feed)
            sent = 0, 0, 0
    if fleet is not None and not samples.gaps:
        fleet.conserve(clients.states, count)
    yield Moment(server, clients.states, sent, runs)


def _feed(clients: Clients, samples: RunSamples, fleet: Membership | None) -> SampleFeed:
    method = clients.method
    if method.idle and method.lazy:
        return WhenAsked(clients, samples, None if fleet is None else fleet.begun)
    if fleet is not None:
        return OfMembers(clients, samples, fleet.begun)
    return EachRound(clients, samples)


def conserve(draws: Draws, methods: list[Method], counts: Array) -> None:
    """Samples seen = learned + clipped + refused, where everybody learns in every round."""
    for method, each in zip(methods, counts, strict=True):
        fixed = not draws.gaps and not method.task.cohorts.changes
        if method.idle and fixed and check.counts(method.client()) is not None:
            assert each.sum() == len(draws.ids) * draws.rounds


class Membership:
    """The history of a fleet, applied to the server's state and to who is a member."""

    def __init__(self, method: Method, history: FleetHistory, server: State) -> None:
        self.method, self.history, self.server = method, history, server
        self.fresh = method.server()
        # What a defence knows stays known, whoever starts over and whatever is put back.
        axes = row_axes(method).items()
        self.axes = {name: axis for name, axis in axes if not name.startswith(OWN)}
        self.waiting: set[int] = set()  # those who start over at their next contact
        self.since = np.zeros(history.everybody, np.intp)  # the first round that each learns from
        self.begun = np.arange(history.everybody) < history.clients  # those who have a model
        self.kept: dict[int, State] = {}  # of rounds whose state is put back later
        self.restores = {c.round: c for c in history.changes if c.restore is not None}
        self.needed = {change.restore for change in self.restores.values()}
        self.terms: dict[int, list[int]] = {}  # by round, those who start over from it on
        for k in range(history.everybody):
            for n in history.begins(k):
                self.terms.setdefault(n, []).append(k)

    def turn(self, n: int) -> bool:
        """What changes before round n; whether it takes place, and is not void."""
        if n in self.needed:  # as it is before the changes of this round
            own = (name for name in self.server if not name.startswith(OWN))
            whole = (name for name in own if name not in self.axes)
            self.kept[n] = {name: self.server[name].copy() for name in whole}
        if n in self.restores:
            self._put_back(self.restores[n])
        new = self.terms.get(n, [])
        self.waiting.update(new)
        cleared(self.server, self.fresh, self.axes, new)
        return n not in self.history.void

    def _put_back(self, change: Change) -> None:
        """The server's state becomes an older one, but for what it knows of each client."""
        assert change.restore is not None
        for name, array in self.kept[change.restore].items():
            self.server[name][...] = array
        if not change.keep:
            for name in self.axes:
                self.server[name][...] = self.fresh[name]

    def begin(self, n: int, members: Indices) -> Collection[int]:
        """Those of the members of round n who start over; the round is their first."""
        new = self.waiting.intersection(members.tolist()) if self.waiting else set()
        self.waiting -= new
        for k in new:
            self.since[k], self.begun[k] = n, True
        return new

    def conserve(self, clients: State, stop: int) -> None:
        """Samples seen = learned + clipped + refused, by client, where all learn in every round."""
        counts = check.counts(clients)
        if self.method.idle and counts is not None:
            seen = np.where(self.begun, stop - self.since, 0)
            assert (counts.sum(axis=-1) == seen).all()


class OfMembers(EachRound):
    """One sample a round for those who have begun; a client with one may be asked before."""

    def __init__(self, clients: Clients, samples: RoundSamples, begun: Array) -> None:
        super().__init__(clients, SinceBegun(samples, begun))
        self.all = samples

    def known(self, n: int) -> Indices | None:
        return self.all.known(n)


class SinceBegun:
    """The samples of those with a model: newcomers learn from their first contact on."""

    def __init__(self, samples: RoundSamples, begun: Array) -> None:
        self.samples, self.begun = samples, begun

    def known(self, n: int) -> Indices | None:
        known = self.samples.known(n)
        if self.begun.all():
            return known
        return np.flatnonzero(self.begun) if known is None else known[self.begun[known]]

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]:
        return self.samples.of(n, clients)
