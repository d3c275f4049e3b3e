"""Every attack is its formula: written again in plain loops, in double precision."""

import numpy as np
import pytest

from psofed.core.seeds import Seeds
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.stages.attacks import (
    adaptive,
    alie,
    collusion,
    constant,
    ipm,
    labels,
    minmax,
    offset,
    perturbation,
    scale,
    stuck,
)  # fmt: skip
from psofed.stages.attacks.contract import Attackers, bind
from psofed.stages.surroundings import attack_in

CLIENTS, DIM = 9, 5
SEEDS = Seeds(7, 2)


def mean(honest):
    return [sum(w[i] for w in honest) / len(honest) for i in range(DIM)]


def spread(honest):
    m = mean(honest)
    return [(sum((w[i] - m[i]) ** 2 for w in honest) / len(honest)) ** 0.5 for i in range(DIM)]


def distance(a, b):
    return sum((a[i] - b[i]) ** 2 for i in range(DIM)) ** 0.5


def bisected(honest):
    """The largest gamma for which m - gamma s is no further from anybody than two are apart."""
    m, s = mean(honest), spread(honest)
    most = max(distance(a, b) for a in honest for b in honest)

    def inside(gamma):
        sent = [m[i] - gamma * s[i] for i in range(DIM)]
        return max(distance(sent, w) for w in honest) <= most

    low, high = 0.0, 1.0
    while inside(high):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return [m[i] - low * s[i] for i in range(DIM)]


FORMULAS = [
    (scale.Options(factor=-5), lambda n, k, own, w, honest: [-5 * v for v in own]),
    (constant.Options(value=9e8), lambda n, k, own, w, honest: [9e8] * DIM),
    (offset.Options(begin=0.5, rate=0.01),
     lambda n, k, own, w, honest: [v + 0.5 + 0.01 * n for v in own]),
    (collusion.Options(sigma=0.3),
     lambda n, k, own, w, honest: [0.3 * t for t in SEEDS.matrix("attack target", DIM)]),
    (perturbation.Options(sigma=2.0), lambda n, k, own, w, honest: [
        v + 2 * e for v, e in zip(own, SEEDS.normals("attack noise", [k], DIM, round=n)[0], strict=True)]),
    (perturbation.Options(sigma=2.0, chance=0.5), lambda n, k, own, w, honest: [
        v + 2 * e * (SEEDS.uniforms("attack chance", client=[k], round=n, count=1)[0, 0] < 0.5)
        for v, e in zip(own, SEEDS.normals("attack noise", [k], DIM, round=n)[0], strict=True)]),
    (alie.Options(z=0.7), lambda n, k, own, w, honest: [
        m - 0.7 * s for m, s in zip(mean(honest), spread(honest), strict=True)]),
    (ipm.Options(epsilon=3), lambda n, k, own, w, honest: [
        v - 3 * (m - v) for v, m in zip(w, mean(honest), strict=True)]),
    (minmax.Options(), lambda n, k, own, w, honest: bisected(honest)),
]  # fmt: skip


def members(number, size=5):
    rng = np.random.default_rng(number)
    own, w = rng.standard_normal((size, DIM)), rng.standard_normal(DIM)
    return own, w, rng.permutation(size) < 1 + number % 3, rng.choice(CLIENTS, size, replace=False)


@pytest.mark.parametrize(
    ("options", "formula"), FORMULAS, ids=lambda each: getattr(each, "name", "")
)
def test_what_is_sent_is_the_formula(options, formula):
    attack = bind(options, Attackers(CLIENTS, DIM, 0.3, SEEDS))
    for n in range(12):
        own, w, bad, k = members(n)
        sent = attack.models(n, k, own, bad, w)
        honest = [row.tolist() for row, one in zip(own, bad, strict=True) if not one]
        for i in np.flatnonzero(bad):
            wanted = formula(n, int(k[i]), own[i].tolist(), w.tolist(), honest)
            assert np.allclose(sent[i], wanted, rtol=1e-12, atol=1e-12), (n, i)


@pytest.mark.parametrize("push", ["against", "random", "weak"])
def test_without_a_defence_an_adaptive_attacker_sends_a_model_at_the_distance_it_wants(push):
    attacked = Experiment(clients=10, attack=adaptive.Options(push=push, size=0.2))
    attack = attack_in(attacked.attack, attacked.task(0))
    w_k, w = np.arange(600.0).reshape(3, 200) - 300.5, np.ones(200)
    sent = attack.models(0, [0, 1, 2], w_k, np.array([True, False, False]), w)
    assert sent.shape == w_k.shape
    np.testing.assert_allclose(np.sqrt(np.mean((sent - w) ** 2, axis=1)), 0.2)


def test_every_attack_has_a_formula_here():
    tried = {options.name for options, _ in FORMULAS} | {"labels", "stuck"}
    # An adaptive attack is written again where its defence is.
    assert set(schema.names("psofed.attacks")) - {"adaptive"} == tried


@pytest.mark.parametrize("factor", [-1.0, 100.0])
def test_labels_are_multiplied_and_inputs_stay(factor):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 4, 3)), rng.standard_normal((2, 4))
    attack = bind(labels.Options(factor=factor), Attackers(CLIENTS, DIM, 0.3, SEEDS))
    seen = attack.samples(np.array([1, 5]), np.arange(4), x, y)
    assert np.array_equal(seen[0], x)
    assert seen[1].tolist() == [[factor * v for v in row] for row in y.tolist()]


def test_a_stuck_sensor_gives_the_same_from_its_round_on_but_never_a_sample_that_is_missing():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 6, 3)), rng.standard_normal((2, 6))
    y[0, 4] = np.nan
    attack = bind(stuck.Options(x=1.5, y=-2, begin=12), Attackers(CLIENTS, DIM, 0.3, SEEDS))
    seen_x, seen_y = attack.samples(np.array([1, 5]), np.arange(10, 16), x, y)
    for i in range(2):
        for j, n in enumerate(range(10, 16)):
            late = n >= 12
            assert seen_x[i, j].tolist() == ([1.5] * 3 if late else x[i, j].tolist())
            wanted = y[i, j] if not late or np.isnan(y[i, j]) else -2
            assert np.array_equal(seen_y[i, j], wanted, equal_nan=True)
