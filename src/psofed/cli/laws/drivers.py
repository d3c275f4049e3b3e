"""A small federation, and the ways to play it: compiled, in lockstep, as messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from psofed.core.schedule import UniformCohorts
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.contract import Array, Method
from psofed.federation.options import Options
from psofed.federation.policy import Options as PolicyOptions
from psofed.fleet.protocol import in_memory
from psofed.simulate import any_method, family
from psofed.simulate.draws import Draws, draw
from psofed.streams import paper
from psofed.streams.contract import Samples

DIM, CLIENTS, COHORT = 10, 5, 2
TOLERANCE = 1e-12  # of models that must be the same


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
    found = compiled(experiment, run)
    return stepwise(experiment, run) if found is None else found


def largest(found: Any, expected: Any) -> float:
    """The largest difference; NaN is as far as can be."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        return float("inf")
    apart = float(np.abs(found - expected).max(initial=0.0))
    return float("inf") if np.isnan(apart) else apart


def played(method: Method, draws: Draws) -> Any:
    """The moments before each round, in lockstep."""
    return any_method.play(method, any_method.RunSamples(draws))


def stepwise(experiment: Experiment, run: int = 0) -> Array:
    """The same models, round by round in lockstep."""
    method, draws = prepare(experiment, run)
    return np.array([method.models(m.server, m.clients).copy() for m in played(method, draws)])


def samples(draws: Draws) -> tuple[Array, Array]:
    """x [K, N, L] and y [K, N]."""
    (chunk,) = draws.chunks(draws.rounds)
    return chunk.x, chunk.y


def exchange(experiment: Experiment, run: int = 0) -> in_memory.Exchange:
    """The same rounds as messages between the deployed handlers."""
    method, draws = prepare(experiment, run)
    return in_memory.run(method, *samples(draws))


ROUNDS = 32


@dataclass(frozen=True)
class Gappy(paper.Options):
    """The paper's stream with missing samples, silent rounds, a late joiner and one that stops."""

    name: ClassVar[str] = "gappy"
    gaps: ClassVar[bool] = True

    def known(self) -> Array:
        """[client, round]: whether there is a sample."""
        found: Array = np.random.default_rng(5).uniform(size=(CLIENTS, ROUNDS)) < 0.75
        found[:, 8:12] = found[:, 20] = False
        found[3, :13] = found[4, 24:] = False
        found[3, 13] = found[4, 23] = True
        return found

    def presence(self) -> tuple[Array, Array, Array]:
        """One joins in round 13, one leaves after round 23."""
        known = self.known()
        stop = np.array([ROUNDS, ROUNDS, ROUNDS, ROUNDS, 24])
        return np.array([0, 0, 0, 13, 0]), stop, np.append(known.any(axis=0), False)

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


def compiled(experiment: Experiment, run: int = 0) -> Array | None:
    """The kernel, where it has the method."""
    method, draws = prepare(experiment, run)
    return family.replay(draws, [method]).w[:, 0] if family.supports(method) else None
