"""What every defence owes honest clients: the majority is heard, the price is small, and whatever
some did, the federation comes back.

    pytest benchmarks/invariants.py

Most of it on a federation of a few lines, beside its twin without a defence, on the same draws.
What `clip` does not keep is marked, with the reason: a test that passes all the same fails.
"""

# ruff: noqa: D103 -- the names of tests are sentences
from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import seasons
from histories import COURSES, LIES, PRICE, SIZES, SURE, Course, dearer, played

from psofed import Experiment, Features, OnlineFed, PSOFed
from psofed.curves import to_db
from psofed.federation import schema
from psofed.simulate import onerun
from psofed.stages.defences import clip

DEFENCES = (clip.Options(),)  # defaults of deployments, and others that claim the same
RECOVERY = {"clip": 60}  # uploads of each client after which it is as if nobody had ever lied
settings.register_profile("slow", deadline=None, derandomize=True)
settings.load_profile("slow")
TRIED = (Phase.explicit, Phase.generate)  # a history that fails is short enough as it is

ODD = pytest.mark.xfail(strict=True, reason="so far out is also an attacker who does harm")
every_defence = pytest.mark.parametrize("options", DEFENCES, ids=lambda o: o.name)


federations = st.sampled_from(SIZES)


@every_defence
@pytest.mark.parametrize("name", COURSES)
@given(federations, st.integers(0, 10**6), st.sampled_from([0.0, 1e-9]))
@settings(max_examples=2, phases=TRIED)
@example((10, 4), 0, 0.0)
def test_honest_clients_are_heard_whatever_the_weather(options, name, sizes, seed, stale):
    uploads = 1500 if name == "slow sensors" else 150  # of which a tenth says anything
    found, twin = (
        played(one, COURSES[name], *sizes, seed, uploads, stale=stale) for one in (options, None)
    )
    assert found.kept.most <= 0.5, "more than half of the members lost weight at once"
    assert dearer(found, twin, len(twin.error) // 2) <= PRICE
    assert not found.quarantined.any()


@every_defence
def test_a_thousand_honest_clients_are_heard(options):
    found, twin = (played(o, COURSES["a step"], 1000, 50, 1, uploads=30) for o in (options, None))
    assert found.kept.most <= 0.5
    assert dearer(found, twin, len(twin.error) // 2) <= PRICE
    assert not found.quarantined.any()


@every_defence
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=6), federations, st.integers(0, 10**6))
@settings(max_examples=5, phases=TRIED)
def test_no_history_of_sizes_silences_a_majority(options, powers, sizes, seed):
    """The size goes from one power of ten to the next, at once."""

    def course(n, N):
        return Course(10.0 ** powers[n * len(powers) // N])

    found = played(options, course, *sizes, seed, uploads=120)
    assert found.kept.most <= 0.5
    assert not found.quarantined.sum() > len(found.quarantined) / 2


@every_defence
@pytest.mark.parametrize(
    ("K", "far"),
    [
        (4, 0.3),
        (4, 1.0),
        (10, 0.3),
        (100, 0.3),
        *(pytest.param(K, 1.0, marks=ODD) for K in (10, 100)),
    ],
)
def test_a_client_that_is_unlike_the_others_keeps_half_of_its_weight(options, K, far):
    weights = []
    for seed in range(3):
        found = played(options, COURSES["steady"], K, max(K // 10, 1), seed, far=far)
        weights += found.kept.all[0, 0]
        assert not found.quarantined.any()
    assert np.mean(weights) >= 0.5


@every_defence
@pytest.mark.parametrize("name", LIES)
@given(st.sampled_from([(4, 2), (10, 4), (100, 10)]), st.integers(0, 10**6), st.integers(5, 60))
@settings(max_examples=2, phases=TRIED)
@example((10, 4), 0, 30)
def test_what_a_minority_did_for_a_while_is_forgotten(options, name, sizes, seed, lies):
    K, cohort = sizes
    bad, again = max(K // 5, 1), RECOVERY[options.name]
    uploads = lies + again + 100

    def lie(k, i, U, w):
        return LIES[name](U, w) if k < bad and i < lies else U

    found = played(options, COURSES["steady"], K, cohort, seed, uploads, lie)
    twin = played(None, COURSES["steady"], K, cohort, seed, uploads)
    assert dearer(found, twin, (lies + again) * K // cohort) <= PRICE
    assert not found.quarantined.any()
    assert found.kept.down() <= 0.2


WHOLE = Experiment(
    clients=10, cohort=4, rounds=2000, runs=16, evaluate_every=10, test_samples=300,
    features=Features(dim=60), methods=(PSOFed(shared=12), OnlineFed()),
)  # fmt: skip
RUNS = range(12, 16)  # the first ones also compute floors
STREAMS = {
    "growth": seasons.Options(factor=33.0, ramp=50), "decay": seasons.Options(factor=0.03),
    "a step": seasons.Options(factor=100.0), "nights": seasons.Options(factor=0.02, night=150),
    "large inputs": seasons.Options(odd="inputs"), "another target": seasons.Options(odd="target"),
}  # fmt: skip


def excess(made, twin, first=1500):
    """By how many dB the error of each method is larger from a round on, sure of it."""
    late = made.evaluated >= first
    here, there = (
        np.array([run.mse[:, late].mean(axis=1) for run in onerun.some_runs(each, RUNS)])
        for each in (made, twin)
    )
    more = (here - there) / there.mean(axis=0)
    sure = more.mean(axis=0) - SURE * more.std(axis=0, ddof=1) / len(RUNS) ** 0.5
    return to_db(1 + np.maximum(sure, 0))


@every_defence
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=ODD) if made.odd else n for n, made in STREAMS.items()]
)
def test_honest_federations_end_as_they_do_without_a_defence(options, name):
    made = replace(WHOLE, stream=STREAMS[name], defence=options)
    with seasons.watched(silent=100) as kept:
        assert (excess(made, replace(made, defence=None)) <= PRICE).all()
    assert kept.most <= 0.5
    if STREAMS[name].odd:
        assert kept.of(STREAMS[name].who) >= 0.5


WAYS = {
    "whisper": {"own": 0.0, "push": "random", "size": 1e-6}, "shout": {"own": 30.0, "size": 0.0},
    "shrink": {"own": 0.0, "push": "model", "unit": "model", "size": 0.1},
    "zeros": {"own": 0.0, "push": "model", "unit": "model", "size": 1.0},
}  # fmt: skip


@every_defence
@pytest.mark.parametrize("way", WAYS)
def test_federations_recover_from_what_two_of_ten_did(options, way):
    file = Path(__file__).with_name("adversary_attack.py")
    made = schema.load("psofed.attacks", str(file)).Options
    attack = made(share=0.2, stop=100, **WAYS[way])
    whole = replace(WHOLE, attack=attack, defence=options)
    assert (excess(whole, replace(whole, attack=None, defence=None)) <= PRICE).all()
