"""Ditto, POF-MKL and Fed-POE in plain loops, after the papers and their authors' code."""

from math import exp, sqrt

import numpy as np
import pytest

from helpers.drawn import STEP, D, K, N, agree, drawn, lms
from psofed.cli.laws.drivers import played, prepare, small
from psofed.experiment import Features
from psofed.rivals import ditto, fedpoe, pofmkl


def own_models(options):
    """What clients have themselves before each round, of the federation of `drawn`."""
    features = Features(dim=D, width=1.5)
    experiment = small(options, clients=K, cohort=3, rounds=N, step=STEP, features=features)
    method, draws = prepare(experiment)
    return np.array([method.models(None, m.clients).copy() for m in played(method, draws)])


@pytest.mark.parametrize("lam", [0.02, 0.5])
def test_ditto_pulls_personal_models_towards_the_global_one(lam):
    world, models = drawn(ditto.Options(prox=lam))
    w, known, v = np.zeros(D), np.zeros((K, D)), np.zeros((K, D))
    seen, own = [], []
    for n in range(N):
        seen.append(w)
        own.append(v.copy())
        for k in world.cohorts[n]:
            known[k] = w
        for k in range(K):
            error = world.y[k, n] - v[k] @ world.z[k, n]
            v[k] = v[k] + STEP * (error * world.z[k, n] - lam * (v[k] - known[k]))
        uploads = [lms(w, world.z[k, n], world.y[k, n]) for k in world.cohorts[n]]
        w = sum(uploads) / len(uploads)
    agree(np.array([*seen, w]), models)
    agree(np.array([*own, v]), own_models(ditto.Options(prox=lam)))


def split(z, kernels):
    """The features of each kernel; their squares sum to about 1."""
    size = D // kernels
    return [sqrt(kernels) * z[p * size : (p + 1) * size] for p in range(kernels)]


def joined(weights, theta, kernels):
    """sum_p a_p theta_p^T z_p as one model of z."""
    total = sum(weights)
    return np.concatenate(
        [sqrt(kernels) * a / total * t for a, t in zip(weights, theta, strict=True)]
    )


def zeros(kernels):
    return [np.zeros(D // kernels) for _ in range(kernels)]


@pytest.mark.parametrize(("kernels", "rate"), [(1, 0.3), (3, 0.1), (4, 2.0)])
def test_fed_poe_mixes_federated_and_local_models(kernels, rate):
    options = fedpoe.Options(kernels=kernels, rate=rate)
    world, models = drawn(options)
    theta, known = zeros(kernels), [zeros(kernels) for _ in range(K)]
    local, a, b = [zeros(kernels) for _ in range(K)], [1.0] * K, [1.0] * K
    fed_weights, loc_weights = ([[1.0] * kernels for _ in range(K)] for _ in range(2))
    seen, own = [], []

    def judge():
        seen.append(joined([1.0] * kernels, theta, kernels))
        own.append([
            (a[k] * joined(fed_weights[k], known[k], kernels)
             + b[k] * joined(loc_weights[k], local[k], kernels)) / (a[k] + b[k])
            for k in range(K)
        ])  # fmt: skip

    for n in range(N):
        judge()
        updates = []
        for k in range(K):
            if k in world.cohorts[n]:
                known[k] = [t.copy() for t in theta]
            z, y = split(world.z[k, n], kernels), world.y[k, n]
            fed = [t @ part for t, part in zip(known[k], z, strict=True)]
            loc = [t @ part for t, part in zip(local[k], z, strict=True)]
            mean_fed = sum(c * f for c, f in zip(fed_weights[k], fed, strict=True)) / sum(
                fed_weights[k]
            )
            mean_loc = sum(c * f for c, f in zip(loc_weights[k], loc, strict=True)) / sum(
                loc_weights[k]
            )
            a[k] *= exp(-rate * (y - mean_fed) ** 2)
            b[k] *= exp(-rate * (y - mean_loc) ** 2)
            for p in range(kernels):
                fed_weights[k][p] *= exp(-rate * (y - fed[p]) ** 2)
                loc_weights[k][p] *= exp(-rate * (y - loc[p]) ** 2)
                local[k][p] = local[k][p] + STEP * (y - loc[p]) * z[p]
            if k in world.cohorts[n]:
                updates.append([STEP * (y - fed[p]) * z[p] for p in range(kernels)])
        theta = [
            t + sum(update[p] for update in updates) / len(updates) for p, t in enumerate(theta)
        ]
    judge()
    agree(np.array(seen), models)
    agree(np.array(own), own_models(options))


@pytest.mark.parametrize(("kernels", "sent", "zeta"), [(3, 1, 0.5), (4, 2, 0.1), (6, 4, 1.0)])
def test_pof_mkl_uploads_a_bin_of_kernels_over_its_probability(kernels, sent, zeta):
    rate = 0.2
    options = pofmkl.Options(kernels=kernels, sent=sent, rate=rate, explore=zeta, step=0.2)
    world, models = drawn(options)
    theta, known = zeros(kernels), [zeros(kernels) for _ in range(K)]
    weights = [[1.0] * kernels for _ in range(K)]
    seen, own, drawn_bins = [], [], set()

    def judge():
        seen.append(joined([1.0] * kernels, theta, kernels))
        own.append([joined(weights[k], known[k], kernels) for k in range(K)])

    for n in range(N):
        judge()
        changes = [np.zeros(D // kernels) for _ in range(kernels)]
        for k in range(K):
            if k in world.cohorts[n]:
                known[k] = [t.copy() for t in theta]
            z, y = split(world.z[k, n], kernels), world.y[k, n]
            errors = [y - t @ part for t, part in zip(known[k], z, strict=True)]
            weights[k] = [c * exp(-rate * e**2) for c, e in zip(weights[k], errors, strict=True)]
            if k not in world.cohorts[n]:
                continue
            order = sorted(range(kernels), key=lambda p, k=k: -weights[k][p])
            bins = [order[i : i + sent] for i in range(0, kernels, sent)]
            total = sum(weights[k])
            chances = [
                (1 - zeta) * sum(weights[k][p] for p in some) / total + zeta / len(bins)
                for some in bins
            ]
            u, i = world.seeds.uniforms("pofmkl", client=k, round=n, count=1)[0], 0
            while u >= sum(chances[: i + 1]) and i < len(bins) - 1:
                i += 1
            drawn_bins.add(i)
            for p in bins[i]:
                changes[p] += 0.2 * errors[p] * z[p] / chances[i] / len(world.cohorts[n])
        theta = [t + change for t, change in zip(theta, changes, strict=True)]
    judge()
    assert len(drawn_bins) > 1
    agree(np.array(seen), models)
    agree(np.array(own), own_models(options))
