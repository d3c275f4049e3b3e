"""FedAvg and what is built on it, ASO-Fed, and learners without rounds, in plain loops."""

from functools import partial
from math import exp, log, sqrt

import numpy as np
import pytest

from helpers.drawn import STEP, D, K, N, agree, drawn, federated, learned, lms
from psofed.methods import centralised
from psofed.rivals import asofed, cmfl, fedprox, fedscr


@pytest.mark.parametrize(("every", "prox"), [(1, 0.5), (4, 0.1), (9, 1.0)])
def test_fedprox_pulls_towards_the_model_of_the_block(every, prox):
    world, models = drawn(fedprox.Options(local_steps=every, prox=prox))
    agree(federated(world, every, partial(learned, prox=prox)), models)


@pytest.mark.parametrize(
    ("every", "v", "decay"),
    [(1, 0.5, "none"), (3, 0.6, "none"), (1, 0.8, "sqrt"), (2, 1.0, "sqrt")],
)
def test_cmfl_averages_the_updates_whose_signs_agree(every, v, decay):
    options = cmfl.Options(rule="literal", local_steps=every, threshold=v, decay=decay)
    world, models = drawn(options)
    last, skipped = np.zeros(D), []

    def weigh(n, updates):
        t = n // every
        limit = v / sqrt(t + 1) if decay == "sqrt" else v
        relevant = []
        for k, U in updates.items():
            same = sum((U[i] > 0) == (last[i] > 0) for i in range(D))
            if t == 0 or same / D >= limit:
                relevant.append(k)
        skipped.append(len(updates) - len(relevant))
        if relevant:
            last[:] = sum(updates[k] for k in relevant) / len(relevant)
        return {k: 1 / len(relevant) for k in relevant}

    agree(federated(world, every, weigh=weigh), models)
    assert sum(skipped) > 0


class Client:
    """What a client of FedSCR remembers."""

    def __init__(self):
        self.residual, self.mean, self.score = np.zeros(D), None, None


SCR = [("mean", 1.1, 1), ("mean", 1.0, 4), ("fixed", 0.2, 2), ("adaptive", 0.3, 1)]
SCR += [("adaptive", 0.6, 3)]


@pytest.mark.parametrize(("rule", "level", "every"), SCR)
def test_fedscr_sends_the_blocks_above_its_threshold(rule, level, every):
    known = {"threshold" if rule == "mean" else "scale": level}
    world, models = drawn(fedscr.Options(block=3, rule=rule, local_steps=every, **known))
    clients, variances, limits, losses = [Client() for _ in range(K)], [], [], {}

    def threshold(client, sums):
        if rule == "mean":
            now = sum(sums) / len(sums)
            client.mean = now if client.mean is None else 0.9 * client.mean + 0.1 * now
            return level * client.mean
        if rule == "fixed" or client.score is None:
            return level
        variance = sum(variances) / len(variances) if variances else 0.0
        return level / (1 + exp(-(client.score + variance)))

    def update(data, k, first, last, w):
        client, change = clients[k], learned(data, k, first, last, w)
        w_k, v = w + change, change + client.residual
        sums = [sum(abs(v[i : i + 3])) for i in range(0, D, 3)]
        limits.append(threshold(client, sums))
        sent = np.array([v[i] if sums[i // 3] >= limits[-1] else 0.0 for i in range(D)])
        client.residual = v - sent
        client.score = sqrt(sum(abs(change)) / sum(abs(w_k)))
        client.score += sqrt(abs(sum(sent) / sum(w_k)))
        before = [w + learned(data, k, first, n - 1, w) for n in range(first, last + 1)]
        errors = [data.y[k, n] - v @ data.z[k, n] for n, v in enumerate(before, first)]
        losses[k] = sum(e**2 / 2 for e in errors) / every
        return sent

    def weigh(n, updates):
        found = np.array([losses[k] for k in updates])
        variances.append(np.mean((found - np.mean(found)) ** 2))
        return {k: 1 / len(updates) for k in updates}

    agree(federated(world, every, update, weigh=weigh), models)
    assert (len(set(limits)) == 1) == (rule == "fixed")


def aso_fed(world, o):
    """Clients that learn on; the server exchanges the share of one after another."""
    w, seen = np.zeros(D), []
    copy, w_k, received, v, h = (np.zeros((K, D)) for _ in range(5))
    rate, visits = np.ones(K), np.zeros(K)
    for n in range(N):
        seen.append(w.copy())
        for k in range(K):
            error = world.y[k, n] - w_k[k] @ world.z[k, n]
            gradient = -error * world.z[k, n] + o.lam * (w_k[k] - received[k])
            direction = gradient
            if o.memory:
                direction = gradient - v[k] + h[k]
                h[k] = o.beta * h[k] + (1 - o.beta) * v[k]
                v[k] = gradient
            w_k[k] = w_k[k] - rate[k] * world.step * direction
        visitors = world.method.visitors(n).tolist()
        assert set(visitors) <= set(world.cohorts[n])
        assert len(visitors) == (o.visitors or 3)
        for k in visitors:
            w = w - (copy[k] - w_k[k]) / K
            copy[k] = w_k[k]
            received[k] = w
            visits[k] += 1
            if o.delays == "log":
                rate[k] = max(1.0, log((n + 1) / visits[k]))
        for k in visitors:
            w_k[k] = received[k] = w if o.barrier else received[k]
    return np.array([*seen, w])


ASO = [
    {},
    {"memory": True, "lam": 1.0, "delays": "log", "step": 0.1},
    {"memory": True, "lam": 0.1, "beta": 0.3, "step": 0.2, "visitors": 1},
    {"visitors": 2, "barrier": True, "delays": "log", "step": 0.2},
]


@pytest.mark.parametrize("settings", ASO, ids=str)
def test_aso_fed_exchanges_the_share_of_one_client_after_another(settings):
    options = asofed.Options(**settings)
    world, models = drawn(options)
    agree(aso_fed(world, options), models)


DIMS = pytest.mark.parametrize("dim", [12, 16])


@DIMS
@pytest.mark.parametrize("form", ["batch", "sequential"])
def test_the_centralised_learner_sees_all_samples(form, dim):
    options = centralised.Options(form)
    data, simulated = drawn(options, dim)
    models = np.zeros((N + 1, dim))
    for n in range(N):
        w = models[n]
        steps = [lms(w, data.z[k][n], data.y[k][n]) - w for k in range(K)]
        w = w + sum(steps) / K
        if form == "sequential":
            w = models[n]
            for k in range(K):
                w = lms(w, data.z[k][n], data.y[k][n], STEP)
        models[n + 1] = w
    agree(models, simulated)
