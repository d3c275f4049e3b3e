"""Any method of the contract, round by round, clients stacked along the first axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed import native
from psofed.core import equations
from psofed.core.fleet import FleetCohorts
from psofed.core.schedule import Indices
from psofed.learners import lms, nlms
from psofed.methods import checked
from psofed.methods import round as rounds
from psofed.methods.contract import Method, State, Task
from psofed.methods.defending import defended
from psofed.methods.members import Clients, Members
from psofed.methods.poisoning import poisoned
from psofed.methods.round import Sizes
from psofed.methods.selection import ByPolicy
from psofed.simulate import kernel, maps
from psofed.simulate.draws import Draws
from psofed.simulate.terms import Membership, SinceBegun

Array = NDArray[Any]
BLOCK = 32  # rounds whose features are computed at once; divides the rounds of a chunk


class Fast(lms.Options):
    """LMS, compiled for a stack of clients."""

    lms = descends = True

    def learn(self, w: Array, z: Array, y: Any, step: Any) -> Any:
        """`equations.lms`."""
        if not _rows(w, z, y):
            return equations.lms(w, z, y, step)
        return kernel.learn_rows(w, z, y, step)


class FastNormalised(nlms.Options):
    """Normalised LMS, compiled for a stack of clients."""

    normalised = descends = True

    def learn(self, w: Array, z: Array, y: Any, step: float) -> Any:
        """That of `nlms`."""
        if not _rows(w, z, y):
            return super().learn(w, z, y, step)
        return kernel.learn_rows(w, z, y, step, self.epsilon)


def _rows(w: Array, z: Array, y: Any) -> bool:
    """Whether these are arrays as the compiled code needs them."""
    if w.ndim < 2 or w.size != z.size or not w.dtype == z.dtype == y.dtype:
        return False
    return bool(w.flags.c_contiguous and z.flags.c_contiguous and y.flags.c_contiguous)


def faster(task: Task) -> Task:
    """The same task, with a compiled learner if there is one."""
    learner = task.learner
    if not (learner.in_engine and native.available()):
        return task
    fast = FastNormalised(learner.epsilon) if isinstance(learner, nlms.Options) else Fast()
    return replace(task, learner=fast)


class Moment(NamedTuple):
    """The state before a round, and the bytes of the round before it: up, down, multicast down."""

    server: State
    clients: State
    traffic: tuple[Any, Any, Any]
    runs: int = 0  # that it is of, if of several


class RunSamples:
    """x, z and y of all clients, round by round, shared by the methods that run in lockstep."""

    def __init__(self, draws: Draws) -> None:
        self.chunks, self.gaps = draws.chunks(), draws.gaps
        self.chunk = self.before = next(self.chunks)
        self.features = maps.compiled(draws.features, self.chunk.x.dtype)
        self.begin = -BLOCK
        self.x = self.z = self.y = np.empty(0)
        self.some: dict[Any, tuple[Array, Array, Array]] = {}

    def move_to(self, n: int) -> None:
        """Load the samples of round n; rounds are asked for in order."""
        if n - self.chunk.first >= self.chunk.y.shape[1]:
            self.before, self.chunk = self.chunk, next(self.chunks)

    def known(self, n: int) -> Indices | None:
        """Those who have a sample."""
        return np.flatnonzero(~np.isnan(self.of(n, None)[2])) if self.gaps else None

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]:
        """x_{k,n}, z_{k,n} and y_{k,n} of a round that was moved to.

        For some clients they are remembered: other methods ask for the same ones.
        """
        if not self.begin <= n < self.begin + BLOCK:
            self._fill(n)
        i = n - self.begin
        if clients is None:
            return self.x[i], self.z[i], self.y[i]
        key = n, clients.tobytes()
        if key not in self.some:
            self.some[key] = self.x[i][clients], self.z[i][clients], self.y[i][clients]
        return self.some[key]

    def _fill(self, n: int) -> None:
        i = (n - self.chunk.first) // BLOCK * BLOCK
        self.begin = self.chunk.first + i
        self.some.clear()
        # Round by round in memory, as methods read them.
        self.x = np.ascontiguousarray(self.chunk.x[:, i : i + BLOCK].swapaxes(0, 1))
        self.y = np.ascontiguousarray(self.chunk.y[:, i : i + BLOCK].T)
        self.z = self.features(self.x)

    def past(self, k: int, start: int, stop: int) -> tuple[Array, Array, Array]:
        """x, z and y of one client in rounds start..stop-1 of this chunk or the one before."""
        chunk = self.chunk if start >= self.chunk.first else self.before
        here = slice(start - chunk.first, stop - chunk.first)
        x, y = chunk.x[k, here], chunk.y[k, here]
        if self.gaps:
            x, y = x[~np.isnan(y)], y[~np.isnan(y)]
        return x, self.features(x), y


class WhenAsked:
    """Lessons of lazy clients: they catch up when they are selected, all samples at once."""

    def __init__(self, clients: Clients, samples: RunSamples, begun: Array | None = None) -> None:
        self.clients, self.samples = clients, samples
        self.position = [0] * len(next(iter(clients.states.values())))
        self.begun = np.ones(len(self.position), bool) if begun is None else begun

    def before(self, n: int, members: Members) -> None:
        """Before the samples of an old chunk are discarded, all clients learn from them."""
        for k in members.new:
            self.position[k] = n
        if n and n == self.samples.chunk.first:
            for k in np.flatnonzero(self.begun).tolist():
                self._catch_up(k, n)

    def now(self, n: int, members: Members) -> None:
        """The newest sample, and those before it if they were not learned from yet."""
        for k in members.ids:
            self._catch_up(k, n + 1)

    def _catch_up(self, k: int, stop: int) -> None:
        if self.position[k] < stop:
            past = self.samples.past(k, self.position[k], stop)
            self.clients.method.absorb(self.clients.state(k), *past)
            self.position[k] = stop


class ForeseenWhenAsked(WhenAsked):
    """Lessons of lazy clients whose gains do not depend on the download: all are computed before.

    What is learned does, so the newest sample is learned from after it.
    """

    def before(self, n: int, members: Members) -> None:
        super().before(n, members)
        self.newest = [self._foreseen(k, n + 1, self._count(k, n)) for k in members.ids]

    def now(self, n: int, members: Members) -> None:
        for k, newest in zip(members.ids, self.newest, strict=True):
            self.clients.method.correct(self.clients.state(k), *newest)

    def _count(self, k: int, n: int) -> int:
        """The samples that client k has in round n."""
        return len(self.samples.past(k, n, n + 1)[2]) if self.samples.gaps else 1

    def _catch_up(self, k: int, stop: int) -> None:
        if self.position[k] < stop:
            self._foreseen(k, stop, 0)

    def _foreseen(self, k: int, stop: int, newest: int) -> tuple[Array, Array, Array]:
        """Learn from all samples but the newest; these, with their gains."""
        client, method = self.clients.state(k), self.clients.method
        _, z, y = self.samples.past(k, self.position[k], stop)
        self.position[k] = stop
        gains, older = method.foresee(client, z), len(y) - newest
        method.correct(client, gains[:older], z[:older], y[:older])
        return gains[older:], z[older:], y[older:]


class Foreseen:
    """Lessons in which one client after another computes the gains of a block of rounds ahead."""

    def __init__(self, clients: Clients, samples: RunSamples) -> None:
        self.clients, self.samples = clients, samples
        self.begin = -BLOCK
        self.gains: Array = np.empty(0)

    def before(self, n: int, members: Members) -> None:
        """Everything older has been learned."""

    def now(self, n: int, members: Members) -> None:
        """Everybody learns, with the gains of this round."""
        _, z, y = self.samples.of(n, None)
        method = self.clients.method
        if self.begin != self.samples.begin:
            self.begin = self.samples.begin
            block: Array = self.samples.z.swapaxes(0, 1)
            if self.gains.shape != block.shape:
                self.gains = np.empty(block.shape)
            for k, inputs in enumerate(block):
                self.gains[k] = method.foresee(self.clients.state(k), inputs)
        members.put_back()
        gains = self.gains[:, n - self.begin]
        method.correct(self.clients.states, gains[None], z[None], y[None])
        members.fetch()


def play(
    draws: Draws, method: Method, samples: RunSamples, sizes: Sizes | None = None
) -> Iterator[Moment]:
    """The moments before rounds 0, 1, ..., N. State is live: the next step changes it."""
    server, sizes = method.server(), sizes or Sizes(method)
    together = method.stacked and method.policy is None
    clients = Clients(method, range(len(draws.ids)), together=together)
    cohorts = method.task.cohorts
    terms = (
        Membership(method, cohorts.roster, server) if isinstance(cohorts, FleetCohorts) else None
    )
    lessons = _lessons(clients, samples, terms)
    who: rounds.Selection = rounds.Uniform(method, samples)
    if method.policy is not None:
        who = ByPolicy(method, method.policy, sizes)
    guard = defended(method)
    both = poisoned(method, server, guard), guard
    sent = 0, 0, 0
    for n in range(draws.rounds):
        yield Moment(server, clients.states, sent)
        samples.move_to(n)
        if terms is None or terms.turn(n):
            sent = rounds.play(n, server, clients, who, lessons, sizes, *both, terms)
        else:
            rounds.skip(n, clients, lessons)
            sent = 0, 0, 0
    if terms is not None and not draws.gaps:
        terms.conserve(clients.states, draws.rounds)
    yield Moment(server, clients.states, sent)


def conserve(draws: Draws, methods: list[Method], counts: Array) -> None:
    """Samples seen = learned + clipped + refused, where everybody learns in every round."""
    for method, each in zip(methods, counts, strict=True):
        fixed = not draws.gaps and not method.task.cohorts.changes
        if method.idle and fixed and checked.acts(method):
            assert each.sum() == len(draws.ids) * draws.rounds


def _lessons(clients: Clients, samples: RunSamples, terms: Membership | None) -> rounds.Lessons:
    method = clients.method
    if method.idle and method.lazy:
        kind = ForeseenWhenAsked if method.foresees else WhenAsked
        return kind(clients, samples, None if terms is None else terms.begun)
    if terms is not None:
        return rounds.EachRound(clients, SinceBegun(samples, terms.begun))
    if method.idle and method.foresees and not samples.gaps:
        return Foreseen(clients, samples)
    return rounds.EachRound(clients, samples)
