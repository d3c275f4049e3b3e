"""A plain NumPy loop: round by round, method by method, client by client, as Algorithm 1 reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from job import Array, Inputs, Windows


def run(inputs: Inputs, rounds: int | None = None) -> Array:
    """The test error of each method before rounds 0, 1, ..., `rounds` (all, if not given)."""
    clients, available, _ = inputs.x.shape
    rounds = available if rounds is None else rounds
    dim = len(inputs.b)
    w = np.zeros((len(inputs.methods), dim))
    local = np.zeros((len(inputs.methods), clients, dim))
    z_test = inputs.features(inputs.x_test)
    mse = np.empty((len(inputs.methods), rounds + 1))
    for n in range(rounds):
        for j in range(len(inputs.methods)):
            mse[j, n] = np.mean((inputs.y_test - z_test @ w[j]) ** 2)
        z = [inputs.features(inputs.x[k, n]) for k in range(clients)]
        for j, method in enumerate(inputs.methods):
            w[j] = one_round(n, inputs.cohorts[n], method, z, inputs.y[:, n], w[j], local[j])
    for j in range(len(inputs.methods)):
        mse[j, rounds] = np.mean((inputs.y_test - z_test @ w[j]) ** 2)
    return mse


def run_apart(inputs: Inputs, rounds: int | None = None) -> Array:
    """The same, one method after the other, as separate simulations: features are not shared."""
    apart = [replace(inputs, methods=[method]) for method in inputs.methods]
    return np.vstack([run(one, rounds) for one in apart])


def one_round(
    n: int, cohort: Array, method: Windows, z: list[Array], y: Array, w: Array, local: Array
) -> Array:
    """Download, learn, upload, average. Changes the local models; returns the global one."""
    dim = len(w)
    for k in cohort:
        window = method.at(n, np.array([k]), dim)[0]
        local[k, window] = w[window]
    for k in range(len(local)) if method.idle else cohort:
        error = y[k] - local[k] @ z[k]
        local[k] += method.step * error * z[k]
    new = np.zeros(dim)
    for k in cohort:
        window = method.at(n + 1, np.array([k]), dim)[0]
        upload = w.copy()
        upload[window] = local[k, window]
        new += upload / len(cohort)
    return new
