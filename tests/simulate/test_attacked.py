"""Attacks in the compiled engine: the same numbers as through the handlers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from psofed import Experiment, OnlineFed, PSOFed
from psofed.attacks import alie, collusion, constant, ipm, offset, perturbation, scale
from psofed.defences import clip
from psofed.simulate import draws, family, montecarlo

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


@pytest.mark.parametrize("attack", MIXED, ids=lambda a: a.name)
@pytest.mark.parametrize(("dtype", "far"), [("float64", 1e-12), ("float32", 2e-4)])
def test_the_engine_attacks_as_the_handlers_do(monkeypatch, attack, dtype, far):
    attacked = replace(SMALL, dtype=dtype, attack=attack)
    compiled = montecarlo.run(attacked, 1)
    monkeypatch.setattr(family, "knows", lambda method: False)
    handled = montecarlo.run(attacked, 1)
    np.testing.assert_allclose(compiled.mse_db, handled.mse_db, atol=far)
    np.testing.assert_array_equal(compiled.cumulative, handled.cumulative)
    clean = montecarlo.run(replace(SMALL, dtype=dtype), 1)
    assert (np.abs(clean.mse_db - compiled.mse_db).max(axis=1) > 0.01).all()  # it is attacked


@pytest.mark.parametrize("attack", [None, *MIXED[:2], MIXED[5]], ids=lambda a: a and a.name)
@pytest.mark.parametrize(("dtype", "far"), [("float64", 1e-9), ("float32", 0.05)])
def test_the_engine_defends_as_the_handlers_do(monkeypatch, attack, dtype, far):
    """Reviews choose and compare, so that single precision may choose otherwise."""
    defended = replace(SMALL, rounds=120, dtype=dtype, attack=attack, defence=clip.Options())
    compiled = montecarlo.run(defended, 1)
    monkeypatch.setattr(family, "knows", lambda method: False)
    handled = montecarlo.run(defended, 1)
    np.testing.assert_allclose(compiled.mse_db, handled.mse_db, atol=far)
    np.testing.assert_array_equal(compiled.cumulative, handled.cumulative)
    open_to_all = montecarlo.run(replace(defended, defence=None), 1)
    assert np.abs(open_to_all.mse_db - handled.mse_db).max() > 0.01  # it does something


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
