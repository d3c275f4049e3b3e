"""The adapters do what scikit-learn and River ask of an estimator, and what the paper says."""

import doctest
import pickle
from importlib import import_module

import numpy as np
import pytest

from psofed.core.equations import lms
from psofed.errors import InputError, PsofedWarning


@pytest.fixture(scope="module")
def estimators():
    """Imported by the process that runs these tests only: scikit-learn and River take seconds."""
    for name in ("sklearn", "river"):
        pytest.importorskip(name)
    return import_module("psofed.tables.estimators")


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
    assert not [(one["check_name"], one["exception"]) for one in done if one["status"] == "failed"]
    assert sum(one["status"] == "passed" for one in done) > 40


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["RFFKLMSStream", "FederatedStream"])
def test_river_finds_nothing_to_complain_about(estimators, name):
    from river import checks

    found = list(checks.yield_checks(getattr(estimators, name)()))
    assert len(found) > 5
    for check in found:
        check(getattr(estimators, name)())


@pytest.mark.parametrize("name", ["RFFKLMSRegressor", "FederatedRegressor", "RFFKLMSStream"])
def test_a_step_that_undoes_what_was_learned_is_warned_of(estimators, name):
    def use():
        made = getattr(estimators, name)(step=2.5)
        if name != "RFFKLMSStream":
            made.fit(*noisy(6, 40))

    with pytest.warns(PsofedWarning, match=r"step 2\.5 is unsafe; use a smaller step"):
        use()


def test_a_pipeline_of_river_federates_and_newcomers_profit(estimators):
    from river import compose, evaluate, metrics, preprocessing

    X, y = noisy(6, 1600)
    numbers = compose.Discard("who") | preprocessing.StandardScaler()
    model = (numbers + compose.Select("who")) | estimators.FederatedStream("who", step=0.4)
    samples = [({"a": a, "b": b, "who": f"mill {i % 4}"}, t)
               for i, ((a, b), t) in enumerate(zip(X, y, strict=True))]  # fmt: skip
    error = evaluate.progressive_val_score(samples[:1500], model, metrics.MSE()).get()
    assert error < 0.75 * y.var()
    federation = model["FederatedStream"].federation
    assert federation.clients == [f"mill {k}" for k in range(4)]
    assert federation.traffic.up > 0
    new = [(model.predict_one({**x, "who": "new"}) - t) ** 2 for x, t in samples[1500:]]
    assert np.mean(new) < 0.75 * y.var()


def test_a_federation_goes_on_with_more_rows_and_more_groups(estimators):
    X, y = noisy(7, 900)
    groups = np.array(["a", "b", "c"])[np.arange(900) // 300]
    order = np.random.default_rng(0).permutation(600)
    model = estimators.FederatedRegressor(dim=40, step=0.3, random_state=0)
    model.partial_fit(X[order], y[order], groups=groups[order])
    before, sent = model.score(X, y), model.traffic_.sum()
    for part in np.array_split(np.arange(900), 9):
        model.partial_fit(X[part], y[part], groups=groups[part])
    assert model.groups_.tolist() == ["a", "b", "c"]
    assert model.federation_.clients == [0, 1, 2]
    assert model.score(X, y) > before
    assert model.traffic_.sum() > sent


def wave(seed, count=800, unit=1.0, noise=0.0):
    draw = np.random.default_rng(seed)
    X = draw.uniform(-2, 2, (count, 2))
    return X, unit * (np.sin(2 * X[:, 0]) * X[:, 1] + noise * draw.standard_normal(count))


def noisy(seed, count, unit=1.0):
    return wave(seed, count, unit, noise=0.3)


def test_the_regressor_is_the_learner_of_the_paper_step_by_step(estimators):
    X, y = wave(0, 50)
    model = estimators.RFFKLMSRegressor(dim=20, scale=False, random_state=3)
    model.partial_fit(X[:1], y[:1])
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
    one, other = (model.predict_one(x) for x in ({"b": 0.5, "a": 1.0}, {"a": 1.0, "b": 0.5}))
    assert one == pytest.approx(other)
    assert np.isfinite(model.predict_one({}))


def test_a_column_that_is_constant_up_to_rounding_has_no_scale(estimators):
    from psofed.tables.estimators.scikit import _scale

    values = np.full((7, 2), [0.1, 1e8 / 3])
    mean, spread = _scale(values, True)
    assert values.std(axis=0)[0] > 0  # or this tests nothing
    assert spread.tolist() == [1, 1]
    assert np.abs(mean - [0.1, 1e8 / 3]).max() < 1e-7


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
