"""The test error of any number of models at once, and the floors that no model gets below."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.experiment import Experiment
from psofed.methods.contract import Task

Array = NDArray[Any]
RIDGE_SAMPLES = 20_000


@dataclass(frozen=True, eq=False)
class TestSet:
    """The second moments of a test set: all that the MSE of a linear model needs."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    R: Array  # mean of z z^T
    r: Array  # mean of z y
    power: float  # mean of y^2

    def mse(self, w: Array) -> NDArray[np.float64]:
        """MSE = |y_test - Z_test^T w|^2 / N_test, as the quadratic form w^T R w - 2 r^T w + power.

        `w` is [..., D]; one matrix product serves all models.
        """
        quadratic = np.vecdot(w @ self.R, w) - 2 * (w @ self.r)
        return quadratic.astype(np.float64) + self.power


def draw_test(experiment: Experiment, task: Task) -> TestSet:
    """Noise-free samples of all clients, fixed within the run."""
    sample = experiment.stream.snapshot(task.seeds, "test", task.clients, experiment.test_samples)
    z, y = task.features(sample.x.astype(task.dtype)), sample.clean.astype(task.dtype)
    count = len(y)
    return TestSet(z.T @ z / count, z.T @ y / count, float(np.mean(np.square(sample.clean))))


def floors(experiment: Experiment, run: int) -> tuple[float, float]:
    """The ridge floor, and the variance of the noise.

    Ridge: w = (sum z z^T + lambda I)^-1 sum z y, lambda = 1e-6 n / D, on n noisy training samples.
    Always in float64: the features are so redundant that float32 cannot tell the directions apart.
    """
    task = replace(experiment, dtype="float64").task(run)
    sample = experiment.stream.snapshot(task.seeds, "ridge", task.clients, RIDGE_SAMPLES)
    z = task.features(sample.x)
    w = np.linalg.solve(z.T @ z + 1e-6 * len(z) / task.dim * np.eye(task.dim), z.T @ sample.y)
    ridge = draw_test(experiment, task).mse(w)
    return float(ridge), float(np.mean(np.square(sample.noise)))
