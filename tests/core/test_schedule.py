from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.core.schedule import Rotating, Sequential, Stochastic, UniformCohorts, is_even
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.methods.psofed import Options


@st.composite
def windows(draw):
    dim = draw(st.integers(2, 24))
    return dim, draw(st.integers(1, dim)), draw(st.integers(-30, 30)), draw(st.booleans())


@given(windows(), st.integers(0, 50), st.booleans())
def test_the_closed_form_is_the_circular_shift(window, n, coordinated):
    dim, shared, shift, block = window
    schedule = Sequential(Seeds(3), dim, shared, shift, coordinated, block)
    diagonal = np.zeros(dim)
    diagonal[schedule.entries(4, 0)] = 1
    for _ in range(n):
        diagonal = np.roll(diagonal, shift)
    assert sorted(schedule.entries(4, n)) == np.flatnonzero(diagonal).tolist()


@given(windows(), st.booleans())
def test_each_entry_travels_m_times_in_d_rounds_where_coverage_holds(window, coordinated):
    dim, shared, shift, block = window
    schedule = Sequential(Seeds(1), dim, shared, shift, coordinated, block)
    counts = np.zeros(dim, int)
    for n in range(dim):
        counts[schedule.entries(2, n)] += 1
    g = gcd(shift, dim)  # entry i travels g |{s in S_0 : s = i mod g}| times
    alike = np.bincount(schedule.entries(2, 0) % g, minlength=g)
    assert counts.tolist() == (g * alike[np.arange(dim) % g]).tolist()
    if is_even(dim, shared, shift, block):
        assert (counts == shared).all()


@given(windows())
def test_an_uneven_schedule_is_refused_and_can_be_forced(window):
    dim, shared, shift, block = window
    options = {"shared": shared, "shift": shift, "mask": "block" if block else "subset"}
    if is_even(dim, shared, shift, block):
        Options(**options).check(dim, 10)
    else:
        with pytest.raises(InputError, match="shift"):
            Options(**options).check(dim, 10)
    Options(**options, allow_uneven=True).check(dim, 10)


def test_uncoordinated_clients_have_masks_of_their_own_and_coordinated_ones_do_not():
    for coordinated in (True, False):
        schedule = Sequential(Seeds(0), 200, 5, 1, coordinated, block=False)
        masks = {tuple(schedule.entries(k, 0)) for k in range(20)}
        assert len(masks) == (1 if coordinated else 20)


def test_a_late_round_does_not_overflow():
    schedule = Rotating(np.array([[0, 1]]), shift=10**9, dim=7)
    n = 10**15
    assert schedule.entries(0, n).tolist() == [(s + 10**9 * n) % 7 for s in (0, 1)]


@given(st.integers(1, 12), st.integers(0, 10**9))
def test_stochastic_windows_are_fresh_and_both_ends_draw_the_same(shared, n):
    own = Stochastic(Seeds(0), 12, shared, coordinated=False)
    common = Stochastic(Seeds(0), 12, shared, coordinated=True)
    assert np.array_equal(own.entries(3, n), own.draw([3], [n])[0])
    assert np.array_equal(common.entries(3, n), common.entries(8, n))
    assert len(set(own.entries(3, n))) == shared


def test_stochastic_windows_cover_every_entry_equally():
    draws = Stochastic(Seeds(0), 20, 5, coordinated=False).draw(0, np.arange(4000))
    counts = np.bincount(draws.ravel(), minlength=20)
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000 * 0.75)


def test_cohorts_are_a_function_of_the_round_alone():
    cohorts = UniformCohorts(Seeds(0, run=2), clients=100, size=4)
    whole = cohorts.cohort(np.arange(50))
    assert whole.shape == (50, 4)
    assert all(np.array_equal(cohorts.cohort(n), whole[n]) for n in range(50))
