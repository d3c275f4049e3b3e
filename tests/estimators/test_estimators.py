"""The adapters do what scikit-learn and River ask of an estimator, and what the paper says."""

import doctest
from importlib import import_module

import numpy as np
import pytest

from psofed.core.equations import lms
from psofed.errors import InputError


@pytest.mark.parametrize("name", ["scikit", "stream"])
def test_the_examples_in_the_docstrings_are_right(estimators, name):
    # Whoever collects doctests would have to import them all.
    done = doctest.testmod(import_module(f"psofed.tables.estimators.{name}"))
    assert done.failed == 0
    assert done.attempted > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["RFFKLMSRegressor", "FederatedRegressor"])
def test_scikit_learn_finds_nothing_to_complain_about(estimators, name):
    from sklearn.utils.estimator_checks import check_estimator

    options = {"dim": 50, "epochs": 2} if name == "FederatedRegressor" else {"epochs": 5}
    estimator = getattr(estimators, name)(**options)
    done = check_estimator(estimator, on_skip=None, on_fail=None)
    wrong = [
        f"{one['check_name']}: {one['exception']}" for one in done if one["status"] == "failed"
    ]
    assert not wrong, "\n".join(wrong)
    assert sum(one["status"] == "passed" for one in done) > 40


@pytest.mark.filterwarnings("ignore")
def test_river_finds_nothing_to_complain_about(estimators):
    from river import checks

    found = list(checks.yield_checks(estimators.RFFKLMSStream()))
    assert len(found) > 5
    for check in found:
        check(estimators.RFFKLMSStream())


def wave(seed, count=800):
    draw = np.random.default_rng(seed)
    X = draw.uniform(-2, 2, (count, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1]


def test_the_regressor_is_the_learner_of_the_paper_step_by_step(estimators):
    X, y = wave(0, 50)
    model = estimators.RFFKLMSRegressor(dim=20, scale=False, random_state=3).partial_fit(
        X[:1], y[:1]
    )
    w = model.coef_.copy()
    for x, target in zip(X[1:], y[1:], strict=True):
        lms(w, model.features_(x), target, model.step)
    assert np.abs(model.partial_fit(X[1:], y[1:]).coef_ - w).max() < 1e-12


def test_learning_in_parts_and_at_once_is_the_same_without_scaling(estimators):
    X, y = wave(1)
    parts = estimators.RFFKLMSRegressor(scale=False, epochs=1, random_state=0)
    for i in range(0, len(X), 100):
        parts.partial_fit(X[i : i + 100], y[i : i + 100])
    whole = estimators.RFFKLMSRegressor(scale=False, epochs=1, random_state=0).fit(X, y)
    assert np.abs(parts.coef_ - whole.coef_).max() < 1e-12


def test_a_federation_learns_and_counts_its_bytes(estimators):
    X, y = wave(2)
    groups = np.arange(len(X)) % 5
    model = estimators.FederatedRegressor(shared=20, cohort=2, epochs=4, random_state=0)
    assert model.fit(X, y, groups=groups).score(X, y) > 0.4
    assert model.traffic_.tolist() == [4 * 160 * 2 * 20 * 4] * 2
    with pytest.raises(InputError, match="has no M"):
        estimators.FederatedRegressor("onlinefed", shared=3).fit(X, y)


def test_river_features_may_come_late_and_in_any_order(estimators):
    model = estimators.RFFKLMSStream(dim=30, seed=1)
    model.learn_one({"a": 1.0}, 1.0)
    model.learn_one({"a": 1.0, "b": 0.5}, 2.0)
    assert model.predict_one({"b": 0.5, "a": 1.0}) == pytest.approx(
        model.predict_one({"a": 1.0, "b": 0.5})
    )
    assert np.isfinite(model.predict_one({}))


def test_a_column_that_is_constant_up_to_rounding_has_no_scale(estimators):
    from psofed.tables.estimators.scikit import _scale

    values = np.full((7, 2), [0.1, 1e8 / 3])
    mean, spread = _scale(values, True)
    assert values.std(axis=0)[0] > 0  # or this tests nothing
    assert spread.tolist() == [1, 1]
    assert np.abs(mean - [0.1, 1e8 / 3]).max() < 1e-7
