"""Personal errors: each client's own model, by the test samples of that client."""

import json
from dataclasses import replace

import numpy as np
import pytest

from psofed import predict_curves
from psofed.cli.laws.drivers import played
from psofed.compare.comparing import compare_methods
from psofed.compare.search import Pilot
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.methods import fedavg, local, memofed, onlinefed, psofed
from psofed.report import comparisons, runs
from psofed.rivals import ditto, fedpoe, pofmkl, raw
from psofed.simulate import montecarlo
from psofed.simulate.draws import draw
from psofed.simulate.finished import Accumulator
from psofed.simulate.montecarlo import threads
from psofed.simulate.onerun import one_run, some_runs
from psofed.streams import paper

METHODS = (
    onlinefed.Options(), psofed.Options(4), local.Options(), fedavg.Options(3), raw.Options(),
    ditto.Options(), fedpoe.Options(), pofmkl.Options(step=0.2), psofed.Options(4, average=True),
)  # fmt: skip
SMALL = Experiment(
    clients=6, cohort=2, rounds=40, runs=2, test_samples=31, features=Features(dim=10),
    dtype="float64", stream=paper.Options(spread=1.0), methods=METHODS, judge="personal",
)  # fmt: skip


def by_hand(experiment, j, run=0):
    """The personal error of method j before each round, sample by sample."""
    alone = experiment.only([j])
    task = alone.task(run)
    [method] = alone.start(task)
    drawn = alone.stream.snapshot(task.seeds, "test", alone.clients, alone.test_samples)
    found = []
    for moment in played(method, draw(alone, task, everybody=True)):
        try:
            own = method.models(None, moment.clients)
        except KeyError:
            own = [method.models(moment.server, moment.clients)] * alone.clients
        errors = [
            y - own[i % alone.clients] @ task.features(x)
            for i, (x, y) in enumerate(zip(drawn.x, drawn.clean, strict=True))
        ]
        found.append(np.mean(np.square(errors)))
    return np.array(found)


@pytest.mark.parametrize("j", range(len(METHODS)), ids=lambda j: METHODS[j].title())
def test_a_personal_error_is_that_of_the_clients_own_models_by_their_own_samples(j):
    found = one_run(SMALL, 0)
    np.testing.assert_allclose(found.mse[j], by_hand(SMALL, j), rtol=1e-9)


def test_the_global_model_is_judged_as_it_is_alone():
    found, alone = one_run(SMALL, 1), one_run(replace(SMALL, judge="global"), 1)
    np.testing.assert_allclose(found.global_mse, alone.mse, rtol=1e-9)
    np.testing.assert_array_equal(found.traffic, alone.traffic)
    without = METHODS.index(raw.Options())  # its clients have no model, and predict with w
    np.testing.assert_allclose(found.mse[without], alone.mse[without], rtol=1e-9)
    assert np.abs(found.mse[0, 1:] - alone.mse[0, 1:]).min() > 1e-3


def test_several_runs_at_once_have_the_errors_of_each_alone():
    many = replace(SMALL, dtype="float32", rounds=60, methods=(*METHODS, memofed.Options(size=5)))
    for number, found in zip((0, 1, 4), some_runs(many, [0, 1, 4]), strict=True):
        alone = one_run(many, number)
        np.testing.assert_array_equal(found.mse, alone.mse)
        np.testing.assert_array_equal(found.global_mse, alone.global_mse)


def test_where_f_changes_models_are_judged_by_f_as_it_is_by_then():
    drifts = replace(
        SMALL, stream=paper.Options(period=10), methods=(local.Options(), raw.Options())
    )
    found = one_run(drifts, 0)
    np.testing.assert_allclose(found.mse[1], found.global_mse[1], rtol=1e-9)
    assert found.mse[0, -1] != found.mse[0, -2]


def test_more_clients_than_test_samples_are_judged_by_some():
    many = replace(SMALL, clients=50, test_samples=20, methods=(local.Options(),))
    assert many.tested.tolist() == [5 * k // 2 for k in range(20)]
    assert (np.diff(one_run(many, 0).mse[0, ::20]) < 0).all()


def test_curves_keep_both_and_checkpoints_go_on_with_both():
    curves = montecarlo.run(SMALL, progress=False)
    late = curves.rounds >= 32
    expected = 10 * np.log10(curves.global_mse[:, late].mean(axis=1))
    np.testing.assert_allclose(curves.global_steady_db, expected)
    assert curves.only([2]).global_mse.tolist() == curves.global_mse[[2]].tolist()
    first, again = Accumulator(SMALL), Accumulator(SMALL)
    first.add(one_run(SMALL, 0))
    again.load(first.to_arrays())
    again.add(one_run(SMALL, 1))
    np.testing.assert_array_equal(again.curves().global_mse, curves.global_mse)
    assert montecarlo.run(replace(SMALL, judge="global"), progress=False).global_steady_db == []


def test_tables_have_one_more_column_where_it_is_asked_for():
    for judge, columns in (("personal", 1), ("global", 0)):
        curves = montecarlo.run(replace(SMALL, judge=judge), progress=False)
        head, first, *_ = runs.grid(curves).rows
        assert head.count("global model") == columns
        assert len(head) == len(first)
        assert ("global_mse" in runs.files.csv_text(curves.rows()).splitlines()[0]) == bool(columns)
        table = json.loads(runs.files.json_text(runs.summary(curves, "")))
        assert ("global_steady_db" in table["methods"][0]) == bool(columns)
        assert ("each client's own model" in table["targets"]) == bool(columns)


def test_a_comparison_tunes_for_the_error_that_it_reports():
    methods = (onlinefed.Options(), ditto.Options(prox=0.3), ditto.Options(prox=0.0))
    settled = replace(SMALL, methods=methods, evaluate_every=1)
    with threads(1) as workers:
        pilot = Pilot(settled, 1.0, workers)
        scores = pilot.scores(methods, 2, lambda done, total: None)
    curves = montecarlo.run(pilot.experiment, progress=False)
    for j, score in enumerate(scores):
        assert score.error == pytest.approx(curves.point(j, "steady").value)
    assert scores[2].error < scores[1].error - 1  # of global models they have the same
    made = compare_methods(settled, budget=1.0, tuning="none", progress=False)
    [table] = comparisons.tables(made)
    assert table.rows[0][-1] == "global, dB"
    assert {len(row) for row in table.rows} == {len(table.rows[0])}
    assert "own model" in "\n".join(map(str, comparisons.blocks(made)))


def test_the_theory_refuses_it():
    with pytest.raises(InputError, match='judge is "personal", but the theory'):
        predict_curves(replace(SMALL, methods=(psofed.Options(4),)))
