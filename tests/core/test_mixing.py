"""The mix of models: weights, regret, late labels, and its compiled form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.core import mixing, native


def played(guesses, y, delay=0, trust=None):
    """Answers of one client, and the mixer after it."""
    trust = mixing.equal(guesses.shape[-1]) if trust is None else trust
    mixer = mixing.Mixer(1, trust, delay)
    return mixer.follow(guesses[:, None], y[:, None])[:, 0], mixer


def excess(answers, guesses, y):
    """By how much the squared errors of the answers are above those of each expert."""
    return np.square(answers - y).sum() - np.square(guesses - y[:, None]).sum(axis=0)


def bound(answers, guesses, y):
    """4 sqrt(V (1 + ln E + ln ln n)) + 4 B (1 + ln E), for each expert."""
    r = 2 * (answers - y)[:, None] * (answers[:, None] - guesses)
    logs = 1 + np.log(guesses.shape[1])
    late = np.log(np.log(len(y) + 3))
    return 4 * np.sqrt(np.square(r).sum(axis=0) * (logs + late)) + 4 * np.abs(r).max() * logs


@given(
    seed=st.integers(0, 2**32), experts=st.integers(2, 6), rounds=st.integers(1, 300),
    scale=st.sampled_from([1e-6, 1.0, 100.0]),
)  # fmt: skip
def test_an_adversary_who_sees_the_answer_cannot_make_it_much_worse_than_any_expert(
    seed, experts, rounds, scale
):
    """He chooses each label, after the answer, so that it hurts most next to a random expert."""
    generator = np.random.default_rng(seed)
    trust = mixing.equal(experts)
    mixer = mixing.Mixer(1, trust)
    guesses = scale * generator.standard_normal((rounds, experts))
    favourite = generator.integers(experts, size=1 + rounds // 40)
    answers, labels = np.empty(rounds), np.empty(rounds)
    for n, p in enumerate(guesses):
        m = float(mixing.weights(mixer.memory[0], trust) @ p)
        far = p[favourite[n // 40]]
        labels[n] = far + (far - m) * generator.uniform(0, 2)
        answers[n] = mixer.follow(p[None, None], labels[n : n + 1, None])[0, 0]
    assert (excess(answers, guesses, labels) <= bound(answers, guesses, labels)).all()


def test_the_answer_is_as_good_as_the_best_expert_soon_and_better_than_it_if_errors_differ():
    generator = np.random.default_rng(0)
    y = np.sin(np.arange(3000) / 7)
    noise = generator.standard_normal((3000, 3)) * [0.3, 0.3, 3.0]
    answers, mixer = played(y[:, None] + noise, y)
    errors = np.square(noise[500:]).mean(axis=0)
    assert np.square(answers - y)[500:].mean() < 0.6 * errors.min()
    assert mixer.weights[0, 2] < 0.05


def test_late_labels_are_learned_with_what_was_answered_then():
    """With a delay, the weights in round n are those of labels up to n - 1 - d."""
    generator = np.random.default_rng(2)
    guesses, y = generator.standard_normal((50, 3)), generator.standard_normal(50)
    late, delay = np.full(50, np.nan), 4
    late[delay:] = y[:-delay]
    answers, mixer = played(guesses, late, delay)
    assert np.allclose(answers[: delay + 1], guesses[: delay + 1].mean(axis=1))
    memory = mixing.start(3)
    for n in range(50 - delay):
        mixing.learn(memory, mixing.equal(3), guesses[n], answers[n], y[n])
    assert np.allclose(mixer.memory[0], memory)


@pytest.mark.parametrize("delay", [0, 3])
def test_rounds_may_come_in_blocks_of_any_length_and_labels_may_be_missing(delay):
    generator = np.random.default_rng(3)
    guesses, y = generator.standard_normal((60, 2, 4)), generator.standard_normal((60, 2))
    y[generator.random((60, 2)) < 0.3] = np.nan
    whole, parts = (mixing.Mixer(2, mixing.equal(4), delay) for _ in range(2))
    once = whole.follow(guesses, y)
    cuts = np.split(np.arange(60), [1, 2, 17, 40])
    assert np.array_equal(once, np.concatenate([parts.follow(guesses[c], y[c]) for c in cuts]))
    assert np.array_equal(whole.memory, parts.memory)


def test_the_compiled_mix_is_that_of_the_equations(monkeypatch):
    generator = np.random.default_rng(4)
    guesses, y = generator.standard_normal((200, 3, 5)), generator.standard_normal((200, 3))
    guesses[:, 1, 2] = guesses[:, 1, 3]
    y[generator.random((200, 3)) < 0.2] = np.nan
    trust = np.array([0.5, 0.2, 0.1, 0.1, 0.1])
    found = []
    for compiled in (native.available(), False):
        monkeypatch.setattr(native, "available", lambda compiled=compiled: compiled)
        mixer = mixing.Mixer(3, trust, 2)
        found.append((mixer.follow(guesses, y), mixer.memory))
    assert np.allclose(found[0][0], found[1][0], rtol=1e-12, atol=1e-12)
    assert np.allclose(found[0][1], found[1][1], rtol=1e-11)


def test_an_expert_that_diverges_costs_little():
    y = np.sin(np.arange(400) / 5)
    guesses = np.column_stack([0.95 * y, np.where(np.arange(400) < 50, 0.0, np.inf)])
    guesses[60:, 1] = np.nan
    answers, mixer = played(guesses, y)
    assert np.square(answers - y)[80:].mean() < 0.01
    assert np.isfinite(mixer.memory).all()


def test_a_trust_of_zero_is_never_used():
    generator = np.random.default_rng(5)
    y = generator.standard_normal(50)
    answers, _ = played(np.column_stack([y, 0 * y]), y, trust=np.array([0.0, 1.0]))
    assert np.array_equal(answers, np.zeros(50))


@given(seed=st.integers(0, 2**32), experts=st.integers(1, 5), unit=st.sampled_from([1e-4, 1, 1e3]))
def test_no_other_weights_on_the_simplex_are_better_than_the_stacked_ones(seed, experts, unit):
    generator = np.random.default_rng(seed)
    p, y = unit * generator.standard_normal((40, experts)), unit * generator.standard_normal(40)
    p[:, -1] = p[:, 0]  # two may be alike
    a = mixing.stacked(p.T @ p, p.T @ y)
    assert a.min() >= 0
    assert a.sum() == pytest.approx(1)
    others = generator.dirichlet(np.ones(experts), 200)
    errors = np.square(others @ p.T - y).sum(axis=1)
    assert np.square(p @ a - y).sum() <= errors.min() * (1 + 1e-9)
