"""The estimators say how sure they are, and a federation answers each group with its own model."""

import pickle

import numpy as np
import pytest

from psofed.errors import InputError


def noisy(seed, count, unit=1.0):
    draw = np.random.default_rng(seed)
    X = draw.uniform(-2, 2, (count, 2))
    return X, unit * (np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * draw.standard_normal(count))


@pytest.mark.parametrize(("scale", "unit"), [(True, 1e3), (False, 1.0)])
def test_the_interval_of_the_regressor_holds_nine_of_ten_new_targets(estimators, scale, unit):
    model = estimators.RFFKLMSRegressor(dim=60, epochs=3, scale=scale, random_state=0)
    model.fit(*noisy(0, 1200, unit))
    X, y = noisy(1, 2000, unit)
    value, low, high = model.predict(X, interval=0.9)
    assert np.array_equal(value, model.predict(X))
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.9, abs=0.03)
    wide = model.predict(X, interval=0.99)
    assert (wide[1] < low).all()
    assert (wide[2] > high).all()
    with pytest.raises(InputError, match=r"interval is 0\.7"):
        model.predict(X, interval=0.7)


def test_a_regressor_that_goes_on_learning_adapts_its_interval(estimators):
    model = estimators.RFFKLMSRegressor(dim=60, random_state=0).partial_fit(*noisy(0, 1500))
    X, y = noisy(1, 1500)
    y += np.random.default_rng(2).standard_normal(len(y))  # the noise is now larger
    before = np.diff(model.predict(X[:1], interval=0.9)[1:], axis=0)[0, 0]
    after = np.diff(model.partial_fit(X, y).predict(X[:1], interval=0.9)[1:], axis=0)[0, 0]
    assert after > 1.5 * before


@pytest.mark.parametrize("far", [0.0, 1e5])
def test_the_interval_of_the_stream_holds_nine_of_ten_targets(estimators, far):
    model = estimators.RFFKLMSStream(dim=60, step=0.4)
    X, y = noisy(3, 2500)
    assert model.predict_interval_one({"a": 0}) == (-np.inf, np.inf)
    inside = []
    for (a, b), target in zip(X, y + far, strict=True):
        low, high = model.predict_interval_one({"a": a, "b": b})
        inside.append(low <= target <= high)
        model.learn_one({"a": a, "b": b}, target)
    assert np.mean(inside[500:]) == pytest.approx(0.9, abs=0.02)
    assert high - low < 10, "and not by being endless"


def test_groups_are_answered_by_their_own_models_and_strangers_by_the_global_one(estimators):
    X, y = noisy(4, 600)
    groups = np.array(["a", "b", "c"])[np.arange(600) % 3]
    y = y + 2.0 * (groups == "c")  # a group that differs
    model = estimators.FederatedRegressor(dim=40, shared=4, epochs=3, step=0.3, random_state=0)
    model.fit(X, y, groups=groups)
    error = np.square(model.predict(X, groups=groups) - y).mean()
    assert error < 0.8 * np.square(model.predict(X) - y).mean()
    strangers = model.predict(X, groups=np.full(600, "d"))
    assert np.array_equal(strangers, model.predict(X))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X, groups=groups), model.predict(X, groups=groups))
    with pytest.raises(ValueError, match="groups has shape"):
        model.predict(X, groups=groups[:5])


def test_a_method_whose_clients_keep_no_model_answers_with_the_global_one(estimators):
    X, y = noisy(5, 80)
    model = estimators.FederatedRegressor("centralised", dim=20, epochs=1, random_state=0).fit(X, y)
    assert np.array_equal(model.predict(X, groups=np.arange(80) % 4), model.predict(X))
