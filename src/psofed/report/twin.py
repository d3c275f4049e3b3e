"""The simulation beside a deployment: the models that both must have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.deploy.client import Client
from psofed.deploy.plan import Plan
from psofed.deploy.server import Server
from psofed.deploy.sources import replay
from psofed.deploy.store import Folder, Store
from psofed.errors import InputError
from psofed.methods import psofed
from psofed.simulate import fused, lockstep
from psofed.simulate.draws import Draws, draw
from psofed.streams.contract import Samples

Array = NDArray[Any]


def simulate(plan: Plan, rounds: int) -> tuple[Array, Array]:
    """Global model w_n [D] and all local ones [K, D] after so many rounds, as the engine has them.

    Methods that the compiled engine does not know are run by the lockstep executor.
    """
    experiment = replace(plan.experiment, rounds=rounds, evaluate_every=None)
    method: Any = Plan(experiment, plan.deploy).method()
    draws = _at_hand(draw(experiment, method.task, everybody=True))
    if psofed.is_pure(method):
        local = fused.replay(draws, [method], lazy=False).local
        return fused.replay(draws, [method]).w[-1, 0], local[-1, :, 0]
    moment = list(lockstep.play(draws, method, lockstep.Samples(draws)))[-1]
    return method.models(moment.server, moment.clients), moment.clients.get("w", np.empty(0))


def deployed(plan: Plan, server: Path, clients: Sequence[Path]) -> tuple[Server, Array]:
    """The server as its folder has it, and all local models; lazy clients are brought up to date.

    For a deployment on the lockstep clock with the experiment's own stream, after it has stopped.
    """
    found = Server(plan.method())
    found.restore(_read(server, plan, "server"))
    local = []
    for k, path in enumerate(clients):
        client = Client(plan.method(), k, replay(plan.experiment, k))
        client.restore(_read(path, plan, f"client {k}"))
        client.catch_up(found.n)
        local.append(client.state.get("w", np.empty(0)))
    return found, np.array(local)


def _read(path: Path, plan: Plan, role: str) -> dict[str, Array]:
    folder = Folder(path)
    arrays = Store(folder, plan.about(role)).load()
    folder.close()
    if arrays is None:
        raise InputError(str(path), "has no state", "give the folder of a deployment that ran")
    return arrays


def _at_hand(draws: Draws) -> Draws:
    """The same draws from memory: streams come in blocks, and clients that keep up need rounds."""
    chunks = list(draws.chunks())
    x, y = (np.concatenate([getattr(c, name) for c in chunks], axis=1) for name in ("x", "y"))

    def source(rows: int, first: int, stop: int, memory: Any) -> Samples:
        part = y[:rows, first:stop]
        return Samples(x[:rows, first:stop], part, np.zeros_like(part))

    return replace(draws, source=source)
