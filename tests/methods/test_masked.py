"""Uploads that can be masked: the same method up to rounding, in every driver the same."""

from __future__ import annotations

import numpy as np
import pytest

import psofed
from psofed import Experiment, FedAvg, FedProx, OnlineFed, Privacy, PSOFed
from psofed.cli.laws.executors import compare_methods
from psofed.simulate import onerun

METHODS = (
    PSOFed(5, "coordinated"), PSOFed(5, "coordinated", selection="stochastic", idle=False),
    PSOFed(7, "coordinated", mask="groups"), PSOFed(50), OnlineFed(average=True), FedAvg(), FedProx(),
)  # fmt: skip
SMALL = {"clients": 12, "rounds": 60, "features": psofed.Features(dim=50), "test_samples": 50}


def experiment(masks: bool, **more) -> Experiment:
    return Experiment(**SMALL | {"methods": METHODS, "privacy": Privacy(masks=masks)} | more)


def test_all_drivers_give_the_same_numbers():
    assert all(found.passed for found in compare_methods(experiment(True), 30))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_masks_change_nothing_but_the_last_digits_and_not_a_byte(dtype):
    plain, masked = (
        psofed.run(experiment(on, dtype=dtype, runs=3), progress=False) for on in (False, True)
    )
    assert np.abs(plain.mse_db - masked.mse_db).max() < 1e-4
    assert (plain.cumulative == masked.cumulative).all()


def test_several_runs_at_once_are_what_each_is_alone():
    made = experiment(True, rounds=20)
    for number, run in enumerate(onerun.some_runs(made, range(3))):
        assert np.array_equal(run.mse, onerun.one_run(made, number).mse)


def test_a_value_beyond_the_range_is_clipped():
    near = Privacy(masks=True, range=0.01)
    found = psofed.run(Experiment(**SMALL, methods=METHODS[:1], privacy=near), progress=False)
    free = psofed.run(Experiment(**SMALL, methods=METHODS[:1]), progress=False)
    assert found.mse_db[0, -1] > free.mse_db[0, -1] + 0.5
