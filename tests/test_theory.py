"""The theory against exact answers, against thousands of runs, and against the simulator."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ensemble
from psofed import case as cases
from psofed.core.schedule import GivenCohorts, Rotating
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment, Features
from psofed.methods import onlinefed, psofed
from psofed.methods.contract import Task
from psofed.report import html, sources
from psofed.simulate import montecarlo, reference
from psofed.streams import iid, paper
from psofed.theory import bounds, dense, mean, moments, predict, processes, reduced, steady, study
from psofed.theory.noise import Sampled, closure
from psofed.theory.system import System

PER_DB = 10 / np.log(10)


def given_system(masks, shift, dim, clients, cohort, step, idle=True):
    """PSO-Fed with windows as given: one row for all clients, or one for each."""
    masks = np.atleast_2d(masks)
    task = Task(clients, dim, dim, step, Seeds(0), None, GivenCohorts(()))
    scheme = "coordinated" if len(masks) == 1 else "uncoordinated"
    options = psofed.Options(
        shared=masks.shape[1], scheme=scheme, shift=shift, idle=idle, allow_uneven=True
    )
    method = psofed.Method(options, task, Rotating(masks, shift, dim))
    return System(method, np.arange(clients), clients, cohort)


def given_moments(R, r=None):
    K, D = R.shape[:2]
    r = np.zeros((K, D)) if r is None else r
    return moments.Moments(np.arange(K), R, r, np.ones(K), np.ones(K), True, 1, np.zeros((2, D)))


# Moments


@pytest.mark.parametrize("name", ["cosine", "exponential", "gaussian"])
def test_correlations_in_closed_form_are_what_samples_show(name):
    experiment = Experiment(
        clients=3, cohort=1, features=Features(name, dim=12), methods=(onlinefed.Options(),)
    )
    task = replace(experiment, dtype="float64").task(0)
    exact = moments.analytic(experiment, task, np.arange(3))
    x, _, _ = moments.sample(experiment, task, 200_000, "check", np.arange(3))
    for k in range(3):
        z = task.features(x[k])
        error = (z[:, :, None] * z[:, None, :])[:20_000].std(axis=0) / np.sqrt(200_000)
        score = (z.T @ z / len(z) - exact[k]) / np.maximum(error, 1e-12)
        assert np.abs(score).max() < 5
        assert np.sqrt(np.square(score).mean()) < 2  # entries are correlated


def test_control_variates_leave_the_moments_right_and_less_noisy():
    experiment = Experiment(
        clients=3, cohort=1, features=Features(dim=12), methods=(onlinefed.Options(),)
    )
    task = replace(experiment, dtype="float64").task(0)
    truth = moments.moments(experiment, task, 400_000, "long")
    few = [moments.moments(experiment, task, 500, f"short {i}") for i in range(20)]
    x, f, _ = moments.sample(experiment, task, 500 * 20, "plain", np.arange(3))
    plain = np.einsum(
        "kncd,knc->kcd", task.features(x.reshape(3, 500, 20, 4)), f.reshape(3, 500, 20)
    )
    controlled = np.array([each.r for each in few])
    assert np.allclose(controlled.mean(axis=0), truth.r, atol=5 * controlled.std() / np.sqrt(20))
    spread = np.square(controlled - truth.r).mean()
    assert spread < 0.5 * np.square(plain / 500 - truth.r[:, None]).mean()
    assert np.allclose(np.mean([each.c for each in few], axis=0), truth.c, rtol=0.05)


def test_a_stream_that_does_not_know_its_law_is_sampled():
    class Secret(paper.Options):
        input_law = None

    experiment = Experiment(
        clients=3,
        cohort=1,
        stream=Secret(),
        features=Features(dim=6),
        methods=(onlinefed.Options(),),
    )
    task = experiment.task(0)
    sampled = moments.moments(experiment, task, 50_000)
    exact = moments.moments(replace(experiment, stream=paper.Options()), task, 50_000)
    assert exact.analytic
    assert not sampled.analytic
    assert np.allclose(sampled.R, exact.R, atol=0.01)


def test_many_clients_are_followed_by_evenly_spread_ones():
    some = moments.followed(10**6, 200)
    assert len(some) == moments.MOST_CLIENTS
    assert len(moments.followed(10**6, 1000)) == moments.MOST_NUMBERS // 1000**2
    assert some[0] == 0
    assert np.ptp(np.diff(some)) <= 1
    assert np.array_equal(moments.followed(7, 200), np.arange(7))


# The mean


@given(st.integers(0, 500))
@settings(max_examples=25)
def test_the_ensemble_is_the_algorithm(number):
    case = cases.draw(number)
    K, N, _ = case.x.shape
    system = given_system(case.masks, case.shift, case.features.dim, K, 1, case.step, case.idle)
    w, local = case.w0[None], case.local0[None]
    expected, expected_local = reference.run(case)
    for n in range(N):
        chosen = np.isin(np.arange(K), case.cohorts[n])[None]
        z = case.features(case.x[:, n])[None]
        w, local = ensemble.advance(system, n, w, local, chosen, z, case.y[:, n][None])
        assert np.abs(w[0] - expected[n + 1]).max() < 1e-10
        assert np.abs(local[0] - expected_local[n + 1]).max() < 1e-10


def linear_case(seed=3):
    """K = 4, D = 6: Gaussian regressors, each client with its own R_k and its own w_k."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(4, 6, 6)) / 4 + 0.5 * np.eye(6)
    R, truth = L @ np.swapaxes(L, 1, 2), rng.normal(size=(4, 6))

    def sample(rng, count):
        z = np.einsum("kij,ckj->cki", L, rng.normal(size=(count, 4, 6)))
        return z, np.vecdot(z, truth) + 0.1 * rng.normal(size=(count, 4))

    return R, (R @ truth[:, :, None])[:, :, 0], sample


