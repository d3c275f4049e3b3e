"""Every defence is its formula, and helps every kind of method, also where members send nothing."""

from dataclasses import replace

import numpy as np
import pytest

from psofed import Experiment, FedAvg, OnlineFed, PSOFed
from psofed.rivals import ETPSOFed, TopK
from psofed.simulate import montecarlo, onerun
from psofed.stages.attacks import constant
from psofed.stages.defences import centred, clip, krum, median, trimmed
from psofed.stages.defences.contract import Setting, bind

SMALL = Experiment(
    clients=12, cohort=5, rounds=40, runs=2, dtype="float64", test_samples=100,
    attack=constant.Options(share=0.2, value=5.0),
)  # fmt: skip
ALIKE = (OnlineFed(), PSOFed(shared=30, scheme="coordinated"), FedAvg(local_steps=2))
OTHERS = (PSOFed(shared=30), ETPSOFed(shared=30), TopK(), PSOFed(shared=30, wire="4 bit"))


@pytest.mark.parametrize("defence", [clip.Options(), centred.Options()], ids=lambda d: d.name)
def test_several_runs_at_once_are_defended_as_one_by_one(monkeypatch, defence):
    made = replace(SMALL, defence=defence, methods=(*ALIKE, *OTHERS))
    at_once = montecarlo.run(made, 1)
    monkeypatch.setattr(onerun, "takes", lambda *a: False)
    alone = montecarlo.run(made, 1)
    np.testing.assert_allclose(at_once.mse_db, alone.mse_db, atol=1e-9)


@pytest.mark.parametrize(
    "defence",
    [median.Options(), trimmed.Options(), krum.Options(), centred.Options(), clip.Options()],
    ids=lambda d: d.name,
)
def test_every_defence_helps_against_one_of_five(defence):
    """Against a constant in some rounds of which two of five are malicious: less harm than none."""
    made = replace(SMALL, rounds=150, methods=ALIKE, attack=constant.Options(share=0.1, value=50.0))
    bare, kept = (
        montecarlo.run(replace(made, defence=d), 1).mse_db[:, -1] for d in (None, defence)
    )
    assert (kept < bare - 3).all()


DIM = 5


def sorted_entry(changes, i):
    return sorted(change[i] for change in changes)


def by_median(changes):
    return [float(np.median(sorted_entry(changes, i))) for i in range(DIM)]


def by_trimming(changes):
    inner = [sorted_entry(changes, i)[2:-2] for i in range(DIM)]
    return [sum(each) / len(each) for each in inner]


def by_krum(changes):
    def score(one):
        away = sorted(sum((a - b) ** 2 for a, b in zip(one, o, strict=True)) for o in changes)
        return sum(away[1 : 1 + len(changes) - 1 - 2])

    return min(changes, key=score)


FORMULAS = [
    (median.Options(), by_median),
    (trimmed.Options(trim=2), by_trimming),
    (krum.Options(malicious=1), by_krum),
]


@pytest.mark.parametrize(("options", "formula"), FORMULAS, ids=lambda o: getattr(o, "name", ""))
def test_what_is_folded_is_the_formula(options, formula):
    for number in range(20):
        rng = np.random.default_rng(number)
        changes = rng.standard_normal((int(rng.integers(7, 12)), DIM))
        defence = bind(options, Setting(20, 20, DIM, len(changes)))
        entries = np.broadcast_to(np.arange(DIM), changes.shape)
        left = defence.defended({}, 0, np.arange(len(changes)), changes, entries)
        assert np.allclose(left.mean(axis=0), formula(changes.tolist()), rtol=0, atol=1e-12)


def test_centred_clipping_is_its_recursion():
    defence = bind(centred.Options(tau=0.7, memory=0.0), Setting(20, 20, DIM, 6))
    rng, state, v = np.random.default_rng(0), defence.start(), np.zeros(DIM)
    for n in range(20):
        changes = rng.standard_normal((6, DIM))
        entries = np.broadcast_to(np.arange(DIM), changes.shape)
        left = defence.defended(state, n, np.arange(6), changes, entries)
        steps = [(U - v) * min(1.0, 0.7 / np.linalg.norm(U - v)) for U in changes]
        v = v + sum(steps) / 6
        assert np.allclose(left.mean(axis=0), v, rtol=0, atol=1e-12)
