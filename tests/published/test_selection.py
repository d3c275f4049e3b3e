"""Who takes part and with which weight, transcribed from the papers in plain loops."""

from functools import partial
from math import sqrt

import numpy as np
import pytest

from helpers.drawn import D, K, agree, drawn, federated
from psofed.core.seeds import subsets
from psofed.methods import fedavg
from psofed.rivals.policies import fedcs, folb, importance, optimal

STEPS = pytest.mark.parametrize("steps", [1, 3])


def norm(v):
    return sqrt(sum(x * x for x in v))


def uniform(data, n, size):
    return subsets(data.seeds.uniforms("cohort", round=n, count=size), K).tolist()


def greedy(asked, model_bits, rate, time, deadline):
    """Nishio and Yonetani: argmin of T_d(S + k) - T_d(S) + t_UL + max(0, t_UD - Theta)."""

    def distribution(chosen):
        return model_bits / min(rate[k] for k in chosen) if chosen else 0.0

    left, chosen, theta = set(asked), [], 0.0
    while left:
        adds = {
            k: distribution([*chosen, k]) - distribution(chosen)
            + model_bits / rate[k] + max(0.0, time[k] - theta)
            for k in sorted(left)
        }  # fmt: skip
        k = min(adds, key=adds.get)
        left.remove(k)
        later = theta + model_bits / rate[k] + max(0.0, time[k] - theta)
        if distribution([*chosen, k]) + later < deadline:
            theta = later
            chosen.append(k)
    return sorted(chosen)


@STEPS
@pytest.mark.parametrize(("share", "deadline", "times"), [
    (1.0, 0.35, (1.0, 20.0)), (0.6, 0.3, (1.0, 20.0)), (1.0, 0.4, (50.0, 250.0)),
])  # fmt: skip
def test_fedcs_packs_by_the_time_that_a_client_adds(share, deadline, times, steps):
    policy = fedcs.Options(share, deadline, rates=(4.0, 40.0), computing=times)
    options = fedavg.Options(steps, policy=policy)
    data, simulated = drawn(options)
    u = data.seeds.uniforms("fedcs", client=np.arange(K), count=2).tolist()
    rate = [4000.0 * 10.0**a for a, _ in u]
    time = [1e-3 * (times[0] + (times[1] - times[0]) * b) for _, b in u]
    asked = round(share * K + 0.4)
    sizes = set()

    def invite(n):
        found = greedy(uniform(data, n, asked), 8 * 8 * D, rate, time, deadline)
        sizes.add(len(found))
        return found

    agree(federated(data, steps, invite=invite), simulated)
    assert max(sizes) > 0
    assert min(sizes) < asked


@STEPS
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.95])
def test_importance_sampling_asks_by_size_and_divides_by_the_chance(beta, steps):
    options = fedavg.Options(steps, policy=importance.Options(beta))
    data, simulated = drawn(options)
    q, s = [1.0] * K, 3

    def chances():
        p = [beta * x / sum(q) + (1 - beta) / K for x in q]
        sure = set()
        while True:  # c such that min(1, c p) sums to s
            c = (s - len(sure)) / sum(p[k] for k in range(K) if k not in sure)
            over = {k for k in range(K) if k not in sure and c * p[k] >= 1}
            if not over:
                return [1.0 if k in sure else c * p[k] for k in range(K)]
            sure |= over

    def invite(n):
        pi = chances()
        if max(pi) == min(pi):
            return uniform(data, n, s)
        order = np.argsort(data.seeds.uniforms("importance order", round=n, count=K)).tolist()
        mark = data.seeds.uniforms("importance start", round=n, count=1)[0]
        total, found = 0.0, []
        for k in order:
            total += pi[k]
            if total > mark:
                found.append(k)
                mark += 1
        return sorted(found)

    def weigh(n, updates):
        pi = chances()
        for k, U in updates.items():
            q[k] = 0.9 * q[k] + 0.1 * norm(U)
        return {k: 1 / (K * pi[k]) for k in updates}

    agree(federated(data, steps, invite=invite, weigh=weigh), simulated)


@STEPS
@pytest.mark.parametrize(("asked", "uploads"), [(5, 2), (6, 4), (4, 1), (4, 4)])
def test_optimal_sampling_lets_large_updates_through(asked, uploads, steps):
    options = fedavg.Options(steps, policy=optimal.Options(asked, uploads))
    data, simulated = drawn(options)

    def weigh(n, updates):
        size = {k: norm(U) for k, U in updates.items()}
        order = sorted(size, key=size.get)
        for count in range(asked, 0, -1):  # the largest l that fulfils Chen et al.'s condition
            small, room = order[:count], uploads + count - asked
            total = sum(size[k] for k in small)
            if 0 < room <= total / size[small[-1]] * (1 + 1e-15):
                break
        p = {k: room * size[k] / total if k in small else 1.0 for k in order}
        told = {k: data.seeds.uniforms("optimal", client=k, round=n, count=1)[0] for k in updates}
        return {k: 1 / (asked * p[k]) for k in updates if told[k] < p[k]}

    invite = partial(uniform, data, size=asked)
    agree(federated(data, steps, invite=invite, weigh=weigh), simulated)


@STEPS
@pytest.mark.parametrize("cohort", [1, 3, 6])
def test_folb_weighs_by_agreement_with_the_mean_gradient(cohort, steps):
    options = fedavg.Options(steps, policy=folb.Options())
    data, simulated = drawn(options, cohort=cohort)

    def weigh(n, updates):
        mean = sum(updates.values()) / len(updates)
        product = {k: sum(a * b for a, b in zip(U, mean, strict=True)) for k, U in updates.items()}
        total = sum(abs(value) for value in product.values())
        return {k: value / total for k, value in product.items()}

    agree(federated(data, steps, weigh=weigh), simulated)
