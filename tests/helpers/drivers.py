"""Every other way to drive rounds: as a table, deployed with frames, records and restarts, live."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np

from helpers.loopback import World
from psofed.cli.laws.drivers import CLIENTS, ROUNDS, exchange, prepare, samples
from psofed.federation.clients import stacked
from psofed.federation.contract import rows
from psofed.federation.round import close_round, open_round, relays, take_part, waits
from psofed.fleet.protocol.client import MOST_WAITING
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.stages.checks import none
from psofed.stages.defences import none as undefended
from psofed.tables.plan import Span
from psofed.tables.player import Lot, Player


def deployment(experiment, clock):
    """The experiment as it is deployed; checks and defences are as it says, on any clock."""
    if experiment.check is None:
        experiment = replace(experiment, check=none.Options())
    if experiment.defence is None:
        experiment = replace(experiment, defence=undefended.Options())
    return Deployment(experiment, Deploy(wire="float64", clock=clock))


def messages(experiment):
    """The deployed halves, joined by a dict."""
    method, draws = prepare(experiment)
    return None if draws.gaps and relays(method) else exchange(experiment).models


def tables(experiment):
    """A contender of a fit, tick by tick."""
    method, draws = prepare(experiment)
    if method.delivery == "peers":
        return None
    x, y = samples(draws)
    columns = SimpleNamespace(target="y", ranges={"y": (0, 1)})
    recipe = SimpleNamespace(numeric=(), hot={}, columns=columns)
    table = SimpleNamespace(
        clients=CLIENTS, recipe=recipe, table=SimpleNamespace(columns=columns),
        first=np.zeros(CLIENTS, int),
    )  # fmt: skip
    player = Player("", method, draws.features, table)
    models = [player.shared.copy()]
    for n in range(ROUNDS):
        here = x[None, :, n], draws.features(x[None, :, n]), y[None, :, n]
        who = [np.flatnonzero(~np.isnan(y[:, n]))]
        unused = (here[2], here[0], here[2], here[2])  # by a method
        player.play(Lot(n, here[1], *here, who, *unused), Span(0, ROUNDS, ROUNDS))
        models.append(player.shared.copy())
    return np.array(models)


def deployed(experiment):
    """Frames, records, and a restart of everybody now and then, on the lockstep clock."""
    return _served(World(given=deployment(experiment, "lockstep")), lambda team, n: None)


def live(experiment):
    """The same on a live clock: each client gets its sample of round n before the round."""
    x, y = samples(prepare(experiment)[1])

    def arrive(team, n):
        for k in np.flatnonzero(~np.isnan(y[:, n])).tolist():
            team.members[k].client.learn(x[k, n : n + 1], y[k, n : n + 1])

    return _served(World(given=deployment(experiment, "live")), arrive)


def _served(team, arrive):
    models = [team.model.copy()]
    for n in range(ROUNDS):
        arrive(team, n)
        team.rounds()
        models.append(team.model.copy())
        if n % 12 == 4:  # all of them start again, from what is on disk
            team.start()
            for k, member in list(team.members.items()):
                if team.plan.deploy.clock == "live":
                    member.save()  # as a device does now and then
                team.member(k)
    return np.array(models)


def expected_live(experiment):
    """What a live clock means, written out: who waits learns all that waited after it received."""
    task = experiment.task(0, wire="float64", live=True)
    (method,) = experiment.start(task)
    x, y = samples(prepare(experiment)[1])
    z = task.features(x)
    server, waiting = method.server(), [[] for _ in range(CLIENTS)]
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
            assert len(waiting[k]) <= MOST_WAITING
            learn = partial(_learn, method, clients[k], waiting[k], x[k], z[k], y[k])
            down = open_round(method, server, one, n)
            uploads.append(take_part(method, clients[k], one, n, down, learn).row(0))
        close_round(method, server, cohort, n, rows(uploads, task.dtype))
        models.append(method.models(server, {}).copy())
    return np.array(models)


def _learn(method, client, waiting, x, z, y):
    """One client learns from the samples that wait: one after another, or all at once."""
    if waiting and method.lazy:
        method.learn(client, x[None, waiting], z[None, waiting], y[None, waiting])
    for i in [] if method.lazy else waiting:
        method.learn(client, x[i : i + 1], z[i : i + 1], y[i : i + 1])
    waiting.clear()
