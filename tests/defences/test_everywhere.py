"""Every defence with every kind of method, also where members send nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from psofed import ETPSOFed, Experiment, FedAvg, OnlineFed, PSOFed, TopK
from psofed.simulate import montecarlo, onerun
from psofed.stages.attacks import constant
from psofed.stages.defences import centred, clip, krum, median, trimmed

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
