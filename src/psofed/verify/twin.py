"""The simulation of a deployment: the models that both must have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.deploy.samples import replay
from psofed.errors import InputError
from psofed.protocol.change_log import LOG, changes
from psofed.protocol.checked_record import reading
from psofed.protocol.client import Client
from psofed.protocol.deployment import Deployment
from psofed.protocol.server import Server
from psofed.protocol.store import StateFolder
from psofed.simulate import any_method, family
from psofed.simulate.draws import Draws, draw
from psofed.streams.contract import Samples

Array = NDArray[Any]


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
    if family.knows(method):
        local = family.replay(draws, [method], lazy=False).local
        return family.replay(draws, [method]).w[-1, 0], local[-1, :, 0]
    moment = list(any_method.play(draws, method, any_method.RunSamples(draws)))[-1]
    return method.models(moment.server, moment.clients), moment.clients.get("w", np.empty(0))


def deployed(plan: Deployment, server: Path, clients: Sequence[Path]) -> tuple[Server, Array]:
    """The server as its folder has it, and all local models; lazy clients are brought up to date.

    For a deployment on the lockstep clock with the experiment's own stream, after it has stopped.
    Models of clients that are no members, or have not begun to be, are NaN.
    """
    found = Server(plan.method(), seated=plan.seated)
    with reading(str(server)):
        found.restore(_read(server, plan, "server"))
    local = []
    for k, path in enumerate(clients):
        client = Client(plan.method(), k, replay(plan.experiment, k))
        with reading(str(path)):
            client.restore(_read(path, plan, f"client {k}"))
        client.catch_up(found.n)
        row = found.seats.row(k)
        begun = row is not None and k in found.seats.members(found.n) and found.seats.begun[row]
        local.append(client.state.get("w", np.empty(0)) * (1.0 if begun else np.nan))
    return found, np.array(local)


def with_history(plan: Deployment, server: Path) -> Deployment:
    """The plan with the changes of the fleet that are in a server's folder, to be simulated."""
    folder = StateFolder(server)
    data = folder.read(LOG)
    folder.close()
    count = int(_read(server, plan, "server").get("logged", 0))
    fleet = tuple(changes(data, count, str(server)))
    return Deployment(replace(plan.experiment, fleet=fleet), plan.deploy)


def _read(path: Path, plan: Deployment, role: str) -> dict[str, Array]:
    folder = StateFolder(path)
    arrays = plan.store(folder, role).load()
    folder.close()
    if arrays is None:
        raise InputError(str(path), "has no state", "give the folder of a deployment that ran")
    return arrays


def _at_hand(draws: Draws) -> Draws:
    """The same draws from memory: streams come in blocks, but clients need single rounds."""
    chunks = list(draws.chunks())
    x, y = (np.concatenate([getattr(c, name) for c in chunks], axis=1) for name in ("x", "y"))

    def source(rows: int, first: int, stop: int, memory: Any) -> Samples:
        part = y[:rows, first:stop]
        return Samples(x[:rows, first:stop], part, np.zeros_like(part))

    return replace(draws, source=source)
