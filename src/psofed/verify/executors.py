"""Three executors, one answer: replay a case through each and compare number by number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.case import TOLERANCE, Case
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.protocol import in_memory
from psofed.protocol.server import RefusedError, refuse_omniscient, refuse_policy
from psofed.simulate import any_method, family, reference
from psofed.simulate.draws import draw, of_case

Array = NDArray[Any]


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


def compare(case: Case) -> Differences:
    """Replay one case through the reference, the engine and the messages."""
    with np.errstate(over="ignore", invalid="ignore"):  # a case may diverge
        return _compare(case)


def _compare(case: Case) -> Differences:
    results = {"reference": reference.run(case), "engine": engine(case), "messages": messages(case)}
    known = case.w is not None and case.local is not None
    w, local = (case.w, case.local) if known else results["reference"]
    differences = {
        name: {"global": _largest(found[0], w), "local": _largest(found[1], local)}
        for name, found in results.items()
        if known or name != "reference"
    }
    return Differences(case.name, "expected" if known else "reference", differences)


def compare_methods(experiment: Experiment, rounds: int) -> list[Differences]:
    """The first rounds of an experiment, in float64: each method by every executor that it has.

    Its handlers, called in lockstep, stand for what is expected. They are compared with the
    deployed halves and, where the method is compiled, with the engine.
    """
    short = replace(experiment.shortened(min(rounds, experiment.rounds)), dtype="float64")
    if short.fleet:
        found = "is given, but the handlers that are compared here have the first clients only"
        raise InputError("fleet", found, "leave it out")
    with np.errstate(over="ignore", invalid="ignore"):
        return [_replay(short.alone(options), options.title()) for options in short.methods]


def _replay(experiment: Experiment, title: str) -> Differences:
    (options,) = experiment.methods
    if options.policy is not None:
        refuse_policy(options.policy)
    refuse_omniscient(experiment.attack)
    method: Any
    (method,) = experiment.start(experiment.task(0, wire="float64"))
    draws = draw(experiment, method.task, everybody=True)
    w, local = [], []
    for moment in any_method.play(draws, method, any_method.RunSamples(draws)):
        w.append(method.models(moment.server, moment.clients).copy())
        local.append(moment.clients.get("w", np.empty(0)).copy())
    chunks = list(draws.chunks())
    x, y = (np.concatenate([getattr(c, name) for c in chunks], axis=1) for name in ("x", "y"))
    sent = in_memory.run(method, x, y)
    both = {"global": _largest(sent.models, w), "local": _largest(sent.local, local)}
    apart = {"messages": both}
    if family.knows(method):
        apart["engine"] = {"global": _largest(family.replay(draws, [method]).w[:, 0], w)}
    return Differences(title, "lockstep", apart)


def engine(case: Case) -> tuple[Array, Array]:
    """The compiled engine: global models with lazy clients, local models brought up to date."""
    draws, methods = of_case(case), [case.method()]
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


def _largest(found: Array, expected: Any) -> float:
    return float(np.abs(found - np.asarray(expected)).max(initial=0.0))
