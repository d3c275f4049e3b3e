"""The job that all peers do: the paper's seven curves of one Monte-Carlo run, as plain arrays.

Everything random is drawn here, by psofed's own draws for every peer, so that peers differ only in
what they compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import psofed
from psofed.simulate.onerun import one_run

Array = NDArray[Any]
FIRST = 20  # earlier runs also compute the floors of the figures, which are not part of the job


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of one method: S_{k,n} = (start[k] + shift n) mod D."""

    start: Array  # [K, M], or [1, M] if all clients share it
    shift: int
    idle: bool  # whether clients that are not selected learn
    step: float

    @property
    def shared(self) -> int:
        """M."""
        return int(self.start.shape[1])

    def at(self, n: int, clients: Array, dim: int) -> Array:
        """S_{k,n} of `clients`: [client, M]."""
        rows = self.start[clients if len(self.start) > 1 else np.zeros_like(clients)]
        moved: Array = (rows + self.shift * n) % dim
        return moved


@dataclass(frozen=True, eq=False)
class Inputs:
    """The draws of one run. Symbols as in the paper: K clients, N rounds, L taps, D features."""

    x: Array  # [K, N, L]
    y: Array  # [K, N]
    W: Array  # [D, L]
    b: Array  # [D]
    cohorts: Array  # [N, |S_n|]
    methods: list[Windows]
    x_test: Array  # [T, L]
    y_test: Array  # [T], noise-free

    def features(self, x: Array) -> Array:
        """z = sqrt(2/D) cos(W x + b)."""
        z: Array = np.cos(x @ self.W.T + self.b)
        z *= np.sqrt(2 / len(self.b)).astype(z.dtype)
        return z


def paper(dtype: Literal["float32", "float64"], rounds: int = 1000) -> psofed.Experiment:
    """The paper's setting: 7 curves, K = 100, D = 200, cohorts of 4."""
    return psofed.Experiment(rounds=rounds, runs=1, dtype=dtype)


def ours(experiment: psofed.Experiment, run: int) -> Array:
    """The engine's test error [method, N + 1] of Monte-Carlo run number `run`, draws included."""
    mse: Array = one_run(experiment, run).mse
    return mse


def inputs(experiment: psofed.Experiment, run: int) -> Inputs:
    """The draws of Monte-Carlo run number `run`, in the experiment's precision."""
    task = experiment.task(run)
    features: Any = task.features
    x, y, x_test, y_test = (part.astype(task.dtype) for part in data(experiment, task))
    cohorts = task.cohorts.cohort(np.arange(experiment.rounds))
    methods = [windows(method, task.clients) for method in experiment.start(task)]
    return Inputs(x, y, features.W, features.b, cohorts, methods, x_test, y_test)


def data(experiment: psofed.Experiment, task: Any) -> tuple[Array, Array, Array, Array]:
    """The samples of all clients, and the test set."""
    clients = np.arange(task.clients)
    samples = experiment.stream.samples(task.seeds, clients, 0, experiment.rounds, task.dtype)
    test = experiment.stream.snapshot(task.seeds, "test", task.clients, experiment.test_samples)
    return samples.x, samples.y, test.x, test.clean


def windows(method: Any, clients: int) -> Windows:
    """The windows of a method, of all clients."""
    schedule = method.schedule
    common = getattr(schedule, "coordinated", True)  # Online-Fed's schedule has one row
    ids = np.arange(1 if common else clients)
    return Windows(schedule.entries(ids, 0), schedule.shift, method.idle, float(method.step))
