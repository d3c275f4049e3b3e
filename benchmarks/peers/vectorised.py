"""NumPy, all clients of a round at once; features a block of rounds at a time, for all methods."""

from __future__ import annotations

import numpy as np
from job import Array, Inputs, Windows

BLOCK = 8  # rounds whose features are computed at once: they stay in the second-level cache


def run(inputs: Inputs) -> Array:
    """The test error of each method before every round and after the last."""
    clients, rounds, _ = inputs.x.shape
    dim, count = len(inputs.b), len(inputs.methods)
    history = np.zeros((rounds + 1, count, dim), inputs.x.dtype)
    local = np.zeros((count, clients, dim), inputs.x.dtype)
    x = np.ascontiguousarray(inputs.x.swapaxes(0, 1))
    y = np.ascontiguousarray(inputs.y.T)
    for begin in range(0, rounds, BLOCK):
        z_block = inputs.features(x[begin : begin + BLOCK])
        for n, z in enumerate(z_block, start=begin):
            for j, method in enumerate(inputs.methods):
                now, new = history[n, j], history[n + 1, j]
                one_round(n, inputs.cohorts[n], method, z, y[n], now, local[j], new)
    return judge(inputs, history)


def one_round(
    n: int, cohort: Array, method: Windows, z: Array, y: Array, w: Array, local: Array, new: Array
) -> None:
    """Download, learn, upload, average. Changes the local models and `new`, the global one."""
    rows = cohort[:, None]
    window = method.at(n, cohort, len(w))
    local[rows, window] = w[window]
    if method.idle:
        error = y - np.vecdot(local, z)
        local += (method.step * error)[:, None] * z
    else:
        error = y[cohort] - np.vecdot(local[cohort], z[cohort])
        local[cohort] += (method.step * error)[:, None] * z[cohort]
    window = method.at(n + 1, cohort, len(w))
    new[:] = w
    # Not "+=", because two members may upload the same entry.
    np.add.at(new, window, (local[rows, window] - w[window]) / len(cohort))


def judge(inputs: Inputs, w: Array) -> Array:
    """mean((y - Z w)^2) of all models [..., D] by the test set's second moments; method first."""
    z, y = inputs.features(inputs.x_test), inputs.y_test
    R, r = z.T @ z / len(y), z.T @ y / len(y)
    mse: Array = np.vecdot(w @ R, w) - 2 * (w @ r) + np.mean(y**2)
    return mse.T
