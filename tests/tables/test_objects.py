"""A fit and a model as objects: predictions in the order of the table, saved, pickled, shown."""

import pickle

import numpy as np
import pytest

import psofed
from helpers.extra import Extra
from psofed.core.features import LINE
from psofed.errors import InputError

pd, pl = Extra("pandas"), Extra("polars")


def frame():
    """Two clients in an order of no meaning, with an index of no order, a gap and odd rows."""
    g = np.random.default_rng(0)
    made = pd.DataFrame({
        "time": np.repeat(pd.date_range("2024-01-01", periods=150, freq="h"), 2), "who": ["a", "b"] * 150, "x": g.uniform(-1, 1, 300)
    })  # fmt: skip
    made["y"] = made.x**2 + (made.who == "b") + 0.01 * g.standard_normal(300)
    made = made.sample(frac=1, random_state=0)
    made.index = [f"row {i}" for i in g.permutation(300)]
    return made


def fitted(table=None, **options):
    settings = {"dim": 20, "width": 1.0, "step": 0.3, "compare": False, "missing": {"x": "skip"}}
    return psofed.fit_table(
        frame() if table is None else table, target="y", time="time", client="who",
        **settings | options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def done():
    return fitted()


def by_hand(done, row):
    """The prediction of the model's equation for one row: cosines, then a straight line."""
    model, cosines = done.model, done.model.features.cosines
    (centre, scale), (mean, spread) = (model.recipe.scaling[name] for name in ("x", "y"))
    known = row.who in model.clients
    w = model.own[model.clients.index(row.who)] if known else model.own.mean(axis=0)
    x = (row.x - centre) / scale
    cosines = np.sqrt(2 / cosines.dim) * np.cos(cosines.W[:, 0] * x + cosines.b)
    return float(cosines @ w[:-2] + LINE * (w[-2] * x + w[-1])) * spread + mean


def test_predictions_have_the_index_of_the_frame_and_the_values_of_the_model(done):
    table = frame()
    found = done.predict(table)
    assert found.name == "predicted"
    assert found.index.equals(table.index)
    pd.testing.assert_series_equal(found, done.predict(table.drop(columns="y")))
    wanted = [by_hand(done, row) for row in table.itertuples()]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_client_that_the_model_does_not_know_gets_the_mean_of_all(done):
    table = frame()
    new = table.assign(who=table.who.replace("b", "new"))
    found = done.predict(new)
    wanted = [by_hand(done, row) for row in new.itertuples()]
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    known = (table.who == "a").to_numpy()
    np.testing.assert_array_equal(found[known], done.predict(table)[known])
    assert np.abs(found - done.predict(table))[~known].min() > 0.1


def test_rows_without_a_prediction_are_nan_and_the_others_stay_in_place(done):
    table = frame()
    table.iloc[[3, 7], table.columns.get_loc("x")] = np.nan  # skipped, by the rule of the fit
    table.iloc[11, table.columns.get_loc("who")] = None
    twice = pd.concat([table, table.iloc[:1].assign(x=0.5)])  # a second row at the same time
    found = done.predict(twice, interval=0.9)
    assert list(found.columns) == ["predicted", "low", "high"]
    assert np.flatnonzero(found.predicted.isna()).tolist() == [3, 7, 11, 300]
    assert found.low.isna().equals(found.predicted.isna())
    kept = ~found.predicted.isna()
    np.testing.assert_allclose(
        found.predicted[kept], done.predict(frame())[kept[:-1].to_numpy()], rtol=1e-12
    )


def test_polars_frames_give_polars_and_files_give_arrays(done, tmp_path):
    table = frame()
    wanted = done.predict(table, interval=0.9)
    series = done.predict(pl.from_pandas(table))
    assert isinstance(series, pl.Series)
    np.testing.assert_array_equal(series.to_numpy(), wanted.predicted)
    both = done.predict(pl.from_pandas(table), interval=0.9)
    assert isinstance(both, pl.DataFrame)
    assert both.columns == list(wanted.columns)
    table.to_csv(tmp_path / "table.csv", index=False)
    np.testing.assert_allclose(done.predict(tmp_path / "table.csv"), wanted.predicted, atol=1e-5)
    assert done.predict(str(tmp_path / "table.csv"), interval=0.9).shape == (300, 3)


def test_a_wide_table_is_refused_because_its_rows_have_several_clients():
    table = frame().pivot(index="time", columns="who", values=["x", "y"])
    table.columns = [f"{who}.{name}" for name, who in table.columns]
    done = psofed.fit_table(
        table.reset_index(), target="y", time="time", wide=".", dim=10, width=1.0, step=0.3,
        compare=False,
    )  # fmt: skip
    with pytest.raises(InputError, match="table is wide"):
        done.predict(table.reset_index())


def test_what_is_saved_and_what_is_pickled_predicts_the_same(done, tmp_path):
    table = frame()
    wanted = done.predict(table, interval=0.95)
    done.save(tmp_path / "model.psofed")
    for again in (
        psofed.load_model(tmp_path / "model.psofed"),
        pickle.loads(pickle.dumps(done.model)),
        pickle.loads(pickle.dumps(done)),
    ):
        pd.testing.assert_frame_equal(again.predict(table, interval=0.95), wanted)
    copy = pickle.loads(pickle.dumps(done))
    assert copy.to_frame().equals(done.to_frame())
    copy.save(tmp_path / "copy.psofed")
    assert (tmp_path / "copy.psofed").read_bytes() == (tmp_path / "model.psofed").read_bytes()
    with pytest.raises(InputError, match="cannot be written"):
        done.save(tmp_path)


def test_a_fit_and_a_model_show_themselves_in_a_line(done):
    assert repr(done).startswith(
        "<Fit of 'y': Mix with PSO-Fed M=4 uncoordinated, 2 clients, 300 rows,"
    )
    title = "Mix with PSO-Fed M=4 uncoordinated"
    assert repr(done.model) == f"<Model of 'y': {title}, 1 inputs, 2 clients>"
    assert "\n" not in repr(done) + repr(done.model)


def test_errors_are_also_in_the_units_of_the_target(done):
    table = done.to_frame()
    title = "PSO-Fed M=4 uncoordinated"
    free = ["Value of a season ago", "Last value", "Ridge regression, alone", "Line, alone"]
    assert list(table.index) == [f"Mix with {title}", title, *free]
    row = table.iloc[0]
    real = np.sqrt(row.frozen * done.scores.truths["frozen"].variance) * done.recipe.scale[-1]
    assert row.frozen_rmse == pytest.approx(real)
    assert 0 < row.frozen_mae < row.frozen_rmse
    assert 0 < row.prequential_mae < row.prequential_rmse
