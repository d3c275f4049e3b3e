"""Several Monte-Carlo runs in one computation: methods whose handlers take them all at once.

Each run has the numbers that it has alone, whatever stands beside it: nothing is summed over runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import native, plugins
from psofed.core.features import OwnMap
from psofed.core.fleet import FleetCohorts
from psofed.core.schedule import Indices, PresentCohorts, UniformCohorts
from psofed.core.several import PlacedCohorts, PlacedSeeds, SeveralMaps
from psofed.experiment import Experiment
from psofed.methods import contract
from psofed.methods import round as rounds
from psofed.methods.contract import Method, Options, Task
from psofed.methods.defending import defended
from psofed.methods.members import Clients
from psofed.methods.poisoning import poisoned
from psofed.methods.round import Sizes
from psofed.simulate import kernel, maps
from psofed.simulate.any_method import Moment
from psofed.simulate.draws import CHUNK_SAMPLES, Draws
from psofed.streams.contract import BLOCK as DRAWN
from psofed.streams.contract import about

Array = NDArray[Any]
BLOCK = 8  # rounds whose features are computed at once; divides the rounds of a chunk
NUMBERS = 2**26  # of all models that are in memory at once
MOST = 16  # runs that are computed at once; more gain little, and are lost if it is interrupted


def takes(experiment: Experiment, options: Options, method: Method) -> bool:
    """Whether several runs of the method can be computed at once."""
    task = method.task
    ours = plugins.is_ours(type(options)) and method.stacked and method.several
    plain = method.policy is None and not isinstance(task.cohorts, PresentCohorts | FleetCohorts)
    learner = task.learner.linear and plugins.is_ours(type(task.learner))
    judged = task.defence is None or method.entrywise  # else each upload is folded by itself
    return ours and plain and learner and judged and not about(experiment.stream).gaps


@dataclass(frozen=True, eq=False)
class JointRuns:
    """Some runs: what each of them has drawn, and the task of all of them."""

    draws: list[Draws]
    task: Task

    def start(self, options: Options) -> Method:
        """A method for all the runs."""
        return contract.start(options, self.task)


def batch(experiment: Experiment, tasks: list[Task], draws: list[Draws]) -> JointRuns:
    """The runs of these tasks as one."""
    first: Any = tasks[0]
    runs: Any = tuple(task.seeds.run for task in tasks)
    room = max(len(each.ids) for each in draws)
    everybody = all(np.array_equal(each.ids, np.arange(first.clients)) for each in draws)
    ids = None if everybody else np.stack([_filled(each.ids, room) for each in draws])
    seeds = PlacedSeeds(experiment.seed, runs, first.seeds.shared_world, ids)
    cohort = first.cohorts.size
    members = [each.members.reshape(-1, cohort) for each in draws]
    present = np.stack([_present(task) for task in tasks]) if everybody else None
    cohorts = PlacedCohorts(
        seeds, first.clients, cohort, first.cohorts.absent,
        drawn=np.ascontiguousarray(np.stack(members, axis=1)), all_places=present,
    )  # fmt: skip
    several = SeveralMaps(tuple(task.features for task in tasks), JointFeatures(tasks))
    task = replace(first, seeds=seeds, cohorts=cohorts, features=several, room=room)
    task = experiment.beset(task)
    return JointRuns(draws, task)


def placed(experiment: Experiment, task: Task, draws: Draws) -> Task:
    """The task of one run, its clients named by their places."""
    cohorts: Any = task.cohorts
    seeds = PlacedSeeds(task.seeds.seed, task.seeds.run, task.seeds.shared_world, draws.ids)
    size, members = cohorts.size, draws.members
    drawn = members.reshape(-1, size)
    known = PlacedCohorts(seeds, task.clients, size, cohorts.absent, drawn=drawn)
    return experiment.beset(replace(task, seeds=seeds, cohorts=known, room=len(draws.ids)))


def _present(task: Task) -> Indices:
    assert isinstance(task.cohorts, UniformCohorts)
    return task.cohorts.present()


def _filled(ids: Array, room: int) -> Array:
    """With clients that nobody asks for."""
    return np.concatenate([ids, np.zeros(room - len(ids), ids.dtype)])


class JointFeatures:
    """z of several runs: x [run, ..., L] to z [run, ..., D]."""

    def __init__(self, tasks: list[Task]) -> None:
        self.maps = [task.features for task in tasks]
        self.dim, self.dtype = tasks[0].features.dim, np.dtype(tasks[0].dtype)
        known = all(maps.knows(each) and not isinstance(each, OwnMap) for each in self.maps)
        self.tables: list[Any] = []
        if known and native.available():
            self.tables = [maps.feature_map(each, self.dtype) for each in self.maps]
            self.structs = [native.struct(each) for each in self.tables]
        self.own = [maps.outside(each) for each in self.maps]

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


class JointSamples:
    """x, z and y of several runs, round by round, shared by the methods that run in lockstep."""

    def __init__(self, some: JointRuns, everybody: bool) -> None:
        self.draws, self.dtype, self.room = some.draws, some.task.dtype, some.task.places
        self.features: Any = some.task.features
        runs = len(some.draws)
        length = max(CHUNK_SAMPLES // max(self.room * runs, 1) // DRAWN, 1) * DRAWN
        self.chunks = [each.chunks(length) for each in some.draws]
        self.everybody = everybody  # whether somebody asks for the features of all clients
        self.rows = np.arange(runs)[:, None]
        self.first = self.stop = self.begin = 0
        self.x = self.y = self.z = np.empty(0)
        self.ready = range(0)
        self.some: dict[Any, tuple[Array, Array, Array]] = {}

    def move_to(self, n: int) -> None:
        """Load the samples of round n; rounds are asked for in order."""
        if n >= self.stop:
            self._load()
        if n not in self.ready:
            self._fill(n)

    def _load(self) -> None:
        parts = [next(each) for each in self.chunks]
        self.first, length = parts[0].first, parts[0].y.shape[1]
        self.stop = self.first + length
        taps = parts[0].x.shape[-1]
        # Round by round in memory, as methods read them.
        self.all_x = np.zeros((length, len(parts), self.room, taps), self.dtype)
        self.all_y = np.zeros((length, len(parts), self.room), self.dtype)
        for r, part in enumerate(parts):
            rows = len(part.y)
            self.all_x[:, r, :rows] = part.x.swapaxes(0, 1)
            self.all_y[:, r, :rows] = part.y.T

    def _fill(self, n: int) -> None:
        i = (n - self.first) // BLOCK * BLOCK
        self.begin, here = self.first + i, slice(i, i + BLOCK)
        self.x, self.y = self.all_x[here], self.all_y[here]
        self.ready = range(self.begin, self.begin + len(self.y))
        self.some.clear()
        if self.everybody:
            self.z = self.features.all_at_once.blocks(self.x)

    def known(self, n: int) -> Indices | None:
        """All have a sample."""
        return None

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]:
        """x, z and y of a round that was moved to, [run, client, ...]; those of some are kept."""
        i = n - self.begin
        if clients is None:
            return self.x[i], self.z[i], self.y[i]
        key = n, clients.tobytes()
        if key not in self.some:
            x, y = self.x[i][self.rows, clients], self.y[i][self.rows, clients]
            z = self.z[i][self.rows, clients] if self.everybody else self.features(x)
            self.some[key] = x, z, y
        return self.some[key]


def play(method: Method, samples: JointSamples, count: int) -> Iterator[Moment]:
    """The moments before rounds 0, 1, ..., N. State is live: the next step changes it."""
    runs, sizes = len(samples.rows), Sizes(method)
    server = {name: np.stack([array] * runs) for name, array in method.server().items()}
    clients = Clients(method, range(method.task.places), together=True, runs=runs)
    lessons, who = rounds.EachRound(clients, samples), rounds.Uniform(method)
    guard = defended(method, runs)
    both = poisoned(method, server, guard), guard
    sent: Any = (0, 0, 0)
    for n in range(count):
        yield Moment(server, clients.states, sent, runs)
        samples.move_to(n)
        sent = rounds.play(n, server, clients, who, lessons, sizes, *both)
    yield Moment(server, clients.states, sent, runs)
