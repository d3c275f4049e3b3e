"""What every defence owes honest clients: the majority is heard, the price is small, and whatever
some did, the federation comes back.

    pytest benchmarks/invariants.py

Most of it on a federation of a few lines, beside its twin without a defence, on the same draws.
These are tests of what `clip` should keep and does not yet: which of them fail is the figure.
"""

# ruff: noqa: D103 -- the names of tests are sentences
from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import seasons

from psofed import Experiment, Features, OnlineFed, PSOFed
from psofed.curves import to_db
from psofed.federation import schema
from psofed.simulate import onerun
from psofed.stages.defences import clip
from psofed.stages.defences.contract import Setting, bind

DEFENCES = (clip.Options(),)  # defaults of deployments, and others that claim the same
PRICE = 0.1  # dB that a defence may cost honest clients
SURE = 3.0  # standard errors, beyond which a difference is no accident
WARM_UP = {"clip": 16}  # uploads that are only looked at
RECOVERY = {"clip": 60}  # uploads of each client after which it is as if nobody had ever lied
D, M, STEP = 24, 8, 0.1
settings.register_profile("slow", deadline=None, derandomize=True)
settings.load_profile("slow")
TRIED = (Phase.explicit, Phase.generate)  # a history that fails is short enough as it is

every_defence = pytest.mark.parametrize("options", DEFENCES, ids=lambda o: o.name)


class Course(NamedTuple):
    """What honest clients see in round n: the size of the signal, and whether there is new data."""

    size: float = 1.0
    fresh: float = 1.0  # the share of clients whose upload says anything new


COURSES = {
    "steady": lambda n, N: Course(),
    "growth after a quiet phase": lambda n, N: Course(33 ** np.clip((n / N - 0.3) / 0.05, 0, 1)),
    "decay": lambda n, N: Course(0.01 ** np.clip((n / N - 0.3) / 0.2, 0, 1)),
    "a step": lambda n, N: Course(100.0 if n > 0.3 * N else 1.0),
    "a quiet begin": lambda n, N: Course(1.0 if n > 0.1 * N else 1e-4),
    "quiet nights": lambda n, N: Course(1.0 if n * 12 // N % 2 else 0.01),
    "silence of all sensors": lambda n, N: Course(fresh=float(not 0.3 < n / N < 0.5)),
    "slow sensors": lambda n, N: Course(fresh=0.1),
    "ever larger": lambda n, N: Course(1e4 ** (n / N)),
    "ever smaller": lambda n, N: Course(1e-4 ** (n / N)),
}


@dataclass
class Played:
    """What became of a federation: its error in each round, and what was left of each upload."""

    error: np.ndarray
    kept: seasons.Kept
    quarantined: np.ndarray


def played(options, course, K, cohort, seed, uploads=150, lie=None, stale=0.0, far=0.0):
    """U_k = step (t_k - w) + noise on M of D entries; w <- w + mean of what is left of them.

    `lie(k, i, U, w)` is what client k sends in its i-th upload instead of U; where clients have no
    new data they send `stale` times their change, as slow sensors do. Client 0 is `far` from the
    others: its model is another one.
    """
    rng, N = np.random.default_rng(seed), -(-uploads * K // cohort)
    defence = options and bind(options, Setting(K, K, D, cohort))
    state = defence and defence.start()
    w, base, count = np.zeros(D), rng.standard_normal(D), np.zeros(K, int)
    own = 0.1 * rng.standard_normal((K, D))
    own[0] += far * rng.standard_normal(D)
    own -= own.mean(axis=0)  # the best common model is that of the course
    error, kept, heard = np.empty(N), seasons.Kept(), 0
    for n in range(N):
        now = course(n, N)
        k = np.sort(rng.choice(K, cohort, replace=False))
        entries = (rng.integers(D, size=(cohort, 1)) + np.arange(M)) % D
        noise, idle = rng.standard_normal((cohort, M)), rng.random(cohort) >= now.fresh
        U = STEP * (now.size * ((base + own[k])[np.arange(cohort)[:, None], entries] + noise))
        U -= STEP * w[entries]
        U[idle] *= stale
        for i, one in enumerate(k.tolist()):
            if lie is not None:
                U[i] = lie(one, count[one], U[i], w[entries[i]])
        count[k] += 1
        left = defence.defended(state, n, k, U, entries) if defence else U
        heard += cohort
        if defence and heard > WARM_UP[options.name] + K:
            kept.see(k, U, left)
            kept.most = max(kept.most, kept.down())
        np.add.at(w, entries, left / cohort)
        error[n] = np.mean((w / now.size - base) ** 2)
    opinion = defence and defence.opinion(state)
    none = np.zeros(K, bool)
    return Played(error, kept, none if opinion is None else opinion.quarantined)


def dearer(found, twin, first):
    """By how many dB the error is larger from a round on, at least, as far as draws let us know."""
    parts = [np.array_split(each.error[first:], 10) for each in (found, twin)]
    here, there = (np.array([part.mean() for part in some]) for some in parts)
    more = (here - there) / there.mean()
    sure = more.mean() - SURE * more.std(ddof=1) / len(more) ** 0.5
    return to_db(1 + max(sure, 0.0))


federations = st.sampled_from([(3, 1), (3, 3), (4, 2), (5, 1), (10, 4), (30, 1), (100, 10)])


@every_defence
@pytest.mark.parametrize("name", COURSES)
@given(federations, st.integers(0, 10**6), st.sampled_from([0.0, 1e-9]))
@settings(max_examples=2, phases=TRIED)
@example((10, 4), 0, 0.0)
def test_honest_clients_are_heard_whatever_the_weather(options, name, sizes, seed, stale):
    found = played(options, COURSES[name], *sizes, seed, stale=stale)
    twin = played(None, COURSES[name], *sizes, seed, stale=stale)
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
@pytest.mark.parametrize("far", [0.3, 1.0])
@pytest.mark.parametrize("K", [4, 10, 100])
def test_a_client_that_is_unlike_the_others_keeps_half_of_its_weight(options, K, far):
    weights = []
    for seed in range(3):
        found = played(options, COURSES["steady"], K, max(K // 10, 1), seed, far=far)
        weights += found.kept.all[0, 0]
        assert not found.quarantined.any()
    assert np.mean(weights) >= 0.5


LIES = {
    "whispers": lambda U, w: np.full(M, 1e-6),
    "sends what it got": lambda U, w: 0 * U,
    "shouts": lambda U, w: 30 * U,
    "shouts out of all measure": lambda U, w: np.full(M, 1e9),
    "shrinks the model": lambda U, w: -0.1 * w,
    "sends zeros": lambda U, w: -w,
    "pushes one way": lambda U, w: U + 0.3,
    "sends what is not a number": lambda U, w: np.full(M, np.nan),
}


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
@pytest.mark.parametrize("name", STREAMS)
def test_honest_federations_end_as_they_do_without_a_defence(options, name):
    made = replace(WHOLE, stream=STREAMS[name], defence=options)
    with seasons.watched(schema.companion(options, "Defence"), silent=100) as kept:
        assert (excess(made, replace(made, defence=None)) <= PRICE).all()
    assert kept.most <= 0.5
    if STREAMS[name].odd:
        odd = [np.mean(kept.all[run, STREAMS[name].who]) for run in range(len(RUNS))]
        assert np.mean(odd) >= 0.5


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
