"""Models that are worth saving: for clients with few labels, and after a jump of the level."""

import numpy as np
import pytest

from helpers.small_tables import table_of
from psofed.methods import psofed
from psofed.tables import fitting
from psofed.tables.plan import Plan

DIM, TAPS = 12, 2


@pytest.mark.parametrize(("use", "apart"), [("frozen", 0.1), ("live", 0.5)])
@pytest.mark.parametrize("rows", [1, 5, 30])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_client_with_few_labels_is_predicted_no_worse_than_by_the_mean(
    tmp_path, use, apart, rows, seed
):
    """With as many labels as inputs, what it would learn alone is many times worse."""
    g, taps, frozen = np.random.default_rng(seed), 30, 600
    x = g.standard_normal((4, 800, taps))
    w = (g.standard_normal(taps) + apart * g.standard_normal((4, taps))) / np.sqrt(taps)
    y = np.einsum("knl,kl->kn", x, w) + g.standard_normal((4, 800))
    y[-1, : frozen - rows] = np.inf
    table = table_of(tmp_path, x, y)
    plan = Plan(table.columns, dim=DIM, width=8.0, step=0.2, use=use, season=24)
    done = fitting.fit(table, plan)
    scores, unit = done.scores, done.scores.truths["frozen"].variance
    assert scores.by_client(0, "frozen", "global")[-1] * unit * done.unit**2 <= y[-1, frozen:].var()


def plan_of(table, use):
    methods = (psofed.Options(4),)
    return Plan(table.columns, dim=DIM, width=1.0, step=0.4, season=24, use=use, methods=methods)


def jumped(at, memory):
    """Three clients whose level jumps by 30 spreads; noise that remembers, or does not."""
    g = np.random.default_rng(0)
    x, noise = g.standard_normal((3, 1000, TAPS)), g.standard_normal((3, 1000))
    for n in range(1, 1000):
        noise[:, n] = memory * noise[:, n - 1] + np.sqrt(1 - memory**2) * noise[:, n]
    y = 0.3 * x[..., 0] + noise
    y[:, at:] += 30
    return x, y


@pytest.mark.parametrize("memory", [0.0, 0.9])
@pytest.mark.parametrize("at", [760, 900])
def test_a_live_model_is_saved_after_a_jump_of_the_level_and_follows_it(tmp_path, at, memory):
    x, y = jumped(at, memory)
    table = table_of(tmp_path, x, y)
    done = fitting.fit(table, plan_of(table, "live"))
    assert not done.refused
    found = np.square(done.predict(tmp_path / "made.csv").reshape(1000, 3).T - y)[:, at + 30 :]
    assert found.mean() < 1.2 * np.square(np.diff(y))[:, at + 30 :].mean()
    assert (done.error > 1) == any("level changed" in note for note in done.notes)
    again = fitting.fit(table, plan_of(table, "frozen"))
    assert again.refused, "it knows nothing of labels that come later"


def test_a_live_model_that_is_worse_than_a_mean_that_was_known_is_refused(tmp_path):
    x, y = jumped(300, 0.0)
    table = table_of(tmp_path, 0 * x, y)
    done = fitting.fit(table, plan_of(table, "live"))
    mix, mean = done.late
    last, before = (y[:, slice(*done.span.parts[part])] for part in ("frozen", "choice"))
    assert mean == pytest.approx(np.mean((last - before.mean()) ** 2) / last.var(), rel=1e-3)
    assert mix > mean
    assert done.refused
