"""A small federation by hand: loops over numbers, for tests that transcribe a published method.

Nothing of psofed is used but what was drawn: samples, W and b of the features, cohorts, uniforms.
"""

from math import cos, sqrt
from typing import Any, NamedTuple

import numpy as np

from psofed.cli.laws.drivers import prepare, samples, simulate, small
from psofed.experiment import Features

K, D, N, STEP = 6, 12, 45, 0.75


class Drawn(NamedTuple):
    """Features z [K, N, D] and targets y [K, N] of all samples, the cohorts S_n, mu, the method."""

    z: Any
    y: Any
    cohorts: list[list[int]]
    step: float
    method: Any  # for masks, delays and graphs that were drawn
    seeds: Any


def drawn(options, dim=D, cohort=3):
    """The draws of a federation with one method, and the models that the simulator has for it."""
    features = Features(dim=dim, width=1.5)
    experiment = small(options, clients=K, cohort=cohort, rounds=N, step=STEP, features=features)
    method, draws = prepare(experiment)
    x, y = samples(draws)
    cosines = method.task.features
    z = [[feature(cosines.W, cosines.b, x[k, n]) for n in range(N)] for k in range(K)]
    cohorts = [method.task.cohorts.cohort(n).tolist() for n in range(N)]
    found = Drawn(np.array(z), y, cohorts, method.step, method, method.task.seeds)
    return found, simulate(experiment)


def feature(W, b, x):
    """z = sqrt(2/D) cos(W x + b)."""
    inner = [sum(a * c for a, c in zip(row, x, strict=True)) for row in W]
    return [sqrt(2 / len(b)) * cos(one + phase) for one, phase in zip(inner, b, strict=True)]


def lms(v, z, y, step=STEP):
    """v + mu e z, e = y - v^T z."""
    e = y - sum(a * c for a, c in zip(v, z, strict=True))
    return np.array([a + step * e * c for a, c in zip(v, z, strict=True)])


def federated(data, steps, update=None, invite=None, weigh=None, move=np.add):
    """w before each round: w + sum_k a_k U_k of the members of a block, usually their mean.

    U = `update(k, first, last, w)`, usually what k has learned; the members are `invite(first)`,
    a = `weigh(last, updates)`, and the server's next model `move(w, sum_k a_k U_k)`.
    """
    w, models = np.zeros(data.z.shape[-1]), []
    for n in range(N):
        models.append(w)
        if (n + 1) % steps == 0:
            first = n + 1 - steps
            members = invite(first) if invite else data.cohorts[first]
            own = {k: (update or learned)(data, k, first, n, w) for k in members}
            weights = weigh(n, own) if weigh else dict.fromkeys(own, 1 / max(len(own), 1))
            w = move(w, sum(a * own[k] for k, a in weights.items()))
    return np.array([*models, w])


def learned(data, k, first, last, w, prox=0.0):
    """What k adds to w in its steps of a block, which pull towards w by `prox`."""
    v = w
    for n in range(first, last + 1):
        v = lms(v, data.z[k][n], data.y[k][n]) - STEP * prox * (v - w)
    return v - w


def agree(transcribed, simulated):
    """Equal at 1e-12, and neither of them nothing."""
    assert simulated.shape == transcribed.shape
    assert np.abs(transcribed[-1]).max() > 0.01
    assert np.abs(simulated - transcribed).max() <= 1e-12


def windows(world, options):
    """S_{k,n} as a function of k and n: of what was drawn, or turned from the first one on."""
    schedule = world.method.schedule

    def entries(k, n):
        return schedule.entries(np.array([k]), n)[0].tolist()

    size, shared = world.z.shape[-1], options.shared
    if options.mask == "groups":
        groups = [[i % size for i in range(f, f + shared)] for f in range(0, size, shared)]
        first = [groups.index(entries(k, 0)) for k in range(K)]
        if options.selection == "stochastic":
            return lambda k, n: groups[groups.index(entries(k, n))]
        return lambda k, n: groups[(first[k] + n) % len(groups)]
    if options.selection == "stochastic":
        return entries
    shift = shared if options.mask == "block" else 1
    shift = shift if options.shift is None else options.shift
    return lambda k, n: [(i + shift * n) % size for i in entries(k, 0)]
