from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.battery import small
from psofed.curves import Curves
from psofed.experiment import Experiment
from psofed.methods import centralised, local, onlinefed, psofed
from psofed.report import claims, runs
from psofed.simulate import family, montecarlo
from psofed.simulate.draws import draw
from psofed.simulate.finished import Accumulator, OneRun
from psofed.simulate.onerun import one_run

SMALL = small(
    onlinefed.Options(), psofed.Options(2), psofed.Options(3, selection="stochastic"),
    psofed.Options(4, idle=False), local.Options(), centralised.Options(),
    rounds=40, runs=7, test_samples=60, dtype="float32",
)  # fmt: skip

# paper_notes: 40 runs, K = 100, D = 200, mu = 0.75, |S_n| = 4, sigma = 2, noise-free test MSE in dB
PAPER = {
    "Online-Fed": {"100": -7.43, "200": -8.96, "500": -10.53, "1000": -11.22},
    "PSO-Fed M=1 coordinated": {"100": -1.38, "200": -5.12, "500": -8.14, "1000": -9.31},
    "PSO-Fed M=1 uncoordinated": {"100": -0.72, "200": -3.02, "500": -7.01, "1000": -9.22},
    "PSO-Fed M=5 coordinated": {"100": -4.60, "200": -6.45, "500": -8.57, "1000": -9.85},
    "PSO-Fed M=5 uncoordinated": {"100": -4.50, "200": -6.32, "500": -8.52, "1000": -9.87},
    "PSO-Fed M=40 coordinated": {"100": -5.55, "200": -7.17, "500": -9.51, "1000": -10.85},
    "PSO-Fed M=40 uncoordinated": {"100": -5.51, "200": -7.15, "500": -9.50, "1000": -10.84},
}


def same(a: Curves, b: Curves) -> bool:
    fields = ("mse", "stderr", "uplink", "downlink", "multicast", "points", "covariance")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in fields)


def test_the_number_of_threads_does_not_change_a_bit():
    one, two, many = (montecarlo.run(SMALL, jobs=jobs) for jobs in (1, 2, 5))
    assert same(one, two)
    assert same(one, many)


def test_float32_curves_are_those_of_float64():
    # Precision alone differs: the draws are the same.
    single = Experiment(clients=30, rounds=400, runs=3, test_samples=500)
    double = replace(single, dtype="float64")
    gap = montecarlo.run(single).mse_db - montecarlo.run(double).mse_db
    assert np.abs(gap).max() < 1e-3


def test_every_so_many_rounds_is_a_part_of_every_round():
    every, some = montecarlo.run(SMALL), montecarlo.run(replace(SMALL, evaluate_every=7))
    assert some.rounds.tolist() == [0, 7, 14, 21, 28, 35, 40]
    assert {100, 200} <= set(replace(SMALL, rounds=300, evaluate_every=7).evaluated)
    # One product of matrices of another shape may round differently.
    assert np.allclose(some.mse, every.mse[:, some.rounds], rtol=1e-5)
    assert np.array_equal(some.cumulative, every.cumulative[:, some.rounds])


def test_the_curves_of_the_paper_are_met():
    curves = montecarlo.run(Experiment(rounds=1000, runs=12))
    deviations = []
    for j, title in enumerate(curves.titles):
        for name, expected in PAPER[title].items():
            found = curves.point(j, name)
            deviations.append((found.value - expected) / np.hypot(found.stderr, 0.1))
    assert np.abs(deviations).max() < 4  # 28 figures, not independent
    assert np.sqrt(np.mean(np.square(deviations))) < 1.5


