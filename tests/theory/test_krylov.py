"""An affine recursion after n rounds, from a few of its products."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.systems import WORLD
from psofed.theory import moments, prediction, steady
from psofed.theory.system import bounds


def recursion(seed, size, rounds):
    """A symmetric L with eigenvalues up to 1, most of them close to it, and x after the rounds."""
    rng = np.random.default_rng(seed)
    values = 1 - 10 ** rng.uniform(-6, 0, size)
    Q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    L, b = (Q * values) @ Q.T, rng.normal(size=size)
    x = Q @ ((1 - values**rounds) / (1 - values) * (Q.T @ b))
    return L, b, x, rng.normal(size=size)


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 3000))
@settings(max_examples=40, deadline=None)
def test_the_recursion_is_where_it_is_after_n_rounds(seed, size, rounds):
    L, b, x, g = recursion(seed, size, rounds)
    scale = np.linalg.norm(g) * np.linalg.norm(x)

    def agree(values):
        return np.ptp(values) < 1e-5 * scale

    found = steady.seen(lambda x: L @ x + b, g, rounds, agree)
    assert found == pytest.approx(g @ x, abs=1e-3 * scale)


def test_a_recursion_that_does_nothing_is_nowhere():
    assert steady.seen(lambda x: 0.5 * x, np.ones(3), 10, lambda values: True) == 0


def test_what_needs_too_many_vectors_is_not_a_number(monkeypatch):
    monkeypatch.setattr(steady, "MOST", 10)
    L, b, _, g = recursion(0, 50, 3000)
    assert np.isnan(steady.seen(lambda x: L @ x + b, g, 3000, lambda values: False))


@pytest.fixture(scope="module")
def medium():
    return prediction.world(
        replace(WORLD, clients=12, cohort=3, features=replace(WORLD.features, dim=24))
    )


@pytest.mark.parametrize("share", [0.1, 0.9])
@pytest.mark.parametrize(("shared", "coordinated"), [(1, True), (1, False), (6, False), (24, True)])
def test_a_tighter_tolerance_changes_a_sweep_by_less_than_was_promised(
    medium, share, shared, coordinated
):
    system = prediction.systems(medium)["PSO-Fed M=3 uncoordinated"]
    limits = bounds(medium.experiment, medium.task, medium.moments)
    setting = steady.SweepPoint(shared, coordinated, share * limits.alone)
    loose, tight, double = (
        steady.quasi_static(
            system, data, medium.test, limits, [setting], 2000, tolerance=tolerance
        )[0]
        for data, tolerance in (
            (medium.population, steady.TOLERANCE),
            (medium.population, steady.TOLERANCE / 50),
            (moments.population(medium.moments, kind=np.float64), steady.TOLERANCE / 50),
        )
    )
    # Not by rounding either.
    for other in (tight, double):
        assert abs(10 * np.log10(loose / other)) < steady.TOLERANCE


def test_covariances_are_those_of_the_recursion_round_by_round(medium):
    system = prediction.systems(medium)["PSO-Fed M=3 uncoordinated"]
    data = moments.population(medium.moments, kind=np.float64)
    setting = steady.SweepPoint(2, False, 0.75)
    recursion = steady.AveragedRecursion(steady._setting(system, setting), data)
    means = steady._means(system, data, [setting], 300, None)
    state = recursion.start()._replace(means=means)
    now = recursion.mean.round(0, means)
    for _ in range(300):
        state = state._replace(second=recursion._part(0, now, state))
    found = steady._spread(recursion, means, medium.test, 300, 1e-6)
    assert found == pytest.approx(np.vdot(medium.test.G, state.second.A), rel=1e-6)
