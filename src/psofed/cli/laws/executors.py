"""Three executors, one answer: the models of each, compared number by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psofed.cli.laws.drivers import TOLERANCE, largest, played, prepare, samples
from psofed.core.native import Array
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation.schema import inside
from psofed.fleet.protocol import in_memory
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.deployment import Deployment, refuse_omniscient
from psofed.fleet.protocol.server import Server, refuse_policy
from psofed.fleet.protocol.store import StateFolder
from psofed.fleet.samples import replay
from psofed.simulate import family
from psofed.simulate.draws import Draws, draw
from psofed.streams.contract import Samples


class Differences(NamedTuple):
    """The largest difference of each executor to the handlers in lockstep."""

    title: str
    apart: dict[str, float]  # by executor

    @property
    def passed(self) -> bool:
        """Whether all are within the tolerance; NaN never is."""
        return all(value <= TOLERANCE for value in self.apart.values())


@np.errstate(over="ignore", invalid="ignore")
def compare_methods(experiment: Experiment, rounds: int) -> list[Differences]:
    """The first rounds of an experiment, in float64: each method by every executor that it has.

    Its handlers, called in lockstep, stand for what is expected. They are compared with the
    deployed halves and, where the method is compiled, with the engine.
    """
    short = replace(experiment.shortened(min(rounds, experiment.rounds)), dtype="float64")
    if short.fleet:
        found = "is given, but the handlers that are compared here have the first clients only"
        raise InputError("fleet", found, "leave it out")
    return [_replay(short.alone(options), options.title()) for options in short.methods]


def _replay(experiment: Experiment, title: str) -> Differences:
    (options,) = experiment.methods
    if options.policy is not None:
        refuse_policy(options.policy)
    refuse_omniscient(experiment.attack)
    method, draws = prepare(experiment)
    w, local = [], []
    for moment in played(method, draws):
        w.append(method.models(moment.server, moment.clients).copy())
        local.append(moment.clients.get("w", np.empty(0)).copy())
    sent = in_memory.run(method, *samples(draws))
    apart = {"messages": max(largest(sent.models, w), largest(sent.local, local))}
    if family.supports(method):
        apart["engine"] = largest(family.replay(draws, [method]).w[:, 0], w)
    return Differences(title, apart)


def simulate(plan: Deployment, rounds: int) -> tuple[Array, Array]:
    """Global model w_n [D] and all local ones [K, D] after n rounds, as the engine has them.

    K counts everybody who has joined; a model that has not begun is the initial one.

    Methods that are not compiled are run by the lockstep executor.
    """
    experiment = plan.experiment.shortened(rounds)
    plan = Deployment(experiment, plan.deploy)
    method: Any = plan.method()
    if experiment.fleet:  # which a deployment has in its record, and a simulation in its file
        world = replace(plan.world, fleet=experiment.fleet)
        (method,) = world.start(world.task(0, plan.deploy.wire))
    draws = _at_hand(draw(experiment, method.task, everybody=True))
    if family.supports(method):
        local = family.replay(draws, [method], lazy=False).local
        return family.replay(draws, [method]).w[-1, 0], local[-1, :, 0]
    *_, moment = played(method, draws)
    return method.models(moment.server, moment.clients), moment.clients.get("w", np.empty(0))


def deployed(plan: Deployment, server: Path, clients: Sequence[Path]) -> tuple[Server, Array]:
    """The server as its folder has it, and all local models; lazy clients are brought up to date.

    For a deployment on the lockstep clock with the experiment's own stream, after it has stopped.
    Models of clients that are no members, or have not begun to be, are NaN.
    """
    found = Server(plan.method(), bind=plan.bind)
    with inside(where=str(server)):
        found.restore(_read(server, plan, "server"))
    local = []
    for k, path in enumerate(clients):
        client = Client(plan.method(), k, replay(plan.experiment, k))
        with inside(where=str(path)):
            client.restore(_read(path, plan, f"client {k}"))
        client.catch_up(found.n)
        row = found.table.row(k)
        begun = row is not None and k in found.table.members(found.n) and found.table.begun[row]
        own = client.state["w"][0] if "w" in client.state else np.empty(0)
        local.append(own * (1.0 if begun else np.nan))
    return found, np.array(local)


def _read(path: Path, plan: Deployment, role: str) -> dict[str, Array]:
    folder = StateFolder(path)
    arrays = plan.store(folder, role).load()
    folder.close()
    if arrays is None:
        raise InputError(str(path), "has no state", "give the folder of a deployment that ran")
    return arrays


def _at_hand(draws: Draws) -> Draws:
    """The same draws from memory: streams come in blocks, but clients need single rounds."""
    x, y = samples(draws)

    def source(rows: int, first: int, stop: int, memory: Any) -> Samples:
        part = y[:rows, first:stop]
        return Samples(x[:rows, first:stop], part, np.zeros_like(part))

    return replace(draws, source=source)