@given(arrays(float, (6, 2, 41), elements=st.floats(0.01, 10)))
def test_running_sums_are_the_mean_and_the_standard_error(mse):
    experiment = replace(SMALL, methods=SMALL.methods[:2])
    total = Accumulator(experiment)
    for run in mse:
        total.add(OneRun(run, np.ones((3, 2, 41)), np.array([]), np.zeros((2, 7), int), run))
    curves = total.curves()
    assert np.allclose(curves.mse, mse.mean(axis=0), rtol=1e-12)
    assert np.allclose(curves.stderr, mse.std(axis=0, ddof=1) / np.sqrt(6), rtol=1e-6, atol=1e-12)
    steady = mse[:, :, 32:].mean(axis=2)
    assert np.allclose(curves.points[:, -1], steady.mean(axis=0))
    assert np.allclose(curves.covariance[-1], np.cov(steady.T), rtol=1e-6, atol=1e-12)
    a, b = steady.T
    paired = curves.difference(0, 1, "steady")
    spread = (a / a.mean() - b / b.mean()).std(ddof=1) / np.sqrt(6)
    assert np.isclose(paired.stderr, 10 / np.log(10) * spread, rtol=1e-4, atol=1e-6)


def test_one_run_has_no_standard_error_and_still_a_table():
    curves = montecarlo.run(replace(SMALL, runs=1))
    assert np.isnan(curves.stderr).all()
    assert "±" not in str(runs.grid(curves))


def test_a_claim_that_is_false_is_said_to_be_false():
    curves = montecarlo.run(Experiment(clients=10, rounds=250, runs=3, test_samples=100))
    assert not claims.is_paper(curves.experiment)
    assert claims.is_paper(Experiment(rounds=9, seed=3))
    first, second, _third = claims.judge(curves)
    assert second.findings[0].holds  # a fifth of the bytes, by counting
    level = curves.mse.copy()
    points = curves.points.copy()
    points[[3, 6]] *= 10  # M = 40 made ten times worse
    level[[3, 6]] *= 10
    # Without spread, so that nothing is too uncertain to tell.
    worse = replace(curves, mse=level, points=points, covariance=0 * curves.covariance)
    verdicts = [claim.verdict for claim in claims.judge(worse)]
    assert verdicts[1] == "holds in part"
    assert not claims.judge(worse)[0].findings[2].holds
    assert first.findings[1].says in claims.text((first, second))


def test_a_step_that_is_too_large_diverges_without_a_warning_and_the_table_says_so():
    curves = montecarlo.run(replace(SMALL, step=30.0, rounds=400))
    assert not np.isfinite(curves.mse[:, -1]).any()
    assert str(runs.grid(curves)).count("diverged") >= len(SMALL.methods)


def test_a_million_clients_cost_only_those_that_are_selected():
    experiment = Experiment(clients=1_000_000, rounds=40, runs=1, test_samples=300)
    draws = draw(experiment, experiment.task(0), everybody=False)
    assert len(draws.ids) <= 160
    for chunk in draws.chunks():
        assert len(chunk.x) <= 160
    curves = montecarlo.run(experiment)
    assert np.isfinite(curves.mse).all()


def test_long_runs_keep_at_most_ten_thousand_points():
    assert len(Experiment(rounds=1_000_000).evaluated) == 10_001
    assert len(Experiment(rounds=30_000).evaluated) <= 10_006
    assert len(Experiment(rounds=10_000).evaluated) == 10_001
    assert Experiment(rounds=10_001).every == 2


@pytest.mark.parametrize("options", [onlinefed.Options(), psofed.Options(2), psofed.Options(9)])
def test_the_engine_judges_an_average_as_the_handlers_do(options, monkeypatch):
    averaged = replace(SMALL, dtype="float64", methods=(replace(options, average=True), options))
    compiled = one_run(averaged, 3)
    monkeypatch.setattr(family, "supports", lambda method: False)
    handled = one_run(averaged, 3)
    np.testing.assert_allclose(compiled.mse, handled.mse, rtol=1e-12)
    assert np.array_equal(compiled.traffic, handled.traffic)
    assert not np.allclose(compiled.mse[0], compiled.mse[1], rtol=1e-3)
