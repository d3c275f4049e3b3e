"""Radii keep their promise whatever the data are, and however late the labels come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.core import conformal
from psofed.core.conformal import ALPHA, FIRST_STEP, GAIN, LEVELS
from psofed.errors import InputError

sizes = st.floats(0, 1e6) | st.sampled_from([0.0, 1.0, 1e-12, 1e40, float("inf")])


def followed(errors, delay=0, scale=1.0):
    """theta before every round and at the end, what was promised, and log |e|, round by round."""
    logs = conformal.logs(np.asarray(errors, float))
    theta, count = conformal.start(*logs.shape[1:], scale=scale), np.zeros(logs.shape[1:])
    path, promised = [theta.copy()], []
    for n in range(len(logs)):
        promised.append(conformal.issued(theta))
        if n >= delay:
            conformal.adapt(theta, count, logs[n - delay], promised[n - delay], delay)
        path.append(theta.copy())
    return np.array(path), np.array(promised), logs


@given(st.lists(sizes, min_size=1, max_size=150), st.integers(0, 9))
def test_the_share_of_misses_is_within_the_range_of_theta_over_eta_n(errors, delay):
    path, promised, logs = followed(errors, delay)
    count = len(errors) - delay  # labels that have arrived
    if count < 1:
        return
    misses = (logs[:count, None] > promised[:count]).sum(axis=0)
    eta = conformal.step(np.array(count - 1), delay)  # of the last label: steps only fall
    bound = (path.max(axis=0) - path.min(axis=0)) / eta
    assert (np.abs(misses - ALPHA * count) <= bound + 1e-9).all()


@given(st.lists(sizes, min_size=1, max_size=150), st.integers(0, 9))
def test_the_range_of_theta_is_that_of_the_errors(errors, delay):
    path, _, logs = followed(errors, delay)
    slack = (delay + 1) * min(FIRST_STEP, GAIN / (1 + delay))
    ends = np.concatenate([logs, conformal.start()])
    assert path.min() >= ends.min() - slack
    assert path.max() <= ends.max() + slack


@given(st.lists(sizes, max_size=100), st.integers(0, 9))
def test_a_higher_level_never_has_the_smaller_interval(errors, delay):
    path, promised, _ = followed(errors, delay)
    assert (np.diff(promised, axis=-1) >= 0).all()
    assert (np.diff(conformal.radius(path[-1])) >= 0).all()


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=60), st.floats(1e-3, 1e3))
def test_the_units_of_the_target_do_not_matter(errors, unit):
    path, _, _ = followed(errors)
    other, _, _ = followed(np.array(errors) * unit, scale=unit)
    np.testing.assert_allclose(other, path + np.log(unit), atol=1e-9)


def test_clients_in_a_stack_learn_as_each_alone_and_nothing_from_missing_labels():
    errors = np.random.default_rng(0).normal(size=(80, 3))
    errors[::3, 1] = np.nan
    together = followed(errors)[0][-1]
    for k in range(3):
        ours = errors[~np.isnan(errors[:, k]), k]
        np.testing.assert_array_equal(together[k], followed(ours)[0][-1])


@given(st.lists(sizes, min_size=1, max_size=150), st.integers(0, 30))
def test_the_rule_for_devices_is_the_same_rule(errors, delay):
    path, promised, logs = followed(errors, delay)
    theta = conformal.start().tolist()
    for count in range(len(errors) - delay):
        conformal.adapt_one(theta, count, logs[count], promised[count].tolist(), delay)
    np.testing.assert_allclose(theta, path[-1], rtol=0, atol=1e-12)
    if not delay:
        array, count = conformal.start(), np.zeros(())
        conformal.follow(array, count, np.array(errors))
        np.testing.assert_allclose(array, theta, rtol=0, atol=1e-12)
        assert count == len(errors)


@pytest.mark.parametrize("delay", [0, 24])
def test_coverage_comes_back_when_the_noise_doubles(delay):
    noise = np.random.default_rng(1).normal(size=(4000, 20))
    noise[2000:] *= 2
    _, promised, logs = followed(noise, delay)
    hit = logs[..., None] <= promised
    for part in (slice(1000, 2000), slice(3000, 4000)):
        by_client = hit[part].mean(axis=0)
        assert np.abs(by_client - LEVELS).max() < 0.02


def test_a_wrong_start_is_left_soon():
    noise = np.random.default_rng(2).normal(size=(1000, 20))
    for scale in (0.01, 10):
        hit = followed(noise, scale=scale)
        covered = (hit[2][..., None] <= hit[1])[500:].mean(axis=(0, 1))
        assert np.abs(covered - LEVELS)[:4].max() < 0.02
        assert covered[4] > 0.97


def test_radii_do_not_swing_when_labels_come_a_month_late():
    noise = np.random.default_rng(3).normal(size=(20_000, 4))
    noise *= 1 + 0.8 * np.sin(np.arange(20_000) / 1000)[:, None]  # errors that come and go
    _, promised, logs = followed(noise, delay=720)
    assert np.exp(promised).max() < 100
    assert np.abs((logs[..., None] <= promised).mean(axis=(0, 1)) - LEVELS).max() < 0.05


@pytest.mark.parametrize("level", [0.85, 1, 0, 90, -0.9, float("nan"), "0.9", True, None])
def test_a_level_without_a_radius_is_refused_by_name(level):
    with pytest.raises(InputError, match=r"use 0\.5, 0\.8, 0\.9, 0\.95, 0\.99"):
        conformal.which(level)
