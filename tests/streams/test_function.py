"""The stream of an own f: one definition for learning, test set, floor and theory."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import psofed
from psofed.cli.laws import of_samples
from psofed.cli.laws.rules import why_not
from psofed.core.seeds import Seeds
from psofed.methods import fedavg, onlinefed
from psofed.methods import psofed as pso
from psofed.simulate import montecarlo
from psofed.simulate.draws import floors
from psofed.simulate.onerun import one_run
from psofed.streams import change, drift, function, iid, paper
from psofed.streams.contract import BLOCK, varies
from psofed.theory import prediction

TEXT = "sqrt(x1**2 + sin(pi*x4)**2) + (0.8 - 0.5*exp(-x2**2))*x3"


def backwards(x):
    return paper.f(x[..., ::-1])


def product(x):
    return np.sin(3 * x[..., 0]) + x[..., 1] * x[..., 2]


def shifted(client, count):
    """Windows around a place of the client's own."""
    return client.random.normal(client.own.uniform(-1, 1), 0.5, (count, 3))


def walk(client):
    """Numbers, of which windows are made."""
    u = 0.0
    while True:
        u = 0.7 * u + client.random.uniform(-1, 1)
        yield u


def rows(client):
    while True:
        yield client.random.normal(size=3)


def small(stream, *methods, **changes):
    settings = {"clients": 6, "cohort": 2, "rounds": 60, "runs": 1, "test_samples": 300}
    more = {"features": psofed.Features(dim=12), "methods": methods or (onlinefed.Options(),)}
    return psofed.Experiment(**settings | more | changes, stream=stream)


SAME = {
    "paper": (paper.Options(), function.Options(paper.f, 4)),
    "iid": (iid.Options(), function.Options(paper.f, 4, inputs="iid")),
    "change": (change.Options(at=30), function.Options(paper.f, 4, change=backwards, at=30)),
    "drift": (drift.Options(period=80), function.Options(paper.f, 4, change=backwards, period=80)),
}


@pytest.mark.parametrize("name", SAME)
@given(st.integers(0, 2**40), st.sampled_from(["float32", "float64"]), st.integers(1, 2 * BLOCK))
@settings(max_examples=10)
def test_the_papers_streams_are_cases_of_the_general_one_to_the_bit(name, seed, dtype, count):
    ours, general = SAME[name]
    seeds, clients = Seeds(seed, 1, 0), np.array([4, 0, 77])
    for a, b in (
        (s.samples(seeds, clients, 0, count, dtype) for s in (ours, general)),
        (s.snapshot(seeds, "test", 5, count) for s in (ours, general)),
    ):
        assert np.array_equal(a.x, b.x)
        assert np.array_equal(a.clean, b.clean)
        assert np.array_equal(a.noise, b.noise)


@pytest.mark.parametrize("name", SAME)
def test_a_run_of_the_papers_stream_is_that_of_the_general_one_to_the_bit(name):
    methods = onlinefed.Options(), pso.Options(shared=3), fedavg.Options()
    a, b = (one_run(small(stream, *methods), 2) for stream in SAME[name])
    assert np.array_equal(a.mse, b.mse)
    assert np.array_equal(a.floors, b.floors)


def test_an_expression_of_the_papers_f_is_the_papers_f():
    text = function.Options(TEXT, taps=4)
    x = text.samples(Seeds(0), np.arange(3), 0, 500).x
    assert np.allclose(text.function(x), paper.f(x), rtol=1e-13)


def linear(x):
    return 0.5 - x[..., 0] + 2 * x[..., 2]


def affine(x):
    """Features in whose span `linear` is."""
    return np.concatenate([np.ones_like(x[..., :1]), x], axis=-1) / 2


@dataclass(frozen=True)
class Overridden(paper.Options):
    """As a user would write it: the paper's stream with another f and other taps."""

    taps = 3

    def clean(self, x, first):
        return linear(x)


