"""Randomness is resolved first: the samples and cohorts of one run, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.case import Case
from psofed.core.features import FeatureMap
from psofed.experiment import Experiment
from psofed.methods.contract import Task

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Draws:
    """What every executor of one run is given: nothing random is left."""

    features: FeatureMap
    ids: Array  # the clients that were drawn; row i of x and y belongs to client ids[i]
    x: Array  # [client, round, tap]
    y: Array  # [client, round]
    start: Array  # the cohort of round n is members[start[n]:start[n + 1]]
    members: Array  # client numbers

    @property
    def rounds(self) -> int:
        return len(self.start) - 1


def draw(experiment: Experiment, task: Task, everybody: bool) -> Draws:
    """The draws of one run: of all clients, or only of those that are ever selected."""
    rounds = experiment.rounds
    members = task.cohorts.cohort(np.arange(rounds)).ravel()
    ids = np.arange(task.clients) if everybody else np.unique(members)
    samples = experiment.stream.samples(task.seeds, ids, rounds)
    x = np.ascontiguousarray(samples.x, task.dtype)
    y = samples.y.astype(task.dtype)
    start = np.arange(rounds + 1) * experiment.cohort
    return Draws(task.features, ids, x, y, start, members)


def of_case(case: Case) -> Draws:
    """The draws that a case prescribes."""
    sizes = [len(cohort) for cohort in case.cohorts]
    members = [k for cohort in case.cohorts for k in cohort]
    start = np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)])
    ids = np.arange(len(case.x))
    return Draws(case.features, ids, case.x, case.y, start, np.array(members, np.intp))
