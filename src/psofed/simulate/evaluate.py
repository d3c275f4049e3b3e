"""The test error of any number of models at once, and two lines to compare it with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.experiment import Experiment
from psofed.methods.contract import Task

Array = NDArray[Any]
JITTER = 1e-11  # relative to the trace: keeps the factor real, and is far below any error


@dataclass(frozen=True, eq=False)
class TestSet:
    """A test set as its MSE needs it: scale |factor^T w - target|^2 + rest.

    With more samples than features the factor is the triangle L of Z Z^T / N_test = L L^T, which
    costs D^2/2 for a model, not N_test D; otherwise it is Z_test itself.
    """

    __test__ = False  # not a test, whatever pytest thinks of the name

    factor: Array  # [D, row]
    target: Array  # [row]
    scale: float
    rest: float
    triangular: bool = False

    def mse(self, w: Array) -> NDArray[np.float64]:
        """MSE = |y_test - Z_test^T w|^2 / N_test of each model in w [..., D]."""
        misfit = w @ self.factor
        misfit -= self.target
        misfit = misfit.astype(np.float64, copy=False)
        return self.scale * np.vecdot(misfit, misfit) + self.rest


def make_test(z: Array, y: Array, dtype: Any) -> TestSet:
    """The test set of features z [N_test, D] and targets y, for models of precision `dtype`."""
    count, dim = z.shape
    if count < dim:
        return TestSet(np.ascontiguousarray(z.T, dtype), y.astype(dtype), 1 / count, 0.0)
    # In float64 always: the features are so redundant that float32 cannot tell them apart. With
    # the targets as one more feature, the last row of the triangle is the target and the rest.
    both = np.empty((count, dim + 1))
    both[:, :dim], both[:, dim] = z, y
    moments = both.T @ both / count
    moments[np.diag_indices(dim + 1)] += JITTER * np.trace(moments)
    L = np.linalg.cholesky(moments)
    target, rest = L[dim, :dim], L[dim, dim] ** 2
    factor = L[:dim, :dim].astype(dtype)
    return TestSet(factor, target.astype(dtype), 1.0, float(rest), triangular=True)


def draw_test(experiment: Experiment, task: Task) -> TestSet:
    """Noise-free samples of all clients, fixed within the run."""
    sample = experiment.stream.snapshot(task.seeds, "test", task.clients, experiment.test_samples)
    return make_test(task.features(sample.x.astype(task.dtype)), sample.clean, task.dtype)


def floors(experiment: Experiment, run: int) -> tuple[float, float]:
    """The test MSE of a ridge regression on far more data than any client sees; the noise variance.

    w = (sum z z^T + lambda I)^-1 sum z y, lambda = 1e-6 n / D, on n = 200 D noise-free samples.
    """
    task = experiment.task(run)
    count = 200 * task.dim
    sample = experiment.stream.snapshot(task.seeds, "ridge", task.clients, count)
    R, r = np.zeros((task.dim, task.dim)), np.zeros(task.dim)
    for part in np.array_split(np.arange(count), 10):  # all features at once would be large
        z = task.features(sample.x[part].astype(task.dtype)).astype(np.float64)
        R += z.T @ z
        r += z.T @ sample.clean[part]
    w = np.linalg.solve(R + 1e-6 * count / task.dim * np.eye(task.dim), r)
    ridge = draw_test(experiment, replace(task, dtype="float64")).mse(w)
    return float(ridge), float(np.mean(np.square(sample.noise)))
