"""Intervals over blocks of time: they hold what they promise, also where errors are alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.tables.gains import gains
from psofed.tables.scores import APART, FEWEST, FINEST, Score, block_marks


@given(st.integers(0, 10**6), st.integers(1, 10**5), st.sampled_from([None, 0.3, 1.0, 24.0, 205.7]))
def test_blocks_cover_all_rounds_once_and_are_whole_days_where_there_are_enough(
    first, length, per_day
):
    marks = block_marks(first, first + length, per_day)
    assert marks[-1] == first + length
    assert (np.diff(marks, prepend=first) > 0).all()
    assert min(FEWEST, length) <= len(marks) <= FINEST
    if per_day == 24.0 and length >= 20 * 24:
        assert (np.diff(marks[:-1], prepend=first) % 24 == 0).all()


def gain(new, old):
    return gains(new[:, None], old[:, None])[0]


def noise(g, theta, shape):
    """AR(1) rounds: neighbours have the correlation theta."""
    u, out = g.standard_normal(shape), np.empty(shape)
    last = g.standard_normal(shape[0])
    for i in range(shape[1]):
        last = theta * last + np.sqrt(1 - theta**2) * u[:, i]
        out[:, i] = last
    return out


@pytest.mark.parametrize("theta", [0.0, 0.9, 0.98])
def test_nineteen_of_twenty_intervals_hold_the_truth_although_rounds_are_alike(theta):
    g, shape = np.random.default_rng(1), (200, 2400)
    shared = noise(g, theta, shape)
    new, old = (c * shared + 0.7 * noise(g, theta, shape) for c in (1.0, 1.1))
    truth = 1 - (1 + 0.49) / (1.21 + 0.49)
    starts = np.concatenate([[0], block_marks(0, 2400, 24.0)[:-1]])
    sums = [np.add.reduceat(e**2, starts, axis=1) for e in (new, old)]
    found = [gain(a, b) for a, b in zip(*sums, strict=True)]
    hits = np.mean([each.low <= truth <= each.high for each in found])
    assert 0.89 <= hits <= 0.995


@given(st.integers(0, 2**32), st.floats(0.1, 10))
def test_a_gain_turned_around_is_the_inverse_ratio_and_scale_does_not_matter(seed, scale):
    g = np.random.default_rng(seed)
    a, b = g.gamma(2.0, 1.0, (2, 40, 3))
    for there, back in zip(gains(a, b), gains(scale * b, scale * a), strict=True):
        assert there.low <= there.value <= there.high
        assert (1 - there.value) * (1 - back.value) == pytest.approx(1)
        assert (1 - there.low) * (1 - back.high) == pytest.approx(1, rel=1e-6)
        assert {there.verdict, back.verdict} in ({"gains", "loses"}, {"cannot be told"})


def test_what_is_too_little_or_broken_is_not_called_sure():
    few = gain(np.ones(5), np.full(5, 2.0))
    assert few.value == 0.5
    assert few.verdict == "cannot be told"
    assert not gain(np.zeros(30), np.zeros(30)).known
    assert not gain(np.full(30, np.inf), np.ones(30)).known
    assert gain(np.full(30, np.nan), np.ones(30)).verdict == "cannot be told"


@pytest.mark.parametrize("clients", [3, APART + 1])
def test_block_sums_add_up_to_the_errors_of_a_part(clients):
    g, score = np.random.default_rng(0), Score("", clients)
    total = 0.0
    for first in (0, 10, 25):
        errors = g.random((10, clients))
        ids = np.searchsorted([5, 12, 40], first + np.arange(10), side="right")
        score.add_blocks("own", errors, ids, 3)
        total += errors.sum()
    sums = score.blocks["own"]
    assert sums.shape == (3, clients if clients <= APART else 1)
    assert sums.sum() == pytest.approx(total)
    assert (sums > 0).all()
