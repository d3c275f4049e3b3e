"""A small federation, and every way to drive its rounds on the same samples and cohorts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import UniformCohorts
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.clients import stacked
from psofed.federation.contract import Method, State, rows
from psofed.federation.options import Options
from psofed.federation.policy import Options as PolicyOptions
from psofed.federation.round import close_round, open_round, relays, take_part, waits
from psofed.fleet.protocol import in_memory
from psofed.fleet.protocol.client import MOST_WAITING
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import replay
from psofed.simulate import any_method, family
from psofed.simulate.draws import Draws, draw
from psofed.stages.checks import none
from psofed.stages.defences import none as undefended
from psofed.streams import paper
from psofed.streams.contract import Samples
from psofed.tables.plan import Span
from psofed.tables.player import Lot, Player

Array = NDArray[Any]
DIM, CLIENTS, COHORT = 10, 5, 2


def small(*methods: Options, **changes: Any) -> Experiment:
    """D = 10, K = 5, two in a cohort, 30 rounds, in double precision.

    One method has its own features and learner as those of the experiment.
    """
    features = Features(dim=DIM, width=1.5)
    settings: dict[str, Any] = {
        "clients": CLIENTS, "cohort": COHORT, "rounds": 30, "runs": 1, "dtype": "float64",
    }  # fmt: skip
    made = Experiment(**settings | {"features": features, "methods": methods} | changes)
    return made.alone(methods[0]) if len(methods) == 1 else made


def fits(options: Options, policy: PolicyOptions) -> bool:
    """Whether the method accepts the policy."""
    try:
        small(replace(options, policy=policy))
    except InputError:
        return False
    return True


def prepare(
    experiment: Experiment, run: int = 0, cohort_size: int | None = None
) -> tuple[Any, Draws]:
    """The one method of the experiment, bound to a run, and the draws of that run."""
    task = experiment.task(run, wire="float64")
    if cohort_size is not None:
        task = replace(task, cohorts=UniformCohorts(task.seeds, experiment.clients, cohort_size))
    (method,) = experiment.start(task)
    return method, draw(experiment, task, everybody=True)


def simulate(experiment: Experiment, run: int = 0) -> Array:
    """What the engine computes: the models that are judged, before each round."""
    found = compiled(experiment, run)
    return stepwise(experiment, run) if found is None else found


def largest(found: Any, expected: Any) -> float:
    """The largest difference; NaN is as far as can be."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        return float("inf")
    apart = float(np.abs(found - expected).max(initial=0.0))
    return float("inf") if np.isnan(apart) else apart


def played(method: Method, draws: Draws) -> Any:
    """The moments before each round, in lockstep."""
    return any_method.play(method, any_method.RunSamples(draws))


def stepwise(experiment: Experiment, run: int = 0) -> Array:
    """The same models, round by round in lockstep."""
    method, draws = prepare(experiment, run)
    return np.array([method.models(m.server, m.clients).copy() for m in played(method, draws)])


def samples(draws: Draws) -> tuple[Array, Array]:
    """x [K, N, L] and y [K, N]."""
    (chunk,) = draws.chunks(draws.rounds)
    return chunk.x, chunk.y


def exchange(experiment: Experiment, run: int = 0) -> in_memory.Exchange:
    """The same rounds as messages between the deployed handlers."""
    method, draws = prepare(experiment, run)
    return in_memory.run(method, *samples(draws))


ROUNDS = 64