LINEAR = {
    "function": function.Options(linear, 3, noise=(0, 0)),
    "expression": function.Options("0.5 - x1 + 2*x3", 3, noise=(0, 0)),
    "subclass": Overridden(noise=(0, 0)),
    "own inputs": function.Options(linear, 3, noise=(0, 0), inputs=shifted),
    "own series": function.Options(linear, 3, noise=(0, 0), inputs=walk),
    "after a change": function.Options("x1**2", 3, noise=(0, 0), change=linear, at=0),
}


@pytest.mark.parametrize("name", LINEAR)
def test_learning_test_set_floor_and_theory_have_the_same_f(name):
    """Without noise, and with features that span f, all errors vanish; with another f, none does."""
    experiment = small(
        LINEAR[name], onlinefed.Options(), pso.Options(shared=2), fedavg.Options(),
        rounds=1500, evaluate_every=1500, dtype="float64", step=0.5, world=0,
        features=psofed.Features(affine, dim=4),
    )  # fmt: skip
    mse = one_run(experiment, 2).mse
    assert (mse[:, 0] > 0.5).all()
    assert (mse[:, -1] < 1e-6).all()
    if not varies(experiment.stream):
        assert floors(experiment, 2)[0] < 1e-6
    if not varies(experiment.stream) and name != "own series":  # of which it needs many
        few = replace(experiment, methods=(pso.Options(shared=2),), rounds=400, evaluate_every=400)
        (predicted,) = psofed.predict_curves(few)
        assert predicted.mse[-1] < 1e-3 * predicted.mse[0]


def test_theory_and_simulation_agree_for_an_own_f_and_own_inputs():
    stream = function.Options(product, 3, inputs=shifted, noise="laplace")
    experiment = small(
        stream, pso.Options(shared=3), onlinefed.Options(), clients=3, rounds=80, runs=400,
        evaluate_every=80, features=psofed.Features(dim=8), dtype="float64", world=0,
    )  # fmt: skip
    curves, predicted = montecarlo.run(experiment), psofed.predict_curves(experiment)
    assert not prediction.world(experiment).moments.analytic
    for each, mse, stderr in zip(predicted, curves.mse, curves.stderr, strict=True):
        gap = abs(each.mse[-1] - mse[-1])
        assert gap < 0.05 * mse[-1] + 4 * np.hypot(each.error[-1], stderr[-1])  # of the pooling
        assert each.error[-1] < 0.1 * mse[-1]


EVERY = {
    "one tap": function.Options("tanh(x1)", 1),
    "own windows": function.Options(product, 3, inputs=shifted, noise="laplace"),
    "own numbers": function.Options(product, 3, inputs=walk),
    "own rows": function.Options(lambda x: x[:, 0], 3, inputs=rows, noise="uniform"),
    "a drift": function.Options(TEXT, 4, inputs="iid", change="x1", period=100_000),
}


@pytest.mark.parametrize("name", EVERY)
def test_the_rules_of_streams_hold_for_every_form(name):
    for rule in of_samples.STREAM:
        if not why_not(rule, EVERY[name]):
            rule(EVERY[name])


@pytest.mark.parametrize("inputs", ["ar1", "iid", shifted, walk, rows])
@given(st.integers(1, 2), st.integers(1, 300))
@settings(max_examples=8)
def test_a_stream_read_in_parts_or_for_fewer_clients_is_the_same(inputs, blocks, more):
    stream = function.Options(product, 3, inputs=inputs, noise="student")
    clients, middle = np.array([3, 7, 5]), blocks * BLOCK
    whole = stream.samples(Seeds(1), clients, 0, middle + more)
    first = stream.samples(Seeds(1), clients, 0, middle)
    for _ in range(2):  # what was remembered can be used again
        rest = stream.samples(
            Seeds(1), clients[:2], middle, middle + more, np.float64, first.memory[:2]
        )
        assert np.array_equal(np.hstack([first.y[:2], rest.y]), whole.y[:2])
    alone = stream.samples(Seeds(1), clients[1:2], 0, middle + more)
    assert np.array_equal(alone.x[0], whole.x[1])
    assert np.array_equal(alone.y[0], whole.y[1])


def test_of_a_series_of_numbers_a_window_has_the_newest_first():
    x = function.Options("x1", 3, inputs=walk).samples(Seeds(0), np.arange(2), 0, 40).x
    assert np.array_equal(x[:, 1:, 1:], x[:, :-1, :-1])
    assert len(np.unique(x[0, :, 0])) == 40


