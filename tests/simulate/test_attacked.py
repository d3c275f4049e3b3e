"""Attacks and defences in simulations of several runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from psofed import Experiment, OnlineFed, PSOFed
from psofed.simulate import draws, montecarlo
from psofed.simulate.onerun import one_run, some_runs
from psofed.stages.attacks import alie, collusion, constant, ipm, offset, perturbation, scale
from psofed.stages.defences import clip

SMALL = Experiment(
    clients=12, cohort=4, rounds=60, runs=3, dtype="float64", test_samples=100,
    methods=(
        PSOFed(shared=40), PSOFed(shared=5, scheme="coordinated"), OnlineFed(),
        PSOFed(shared=7, selection="stochastic", average=True), PSOFed(shared=30, idle=False),
    ),
)  # fmt: skip
MIXED = (
    scale.Options(share=0.3), constant.Options(share=0.25), offset.Options(share=0.3),
    perturbation.Options(share=0.4, chance=0.5), collusion.Options(share=0.3),
    alie.Options(share=0.5), ipm.Options(share=0.9, epsilon=0.3),
)  # fmt: skip


def assert_alone(experiment):
    """The runs, computed together, are those computed one by one, to the bit."""
    for number, run in enumerate(some_runs(experiment, [0, 1, 2])):
        alone = one_run(experiment, number)
        assert np.array_equal(run.mse, alone.mse)
        assert np.array_equal(run.traffic, alone.traffic)


@pytest.mark.parametrize("attack", MIXED, ids=lambda a: a.name)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_attacked_run_is_the_same_whatever_stands_beside_it(attack, dtype):
    attacked = replace(SMALL, dtype=dtype, attack=attack)
    assert_alone(attacked)
    clean, found = (montecarlo.run(e, 1) for e in (replace(attacked, attack=None), attacked))
    assert (np.abs(clean.mse_db - found.mse_db).max(axis=1) > 0.01).all()  # it is attacked


@pytest.mark.parametrize("attack", [None, *MIXED[:2], MIXED[5]], ids=lambda a: a and a.name)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_defended_run_is_the_same_whatever_stands_beside_it(attack, dtype):
    defended = replace(SMALL, rounds=120, dtype=dtype, attack=attack, defence=clip.Options())
    assert_alone(defended)
    found, open_to_all = (montecarlo.run(e, 1) for e in (defended, replace(defended, defence=None)))
    assert np.abs(open_to_all.mse_db - found.mse_db).max() > 0.01  # it does something


def test_nobody_malicious_is_to_the_bit_nobody():
    nobody = montecarlo.run(replace(SMALL, attack=scale.Options(share=0.0)), 1)
    np.testing.assert_array_equal(nobody.mse, montecarlo.run(SMALL, 1).mse)


def test_attack_and_defence_do_not_depend_on_how_samples_are_chunked(monkeypatch):
    """In small chunks, too, in whose course clients are selected for the last time."""
    made = replace(
        SMALL, clients=60, rounds=400, runs=1, attack=MIXED[0], defence=clip.Options(),
    )  # fmt: skip
    whole = montecarlo.run(made, 1)
    monkeypatch.setattr(draws, "CHUNK_SAMPLES", 1)
    np.testing.assert_allclose(montecarlo.run(made, 1).mse, whole.mse, rtol=1e-9)
