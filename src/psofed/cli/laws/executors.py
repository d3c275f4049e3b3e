"""Three executors, one answer: replay a case through each and compare number by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psofed.cli.laws.drivers import largest, played, prepare, samples
from psofed.core.native import Array
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.extras import counted
from psofed.federation.records import number
from psofed.federation.schema import inside
from psofed.fleet import requests
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.protocol import in_memory
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.deployment import Deployment, refuse_omniscient
from psofed.fleet.protocol.history import LOG, changes
from psofed.fleet.protocol.server import Server, refuse_policy
from psofed.fleet.protocol.store import check_owner, newest, reader
from psofed.fleet.protocol.wire import RefusedError
from psofed.fleet.samples import replay
from psofed.simulate import family, reference
from psofed.simulate.draws import Draws, draw
from psofed.simulate.reference import TOLERANCE, Case
from psofed.streams.contract import Samples

# What rounding may amount to in a long run, by the format of numbers.
ROUNDING = {"float64": TOLERANCE, "float32": 1e-4, "float16": 0.1}


@dataclass(frozen=True)
class Differences:
    """The largest difference of each executor to what is expected, global and local models."""

    case: str
    against: str  # "expected"; where that is not known "reference", or "lockstep" for any method
    differences: dict[str, dict[str, float]]  # executor -> global, local

    @property
    def passed(self) -> bool:
        """Whether all are within the tolerance; NaN never is."""
        values = [v for executor in self.differences.values() for v in executor.values()]
        return all(value <= TOLERANCE for value in values)


@np.errstate(over="ignore", invalid="ignore")  # a case may diverge
def compare(case: Case) -> Differences:
    """Replay one case through the reference, the engine and the messages."""
    results = {"reference": reference.run(case), "engine": engine(case), "messages": messages(case)}
    known = case.w is not None and case.local is not None
    w, local = (case.w, case.local) if known else results["reference"]
    differences = {
        name: {"global": largest(found[0], w), "local": largest(found[1], local)}
        for name, found in results.items()
        if known or name != "reference"
    }
    return Differences(case.name, "expected" if known else "reference", differences)


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
    both = {"global": largest(sent.models, w), "local": largest(sent.local, local)}
    apart = {"messages": both}
    if family.supports(method):
        apart["engine"] = {"global": largest(family.replay(draws, [method]).w[:, 0], w)}
    return Differences(title, "lockstep", apart)


def engine(case: Case) -> tuple[Array, Array]:
    """The compiled engine: global models with lazy clients, local models brought up to date."""
    draws, methods = case.draws(), [case.method()]
    start = family.Start(case.w0, case.local0)
    lazy = family.replay(draws, methods, start)
    eager = family.replay(draws, methods, start, lazy=False)
    return lazy.w[:, 0], eager.local[:, :, 0]


def messages(case: Case) -> tuple[Array, Array]:
    """The deployed handlers, joined in memory; they refuse what is not finite."""
    try:
        exchange = in_memory.run(case.method(), case.x, case.y, (case.w0, case.local0))
    except RefusedError:
        return np.full_like(case.w0, np.nan), np.full_like(case.local0, np.nan)
    return exchange.models, exchange.local


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

    For a deployment on the lockstep clock with the experiment's own stream; it may run meanwhile.
    Models of clients that are not members, have not begun to be, or are ahead of it, are NaN.
    """
    found, local = Server(plan.method(), bind=plan.bind), []
    with inside(where=str(server)):
        found.restore(_read(server, plan)[0])
    for path in clients:
        arrays, k = _read(path, plan)
        client = Client(plan.method(), k, replay(plan.experiment, k))
        with inside(where=str(path)):
            client.restore(arrays)
        ahead = client.position > found.n
        client.catch_up(found.n)
        row = found.table.row(k)
        begun = row is not None and k in found.table.members(found.n) and found.table.begun[row]
        own = client.state["w"][0] if "w" in client.state else np.empty(0)
        local.append(own * (1.0 if begun and not ahead else np.nan))
    return found, np.array(local)


def _read(path: Path, plan: Deployment) -> tuple[dict[str, Array], int]:
    """The newest record of a folder, of which a process may write the next; whose it is."""
    found = newest(reader(path), str(path))[0] if path.is_dir() else None
    if found is None:
        raise InputError(str(path), "has no state", "give the folder of a deployment that ran")
    role = str(found.about.get("role", ""))
    check_owner(found.about, plan.about(role), str(path))
    return found.arrays, int(role.rpartition(" ")[2]) if role.startswith("client ") else -1


@dataclass(frozen=True)
class Equality:
    """How far a deployment is from its simulation, and how far rounding alone may bring it."""

    n: int
    counts: dict[str, int]
    differences: dict[str, float]  # of the global model, and of the local one of each client
    allowed: float
    absent: int = 0  # clients that cannot be compared now

    @property
    def holds(self) -> bool:
        """Whether all are within what is allowed; NaN never is."""
        return all(value <= self.allowed for value in self.differences.values())

    def lines(self) -> list[str]:
        """For people: the largest, then the verdict."""
        first, *rest = self.differences.items()
        worst = max(rest, key=lambda one: one[1], default=None)
        local = f", local {worst[1]:.1e}" if worst else ""
        found = [f"largest difference to the simulation: global {first[1]:.1e}{local}"]
        wrong = [name for name, value in self.differences.items() if not value <= self.allowed]
        if self.absent:
            found.append(f"{counted(self.absent, 'client')} not compared: not at round {self.n}")
        if not wrong:
            rounding = f" within {self.allowed:g}, its rounding" if self.allowed > TOLERANCE else ""
            return [*found, f"The deployment equals the simulation{rounding}."]
        lost = self.counts["lost"] + self.counts["refused"]
        why = f"; it lost {counted(lost, 'answer')}, the simulation none" if lost else ""
        return [*found, f"The deployment DIFFERS: {', '.join(wrong[:5])}{why}."]


def verified(state: Path, clients: Sequence[Path] = ()) -> Equality:
    """The models of a lockstep deployment next to those of the simulation of what happened."""
    logged = number(requests.record(state), "logged")
    plan = plans.kept(state, right="compare it where the file of the run is, with `psofed run`")
    if plan.deploy.live:
        found = "is of the live clock: samples came when they came, and no simulation has them"
        raise InputError(str(state), found, 'compare runs with clock = "lockstep"')
    server, local = deployed(plan, state, clients)
    past = changes(reader(state)(LOG), logged, str(state)) if logged else []
    if not server.n:
        raise InputError(str(state), "has closed no round yet", "try again when it has")
    twin = replace(plan.experiment, fleet=tuple(past))
    w, expected = simulate(Deployment(twin, plan.deploy), server.n)
    differences, absent = {"global": largest(server.model, w)}, 0
    for path, own in zip(clients, local, strict=True):
        k = _read(path, plan)[1]
        if np.isnan(own).any() or k >= len(expected) or own.shape != expected[k].shape:
            absent += 1
        else:
            differences[f"client {plan.names(k)}"] = largest(own, expected[k])
    kinds = plan.experiment.dtype, plan.wire
    allowed = max(ROUNDING.get(kind, TOLERANCE) for kind in kinds)
    return Equality(server.n, server.ledger.counts, differences, allowed, absent)


def _at_hand(draws: Draws) -> Draws:
    """The same draws from memory: streams come in blocks, but clients need single rounds."""
    x, y = samples(draws)

    def source(rows: int, first: int, stop: int, memory: Any) -> Samples:
        part = y[:rows, first:stop]
        return Samples(x[:rows, first:stop], part, np.zeros_like(part))

    return replace(draws, source=source)