def test_the_number_of_threads_does_not_change_a_result():
    experiment = small(function.Options(product, 3, inputs=walk, noise="uniform"), runs=5)
    one, three = (montecarlo.run(experiment, jobs=jobs) for jobs in (1, 3))
    assert np.array_equal(one.mse, three.mse)


def test_a_client_is_itself_in_learning_and_in_testing_and_another_in_another_world():
    stream = function.Options("x1", 3, inputs=shifted)
    learned = stream.samples(Seeds(0, 5, 1), np.arange(4), 0, 4000).x.mean(axis=(1, 2))
    tested = (
        stream.snapshot(Seeds(0, 6, 1), "test", 4, 16_000).x.reshape(-1, 4, 3).mean(axis=(0, 2))
    )
    other = stream.snapshot(Seeds(0, 6, 2), "test", 4, 16_000).x.reshape(-1, 4, 3).mean(axis=(0, 2))
    assert np.allclose(learned, tested, atol=0.04)
    assert np.abs(learned - other).max() > 0.2


@pytest.mark.parametrize("law", ["normal", "laplace", "student", "uniform"])
def test_noise_of_any_law_has_the_variance_of_its_client(law):
    stream = function.Options("x1", 1, noise=(0.1, 0.4), law=law)
    clients = np.arange(4)
    wanted = stream.laws(Seeds(0), clients).noise
    noise = stream.samples(Seeds(0), clients, 0, 20_000).noise
    alone = stream.snapshot(Seeds(0), "test", 4, 80_000).noise.reshape(-1, 4).T
    for found in (noise, alone):
        assert np.allclose(found.var(axis=1) / wanted, 1, atol=0.12)
        assert np.abs(found.mean(axis=1)).max() < 0.02
    tails = (noise**4).mean(axis=1) / noise.var(axis=1) ** 2
    assert np.median(tails) == pytest.approx(
        {"normal": 3, "laplace": 6, "student": 7, "uniform": 1.8}[law], rel=0.35
    )


def signs(client, count):
    return client.random.choice([-0.2, 0.2], count)


def test_noise_that_a_function_draws_is_used_as_it_is():
    stream = function.Options("x1", 2, noise=signs)
    for found in (
        stream.samples(Seeds(0), np.arange(3), 0, 50).noise,
        stream.snapshot(Seeds(0), "test", 3, 50).noise,
    ):
        assert np.allclose(np.abs(found), 0.2)


def test_a_stream_survives_a_journey_to_another_process():
    for stream in (function.Options(product, 3, inputs=walk), function.Options(TEXT, 4)):
        again = pickle.loads(pickle.dumps(stream))
        assert again == stream
        a, b = (s.samples(Seeds(0), np.arange(2), 0, 9).y for s in (stream, again))
        assert np.array_equal(a, b)


LIGHT = {
    "laplace": lambda client, count: client.random.laplace(size=count),
    "student": lambda client, count: client.random.standard_t(3, count),
    "outliers": lambda client, count: (
        client.random.normal(0, 0.1, count)
        + (client.random.random(count) < 0.01) * client.random.normal(0, 10, count)
    ),
    "spikes": lambda client, count: (
        (client.random.random(count) < 0.004) * client.random.choice([-9.0, 9.0], count)
    ),
    "none": lambda client, count: np.zeros(count),
}


@pytest.mark.parametrize("law", LIGHT.values(), ids=LIGHT)
def test_noise_with_a_variance_is_not_warned_of(law):
    assert psofed.Stream("x1", taps=1, noise=law).caution() == ""


def test_noise_without_a_finite_variance_is_told():
    cauchy = psofed.Stream("x1", taps=1, noise=lambda c, count: c.random.standard_cauchy(count))
    assert "no finite variance (tail index about 1" in cauchy.caution()
    stable = psofed.Stream("x1", taps=1, noise=lambda c, count: c.random.standard_t(1.3, count))
    assert "no finite variance" in stable.caution()
    assert psofed.Stream("x1", taps=1).caution() == ""