@dataclass(frozen=True)
class Gappy(paper.Options):
    """The paper's stream with missing samples, silent rounds, a late joiner and one that stops."""

    name: ClassVar[str] = "gappy"
    gaps: ClassVar[bool] = True

    def known(self) -> Array:
        """[client, round]: whether there is a sample."""
        found: Array = np.random.default_rng(5).uniform(size=(CLIENTS, ROUNDS)) < 0.75
        found[:, 20:24] = found[:, 40] = False
        found[3, :26] = found[4, 47:] = False
        found[3, 26] = found[4, 46] = True
        return found

    def presence(self) -> tuple[Array, Array, Array]:
        """One joins in round 26, one leaves after round 46."""
        known = self.known()
        stop = np.array([ROUNDS, ROUNDS, ROUNDS, ROUNDS, 47])
        return np.array([0, 0, 0, 26, 0]), stop, np.append(known.any(axis=0), False)

    def samples(
        self,
        seeds: Seeds,
        clients: Array,
        first: int,
        stop: int,
        dtype: Any = np.float64,
        memory: Array | None = None,
    ) -> Samples:
        """Those of the paper; y is NaN where there is none."""
        made = super().samples(seeds, clients, first, stop, dtype, memory)
        end = min(stop, ROUNDS)  # whoever replays asks for whole blocks
        hidden = np.zeros(made.clean.shape, bool)
        hidden[:, : end - first] = ~self.known()[clients, first:end]
        return Samples(made.x, np.where(hidden, np.nan, made.clean), made.noise, made.memory)


STREAMS = {"steady": paper.Options(), "gaps": Gappy()}


def world(options: Options, stream: str, **changes: Any) -> Experiment:
    """An experiment of one method, long enough for blocks, delays and silences to matter."""
    return small(options, stream=STREAMS[stream], rounds=ROUNDS, **changes)


def deployment(experiment: Experiment, clock: Any) -> Deployment:
    """The experiment as it is deployed; checks and defences are as it says, on any clock."""
    if experiment.check is None:
        experiment = replace(experiment, check=none.Options())
    if experiment.defence is None:
        experiment = replace(experiment, defence=undefended.Options())
    return Deployment(experiment, Deploy(wire="float64", clock=clock))


def compiled(experiment: Experiment, run: int = 0) -> Array | None:
    """The kernel, where it has the method."""
    method, draws = prepare(experiment, run)
    return family.replay(draws, [method]).w[:, 0] if family.supports(method) else None


def messages(experiment: Experiment) -> Array | None:
    """The deployed halves, joined by a dict."""
    method, draws = prepare(experiment)
    return None if draws.gaps and relays(method) else exchange(experiment).models


def tables(experiment: Experiment) -> Array | None:
    """A contender of a fit, tick by tick."""
    method, draws = prepare(experiment)
    if method.delivery == "peers":
        return None
    x, y = samples(draws)
    columns = SimpleNamespace(target="y", ranges={"y": (0, 1)})
    recipe = SimpleNamespace(numeric=(), hot={}, columns=columns)
    table: Any = SimpleNamespace(
        clients=CLIENTS, recipe=recipe, table=SimpleNamespace(columns=columns)
    )
    player = Player("", method, draws.features, table)
    models = [player.shared.copy()]
    for n in range(ROUNDS):
        here = x[None, :, n], draws.features(x[None, :, n]), y[None, :, n]
        who = [np.flatnonzero(~np.isnan(y[:, n]))]
        player.play(Lot(n, here[1], *here, who, here[2]), Span(0, ROUNDS, ROUNDS))
        models.append(player.shared.copy())
    return np.array(models)


class MemoryDisk:
    """A folder in memory that never fails, where all is durable at once."""

    def __init__(self, name: str) -> None:
        self.name, self.files = name, dict[str, bytes]()

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def append(self, name: str, data: bytes) -> None:
        self.files[name] = self.files.get(name, b"") + data

    def rename(self, old: str, new: str) -> None:
        self.files[new] = self.files.pop(old)

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def names(self) -> list[str]:
        return sorted(self.files)

    def sync(self, name: str) -> None:
        pass

    def sync_folder(self) -> None:
        pass


