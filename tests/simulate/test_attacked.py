"""Attacks and defences in simulations of several runs."""

from dataclasses import replace

import numpy as np
import pytest

from psofed import Experiment, Features, OnlineFed, PSOFed
from psofed.simulate import draws, montecarlo
from psofed.simulate.onerun import one_run, some_runs
from psofed.stages.attacks import alie, collusion, constant, ipm, offset, perturbation, scale
from psofed.stages.defences import clip

SMALL = Experiment(
    clients=12, cohort=4, rounds=40, runs=2, test_samples=60, features=Features(dim=40),
    methods=(
        PSOFed(shared=8), PSOFed(shared=5, scheme="coordinated"), OnlineFed(),
        PSOFed(shared=7, selection="stochastic", average=True), PSOFed(shared=6, idle=False),
    ),
)  # fmt: skip
MIXED = (
    scale.Options(share=0.3), constant.Options(share=0.25), offset.Options(share=0.3),
    perturbation.Options(share=0.4, chance=0.5), collusion.Options(share=0.3),
    alie.Options(share=0.5), ipm.Options(share=0.9, epsilon=0.3),
)  # fmt: skip
CASES = [(attack, None) for attack in MIXED]
CASES += [(attack, clip.Options()) for attack in (None, MIXED[0], MIXED[5])]


@pytest.mark.parametrize(("attack", "defence"), CASES, ids=lambda o: getattr(o, "name", "none"))
def test_an_attacked_or_defended_run_is_the_same_whatever_stands_beside_it(attack, defence):
    made = replace(SMALL, attack=attack, defence=defence)
    for number, run in enumerate(some_runs(made, [0, 1])):
        alone = one_run(made, number)
        assert np.array_equal(run.mse, alone.mse)
        assert np.array_equal(run.traffic, alone.traffic)
        plain = one_run(
            replace(SMALL, **{"attack" if defence is None else "defence": None}), number
        )
        assert np.abs(run.mse / plain.mse - 1).max() > 1e-3  # it does something


def test_attack_and_defence_do_not_depend_on_how_samples_are_chunked(monkeypatch):
    """In small chunks, too, in whose course clients are selected for the last time."""
    made = replace(
        SMALL, clients=60, rounds=300, runs=1, dtype="float64", attack=MIXED[0],
        defence=clip.Options(), methods=SMALL.methods[:2],
    )  # fmt: skip
    whole = montecarlo.run(made, 1)
    monkeypatch.setattr(draws, "CHUNK_SAMPLES", 1)
    np.testing.assert_allclose(montecarlo.run(made, 1).mse, whole.mse, rtol=1e-9)
