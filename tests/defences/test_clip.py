"""The defence clip: what it leaves alone, what it stops, and whom it lets come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed import Experiment, Features, OnlineFed, PSOFed
from psofed.curves import to_db
from psofed.simulate import montecarlo
from psofed.stages.attacks import adaptive, collusion, constant, labels, scale
from psofed.stages.defences import clip
from psofed.stages.defences.contract import Defended, Setting
from psofed.stages.surroundings import attack_in

K, D, COHORT = 20, 12, 4


class Server:
    """A defence, and clients whose changes are noise unless said otherwise."""

    def __init__(self, seed, dim=D):
        self.defence = clip.Defence(clip.Options(), Setting(K, K, dim, COHORT))
        self.state, self.rng = self.defence.start(), np.random.default_rng(seed)
        self.entries = np.broadcast_to(np.arange(dim), (COHORT, dim))

    def round(self, n, bad=(), change=lambda U: U):
        k = np.sort(self.rng.choice(K, COHORT, replace=False))
        U = self.rng.standard_normal(self.entries.shape)
        for i, one in enumerate(k):
            if one in bad:
                U[i] = change(U[i])
        return k, U, self.defence.defended(self.state, n, k, U, self.entries)

    def rounds(self, count, **how):
        return [self.round(n, **how) for n in range(count)]

    @property
    def weights(self):
        return self.state["weight"]


@given(st.integers(0, 10**6))
def test_changes_that_are_alike_are_left_to_the_bit_and_later_hardly_anybody_loses_weight(seed):
    server = Server(seed)
    played = server.rounds(clip.LEAST // COHORT - 1)  # up to the first review
    watched = -(-clip.FIRST // COHORT) - 1
    for n, (_, U, left) in enumerate(played):
        np.testing.assert_array_equal(left, 0 * U if n < watched else U)
    server.rounds(300)
    assert (server.weights == 1).mean() >= 0.75
    assert server.weights.min() > 0.1


@given(st.integers(0, 10**6), st.floats(1e-9, 1e9))
def test_it_does_not_matter_in_which_units_changes_are(seed, unit):
    one, other = Server(seed), Server(seed)
    for n in range(60):
        k, U, left = one.round(n, bad=(3,), change=lambda U: 4 * U + 1)
        scaled = other.defence.defended(other.state, n, k, unit * U, other.entries)
        np.testing.assert_allclose(scaled, unit * left, rtol=1e-9, atol=1e-300)


@given(st.integers(0, 10**6), st.floats(10, 1e30) | st.sampled_from([np.inf, -np.inf, np.nan]))
def test_no_upload_changes_more_than_the_clip_however_large_it_is(seed, size):
    server = Server(seed)
    server.rounds(20)
    for n in range(20):
        _, _, left = server.round(n, bad=range(3), change=lambda U: np.full(D, size))
        most = server.defence.options.clip * server.state["scale"]
        assert np.isfinite(left).all()
        assert np.sqrt((left**2).mean(axis=1)).max() <= most * (1 + 1e-9)


def test_a_first_cohort_that_is_malicious_as_a_whole_changes_nothing():
    server = Server(4)
    for n in range(3):
        _, _, left = server.round(n, bad=range(K), change=lambda U: np.full(D, 9e8))
        assert not left.any()
    for n in range(3, 30):
        _, _, left = server.round(n)
        assert np.abs(left).max() < 10


def test_who_sends_much_is_in_quarantine_and_comes_back_when_it_behaves():
    server = Server(1)
    server.rounds(100, bad=(5,), change=lambda U: 1000 * U)
    opinion = server.defence.opinion(server.state)
    assert np.flatnonzero(opinion.quarantined).tolist() == [5]
    assert opinion.score[5] == opinion.score.max()
    assert opinion.clipped[5] > 0.5 > np.delete(opinion.clipped, 5).max()
    server.rounds(2000)
    assert not server.defence.opinion(server.state).quarantined.any()
    assert server.weights[5] == 1


def test_who_always_pushes_the_same_way_loses_weight_though_its_changes_are_small():
    server = Server(2)
    push = np.sign(np.random.default_rng(0).standard_normal(D))
    server.rounds(2000, bad=(7,), change=lambda U: 0.9 * push)
    assert server.weights[7] < 0.5
    assert np.delete(server.weights, 7).min() > 0.5


@given(st.integers(0, 10**6), st.floats(-6, 6))
def test_what_most_do_is_usual_whatever_it_was_and_a_minority_moves_it_little(seed, power):
    server = Server(seed)
    server.rounds(60)
    usual = float(server.state["scale"])
    server.rounds(60, bad=range(K // 5), change=lambda U: 10.0**power * U)
    assert usual / 3 < float(server.state["scale"]) < 3 * usual
    for n in range(1000):
        k, U, left = server.round(n)
        left = server.defence.defended(server.state, n, k, 1e3 * U, server.entries)
    assert 500 * usual < float(server.state["scale"]) < 3000 * usual
    assert (np.linalg.norm(left) > 0.5 * np.linalg.norm(1e3 * U)).all()


@pytest.mark.parametrize("dim", [1, 2, 4, D])
def test_of_those_who_differ_a_review_lowers_a_third_at_most_and_silence_is_no_vote(dim):
    server, own = Server(3, dim), 3 * np.random.default_rng(1).standard_normal((K, dim))
    for n in range(800):
        k = np.sort(server.rng.choice(K, COHORT, replace=False))
        U = own[k] + server.rng.standard_normal((COHORT, dim))
        server.defence.defended(server.state, n, k, U, server.entries)
        assert (server.weights < 1).mean() <= 1 / 3
        assert not server.defence.opinion(server.state).quarantined.any()
    before = float(server.state["scale"])
    server.rounds(800, bad=range(K), change=lambda U: 0 * U)
    assert float(server.state["scale"]) == before


@given(st.integers(0, 10**6))
def test_what_passes_is_folded_in_whole(seed):
    server = Server(seed)
    server.rounds(80, bad=(3,), change=lambda U: 3 * U)
    for n in range(20):
        k = np.sort(server.rng.choice(K, COHORT, replace=False))
        U = server.rng.uniform(0, 8, (COHORT, 1)) * server.rng.standard_normal((COHORT, D))
        told = server.defence.passes(server.state, k, U, server.entries)
        trusted = told & (server.weights[k] == 1)
        scale = float(server.state["scale"])
        left = server.defence.defended(server.state, n, k, U, server.entries)
        if server.state["scale"] >= scale:
            np.testing.assert_array_equal(left[trusted], U[trusted])


SMALL = Experiment(
    clients=10, cohort=4, rounds=500, runs=4, evaluate_every=10, test_samples=300,
    features=Features(dim=60), methods=(PSOFed(shared=12), OnlineFed()),
)  # fmt: skip


def end(experiment):
    curves = montecarlo.run(experiment, 1)
    return to_db(curves.mse[:, curves.rounds >= 400].mean(axis=1))


@pytest.fixture(scope="module")
def clean():
    return end(SMALL)


@pytest.mark.parametrize("attack", [
    scale.Options(factor=-5.0), constant.Options(value=9e8), collusion.Options(),
    labels.Options(factor=100.0),
], ids=lambda a: a.describe())  # fmt: skip
def test_one_insider_of_ten_costs_little_with_the_defence_and_much_without(clean, attack):
    assert (end(replace(SMALL, attack=attack)) > clean + 2).all()
    defended = end(replace(SMALL, attack=attack, defence=clip.Options()))
    assert (defended < clean + 1).all()


def test_the_price_where_nobody_is_malicious_is_small(clean):
    assert (end(replace(SMALL, defence=clip.Options())) < clean + 0.3).all()


def test_what_an_adaptive_attacker_sends_is_mostly_folded_in_whole_and_does_harm(monkeypatch):
    clean = replace(SMALL, runs=2, rounds=200, methods=SMALL.methods[:1], defence=clip.Options())
    attacked = replace(clean, attack=adaptive.Options(share=0.2))
    ids = [attack_in(attacked.attack, attacked.task(run)).attackers.ids for run in range(2)]
    whole, original = [], Defended._left

    def watched(self, state, k, n, changes, entries, heard):
        left = original(self, state, k, n, changes, entries, heard)
        bad = [np.isin(*both) for both in zip(k, ids, strict=True)]
        whole.extend((changes == left).all(axis=-1)[np.array(bad)])
        return left

    quiet = montecarlo.run(replace(clean, defence=None), 1)
    monkeypatch.setattr(Defended, "_left", watched)
    met = montecarlo.run(attacked, 1)
    assert len(whole) > 100
    assert np.mean(whole) > 0.3  # the scale moves a little, and reviews change what passes
    assert met.mse_db[0, -1] > quiet.mse_db[0, -1]