class Crew:
    """A coordinator and its members as they are deployed, with frames, records and restarts."""

    def __init__(self, plan: Deployment) -> None:
        self.plan = plan
        self.disks = [MemoryDisk(str(k)) for k in range(CLIENTS + 1)]
        self.start()

    def start(self) -> None:
        """All of them, again, from what is on disk."""
        experiment, lockstep = self.plan.experiment, self.plan.deploy.clock == "lockstep"
        self.server = Coordinator(self.plan, self.disks[CLIENTS])
        self.members = [
            Member(self.plan, k, self.disks[k], replay(experiment, k) if lockstep else None)
            for k in range(CLIENTS)
        ]

    def round(self) -> Any:
        """One round, in which everybody answers."""
        for k, frame in self.server.frames().items():
            answer, what = self.members[k].take(frame)
            if answer is None:
                raise AssertionError(f"client {k} does not answer: {what}")
            if (said := self.server.take(k, answer)) != "accepted":
                raise AssertionError(f"the server does not accept an answer: {said}")
        return self.server.commit()


def deployed(experiment: Experiment) -> Array:
    """Frames, records, and a restart of everybody now and then, on the lockstep clock."""
    return _served(Crew(deployment(experiment, "lockstep")), lambda team, n: None)


def live(experiment: Experiment) -> Array:
    """The same on a live clock: each client gets its sample of round n before the round."""
    x, y = samples(prepare(experiment)[1])

    def arrive(team: Crew, n: int) -> None:
        for k in np.flatnonzero(~np.isnan(y[:, n])).tolist():
            team.members[k].client.learn(x[k, n : n + 1], y[k, n : n + 1])

    return _served(Crew(deployment(experiment, "live")), arrive)


def _served(team: Crew, arrive: Callable[[Crew, int], None]) -> Array:
    models = [team.server.server.model.copy()]
    for n in range(ROUNDS):
        arrive(team, n)
        team.round()
        models.append(team.server.server.model.copy())
        if n % 24 == 4:
            for member in team.members if team.plan.deploy.clock == "live" else ():
                member.save()  # as a device does now and then
            team.start()
    return np.array(models)


def expected_live(experiment: Experiment) -> Array:
    """What a live clock means, written out: who waits learns all that waited after it received."""
    task = experiment.task(0, wire="float64", live=True)
    (method,) = experiment.start(task)
    x, y = samples(prepare(experiment)[1])
    z = task.features(x)
    server, waiting = method.server(), [list[int]() for _ in range(CLIENTS)]
    clients = [stacked(method.client(), 1) for _ in waiting]
    models = [method.models(server, {}).copy()]
    for n in range(ROUNDS):
        for k in np.flatnonzero(~np.isnan(y[:, n])).tolist():
            waiting[k].append(n)
            if not waits(method):
                _learn(method, clients[k], waiting[k], x[k], z[k], y[k])
        cohort, uploads = method.cohort(n, server), []
        for one in cohort[:, None]:
            (k,) = one.tolist()
            if len(waiting[k]) > MOST_WAITING:
                raise AssertionError(f"{len(waiting[k])} samples wait")
            learn = partial(_learn, method, clients[k], waiting[k], x[k], z[k], y[k])
            down = open_round(method, server, one, n)
            uploads.append(take_part(method, clients[k], one, n, down, learn).row(0))
        close_round(method, server, cohort, n, rows(uploads, task.dtype))
        models.append(method.models(server, {}).copy())
    return np.array(models)


def _learn(method: Method, client: State, waiting: list[int], x: Array, z: Array, y: Array) -> None:
    """One client learns from the samples that wait: one after another, or all at once."""
    if waiting and method.lazy:
        method.learn(client, x[None, waiting], z[None, waiting], y[None, waiting])
    for i in [] if method.lazy else waiting:
        method.learn(client, x[i : i + 1], z[i : i + 1], y[i : i + 1])
    waiting.clear()


def chosen(experiment: Experiment, policy: PolicyOptions) -> Array:
    """The same experiment under a policy."""
    (options,) = experiment.methods
    return stepwise(replace(experiment, methods=(replace(options, policy=policy),)))
