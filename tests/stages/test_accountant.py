from __future__ import annotations

import subprocess
import sys
from math import inf, isfinite, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.stages import privacy as accountant
from psofed.stages.privacy import Privacy, mechanism, planned, secret_normals

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
def test_more_that_is_told_costs_more(ratio, factor, delta):
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


def test_masks_divide_the_noise_among_the_members_of_a_sum():
    privacy = Privacy(epsilon=2.0)
    alone, shared = (mechanism(privacy, 0.2, sqrt(2), 1, shares) for shares in (1, 4))
    assert shared.sigma == pytest.approx(alone.sigma / 2)
    assert shared.planned == pytest.approx(alone.planned)


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
