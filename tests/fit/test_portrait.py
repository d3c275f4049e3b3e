"""The portrait of a fit: its numbers are those of the scores, and it stays small."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.portraits import fitted
from psofed.core.features import Linear
from psofed.core.seeds import Seeds
from psofed.data import reading as tables
from psofed.data.columns import Columns
from psofed.fit import fitting, permutation, portrait
from psofed.fit.plan import Plan
from psofed.fit.scores import Score, Scores, Truth


@pytest.fixture(scope="module")
def done():
    return fitted()


def test_seasons_hours_and_scores_tell_the_same_error(done):
    found, error = done.portrait, done.scores.error(0, "frozen")
    assert found["seasons"]["names"] == ["Mar-May"]
    assert found["seasons"]["all"][0] == pytest.approx(error, rel=1e-4)
    hours, samples = (np.array(found["hours"][key]) for key in ("error", "samples"))
    assert samples.sum() == done.scores.truths["frozen"].count.sum()
    assert (hours * samples).sum() / samples.sum() == pytest.approx(error, rel=1e-4)
    by_client = dict(
        zip(done.scores.clients, done.scores.by_client(0, "frozen", "global"), strict=True)
    )
    for row in found["seasons"]["by_client"]:
        assert row["all"] == pytest.approx(by_client[row["client"]], rel=1e-4)


def test_the_worst_moments_are_in_the_table_and_none_of_the_kept_pairs_is_worse(done):
    worst = done.portrait["worst"]
    sizes = [abs(row["predicted"] - row["actual"]) for row in worst]
    assert len(worst) == portrait.WORST
    assert sizes == sorted(sizes, reverse=True)
    actual, predicted = map(np.array, done.portrait["pairs"])
    assert len(actual) <= done.scores.truths["frozen"].count.sum()
    assert np.abs(actual - predicted).max() <= sizes[0] * 1.001
    assert {row["client"] for row in worst} <= set(done.table.clients)
    assert all(row["time"].startswith("2024-0") for row in worst)


def test_rows_that_were_not_used_are_all_there_with_their_time(done):
    counts = {r: sum(c) for r, c in done.portrait["unused"]["counts"].items()}
    unlabelled = counts.pop(portrait.UNLABELLED)
    assert counts == dict(done.later.counts)
    assert len(counts) == 2
    assert any(f"{unlabelled} without target" in note for note in done.notes)


def test_each_input_belongs_to_one_column_and_all_of_a_column_move_together(done):
    groups = permutation.sources(done.encoder)
    assert sorted(i for places in groups.values() for i in places) == list(range(done.encoder.taps))
    names = done.encoder.names
    together = {column: {names[i] for i in places} for column, places in groups.items()}
    assert together["wind"] == {"wind", "wind[-1]", "wind[-2]"}
    assert together["wind_from"] == {f"wind_from={c}" for c in "NESW"}
    assert together["traffic"] == {"traffic", "traffic[-1]", "traffic?"}
    assert together["time"] == {f"{f} {c}" for f in ("sin", "cos") for c in ("hour", "weekday")}
    assert together["pollutant"] == {"pollutant[-12]"}
    told = [row["column"] for row in done.portrait["importance"]["columns"]]
    assert sorted(told) == sorted(groups)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 99))
def test_samples_are_shuffled_within_their_client(clients, seed):
    k = np.sort(np.array(clients))
    order = permutation.Shuffled._shuffle(
        type("Drawn", (), {"seeds": Seeds(seed)})(), k, "column", 0
    )
    assert (k[order] == k).all()
    assert sorted(order) == list(range(len(k)))


def test_the_importance_of_a_linear_model_is_what_theory_says(done):
    """Shuffling x_j raises the mean squared error by 2 w_j^2 var(x_j)."""
    g, count = np.random.default_rng(0), permutation.SAMPLES
    x = g.standard_normal((count, done.encoder.taps)).astype(np.float32)
    line = Linear(done.encoder.taps)
    w = np.zeros(line.dim, np.float32)
    used = permutation.sources(done.encoder)["temperature"][0]
    w[1 + used] = 0.5 * np.sqrt(line.dim)  # its features are (1, x) / sqrt(L + 1)
    k = g.integers(0, 4, count)
    truth = Truth.empty(4)
    truth.add(np.array([[1.0, -1.0, 1.0, -1.0]]), np.ones((1, 4), bool))  # a variance of one
    sample = permutation.Shuffled(done.encoder, np.bincount(k), Seeds(0))
    sample.add(x, line(x) @ w, k, np.zeros(count))
    scores = Scores([Score("", 4)], {"frozen": truth}, np.ones(1), np.ones(1), 1.0, list("abcd"))
    found = sample.result(line, w, scores)
    first, *rest = found["columns"]
    assert first["column"] == "temperature"
    assert first["rise"] == pytest.approx(0.5, rel=0.1)
    assert all(row["rise"] == pytest.approx(0, abs=1e-6) for row in rest)


def test_a_portrait_of_very_many_clients_stays_small(tmp_path):
    lines = ["t,who,a,y"]
    lines += [f"{n},c{k},{(n * 7 + k) % 11},{(n + k) % 5}" for n in range(40) for k in range(300)]
    (tmp_path / "many.csv").write_text("\n".join(lines) + "\n")
    table = tables.read(tmp_path / "many.csv", Columns(target="y", time=("t",), client="who"))
    made = fitting.fit(table, Plan(table.columns, dim=10, width=1.0, step=0.5))
    assert len(json.dumps(made.portrait)) < 60_000
    assert made.portrait["importance"]["clients"] <= permutation.SAMPLES // permutation.EACH
    assert "seasons" not in made.portrait  # times are numbers
    assert made.portrait["worst"][0]["time"].isdigit()
