"""The portrait of a fit: its numbers are those of the scores, and it stays small."""

import json

import numpy as np
import pytest

from helpers.portraits import fitted
from psofed.streams.data import reading as tables
from psofed.streams.data.columns import Columns
from psofed.streams.data.rounds import UNLABELLED
from psofed.tables import fitting
from psofed.tables.plan import Plan
from psofed.tables.scores import WORST


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
    assert len(worst) == WORST
    assert sizes == sorted(sizes, reverse=True)
    actual, predicted = map(np.array, done.portrait["pairs"])
    assert len(actual) <= done.scores.truths["frozen"].count.sum()
    assert np.abs(actual - predicted).max() <= sizes[0] * 1.001
    assert {row["client"] for row in worst} <= set(done.table.clients)
    assert all(row["time"].startswith("2024-0") for row in worst)


def test_rows_that_were_not_used_are_all_there_with_their_time(done):
    counts = {r: sum(c) for r, c in done.portrait["unused"]["counts"].items()}
    unlabelled = counts.pop(UNLABELLED)
    assert counts == dict(done.later.counts)
    assert len(counts) == 2
    assert any(f"{unlabelled} without target" in note for note in done.notes)


def test_a_portrait_of_very_many_clients_stays_small(tmp_path):
    lines = ["t,who,a,y"]
    lines += [f"{n},c{k},{(n * 7 + k) % 11},{(n + k) % 5}" for n in range(40) for k in range(300)]
    (tmp_path / "many.csv").write_text("\n".join(lines) + "\n")
    table = tables.read(tmp_path / "many.csv", Columns(target="y", time=("t",), client="who"))
    made = fitting.fit(table, Plan(table.columns, dim=10, width=1.0, step=0.5))
    assert len(json.dumps(made.portrait)) < 60_000
    assert "seasons" not in made.portrait  # times are numbers
    assert made.portrait["worst"][0]["time"].isdigit()
