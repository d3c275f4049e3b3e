"""The rules of a learner: a flat vector that predicts and learns, alike in every executor."""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.checks import drivers
from psofed.checks.bench import exchange, small, stepwise
from psofed.checks.rules import BrokenError, largest, require
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.learners.contract import Learner
from psofed.learners.examine import trial
from psofed.methods import psofed

STEP, TINY = 0.05, 1e-3


def _world(learner: Learner, **changes: Any) -> Experiment:
    features = Features(dim=10, width=1.5) if learner.featured else Features()
    half = psofed.Options(shared=1, allow_uneven=True)
    return small(half, **{"learner": learner, "features": features, "step": STEP} | changes)


def arrays_have_their_shapes(learner: Learner) -> None:
    """Arrays have the shapes of the contract, axes broadcast, and what is declared holds."""
    experiment = _world(learner)
    task = experiment.task(0)
    try:
        trial(learner, task.taps, task.dim, task.features.dim)
    except InputError as error:
        raise BrokenError(str(error)) from None


def seeds_decide(learner: Learner) -> None:
    """The first model depends on the world's seed and on nothing else."""
    dim = _world(learner).dim
    for seeds in (Seeds(1), Seeds(1, 3, 0)):
        first, again = (learner.initial(seeds, 4, dim) for _ in range(2))
        require(np.array_equal(first, again), "a second drawing gives another model")
    one, other = (learner.initial(Seeds(1, run, 0), 4, dim) for run in (1, 2))
    require(np.array_equal(one, other), "runs of one world begin with different models")


def precision_is_kept(learner: Learner) -> None:
    """The precision of a model is kept."""
    for dtype in ("float32", "float64"):
        task = _world(learner, dtype=dtype).task(0)
        w, rng = np.tile(task.initial(), (2, 1)), np.random.default_rng(0)
        z = rng.standard_normal((2, task.features.dim)).astype(dtype)
        found = learner.predict(w, z), learner.learn(w, z, np.ones(2, dtype), TINY), w
        for name, array in zip(("predict", "learn", "w"), found, strict=True):
            require(array.dtype == dtype, f"{name} is {array.dtype} where {dtype} is due")


def a_step_helps(learner: Learner) -> None:
    """A step makes the error smaller at the sample from which it was learned."""
    task = _world(learner).task(0)
    rng = np.random.default_rng(0)
    w = np.tile(task.initial(), (20, 1)) + 0.1 * rng.standard_normal((20, task.dim))
    z = task.features(rng.standard_normal((20, task.taps)))
    y = learner.predict(w, z) + rng.choice([-1.0, 1.0], 20)
    learner.learn(w, z, y, TINY)
    worse = int(np.count_nonzero(np.abs(y - learner.predict(w, z)) > 1))
    require(not worse, f"it is larger after {worse} of 20 steps of {TINY}")


def executors_agree(learner: Learner) -> None:
    """Simulator, messages and a deployment that restarts give the same models, to 1e-12."""
    experiment = _world(learner, rounds=drivers.ROUNDS)
    expected = stepwise(experiment)
    require(largest(expected[-1], expected[0]) > 0, "nothing is learned")
    found = {"messages": exchange(experiment).models, "deployed": drivers.deployed(experiment)}
    for name, models in found.items():
        apart = largest(models, expected)
        require(apart <= 1e-12, f"{name} differ by {apart:.1e}")


RULES = (arrays_have_their_shapes, seeds_decide, precision_is_kept, a_step_helps, executors_agree)
