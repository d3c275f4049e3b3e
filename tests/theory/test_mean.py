"""The exact mean against thousands of runs, its radius, and where eq. (13) and (14) fail."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import ensemble
from helpers.systems import given_moments, given_system, linear_case
from psofed.core import schedule
from psofed.simulate import reference
from psofed.simulate import reference as cases
from psofed.theory import mean


@given(st.integers(0, 500))
def test_the_ensemble_is_the_algorithm(number):
    case = cases.draw(number)
    K, N, _ = case.x.shape
    system = given_system(case.masks, case.shift, case.features.dim, K, 1, case.step, case.idle)
    w, local = case.w0[None], case.local0[None]
    expected, expected_local = reference.run(case)
    for n in range(N):
        chosen = np.isin(np.arange(K), case.cohorts[n])[None]
        z = case.features(case.x[:, n])[None]
        w, local = ensemble.advance(system, n, w, local, chosen, z, case.y[:, n][None])
        assert np.abs(w[0] - expected[n + 1]).max() < 1e-10
        assert np.abs(local[0] - expected_local[n + 1]).max() < 1e-10


def test_the_mean_recursion_is_the_mean_of_many_runs_and_eq_13_is_not():
    R, r, sample = linear_case()
    masks = np.array([[0, 3], [1, 4], [2, 5], [0, 1]])
    system = given_system(masks, 1, 6, clients=4, cohort=2, step=0.3)
    exact = mean.MeanRecursion(system, R, r)
    paper_means = mean.PaperRecursion(system, R, r)
    count, scores, paper_scores = 24_000, [], []
    m, m13 = exact.start(), exact.start()
    for n, [(w, local)] in enumerate(ensemble.runs([system], sample, 40, count)):
        if n > 2:  # before that some entries are certain
            models = np.concatenate([w[:, None], local], axis=1)
            error = models.std(axis=0) / np.sqrt(count)
            for out, theory in ((scores, m), (paper_scores, m13)):
                predicted = np.concatenate([theory.server[None], theory.clients])[:, 0]
                out.append((models.mean(axis=0) - predicted) / error)
        m, m13 = exact.round(n, m).after, paper_means.after(m13)
    assert 0.9 < np.sqrt(np.square(scores).mean()) < 1.1
    assert np.sqrt(np.square(paper_scores).mean()) > 5  # eq. (13) clearly fails


@pytest.mark.parametrize(("masks", "shift"), [([[0, 3]], 1), ([[0, 3], [1, 2], [4, 0], [5, 2]], 5)])
def test_the_radius_is_the_rate_at_which_a_random_error_ends_up_shrinking(masks, shift):
    R, _, _ = linear_case()
    system = given_system(masks, shift, 6, clients=4, cohort=2, step=0.4)
    radius = mean.radius(system, given_moments(R))
    assert radius.exact
    assert radius.period == 6
    recursion = mean.MeanRecursion(system, R)
    rng = np.random.default_rng(0)
    means = mean.Means(rng.normal(size=(1, 6)), rng.normal(size=(4, 1, 6)))
    sizes = []
    for n in range(6 * 80):
        if n % 6 == 0:
            sizes.append(np.linalg.norm(np.vstack([means.server[None], means.clients])))
        means = recursion.round(n, means).after
    # An average over periods, because a complex pair of eigenvalues makes the ratio swing.
    assert (sizes[-1] / sizes[30]) ** (1 / (len(sizes) - 31)) == pytest.approx(
        radius.value, rel=2e-3
    )
    assert radius.time_constant == pytest.approx(-6 / np.log(radius.value))


def test_followed_directions_find_the_radius_of_a_system_too_large_for_a_matrix(monkeypatch):
    rng = np.random.default_rng(1)
    L = rng.normal(size=(4, 6, 4)) / 3  # rank 4 of 6, but no direction is flat for all clients
    R = L @ np.swapaxes(L, 1, 2)
    system = given_system([[0, 3]], 1, 6, clients=4, cohort=2, step=0.4)
    exact = mean.radius(system, given_moments(R))
    monkeypatch.setattr(mean, "DENSE", 0)
    monkeypatch.setattr(mean, "PERIODS", 200)
    monkeypatch.setattr(mean, "SETTLED", 1e-6)
    followed = mean.radius(system, given_moments(R))
    assert not followed.exact
    assert followed.value == pytest.approx(exact.value, abs=1e-3)


def test_whole_models_have_the_radius_of_the_mean_correlation():
    R, _, _ = linear_case()
    system = given_system([[0, 1, 2, 3, 4, 5]], 1, 6, clients=4, cohort=2, step=0.4)
    matrix = mean._radius(  # of all models, through the general recursion
        lambda means: mean.MeanRecursion(system, R).round(0, means).after, given_moments(R), 6, 1
    )
    own = mean.radius(system, given_moments(R))
    assert own.value == pytest.approx(np.abs(np.linalg.eigvalsh(np.eye(6) - 0.4 * R.mean(0))).max())
    assert own.value <= matrix.value + 1e-12  # which counts what idle clients learn, too


UNEVEN = np.array([[-0.43, 0.70, -0.33, -0.47], [-0.48, -0.11, 0.70, -0.52],
                   [-0.70, 0.60, 0.40, -0.04], [0.30, -0.92, 0.16, 0.20]])  # fmt: skip


def test_unequal_exchange_counts_can_be_unstable_at_every_step_below_eq_14():
    R = UNEVEN[:, :, None] * UNEVEN[:, None] + 1e-3 * np.eye(4)
    limit = 2 / np.linalg.eigvalsh(R).max()
    masks = np.array([[0, 2, 3], [3, 2, 0], [2, 0, 3], [1, 3, 2]])

    def radius(step, shift):
        return mean.radius(given_system(masks, shift, 4, 4, 2, step), given_moments(R)).value

    for step in np.geomspace(1e-3, 0.999 * limit, 25):
        assert radius(step, shift=2) > 1 + 1e-5  # entries are exchanged twice or once in two rounds
    for step in np.geomspace(1e-3, 0.9 * limit, 10):
        assert radius(step, shift=1) < 1  # each entry three times in four rounds
    assert schedule.is_even(4, 3, 1, block=False)
    assert not schedule.is_even(4, 3, 2, block=False)


def test_nearly_singular_correlations_can_be_unstable_below_eq_14_with_even_windows():
    v = np.array([[0.121, 0.864, 0.488], [0.391, -0.143, -0.909], [-0.624, -0.752, -0.21]])
    R = v[:, :, None] * v[:, None] + 1e-4 * np.eye(3)
    limit = 2 / np.linalg.eigvalsh(R).max()
    for scheme in ([[0]], [[2], [2], [2]]):  # the same windows, named for all or for each
        system = given_system(scheme, 1, 3, clients=3, cohort=1, step=0.95 * limit)
        assert mean.radius(system, given_moments(R)).value > 1 + 1e-3
        approximation = mean.paper_radius(system, given_moments(R))
        assert approximation.value < 1  # eq. (13) does not see it
    system = given_system([[0]], 1, 3, clients=3, cohort=1, step=0.3 * limit)
    assert mean.radius(system, given_moments(R)).value < 1