def test_the_mean_recursion_is_the_mean_of_many_runs_and_eq_13_is_not():
    R, r, sample = linear_case()
    masks = np.array([[0, 3], [1, 4], [2, 5], [0, 1]])
    system = given_system(masks, 1, 6, clients=4, cohort=2, step=0.3)
    exact = mean.MeanRecursion(system, R, r)
    paper_means = mean.PaperRecursion(system, R, r)
    count, scores, paper_scores = 24_000, [], []
    m, m13 = exact.start(), paper_means.start()
    for n, [(w, local)] in enumerate(ensemble.runs([system], sample, 40, count)):
        if n > 2:  # before that some entries are certain
            models = np.concatenate([w[:, None], local], axis=1)
            error = models.std(axis=0) / np.sqrt(count)
            for out, theory in ((scores, m), (paper_scores, m13)):
                predicted = np.concatenate([theory.server[None], theory.clients])[:, :, 0]
                out.append((models.mean(axis=0) - predicted) / error)
        m, m13 = exact.round(n, m).after, paper_means.after(m13)
    assert 0.9 < np.sqrt(np.square(scores).mean()) < 1.1
    assert np.sqrt(np.square(paper_scores).mean()) > 5  # eq. (13) clearly fails


@pytest.mark.parametrize(("masks", "shift"), [([[0, 3]], 1), ([[0, 3], [1, 2], [4, 0], [5, 2]], 5)])
def test_the_radius_is_the_rate_at_which_a_random_error_ends_up_shrinking(masks, shift):
    R, _, _ = linear_case()
    system = given_system(masks, shift, 6, clients=4, cohort=2, step=0.4)
    radius = mean.radius(system, given_moments(R))
    assert radius.exact
    assert radius.period == 6
    recursion = mean.MeanRecursion(system, R)
    rng = np.random.default_rng(0)
    means = mean.Means(rng.normal(size=(6, 1)), rng.normal(size=(4, 6, 1)))
    sizes = []
    for n in range(6 * 80):
        if n % 6 == 0:
            sizes.append(np.linalg.norm(np.vstack([means.server[None], means.clients])))
        means = recursion.round(n, means).after
    # An average over periods, because a complex pair of eigenvalues makes the ratio swing.
    assert (sizes[-1] / sizes[30]) ** (1 / (len(sizes) - 31)) == pytest.approx(
        radius.value, rel=2e-3
    )
    assert radius.time_constant == pytest.approx(-6 / np.log(radius.value))


