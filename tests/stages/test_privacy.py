"""Masks cancel in sums, and change a run by rounding only; epsilon, its noise, and the table."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from math import inf, isfinite, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import psofed
from psofed import Experiment, FedAvg, InputError, OnlineFed, PSOFed
from psofed.rivals import FedProx
from psofed.stages import mask as masks
from psofed.stages import privacy as accountant
from psofed.stages.mask import Pairs
from psofed.stages.privacy import Privacy, mechanism, planned, secret_normals

RUN, SIZE = 77, 6


def pairs(clients: int, self_masks: bool, run: int = RUN) -> list[Pairs]:
    generator = np.random.default_rng(clients)
    keys = {(i, j): generator.bytes(32) for i in range(clients) for j in range(i)}
    return [
        Pairs(i, {j: keys[max(i, j), min(i, j)] for j in range(clients) if j != i}, run, self_masks)
        for i in range(clients)
    ]


@given(st.data(), st.booleans(), st.integers(0, 2**32 - 1))
def test_what_is_left_in_a_sum_is_taken_off_exactly(data, self_masks, n):
    everybody = pairs(7, self_masks)
    cohort = sorted(data.draw(st.sets(st.integers(0, 6), min_size=2)))
    present = data.draw(st.sets(st.sampled_from(cohort), min_size=1))
    words = np.random.default_rng(n).integers(0, 2**32, (7, SIZE), np.uint32)
    sent = [everybody[k].hidden(words[k], cohort, n) for k in sorted(present)]
    revealed = {k: everybody[k].revealed(cohort, present, n) for k in present}
    left = masks.left_over(revealed, cohort, present, SIZE, everybody[0])
    expected = masks.added(words[sorted(present)])
    assert (masks.added(np.array(sent)) - left == expected).all()


def test_a_whole_cohort_costs_nothing_and_who_is_absent_16_bytes_or_with_self_masks_32_more():
    (plain, *others), cohort = pairs(4, False), [0, 1, 2, 3]
    assert [one.revealed(cohort, cohort, 5) for one in (plain, *others)] == [b""] * 4
    assert len(plain.hidden(np.zeros(40), cohort, 5).tobytes()) == 160
    both = plain, pairs(4, True)[0]
    assert [len(one.revealed(cohort, [0, 2, 3], 5)) for one in both] == [16, 64]


def test_masks_of_two_rounds_or_runs_have_nothing_in_common():
    zero, cohort = np.zeros(1000), [0, 1, 2]
    one, other = pairs(3, False)[0], pairs(3, False, RUN + 1)[0]
    sent = [one.hidden(zero, cohort, 1), one.hidden(zero, cohort, 2), other.hidden(zero, cohort, 1)]
    assert all((a != b).mean() > 0.99 for a in sent for b in sent if a is not b)


@given(st.lists(st.floats(-60, 60), min_size=3, max_size=9))
def test_the_mean_is_off_by_half_a_step_at_most(values):
    scale = Privacy(masks=True).scale(len(values))
    parts = np.array([[masks.words(np.array(v), scale, 64.0)] for v in values])
    mean = masks.mean(masks.added(parts), scale, 64.0, len(values))
    assert abs(mean[0] - np.mean(values)) <= 0.5 / scale + 1e-12


def test_a_value_that_is_no_number_is_the_end_of_the_range():
    found = masks.words(np.array([np.nan, np.inf, -np.inf, 1e9]), 100, 2.0).astype(np.int32)
    assert found.tolist() == [200, 200, -200, 200]


def test_masks_that_do_not_cancel_are_noticed():
    everybody, cohort = pairs(4, False), [0, 1, 2, 3]
    scale, noticed = Privacy(masks=True).scale(4), 0
    for n in range(50):
        sent = np.array([one.hidden(np.zeros(5), cohort, n) for one in everybody[:3]])
        try:
            masks.mean(masks.added(sent), scale, 64.0, 3)
        except ValueError:
            noticed += 1
    assert noticed == 50


deltas = st.sampled_from([1e-3, 1e-5, 1e-9])


@pytest.mark.parametrize(("ratio", "times"), [(1.0, 1), (0.1, 50), (0.02, 1000), (2.5, 2)])
def test_epsilon_is_that_of_dp_accounting(ratio, times):
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    theirs = PLDAccountant()
    theirs.compose(dp.GaussianDpEvent(1 / ratio), times)
    ours = accountant.epsilon(ratio * sqrt(times), 1e-5)
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-6)


@given(st.floats(1e-3, 1e3), deltas)
def test_the_noise_for_an_epsilon_gives_that_epsilon_and_never_more(epsilon, delta):
    found = accountant.epsilon(accountant.ratio(epsilon, delta), delta)
    assert found == pytest.approx(epsilon, rel=1e-6)
    assert found <= epsilon * (1 + 1e-9)


@given(st.floats(1e-4, 50), st.floats(1.01, 3), deltas)
def test_more_that_is_released_costs_more(ratio, factor, delta):
    less, more = (accountant.epsilon(each, delta) for each in (ratio, factor * ratio))
    assert less <= more < inf
    assert isfinite(less)


@given(st.integers(1, 5000), st.floats(0.01, 1.0), st.sampled_from([0.5, 4.0]))
def test_the_budget_of_a_client_is_spent_by_the_uploads_that_it_is_for(contacts, share, epsilon):
    privacy = Privacy(epsilon=epsilon, level="client", clip_change=0.3)
    uploads = planned(privacy, contacts, share)
    found = mechanism(privacy, 0.2, None, uploads, 1)
    assert contacts * share <= uploads <= contacts or uploads == 1
    assert found.planned == pytest.approx(epsilon, rel=1e-6)
    assert found.epsilon(0) == 0
    assert found.epsilon(10**9) == found.planned >= found.epsilon(uploads // 2)


def test_secret_noise_is_normal_and_never_the_same():
    one, other = secret_normals(200, 50), secret_normals(200, 50)
    assert abs(one.mean()) < 0.06
    assert abs(one.std() - 1) < 0.05
    assert abs((one * other).mean()) < 0.06
    assert not (one == other).any()


def test_devices_compute_their_noise_without_dp_accounting():
    code = (
        "import sys, psofed; from psofed.cli.laws.drivers import prepare, small;"
        "prepare(small(psofed.PSOFed(3), privacy=psofed.Privacy(epsilon=1.0)));"
        "assert not {'dp_accounting', 'scipy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


MASKS = Privacy(masks=True)


@pytest.mark.parametrize(
    ("values", "field"),
    [({"least": 2}, "least"), ({"epsilon": 0.0}, "epsilon"), ({"delta": 1.0}, "delta"),
     ({"self_masks": True}, "self_masks"), ({"range": -1.0}, "range"), ({"level": "us"}, "level")],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(values, field):
    with pytest.raises(InputError) as caught:
        Privacy(**values)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("more", "field"),
    [({"cohort": 2}, "privacy.least"), ({"absent": 0.2}, "privacy.masks"),
     ({"methods": (PSOFed(5),)}, "methods[0].scheme"),
     ({"methods": (PSOFed(200, mask="block"),)}, "methods[0].scheme"),
     ({"methods": (PSOFed(5, "coordinated", wire="float16"),)}, "methods[0].wire")],
)  # fmt: skip
def test_masks_are_refused_where_a_sum_is_not_enough(more, field):
    with pytest.raises(InputError) as caught:
        Experiment(**{"methods": (OnlineFed(), FedAvg()), "privacy": MASKS} | more)
    assert caught.value.field == field


MASKED = (
    PSOFed(5, "coordinated"), PSOFed(5, "coordinated", selection="stochastic", idle=False),
    PSOFed(7, "coordinated", mask="groups"), PSOFed(50), OnlineFed(average=True), FedAvg(), FedProx(),
)  # fmt: skip
SMALL_RUN = {"clients": 12, "rounds": 60, "features": psofed.Features(dim=50), "test_samples": 50}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_masks_change_nothing_but_the_last_digits_and_not_a_byte(dtype):
    world = Experiment(**SMALL_RUN, methods=MASKED, dtype=dtype, runs=3, privacy=Privacy())
    both = world, replace(world, privacy=MASKS)
    plain, masked = (psofed.run(each, progress=False) for each in both)
    assert np.abs(plain.mse_db - masked.mse_db).max() < 1e-4
    assert (plain.cumulative == masked.cumulative).all()


def test_a_value_beyond_the_range_is_clipped():
    near = Privacy(masks=True, range=0.01)
    found = psofed.run(Experiment(**SMALL_RUN, methods=MASKED[:1], privacy=near), progress=False)
    free = psofed.run(Experiment(**SMALL_RUN, methods=MASKED[:1]), progress=False)
    assert found.mse_db[0, -1] > free.mse_db[0, -1] + 0.5
