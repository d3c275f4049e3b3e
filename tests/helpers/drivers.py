"""Every way to drive the rounds of a method, on the same samples and cohorts, to be compared."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from helpers.battery import small
from helpers.network import Chance, VirtualDisk
from psofed.case import Case
from psofed.deploy.samples import replay
from psofed.fit import fitting
from psofed.fit.player import Contender, Player
from psofed.methods import onlinefed, psofed
from psofed.protocol import in_memory
from psofed.protocol.client import MOST_WAITING, Member
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.deployment import Deploy, Deployment
from psofed.simulate import any_method, family, reference
from psofed.simulate.draws import draw
from psofed.streams import paper
from psofed.streams.contract import Samples

ROUNDS, CLIENTS = 64, 5


@dataclass(frozen=True)
class Gappy(paper.Options):
    """The paper's stream with missing samples, silent rounds, a late joiner and one that stops."""

    name: ClassVar[str] = "gappy"
    gaps: ClassVar[bool] = True

    def known(self):
        """[client, round]: whether there is a sample."""
        found = np.random.default_rng(5).uniform(size=(CLIENTS, ROUNDS)) < 0.75
        found[:, 20:24] = found[:, 40] = False
        found[3, :26] = found[4, 47:] = False
        found[3, 26] = found[4, 46] = True
        return found

    def presence(self):
        known = self.known()
        stop = np.array([ROUNDS, ROUNDS, ROUNDS, ROUNDS, 47])
        return np.array([0, 0, 0, 26, 0]), stop, np.append(known.any(axis=0), False)

    def samples(self, seeds, clients, first, stop, dtype=np.float64, memory=None):
        made = super().samples(seeds, clients, first, stop, dtype, memory)
        end = min(stop, ROUNDS)  # whoever replays asks for whole blocks
        hidden = np.zeros(made.clean.shape, bool)
        hidden[:, : end - first] = ~self.known()[clients, first:end]
        return Samples(made.x, np.where(hidden, np.nan, made.clean), made.noise, made.memory)


STREAMS = {"steady": paper.Options(), "gaps": Gappy()}


def world(options, stream, **changes):
    """An experiment of one method, long enough for blocks, delays and silences to matter."""
    return small(options, stream=STREAMS[stream], rounds=ROUNDS, **changes)


def deployment(experiment, clock):
    return Deployment(experiment, Deploy(wire="float64", clock=clock))


def prepared(experiment):
    task = experiment.task(0, wire="float64")
    (method,) = experiment.start(task)
    return method, draw(experiment, task, everybody=True)


def at_hand(draws):
    (chunk,) = draws.chunks()
    return chunk.x, chunk.y


def stacked(experiment):
    """One method after another in lockstep, as Monte Carlo runs what it has no kernel for."""
    method, draws = prepared(experiment)
    play = any_method.play(draws, method, any_method.RunSamples(draws))
    return np.array([method.models(m.server, m.clients).copy() for m in play])


def compiled(experiment):
    """The kernel, where it knows the method."""
    method, draws = prepared(experiment)
    return family.replay(draws, [method]).w[:, 0] if method.compiled else None


def dense(experiment):
    """The reference with its matrices, where it applies."""
    method, draws = prepared(experiment)
    (options,) = experiment.methods
    plain = type(options) in (psofed.Options, onlinefed.Options) and not options.average
    if not plain or draws.gaps or getattr(options, "selection", "") == "stochastic":
        return None
    if isinstance(options, psofed.Options) and not options.idle:
        return None
    x, y = at_hand(draws)
    cohorts = tuple(tuple(method.cohort(n, {}).tolist()) for n in range(ROUNDS))
    masks = np.array([method.schedule.entries(k, 0) for k in range(CLIENTS)])
    kind = ("pso", options.tau) if isinstance(options, psofed.Options) else ("online", 0)
    zeros = np.zeros(10), np.zeros((CLIENTS, 10))
    case = Case("", kind[0], draws.features, x, y, cohorts, method.step, masks, kind[1], *zeros)
    return reference.run(case)[0]