def test_followed_directions_find_the_radius_of_a_system_too_large_for_a_matrix(monkeypatch):
    rng = np.random.default_rng(1)
    L = rng.normal(size=(4, 6, 4)) / 3  # rank 4 of 6, but no direction is flat for all clients
    R = L @ np.swapaxes(L, 1, 2)
    system = given_system([[0, 3]], 1, 6, clients=4, cohort=2, step=0.4)
    exact = mean.radius(system, given_moments(R))
    monkeypatch.setattr(mean, "DENSE", 0)
    monkeypatch.setattr(mean, "PERIODS", 200)
    monkeypatch.setattr(mean, "SETTLED", 1e-6)
    followed = mean.radius(system, given_moments(R))
    assert not followed.exact
    assert followed.value == pytest.approx(exact.value, abs=1e-3)


def test_whole_models_have_the_radius_of_the_mean_correlation():
    R, _, _ = linear_case()
    system = given_system([[0, 1, 2, 3, 4, 5]], 1, 6, clients=4, cohort=2, step=0.4)
    matrix = mean._radius(  # of all models, through the general recursion
        lambda means: mean.MeanRecursion(system, R).round(0, means).after, given_moments(R), 6, 1
    )
    own = mean.radius(system, given_moments(R))
    assert own.value == pytest.approx(np.abs(np.linalg.eigvalsh(np.eye(6) - 0.4 * R.mean(0))).max())
    assert own.value <= matrix.value + 1e-12  # which counts what idle clients learn, too


UNEVEN = np.array([[-0.43, 0.70, -0.33, -0.47], [-0.48, -0.11, 0.70, -0.52],
                   [-0.70, 0.60, 0.40, -0.04], [0.30, -0.92, 0.16, 0.20]])  # fmt: skip


def test_unequal_exchange_counts_can_be_unstable_at_every_step_below_eq_14():
    R = UNEVEN[:, :, None] * UNEVEN[:, None] + 1e-3 * np.eye(4)
    limit = 2 / np.linalg.eigvalsh(R).max()
    masks = np.array([[0, 2, 3], [3, 2, 0], [2, 0, 3], [1, 3, 2]])

    def radius(step, shift):
        return mean.radius(given_system(masks, shift, 4, 4, 2, step), given_moments(R)).value

    for step in np.geomspace(1e-3, 0.999 * limit, 25):
        assert radius(step, shift=2) > 1 + 1e-5  # entries are exchanged twice or once in two rounds
    for step in np.geomspace(1e-3, 0.9 * limit, 10):
        assert radius(step, shift=1) < 1  # each entry three times in four rounds
    assert psofed.is_even(4, 3, 1, block=False)
    assert not psofed.is_even(4, 3, 2, block=False)


def test_nearly_singular_correlations_can_be_unstable_below_eq_14_with_even_windows():
    v = np.array([[0.121, 0.864, 0.488], [0.391, -0.143, -0.909], [-0.624, -0.752, -0.21]])
    R = v[:, :, None] * v[:, None] + 1e-4 * np.eye(3)
    limit = 2 / np.linalg.eigvalsh(R).max()
    for scheme in ([[0]], [[2], [2], [2]]):  # the same windows, named for all or for each
        system = given_system(scheme, 1, 3, clients=3, cohort=1, step=0.95 * limit)
        assert mean.radius(system, given_moments(R)).value > 1 + 1e-3
        approximation = mean.paper_radius(system, given_moments(R))
        assert approximation.value < 1  # eq. (13) does not see it
    system = given_system([[0]], 1, 3, clients=3, cohort=1, step=0.3 * limit)
    assert mean.radius(system, given_moments(R)).value < 1


# The mean square

