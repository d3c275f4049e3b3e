"""Limits of the step, and verdicts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.systems import WORLD, given_moments, given_system
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.learners import linear, nlms
from psofed.methods import fedavg, onlinefed, psofed
from psofed.report import theory as report
from psofed.rivals import psorls
from psofed.simulate.reference import matrix_A, matrix_B
from psofed.stages.attacks import scale
from psofed.stages.defences import median
from psofed.stages.privacy import Privacy
from psofed.streams import function
from psofed.theory import mean, moments, prediction, reduced, study
from psofed.theory.system import Bounds, alarms, bounds, is_lonely, mean_square_limit


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
def test_the_mean_square_limit_is_where_the_map_of_covariances_stops_contracting(
    seed, dim, average
):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(200, dim)) @ rng.normal(size=(dim, dim))
    z /= np.sqrt(np.square(z).sum(axis=1).mean())
    assert mean_square_limit(z, average) == pytest.approx(brute_limit(z, average), rel=2e-3)


@pytest.fixture
def growth(equal):
    """How the covariances of a system grow in its last rounds."""

    def measured(masks, cohort, step):
        system = given_system(masks, 1, 8, 4, cohort, step)
        states = reduced.ReducedRecursion(system, equal[1]).trajectory(500)
        sizes = [np.trace(second.A + 4 * second.C) for _, second in states]
        return sizes[-1] / sizes[300]

    return measured


@pytest.mark.parametrize("whole", [True, False])
def test_covariances_settle_below_the_limit_and_grow_above_it(equal, growth, whole):
    limit = mean_square_limit(equal[0], 2 if whole else 1)
    # One window for all: M = D, or an entry so rarely that clients learn alone.
    masks = [list(range(8)) if whole else [0]]
    assert growth(masks, 2, 0.95 * limit) < 1.05
    assert growth(masks, 2, 1.15 * limit) > 2


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


def test_clients_that_exchange_much_bear_more_than_one_that_learns_alone(equal, growth):
    step, masks = 1.2 * mean_square_limit(equal[0]), [list(range(7))]
    assert not is_lonely(given_system(masks, 1, 8, 4, 4, step))
    assert growth(masks, 4, step) < 1.05


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


def test_the_papers_norms_are_1_in_the_infinity_and_the_block_maximum_norm_but_not_in_the_2_norm():
    p, K, D = 0.5, 4, 8
    S, often = [3 / 8 * np.eye(D)] * K, np.full(K, p)
    v = np.random.default_rng(0).normal(size=(K + 1, D, 1000))
    v[..., 0] = 1  # all models alike
    for matrix in (matrix_A(S, often), matrix_B(S, often)):
        assert np.linalg.norm(matrix, np.inf) == pytest.approx(1)
        assert np.linalg.norm(matrix, 2) > 1.001
        out = (matrix @ v.reshape(-1, 1000)).reshape(v.shape)
        growth = largest_model(out) / largest_model(v)
        assert growth.max() == growth[0] == pytest.approx(1)


def largest_model(v):
    """The block-maximum norm: max_k |v_k|."""
    return np.linalg.norm(v, axis=1).max(axis=0)


@given(st.integers(0, 10**6))
def test_eq_14_is_sufficient_for_eq_13_under_a4(seed):
    """|phi_k| <= max |v|, |psi_k| <= rho max |v|, |v_s+| <= (1 - q + q rho) max |v|, q = M/D."""
    rng = np.random.default_rng(seed)
    K, D = rng.integers(1, 6, 2)
    L = rng.normal(size=(K, D, D)) * rng.uniform(0.05, 3, size=(K, 1, 1))
    R = L @ np.swapaxes(L, 1, 2) + 1e-4 * np.eye(D)
    shared, cohort = rng.integers(1, D + 1), rng.integers(1, K + 1)
    step = rng.uniform(1e-3, 1) * 2 / np.linalg.eigvalsh(R).max()
    system = given_system([list(range(shared))], 1, D, K, cohort, step)
    rho, q = np.abs(1 - step * np.linalg.eigvalsh(R)).max(), shared / D
    v = mean.Means(rng.normal(size=(50, D)), rng.normal(size=(K, 50, D)))
    after = mean.PaperRecursion(system, R).after(v)
    before, behind = (largest_model(np.swapaxes([s, *k], 1, 2)) for s, k in (v, after))
    bound = 1 - q + q * rho
    assert bound < 1
    assert (behind <= bound * before * (1 + 1e-12)).all()
    assert mean.paper_radius(system, given_moments(R)).value <= bound**10 * (1 + 1e-9)


def test_deviations_are_theory_minus_simulation_from_round_50_on():
    rounds = np.arange(101)
    curve = prediction.Prediction("a", 1.0, rounds, *np.full((2, 101), 0.1), None)
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attack": scale.Options(share=0.5)}, "attack.name is 'scale', but the theory is that of"),
        ({"defence": median.Options()}, "defence.name is 'median', but the theory is that of a"),
        ({"privacy": Privacy(masks=True)}, "privacy is given, but in the theory uploads are"),
    ],
)
def test_what_the_theory_does_not_know_is_refused_by_name_and_no_step_is_unsafe_for_sure(
    change, words
):
    methods = (psofed.Options(shared=3, scheme="coordinated", step=9.0),)
    experiment = replace(WORLD, cohort=3, methods=methods, **change)
    with pytest.raises(InputError, match=words):
        prediction.curves(experiment)
    assert [alarm.sure for alarm in alarms(experiment)] == [False]
    # Nobody is malicious: then it does not matter.
    if "attack" in change:
        prediction.check(replace(experiment, attack=replace(change["attack"], share=0.0)))


def test_a_linear_f_leaves_no_bias_and_no_number_that_is_none():
    stream = function.Options(lambda x: x @ [0.5, -0.3, 0.2], taps=3, inputs="iid")
    known = Experiment(clients=5, cohort=2, rounds=600, step=0.5, stream=stream,
                       learner=linear.Options(), methods=(onlinefed.Options(),))  # fmt: skip
    [p] = prediction.curves(known)
    assert (p.bias >= 0).all()
    assert p.bias[-1] <= report.ROUNDING * p.bias[0]
