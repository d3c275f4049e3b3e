"""The adapters do what scikit-learn and River ask of an estimator, and what the paper says."""

import numpy as np
import pytest

from psofed.core.learner import lms

sklearn = pytest.importorskip("sklearn")
river = pytest.importorskip("river")

from river import checks as river_checks  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from psofed.errors import InputError  # noqa: E402
from psofed.estimators import FederatedRegressor, RFFKLMSRegressor, RFFKLMSStream  # noqa: E402


@parametrize_with_checks([RFFKLMSRegressor(), FederatedRegressor(dim=100)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "check",
    list(river_checks.yield_checks(RFFKLMSStream())),
    ids=lambda c: getattr(c, "__name__", str(c)),
)
def test_river_finds_nothing_to_complain_about(check):
    check(RFFKLMSStream())


def wave(seed, count=800):
    draw = np.random.default_rng(seed)
    X = draw.uniform(-2, 2, (count, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1]


def test_the_regressor_is_the_learner_of_the_paper_step_by_step():
    X, y = wave(0, 50)
    model = RFFKLMSRegressor(dim=20, scale=False, random_state=3).partial_fit(X[:1], y[:1])
    w = model.coef_.copy()
    for x, target in zip(X[1:], y[1:], strict=True):
        lms(w, model.features_(x), target, model.step)
    assert np.abs(model.partial_fit(X[1:], y[1:]).coef_ - w).max() < 1e-12


def test_learning_in_parts_and_at_once_is_the_same_without_scaling():
    X, y = wave(1)
    parts = RFFKLMSRegressor(scale=False, epochs=1, random_state=0)
    for i in range(0, len(X), 100):
        parts.partial_fit(X[i : i + 100], y[i : i + 100])
    whole = RFFKLMSRegressor(scale=False, epochs=1, random_state=0).fit(X, y)
    assert np.abs(parts.coef_ - whole.coef_).max() < 1e-12


def test_a_federation_with_everybody_sharing_everything_learns_and_counts_its_bytes():
    X, y = wave(2)
    groups = np.arange(len(X)) % 5
    model = FederatedRegressor(shared=20, cohort=2, epochs=4, random_state=0).fit(
        X, y, groups=groups
    )
    assert model.score(X, y) > 0.4
    assert model.traffic_.tolist() == [4 * 160 * 2 * 20 * 4] * 2
    assert (
        FederatedRegressor("onlinefed", random_state=0).fit(X, y, groups=groups).score(X, y) > 0.4
    )
    with pytest.raises(InputError, match="has no M"):
        FederatedRegressor("onlinefed", shared=3).fit(X, y)


def test_river_features_may_come_late_and_in_any_order():
    model = RFFKLMSStream(dim=30, seed=1)
    model.learn_one({"a": 1.0}, 1.0)
    model.learn_one({"a": 1.0, "b": 0.5}, 2.0)
    assert model.predict_one({"b": 0.5, "a": 1.0}) == pytest.approx(
        model.predict_one({"a": 1.0, "b": 0.5})
    )
    assert np.isfinite(model.predict_one({}))


def test_a_column_that_is_constant_up_to_rounding_has_no_scale():
    from psofed.estimators.regressor import _scale

    values = np.full((7, 2), [0.1, 1e8 / 3])
    mean, spread = _scale(values, True)
    assert values.std(axis=0)[0] > 0  # or this tests nothing
    assert spread.tolist() == [1, 1]
    assert np.abs(mean - [0.1, 1e8 / 3]).max() < 1e-7
