"""Limits of the step, verdicts and sweeps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.systems import WORLD, equal_clients, given_system
from psofed.experiment import Experiment, Features
from psofed.federation.learners import nlms
from psofed.federation.workers import in_parallel
from psofed.methods import fedavg, onlinefed, psofed
from psofed.rivals import psorls
from psofed.theory import moments, prediction, steady, study
from psofed.theory.exact import DenseRecursion
from psofed.theory.system import Bounds, alarms, bounds, is_lonely, mean_square_limit, norms


def brute_limit(z, average):
    """The step at which the spectral radius of the whole D^2 x D^2 map passes 1, by bisection."""
    n, D = z.shape
    R, eye = z.T @ z / n, np.eye(D)
    zz = np.einsum("ni,nj->nij", z, z).reshape(n, -1)
    four = zz.T @ zz / n / average + (1 - 1 / average) * np.kron(R, R)
    low, high = 0.0, 50.0
    for _ in range(60):
        mu = (low + high) / 2
        map = np.eye(D * D) - mu * (np.kron(R, eye) + np.kron(eye, R)) + mu**2 * four
        low, high = (mu, high) if np.abs(np.linalg.eigvals(map)).max() < 1 else (low, mu)
    return low


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 5))
@settings(max_examples=30)
def test_the_mean_square_limit_is_where_the_map_of_covariances_stops_contracting(
    seed, dim, average
):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(200, dim)) @ rng.normal(size=(dim, dim))
    z /= np.sqrt(np.square(z).sum(axis=1).mean())
    assert mean_square_limit(z, average) == pytest.approx(brute_limit(z, average), rel=2e-3)


@pytest.mark.parametrize("whole", [True, False])
def test_covariances_settle_below_the_limit_and_grow_above_it(small, whole):
    exact, _ = equal_clients(small)
    x, _, _ = moments.sample(small.experiment, small.task, 3000, "equal", np.arange(1))
    limit = mean_square_limit(small.task.features(x[0]), 2 if whole else 1)

    def growth(step):
        # One window for all: M = D, or an entry so rarely that clients learn alone.
        system = given_system([list(range(8)) if whole else [0]], 1, 8, 4, 2, step)
        sizes = [
            np.trace(state.covariance) for state in DenseRecursion(system, exact).trajectory(500)
        ]
        return sizes[-1] / sizes[-201]

    assert growth(0.95 * limit) < 1.05
    assert growth(1.15 * limit) > 2


def test_verdicts_follow_the_limits():
    b = Bounds(2.4, 1.7, 1.98, 3.2, 0.8, 1.15, 1000, 1e-11)

    def verdicts(masks, cohort, idle=True):
        steps = (1.7, 1.8, 2.0, 3.1, 3.3)
        return [b.verdict(given_system(masks, 1, 8, 4, cohort, mu, idle)) for mu in steps]

    lonely = ["safe", "doubtful", "unsafe", "unsafe", "unsafe"]
    together = ["safe", "doubtful", "doubtful", "doubtful", "unsafe"]
    rare = given_system([[0]], 1, 100, 100, 1, 2.0)
    assert b.verdict(rare) == "unsafe"
    assert verdicts([list(range(8))], 2) == together
    assert verdicts([[0]], 4) == together  # one entry in eight in every round: exchange may hold it
    assert verdicts([[0]], 1) == lonely
    assert verdicts([[0]], 1, idle=False) == together
    assert b.verdict(given_system([[0]], 1, 8, 4, 1, 0.1), radius=1.01) == "unsafe"


def test_clients_that_exchange_much_bear_more_than_one_that_learns_alone(small):
    exact, _ = equal_clients(small)
    x, _, _ = moments.sample(small.experiment, small.task, 3000, "equal", np.arange(1))
    alone = mean_square_limit(small.task.features(x[0]))
    system = given_system([list(range(7))], 1, 8, 4, 4, 1.2 * alone)
    assert not is_lonely(system)
    sizes = [np.trace(state.covariance) for state in DenseRecursion(system, exact).trajectory(600)]
    assert sizes[-1] < 1.05 * sizes[300]


@pytest.mark.long
def test_alarms_go_off_above_the_limits_and_not_below():
    both = (onlinefed.Options(), psofed.Options(shared=5))
    experiment = Experiment(clients=30, features=Features(dim=80), methods=both)
    task = replace(experiment, dtype="float64").task(0)
    limits = bounds(experiment, task, moments.moments(experiment, task, 50))
    quiet = alarms(replace(experiment, step=0.9 * limits.alone))
    assert quiet == []
    [alarm] = alarms(replace(experiment, step=1.15 * limits.alone))
    assert alarm.title == "PSO-Fed M=5 uncoordinated"
    assert alarm.limit == pytest.approx(limits.alone, rel=0.1)
    assert len(alarms(replace(experiment, step=1.15 * limits.averaged))) == 2


def test_the_papers_norms_are_those_of_the_matrices(small):
    system = prediction.systems(small)["PSO-Fed M=3 coordinated"]
    A, B, H = norms(system, small.moments)
    p, q, K, D = system.p, 3 / 8, 4, 8
    eye = np.eye(K + 1)
    full_A, full_B = eye * (1 - p * q), eye.copy()
    full_A[:, 0] += p * q
    full_B[0] = [1 - q, *[q / K] * K]
    R_e = np.zeros(((K + 1) * D,) * 2)
    for k in range(K):
        R_e[(k + 1) * D : (k + 2) * D, (k + 1) * D : (k + 2) * D] = small.moments.R[k]
    full_H = np.eye(len(R_e)) - system.step * R_e
    for norm, full in ((A, full_A), (B, full_B), (H, full_H)):
        assert norm.infinity == pytest.approx(np.linalg.norm(full, np.inf))
        assert norm.two == pytest.approx(np.linalg.norm(full, 2))
    assert min(A.two, B.two) > 1.001


def test_the_quasi_static_mse_is_where_the_recursion_is(small):
    rough = replace(small, fourth=None)
    known = prediction.systems(small)
    data = moments.population(small.moments, kind=np.float64)
    limits = bounds(small.experiment, small.task, small.moments)
    system = known["PSO-Fed M=3 uncoordinated"]
    wanted = [
        steady.SweepPoint(8, True, 0.75),
        steady.SweepPoint(3, False, 0.75),
        steady.SweepPoint(3, True, 0.75),
        steady.SweepPoint(3, True, 5.0),
    ]
    found = steady.quasi_static(system, data, small.test, limits, wanted, 600)
    long = replace(rough, experiment=replace(WORLD, rounds=620, evaluate_every=1))
    for value, title in zip(
        found, ("Online-Fed", "PSO-Fed M=3 uncoordinated", "PSO-Fed M=3 coordinated"), strict=False
    ):
        p = prediction.one(long, title, prediction.systems(long)[title], data)
        # Over a period of the windows: the sweep averages over their rotation.
        assert abs(10 * np.log10(value) - p.mse_db[590:614].mean()) < 0.1, title
    assert np.isnan(found[3])  # unsafe


def test_sweeps_are_simulated_at_the_step_of_the_theory_and_with_the_usual_windows_only():
    methods = (
        onlinefed.Options(),
        psofed.Options(shared=2, step=0.3),
        psofed.Options(shared=2, mask="block", label="blocks"),
        psofed.Options(shared=3, selection="stochastic", label="fresh"),
        psofed.Options(shared=3, idle=False),
    )
    world = prediction.world(replace(WORLD, methods=methods, step=0.9, rounds=60))
    with in_parallel(world, jobs=1) as workers:
        by_step, by_share = study.sweeps(workers, study.judge(workers, radii=False))
    assert by_step.lines == ["Online-Fed", "PSO-Fed M=2 uncoordinated"]
    assert by_step.step is None
    assert [o.step for o in by_step.methods] == 2 * by_step.x.tolist()
    assert by_share.step == 0.3
    assert {o.step for o in by_share.methods} == {0.3}


def test_deviations_are_theory_minus_simulation_from_round_50_on():
    rounds = np.arange(101)
    curve = prediction.Prediction(
        "a", 1.0, "exact", rounds, np.full(101, 0.1), np.full(101, 0.1), np.zeros(101), None
    )
    simulated = np.full((1, 101), -10.0)
    simulated[0, 10], simulated[0, 70] = -20.0, -11.0
    found = study.deviations([curve], ["a"], simulated, rounds)["a"]
    assert found["largest_db"] == pytest.approx(1.0)
    assert found["at"] == 70


def test_a_method_that_the_theory_does_not_know_is_warned_of_only_where_lms_diverges():
    """Own features that are not scaled are the usual reason."""

    def unscaled(x):
        return 3 * np.concatenate([x, x**2], axis=-1)

    entered = (fedavg.Options(), psorls.Options(shared=4), onlinefed.Options())
    features = Features(unscaled, dim=8)
    experiment = Experiment(clients=5, features=features, methods=entered, step=1e-5)
    assert alarms(experiment) == []
    known, other = alarms(replace(experiment, step=0.75))
    assert (known.title, known.sure) == ("Online-Fed", True)
    assert (other.title, other.sure) == ("FedAvg E=5", False)
    assert other.limit < 0.1
    learned = replace(experiment, step=0.75, learner=nlms.Options(), methods=entered[:1])
    assert alarms(learned) == []
