"""A small federation to try a method in, and the ways to play it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import UniformCohorts
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.methods.contract import Method, Options
from psofed.policies.contract import Options as PolicyOptions
from psofed.protocol import in_memory
from psofed.simulate import any_method, family
from psofed.simulate.draws import Draws, draw

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
    method, draws = prepare(experiment, run)
    if family.knows(method):
        return family.replay(draws, [method]).w[:, 0]
    return stepwise(experiment, run)


def played(method: Method, draws: Draws) -> Any:
    """The moments before each round, in lockstep."""
    return any_method.play(draws, method, any_method.RunSamples(draws))


def stepwise(experiment: Experiment, run: int = 0) -> Array:
    """The same models, round by round in lockstep."""
    method, draws = prepare(experiment, run)
    return np.array([method.models(m.server, m.clients).copy() for m in played(method, draws)])


def samples(draws: Draws) -> tuple[Array, Array]:
    """x [K, N, L] and y [K, N]."""
    (chunk,) = draws.chunks()
    return chunk.x, chunk.y


def exchange(experiment: Experiment, run: int = 0) -> in_memory.Exchange:
    """The same rounds as messages between the deployed handlers."""
    method, draws = prepare(experiment, run)
    return in_memory.run(method, *samples(draws))
