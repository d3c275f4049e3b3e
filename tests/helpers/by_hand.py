"""A small federation by hand: loops over numbers, for tests that transcribe a published method.

Nothing of psofed is used but what was drawn: samples, W and b of the features, cohorts, uniforms.
"""

from dataclasses import dataclass
from math import cos, sqrt

import numpy as np

from psofed.cli.laws.drivers import prepare, samples, simulate, small
from psofed.experiment import Features

STEP = 0.75


@dataclass(frozen=True)
class Drawn:
    """What a run has drawn: inputs and targets, z of each, who takes part, and the seeds."""

    z: list  # [k][n]
    y: list
    cohorts: list
    seeds: object
    rounds: int
    clients: int
    dim: int


def experiment(options, dim=12, **changes):
    settings = {"clients": 6, "cohort": 3, "rounds": 40, "step": STEP}
    return small(options, **settings | {"features": Features(dim=dim, width=1.5)} | changes)


def drawn(options, dim=12, run=0, **changes):
    """Of the run of this method; under a policy, cohorts are the policy's business."""
    method, draws = prepare(experiment(options, dim, **changes), run)
    (x, y), task = samples(draws), method.task
    clients, rounds = y.shape
    W, b = task.features.W, task.features.b
    z = [[features(W, b, x[k, n]) for n in range(rounds)] for k in range(clients)]
    cohorts = [task.cohorts.cohort(n).tolist() for n in range(rounds)]
    return Drawn(z, y.tolist(), cohorts, task.seeds, rounds, clients, dim)


def features(W, b, x):
    """z = sqrt(2/D) cos(W x + b)."""
    z = []
    for row, phase in zip(W, b, strict=True):
        z.append(sqrt(2 / len(b)) * cos(sum(a * c for a, c in zip(row, x, strict=True)) + phase))
    return np.array(z)


def lms(v, z, y, step=STEP):
    """v + mu e z, e = y - v^T z."""
    e = y - sum(a * c for a, c in zip(v, z, strict=True))
    return np.array([a + step * e * c for a, c in zip(v, z, strict=True)])


def federated(data, steps, update):
    """w before each round; `update(k, first, last, w)` is what the server makes of k's block."""
    w, models = np.zeros(data.dim), []
    for n in range(data.rounds):
        models.append(w)
        if (n + 1) % steps == 0:
            first = n + 1 - steps
            members = data.cohorts[first]
            total = np.zeros(data.dim)
            for k in members:
                total = total + update(k, first, n, w)
            w = w + total / len(members)
    return np.array([*models, w])


def local_block(data, k, first, last, w):
    """The model of k after its samples of these rounds, from w."""
    v = w
    for n in range(first, last + 1):
        v = lms(v, data.z[k][n], data.y[k][n])
    return v


def agrees(options, models, dim=12, run=0, **changes):
    """Whether the simulator has these models before every round, to 1e-12."""
    found = simulate(experiment(options, dim, **changes), run)
    assert found.shape == models.shape
    assert np.abs(models[-1]).max() > 0.01  # something was learned
    return np.abs(found - models).max() <= 1e-12