def messages(experiment):
    """The deployed halves, joined by a dict."""
    method, draws = prepared(experiment)
    return None if draws.gaps and method.relays else in_memory.run(method, *at_hand(draws)).models


def tables(experiment):
    """A contender of a fit, tick by tick."""
    (options,) = experiment.methods
    method, draws = prepared(experiment)
    if method.peers:
        return None
    x, y = at_hand(draws)
    columns = SimpleNamespace(target="y", ranges={"y": (0, 1)})
    encoder = SimpleNamespace(numeric=(), categories={}, columns=columns)
    contender = Contender("", fitting.start(options, method.task), draws.features)
    player = Player(contender, SimpleNamespace(clients=CLIENTS, encoder=encoder))
    models = [player.shared.copy()]
    for n in range(ROUNDS):
        known = np.flatnonzero(~np.isnan(y[:, n]))
        player.round(n, x[:, n], draws.features(x[:, n]), y[:, n], known)
        models.append(player.shared.copy())
    return np.array(models)


class Team:
    """A coordinator and its members as they are deployed, with frames, records and restarts."""

    def __init__(self, plan):
        self.plan, chance = plan, Chance(0, 0)
        self.disks = [VirtualDisk(str(k), chance) for k in range(CLIENTS + 1)]
        self.start()

    def start(self):
        """All of them, again, from what is on disk."""
        experiment, lockstep = self.plan.experiment, self.plan.deploy.clock == "lockstep"
        self.server = Coordinator(self.plan, self.disks[CLIENTS])
        self.members = [
            Member(self.plan, k, self.disks[k], replay(experiment, k) if lockstep else None)
            for k in range(CLIENTS)
        ]

    def round(self):
        for k, frame in self.server.frames().items():
            answer, what = self.members[k].take(frame)
            assert answer is not None, what
            assert self.server.take(k, answer) == "accepted"
        return self.server.commit()


def deployed(experiment):
    """Frames, records, and a restart of everybody now and then, on the lockstep clock."""
    team = Team(deployment(experiment, "lockstep"))
    models = [team.server.server.model.copy()]
    for n in range(ROUNDS):
        team.round()
        models.append(team.server.server.model.copy())
        if n % 24 == 4:
            team.start()
    return np.array(models)


def live(experiment):
    """The same on a live clock: each client gets its sample of round n before the round."""
    team = Team(deployment(experiment, "live"))
    x, y = at_hand(prepared(experiment)[1])
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


def expected_live(experiment):
    """What a live clock means, written out: who waits learns all that waited after it received."""
    task = experiment.task(0, wire="float64", live=True)
    (method,) = experiment.start(task)
    x, y = at_hand(prepared(experiment)[1])
    z = task.features(x)
    server, clients = method.server(), [method.client(k) for k in range(CLIENTS)]
    waiting = [[] for _ in clients]
    models = [method.models(server, {}).copy()]
    for n in range(ROUNDS):
        for k in np.flatnonzero(~np.isnan(y[:, n])).tolist():
            waiting[k].append(n)
            if not method.waits:
                _learn(method, clients[k], waiting[k], x[k], z[k], y[k])
        uploads = {}
        for k in method.cohort(n, server).tolist():
            method.receive(clients[k], k, n, method.download(server, k, n))
            assert len(waiting[k]) <= MOST_WAITING
            _learn(method, clients[k], waiting[k], x[k], z[k], y[k])
            uploads[k] = method.upload(clients[k], k, n)
        method.fold(server, n, uploads, dict.fromkeys(uploads, 1 / max(len(uploads), 1)))
        models.append(method.models(server, {}).copy())
    return np.array(models)


def _learn(method, client, waiting, x, z, y):
    for i in waiting:
        method.learn(client, x[i], z[i], y[i])
    waiting.clear()


def chosen(experiment, policy):
    """A policy that prefers nobody."""
    (options,) = experiment.methods
    return stacked(replace(experiment, methods=(replace(options, policy=policy),)))