WORLD = Experiment(
    clients=4, cohort=2, rounds=100, world=0, stream=iid.Options(), features=Features(dim=8),
    dtype="float64", test_samples=400, runs=300,
    methods=(
        onlinefed.Options(),
        *(psofed.Options(shared=m, scheme=s) for m in (1, 3, 5) for s in ("coordinated", "uncoordinated")),
        psofed.Options(shared=3, idle=False),
        psofed.Options(shared=3, selection="stochastic", label="fresh"),
        psofed.Options(shared=2, mask="block", label="blocks"),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def small():
    return predict.world(WORLD)


def stream_of(world):
    """Fresh windows of the world's clients, with their own targets and noise."""
    laws = world.experiment.stream.laws(world.task.seeds, np.arange(world.task.clients))

    def sample(rng, count):
        each = paper.Laws(*(np.tile(law, count) for law in laws))
        x = paper.autoregress(each, rng.normal(size=(len(each.theta), 4)))[:, ::-1]
        noise = np.sqrt(each.noise) * rng.normal(size=len(x))
        shape = (count, world.task.clients)
        return world.task.features(x).reshape(*shape, -1), (paper.f(x) + noise).reshape(shape)

    return sample


def test_the_exact_recursion_is_within_a_twentieth_of_a_db_of_many_runs_in_every_round(small):
    known = predict.systems(small)
    theory = predict.predict(small)
    test, measured = small.test, []
    for states in ensemble.runs(list(known.values()), stream_of(small), WORLD.rounds, 20_000):
        quadratic = [np.vecdot(w @ test.G, w) - 2 * w @ test.g + test.c for w, _ in states]
        measured.append([q.mean() for q in quadratic])
    gaps = 10 * np.log10([p.mse for p in theory]) - 10 * np.log10(measured).T
    for p, gap in zip(theory, gaps, strict=True):
        assert p.kind == "exact"
        assert np.abs(gap).max() < 0.05, p.title


def test_the_exact_recursion_agrees_with_the_simulator_within_its_errors(small):
    curves = montecarlo.run(WORLD)
    for p in predict.predict(small):
        j = curves.titles.index(p.title)
        score = (p.mse - curves.mse[j])[1:] / curves.stderr[j][1:]
        assert np.abs(score).max() < 5, p.title
        assert np.sqrt(np.square(score).mean()) < 2.2, p.title  # rounds are correlated


def equal_clients(small):
    """Four clients with the very same windows."""
    x, f, noise = moments.sample(small.experiment, small.task, 3000, "equal", np.arange(1))
    z = np.repeat(small.task.features(x), 4, axis=0)
    f, v = np.repeat(f, 4, axis=0), np.full(4, np.square(noise).mean())
    exact = dense.fourth(z, f, v)
    c = np.square(f).mean(axis=1)
    data = moments.Moments(np.arange(4), exact.R, exact.r, c, v, False, 3000, np.zeros((2, 8)))
    return exact, reduced.population(data, Sampled(z, f, v), np.float64, 1e-14)


@pytest.mark.parametrize(
    ("masks", "shift"), [([[0]], 1), ([[1, 4, 6]], 1), ([[0, 2, 3, 7]], 3), ([list(range(8))], 1)]
)
@pytest.mark.parametrize("idle", [True, False])
def test_the_reduced_recursion_is_exact_for_equal_clients_with_common_windows(
    small, masks, shift, idle
):
    exact, data = equal_clients(small)
    system = given_system(masks, shift, 8, clients=4, cohort=2, step=0.75, idle=idle)
    both = zip(
        dense.DenseRecursion(system, exact).trajectory(100),
        reduced.ReducedRecursion(system, data).trajectory(100),
        strict=True,
    )
    for full, small_state in both:
        assert np.abs(full.mean[:8] - small_state.means.server[:, 0]).max() < 1e-12
        assert np.abs(full.covariance[:8, :8] - small_state.second.A).max() < 1e-12


def test_the_reduced_recursion_is_near_the_exact_one_for_unequal_clients_with_windows_of_their_own(
    small,
):
    data = reduced.population(small.moments, kind=np.float64)
    exact = predict.predict(small)
    rough = [
        predict.one(replace(small, fourth=None), t, s, data)
        for t, s in predict.systems(small).items()
    ]
    for a, b in zip(exact, rough, strict=True):
        assert b.kind == "reduced"
        assert np.abs(a.mse_db - b.mse_db).max() < 0.25, (
            a.title
        )  # four clients are a poor population


def test_the_means_of_all_recursions_are_those_of_the_mean_recursion(small):
    data = reduced.population(small.moments, kind=np.float64, tail=1e-14)
    for system in predict.systems(small).values():
        exact = mean.MeanRecursion(system, small.moments.R, small.moments.r).trajectory(30)
        states = reduced.ReducedRecursion(system, data).trajectory(30)
        four = replace(small.fourth, R=small.moments.R, r=small.moments.r)
        full = dense.DenseRecursion(system, four).trajectory(30)
        for m, state, all_models in zip(exact, states, full, strict=True):
            assert np.allclose(m.server, state.means.server, atol=1e-12)
            assert np.allclose(m.server[:, 0], all_models.mean[:8], atol=1e-12)


def test_single_precision_is_good_to_a_thousandth_of_a_db(small):
    rough = replace(small, fourth=None)
    for title, system in predict.systems(small).items():
        single, double = (
            predict.one(rough, title, system, reduced.population(small.moments, kind=kind))
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
    by_closure = closure(data, np.float64, rank=0)(P, m, squares)
    assert np.allclose(by_closure, Sampled(z, f, v)(P, m, squares), atol=1e-12)


def test_processes_give_what_one_process_gives(small, monkeypatch):
    rough = replace(small, fourth=None)
    alone = predict.predict(rough)
    monkeypatch.setattr(predict, "HEAVY", 0)
    seen = []
    together = predict.predict(rough, 2, lambda done, total: seen.append((done, total)))
    assert [p.title for p in together] == [p.title for p in alone]
    for a, b in zip(alone, together, strict=True):
        assert np.allclose(a.mse, b.mse, rtol=1e-5)
    assert processes._here == {}  # that was another process
    assert all(total == len(alone) * WORLD.rounds for _, total in seen)


PAPER = Experiment(
    rounds=200, runs=60, world=0, stream=iid.Options(), test_samples=2000,
    methods=(
        onlinefed.Options(),
        psofed.Options(shared=1, scheme="coordinated"),
        psofed.Options(shared=40),
        psofed.Options(shared=5, step=2.6, label="too large a step"),
    ),
)  # fmt: skip


def test_at_the_papers_scale_theory_and_simulation_agree_and_diverge_together():
    theory = predict.curves(PAPER)
    curves = montecarlo.run(PAPER)
    for j, p in enumerate(theory[:3]):
        assert p.kind == "reduced"
        assert p.lost is None
        assert np.abs(p.mse_db - curves.mse_db[j])[50:].max() < 0.5, p.title
    lost = theory[3].lost
    assert lost is not None
    assert np.isnan(theory[3].mse[lost:]).all()
    assert (curves.mse[3] > predict.DIVERGED * curves.mse[3, 0]).any()


# Limits


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
    assert bounds._limit(z, average) == pytest.approx(brute_limit(z, average), rel=2e-3)


@pytest.mark.parametrize("whole", [True, False])
def test_covariances_settle_below_the_limit_and_grow_above_it(small, whole):
    exact, _ = equal_clients(small)
    x, _, _ = moments.sample(small.experiment, small.task, 3000, "equal", np.arange(1))
    limit = bounds._limit(small.task.features(x[0]), 2 if whole else 1)

    def growth(step):
        # One window for all: M = D, or an entry so rarely that clients learn alone.
        system = given_system([list(range(8)) if whole else [0]], 1, 8, 4, 2, step)
        sizes = [
            np.trace(state.covariance)
            for state in dense.DenseRecursion(system, exact).trajectory(1200)
        ]
        return sizes[-1] / sizes[-201]

    assert growth(0.95 * limit) < 1.05
    assert growth(1.15 * limit) > 2


def test_verdicts_follow_the_limits():
    b = bounds.Bounds(2.4, 1.7, 1.98, 3.2, 0.8, 1.15, 1000, 1e-11)

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
    alone = bounds._limit(small.task.features(x[0]))
    system = given_system([list(range(7))], 1, 8, 4, 4, 1.2 * alone)
    assert not bounds.is_lonely(system)
    sizes = [
        np.trace(state.covariance) for state in dense.DenseRecursion(system, exact).trajectory(600)
    ]
    assert sizes[-1] < 1.05 * sizes[300]


def test_alarms_go_off_above_the_limits_and_not_below():
    experiment = Experiment(methods=(onlinefed.Options(), psofed.Options(shared=5)))
    task = replace(experiment, dtype="float64").task(0)
    limits = bounds.bounds(experiment, task, moments.moments(experiment, task, 50))
    quiet = bounds.alarms(replace(experiment, step=0.9 * limits.alone))
    assert quiet == []
    [alarm] = bounds.alarms(replace(experiment, step=1.15 * limits.alone))
    assert alarm.title == "PSO-Fed M=5 uncoordinated"
    assert alarm.limit == pytest.approx(limits.alone, rel=0.1)
    assert len(bounds.alarms(replace(experiment, step=1.15 * limits.averaged))) == 2


def test_the_papers_norms_are_those_of_the_matrices(small):
    system = predict.systems(small)["PSO-Fed M=3 coordinated"]
    A, B, H = bounds.norms(system, small.moments)
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


# Sweeps


def test_the_quasi_static_mse_is_where_the_recursion_is(small):
    rough = replace(small, fourth=None)
    known = predict.systems(small)
    data = reduced.population(small.moments, kind=np.float64)
    limits = bounds.bounds(small.experiment, small.task, small.moments)
    system = known["PSO-Fed M=3 uncoordinated"]
    wanted = [
        steady.Setting(8, True, 0.75),
        steady.Setting(3, False, 0.75),
        steady.Setting(3, True, 0.75),
        steady.Setting(3, True, 5.0),
    ]
    found = steady.quasi_static(system, data, small.test, limits, wanted, 600)
    long = replace(rough, experiment=replace(WORLD, rounds=620, evaluate_every=1))
    for value, title in zip(
        found, ("Online-Fed", "PSO-Fed M=3 uncoordinated", "PSO-Fed M=3 coordinated"), strict=False
    ):
        p = predict.one(long, title, predict.systems(long)[title], data)
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
    world = predict.world(replace(WORLD, methods=methods, step=0.9, rounds=60))
    by_step, by_share = study.sweeps(study.judge(world, radii=False))
    assert by_step.lines == ["Online-Fed", "PSO-Fed M=2 uncoordinated"]
    assert by_step.step is None
    assert [o.step for o in by_step.methods] == 2 * by_step.x.tolist()
    assert by_share.step == 0.3
    assert {o.step for o in by_share.methods} == {0.3}


# The command

TOML = """
clients = 4
cohort = 2
rounds = 120
test_samples = 200
[stream]
name = "iid"
[features]
dim = 8
[[methods]]
name = "onlinefed"
[[methods]]
name = "psofed"
shared = 2
[[methods]]
name = "psofed"
shared = 1
step = 3.6
[[methods]]
name = "local"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    return path


def test_theory_tells_limits_speed_and_curves_in_words_and_files(psofed, file, tmp_path):
    result = psofed("theory", file, "--simulate", "--runs", "40", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    for words in (
        "2 / max|z|^2",
        "eq. (14)",
        "eq. (13)",
        "unsafe",
        "safe",
        "infinity",
        "No theory for Local only",
    ):
        assert words in result.stdout
    assert "PSO-Fed M=1 uncoordinated diverges in theory at n = " in result.stdout
    assert "the error grows without end" in result.stdout
    assert not re.search(r"\b(inf|nan)\b", result.stdout)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    pictures = {
        f"{name}.{kind}"
        for name in ("theory", "theory_step", "theory_shared")
        for kind in ("png", "pdf")
    }
    tables = {"experiment.toml", "theory.csv", "theory.json", "theory.txt"}
    assert names == pictures | tables | {"report.html"}
    page = html.render([sources.gather(tmp_path / "out")])
    assert page == (tmp_path / "out" / "report.html").read_bytes()
    assert (tmp_path / "out" / "theory.txt").read_text() == result.stdout.split("\n\nresults in")[
        0
    ] + "\n"
    table = json.loads((tmp_path / "out" / "theory.json").read_text())
    assert table["experiment"]["world"] == 0
    assert {m["method"]: m["verdict"] for m in table["methods"]}[
        "PSO-Fed M=1 uncoordinated"
    ] == "unsafe"
    assert abs(table["deviations"]["Online-Fed"]["late_db"]) < 0.5


def test_the_command_that_a_folder_names_repeats_it(psofed, file, tmp_path):
    one = psofed("theory", file, "--world", "3", "--out", tmp_path / "one", "--json")
    table = json.loads(one.stdout)
    again = psofed(
        "theory", tmp_path / "one" / "experiment.toml", "--out", tmp_path / "two", "--json"
    )
    assert table["command"] == "psofed theory experiment.toml"
    assert json.loads(again.stdout)["methods"] == table["methods"]


def test_forced_results_leave_no_pictures_of_another_run(psofed, file, tmp_path):
    for more in (["--simulate", "--runs", "2"], ["--force"]):
        assert psofed("theory", file, "--out", tmp_path / "out", *more).returncode == 0
    assert not list((tmp_path / "out").glob("theory_*"))


def test_options_that_contradict_each_other_are_refused(psofed, file):
    result = psofed("theory", file, "--bounds", "--simulate")
    assert result.returncode == 2
    assert "--bounds writes no files" in result.stderr


def test_features_without_energy_are_no_accident(psofed, file, tmp_path):
    file.write_text(TOML.replace("dim = 8", 'dim = 8\nname = "gaussian"\nwidth = 0.001'))
    result = psofed("theory", file, "--simulate", "--runs", "2", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert psofed("run", file, "--runs", "1", "--out", tmp_path / "run").returncode == 0


def is_alive(process):
    """Whether it runs; one that has ended but was not waited for does not count."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not pathlib.Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_prediction_that_is_stopped_leaves_no_folder_and_no_process(file, tmp_path, number):
    file.write_text('rounds = 5000\n[stream]\nname = "iid"\n')
    command = [sys.executable, "-m", "psofed", "theory", str(file), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    children: list[int] = []
    deadline = time.monotonic() + 120
    while len(children) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
        listed = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        children = [int(child) for child in listed.split()]
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()
    deadline = time.monotonic() + 20
    while (left := [c for c in children if is_alive(c)]) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left


def test_bounds_alone_take_no_folder(psofed, file, tmp_path):
    result = psofed("theory", file, "--bounds", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "limits of the step" in result.stdout
    assert "predicted" not in result.stdout
    assert not (tmp_path / "results").exists()


def test_correlated_data_are_labelled(psofed, file, tmp_path):
    file.write_text(TOML.replace('"iid"', '"paper"'))
    result = psofed("theory", file, "--out", tmp_path / "out")
    assert "NOT independent over time" in result.stdout


def test_an_experiment_without_any_method_that_the_theory_knows_is_refused(psofed, file, tmp_path):
    file.write_text('clients = 4\n[[methods]]\nname = "local"\n')
    result = psofed("theory", file, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert "methods has none that the theory knows; use psofed or onlinefed" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_model_too_large_for_the_theory_is_refused(psofed, file, tmp_path):
    file.write_text(TOML.replace("dim = 8", "dim = 2000"))
    result = psofed("theory", file, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert "small.toml: features.dim is 2000" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [
        ("rounds = 120", "rounds = 1"),
        ("dim = 8", "dim = 2"),
        ("cohort = 2", "cohort = 4"),
        ("clients = 4", "clients = 2000"),
    ],
)
def test_the_ends_of_the_range_work(psofed, file, tmp_path, change):
    file.write_text(TOML.replace(*change))
    result = psofed("theory", file, "--simulate", "--runs", "2", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr


def test_a_run_with_an_unsafe_step_warns_before_it_starts(psofed, file, tmp_path):
    result = psofed("run", file, "--runs", "1", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("Warning: PSO-Fed M=1 uncoordinated: step 3.6 is unsafe")
    assert result.stderr.count("is unsafe") == 1


def test_deviations_are_theory_minus_simulation_from_round_50_on():
    rounds = np.arange(101)
    curve = predict.Prediction(
        "a", 1.0, "exact", rounds, np.full(101, 0.1), np.full(101, 0.1), np.zeros(101), None
    )
    simulated = np.full((1, 101), -10.0)
    simulated[0, 10], simulated[0, 70] = -20.0, -11.0
    found = study.deviations([curve], ["a"], simulated, rounds)["a"]
    assert found["largest_db"] == pytest.approx(1.0)
    assert found["at"] == 70
