"""The mean square against exact answers and against the simulator."""

import numpy as np
import pytest

from helpers.systems import WORLD, Sampled, dense, drawn, given_moments, given_system
from psofed.experiment import Experiment
from psofed.federation import workers
from psofed.methods import onlinefed, psofed
from psofed.simulate import montecarlo
from psofed.streams import iid
from psofed.theory import mean, moments, prediction, reduced


def test_theory_agrees_with_the_simulator(predicted):
    curves = montecarlo.run(WORLD)
    for p in predicted:
        gap = p.mse_db - curves.mse_db[curves.titles.index(p.title)]
        assert np.abs(gap).max() < 0.4, p.title  # four clients are a poor population
        assert np.sqrt(np.square(gap).mean()) < 0.2, p.title


@pytest.mark.parametrize(
    ("masks", "shift"), [([[0]], 1), ([[1, 4, 6]], 1), ([[0, 2, 3, 7]], 3), ([list(range(8))], 1)]
)
@pytest.mark.parametrize("idle", [True, False])
def test_the_recursion_is_exact_for_equal_clients_with_common_windows(equal, masks, shift, idle):
    data, pooled = equal
    system = given_system(masks, shift, 8, clients=4, cohort=2, step=0.75, idle=idle)
    states = reduced.ReducedRecursion(system, pooled).trajectory(20)
    for (m, P), state in zip(dense(system, data, 20), states, strict=True):
        assert np.abs(m[:8] - state.means.server[0]).max() < 1e-12
        assert np.abs(P[:8, :8] - state.second.A).max() < 1e-12


def test_the_recursion_is_near_for_unequal_clients_and_its_means_are_exact(small):
    data, pooled = drawn(small, 1000)
    for title, system in prediction.systems(small).items():
        means = mean.MeanRecursion(system, data.R, data.r).trajectory(30)
        states = reduced.ReducedRecursion(system, pooled).trajectory(30)
        for (m, P), exact, state in zip(dense(system, data, 30), means, states, strict=True):
            assert np.allclose(exact.server[0], m[:8], atol=1e-12)
            assert np.allclose(state.means.server[0], m[:8], atol=1e-12)
            gap = small.test.mse(m[:8], P[:8, :8]) / small.test.mse(m[:8], state.second.A)
            assert abs(10 * np.log10(gap)) < 0.25, title  # four clients are a poor population


def test_single_precision_is_good_to_a_thousandth_of_a_db(small):
    for title, system in prediction.systems(small).items():
        single, double = (
            prediction.one(small, title, system, moments.population(small.moments, kind=kind))
            for kind in (np.float32, np.float64)
        )
        assert np.abs(single.mse_db - double.mse_db).max() < 1e-3


def test_the_closure_is_exact_where_all_windows_have_the_same_energy():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(3, 4000, 5))
    z /= np.linalg.norm(z, axis=2, keepdims=True)
    R = np.swapaxes(z, 1, 2) @ z / 4000
    data = given_moments(R)
    P, squares = 0.3 * np.eye(5), np.zeros(3)
    m, f, v = np.zeros((3, 5)), np.zeros((3, 4000)), np.zeros(3)
    by_closure = moments.closure(data, np.float64, rank=0)(P, m, squares)
    assert np.allclose(by_closure, Sampled(z, f, v)(P, m, squares), atol=1e-12)


def test_processes_give_what_one_process_gives(small, monkeypatch):
    alone = prediction.predict(small)
    monkeypatch.setattr(workers, "HEAVY", 0)
    seen = []
    together = prediction.predict(small, 2, lambda done, total: seen.append((done, total)))
    assert [p.title for p in together] == [p.title for p in alone]
    for a, b in zip(alone, together, strict=True):
        assert np.allclose(a.mse, b.mse, rtol=1e-5)
    assert workers._here == {}  # that was another process
    assert all(total == len(alone) * WORLD.rounds for _, total in seen)


PAPER = Experiment(
    rounds=60, runs=40, world=0, stream=iid.Options(), test_samples=2000,
    methods=(
        onlinefed.Options(),
        psofed.Options(shared=1, scheme="coordinated"),
        psofed.Options(shared=40),
        psofed.Options(shared=5, step=2.6, label="too large a step"),
    ),
)  # fmt: skip


@pytest.mark.long
def test_at_the_papers_scale_theory_and_simulation_agree_and_diverge_together():
    theory = prediction.curves(PAPER)
    curves = montecarlo.run(PAPER)
    for j, p in enumerate(theory[:3]):
        assert p.lost is None
        assert np.abs(p.mse_db - curves.mse_db[j])[30:].max() < 0.5, p.title
    lost = theory[3].lost
    assert lost is not None
    assert np.isnan(theory[3].mse[lost:]).all()
    assert (curves.mse[3] > prediction.DIVERGED * curves.mse[3, 0]).any()
