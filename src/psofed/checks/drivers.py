"""Every way to drive the rounds of a method, on the same samples and cohorts, to be compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.case import Case
from psofed.checks.bench import CLIENTS, DIM, played, prepare, samples, small
from psofed.core.features import Waves
from psofed.core.seeds import Seeds
from psofed.defences import none as undefended
from psofed.deploy.samples import replay
from psofed.experiment import Experiment
from psofed.fit import fitting
from psofed.fit.player import Contender, Lot, Player
from psofed.methods import onlinefed, psofed
from psofed.methods.contract import Options, State
from psofed.policies.contract import Options as PolicyOptions
from psofed.protocol import in_memory
from psofed.protocol.client import MOST_WAITING, Member
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.deployment import Deploy, Deployment
from psofed.sample_checks import none
from psofed.simulate import family, reference
from psofed.streams import paper
from psofed.streams.contract import Samples

Array = NDArray[Any]
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


def stacked(experiment: Experiment) -> Array:
    """One method after another in lockstep, as Monte Carlo runs what it has no kernel for."""
    method, draws = prepare(experiment)
    return np.array([method.models(m.server, m.clients).copy() for m in played(method, draws)])


def compiled(experiment: Experiment) -> Array | None:
    """The kernel, where it knows the method."""
    method, draws = prepare(experiment)
    return family.replay(draws, [method]).w[:, 0] if method.compiled else None


def dense(experiment: Experiment) -> Array | None:
    """The reference with its matrices, where it applies."""
    method, draws = prepare(experiment)
    (options,) = experiment.methods
    waves = isinstance(draws.features, Waves) and experiment.learner.compiled
    if draws.gaps or options.average or options.wire or not waves:
        return None
    rotates = isinstance(options, psofed.Options) and (
        options.selection == "sequential" and options.mask != "groups"
    )
    if type(options) is psofed.Options and options.idle and rotates:
        kind, shift = "pso", options.tau
    elif type(options) is onlinefed.Options:
        kind, shift = "online", 0
    else:
        return None
    x, y = samples(draws)
    cohorts = tuple(tuple(method.cohort(n, {}).tolist()) for n in range(ROUNDS))
    masks = np.array([method.schedule.entries(k, 0) for k in range(CLIENTS)])
    zeros, features = (np.zeros(DIM), np.zeros((CLIENTS, DIM))), draws.features
    assert isinstance(features, Waves)
    case = Case("", kind, features, x, y, cohorts, method.step, masks, shift, *zeros)
    return reference.run(case)[0]


def messages(experiment: Experiment) -> Array | None:
    """The deployed halves, joined by a dict."""
    method, draws = prepare(experiment)
    return None if draws.gaps and method.relays else in_memory.run(method, *samples(draws)).models


def tables(experiment: Experiment) -> Array | None:
    """A contender of a fit, tick by tick."""
    (options,) = experiment.methods
    method, draws = prepare(experiment)
    if method.peers:
        return None
    x, y = samples(draws)
    columns = SimpleNamespace(target="y", ranges={"y": (0, 1)})
    encoder = SimpleNamespace(numeric=(), categories={}, columns=columns)
    contender = Contender("", fitting.start(options, method.task), draws.features)
    rounds: Any = SimpleNamespace(clients=CLIENTS, encoder=encoder)
    player = Player(contender, rounds)
    models = [player.shared.copy()]
    for n in range(ROUNDS):
        here = x[None, :, n], draws.features(x[None, :, n]), y[None, :, n]
        player.play(Lot(n, here[1], *here, [np.flatnonzero(~np.isnan(y[:, n]))]), {})
        models.append(player.shared.copy())
    return np.array(models)


class MemoryDisk:
    """A folder in memory that never fails."""

    def __init__(self, name: str) -> None:
        self.name, self.files = name, dict[str, bytes]()

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, or None if there is no such file."""
        return self.files.get(name)

    def write(self, name: str, data: bytes) -> None:
        """A new file."""
        self.files[name] = data

    def sync(self, name: str) -> None:
        """All is durable already."""

    def rename(self, old: str, new: str) -> None:
        """Put a file in another's place."""
        self.files[new] = self.files.pop(old)

    def sync_folder(self) -> None:
        """All is durable already."""

    def append(self, name: str, data: bytes) -> None:
        """More bytes at the end of a file."""
        self.files[name] = self.files.get(name, b"") + data

    def remove(self, name: str) -> None:
        """A file is not needed any more."""
        self.files.pop(name, None)

    def names(self) -> list[str]:
        """The files that there are."""
        return sorted(self.files)


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
    team = Crew(deployment(experiment, "lockstep"))
    models = [team.server.server.model.copy()]
    for n in range(ROUNDS):
        team.round()
        models.append(team.server.server.model.copy())
        if n % 24 == 4:
            team.start()
    return np.array(models)


def live(experiment: Experiment) -> Array:
    """The same on a live clock: each client gets its sample of round n before the round."""
    team = Crew(deployment(experiment, "live"))
    x, y = samples(prepare(experiment)[1])
    models = [team.server.server.model.copy()]
    for n in range(ROUNDS):
        for k in np.flatnonzero(~np.isnan(y[:, n])).tolist():
            team.members[k].client.learn(x[k, n : n + 1], y[k, n : n + 1])
        team.round()
        models.append(team.server.server.model.copy())
        if n % 24 == 4:
            for member in team.members:  # as a device does now and then
                member.save()
            team.start()
    return np.array(models)


def expected_live(experiment: Experiment) -> Array:
    """What a live clock means, written out: who waits learns all that waited after it received."""
    task = experiment.task(0, wire="float64", live=True)
    (method,) = experiment.start(task)
    x, y = samples(prepare(experiment)[1])
    z = task.features(x)
    server, clients = method.server(), [method.client(k) for k in range(CLIENTS)]
    waiting: list[list[int]] = [[] for _ in clients]
    models = [method.models(server, {}).copy()]
    for n in range(ROUNDS):
        for k in np.flatnonzero(~np.isnan(y[:, n])).tolist():
            waiting[k].append(n)
            if not method.waits:
                _learn(method, clients[k], waiting[k], x[k], z[k], y[k])
        uploads = {}
        for k in method.cohort(n, server).tolist():
            method.receive(clients[k], k, n, method.download(server, k, n))
            if len(waiting[k]) > MOST_WAITING:
                raise AssertionError(f"{len(waiting[k])} samples wait")
            _learn(method, clients[k], waiting[k], x[k], z[k], y[k])
            uploads[k] = method.upload(clients[k], k, n)
        method.fold(server, n, uploads, dict.fromkeys(uploads, 1 / max(len(uploads), 1)))
        models.append(method.models(server, {}).copy())
    return np.array(models)


def _learn(method: Any, client: State, waiting: list[int], x: Array, z: Array, y: Array) -> None:
    for i in waiting:
        method.learn(client, x[i], z[i], y[i])
    waiting.clear()


def chosen(experiment: Experiment, policy: PolicyOptions) -> Array:
    """The same experiment under a policy."""
    (options,) = experiment.methods
    return stacked(replace(experiment, methods=(replace(options, policy=policy),)))
