"""Partial diffusion on a graph, as its equations say: plain loops over nodes and neighbours."""

import numpy as np
import pytest

from helpers.drawn import D, K, N, agree, drawn
from psofed.rivals import pdlms, pdrls


def ring(degree):
    near = range(1, degree // 2 + 1)
    return [sorted({(k + d) % K for d in near} | {(k - d) % K for d in near}) for k in range(K)]


GRAPHS = {
    "ring": lambda world: ring(2),
    "complete": lambda world: [[j for j in range(K) if j != k] for k in range(K)],
    "star": lambda world: [[*range(1, K)], *[[0]] * (K - 1)],
}


def groups(world, options):
    """The group of each node: in turn from the first one that was drawn, or drawn each time."""
    M = options.shared
    fixed = [[i % D for i in range(first, first + M)] for first in range(0, D, M)]

    def number(k, n):
        return fixed.index(world.method.schedule.entries(k, n).tolist())

    if options.selection == "stochastic":
        return lambda k, n: fixed[number(k, n)]
    return lambda k, n: fixed[(number(k, 0) + n) % len(fixed)]


def diffusion(world, options, forget=None):
    """Adapt by LMS, or by RLS with `forget`; then combine what was heard with one's own."""
    near, window = GRAPHS[options.graph](world), groups(world, options)
    w, Q, seen = np.zeros((K, D)), [np.eye(D) * 100 for _ in range(K)], []
    for n in range(N):
        seen.append(w)
        phi = np.zeros((K, D))
        for k in range(K):
            z, error = world.z[k, n], world.y[k, n] - w[k] @ world.z[k, n]
            gain = world.step * z
            if forget is not None:
                gain = Q[k] @ z / (forget + z @ Q[k] @ z)
                Q[k] = (Q[k] - np.outer(gain, z) @ Q[k]) / forget
            phi[k] = w[k] + gain * error
        w = np.zeros((K, D))
        for k in range(K):
            own = 1.0
            for j in near[k]:
                share = 1 / (1 + max(len(near[k]), len(near[j])))
                heard = [phi[j, i] if i in window(j, n) else phi[k, i] for i in range(D)]
                w[k] = w[k] + share * np.array(heard)
                own -= share
            w[k] = w[k] + own * phi[k]
    return np.array([*seen, w])


SETTINGS = [
    {"shared": 4, "degree": 2, "selection": "stochastic"},
    {"shared": 5, "degree": 2, "selection": "sequential"},
    {"shared": 5, "graph": "star", "scheme": "coordinated"},
    {"shared": 3, "graph": "complete", "selection": "stochastic"},
    {"shared": 12, "degree": 2},
    {"shared": 7, "graph": "star", "selection": "stochastic", "scheme": "coordinated"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_partial_diffusion_lms_adapts_and_combines_one_group(settings):
    options = pdlms.Options(mask="groups", **settings)
    world, models = drawn(options)
    agree(diffusion(world, options), models)


@pytest.mark.parametrize("settings", SETTINGS[:3], ids=str)
def test_partial_diffusion_rls_adapts_by_recursive_least_squares(settings):
    options = pdrls.Options(mask="groups", forget=0.98, **settings)
    world, models = drawn(options)
    agree(diffusion(world, options, forget=0.98), models)
