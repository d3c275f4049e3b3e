"""The synthetic streams: the paper's laws, changes of f, and any f with any inputs and noise."""

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
from psofed.simulate import any_method, family, montecarlo
from psofed.simulate.draws import draw, draw_test, floors
from psofed.simulate.onerun import one_run
from psofed.streams import function, paper
from psofed.streams.contract import BLOCK
from psofed.theory import prediction

STREAM = paper.Options()


def first(x):
    return x[..., 0]


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


EVERY = {
    "paper": STREAM,
    "iid": paper.Options(inputs="iid"),
    "change": paper.Options(at=20),
    "drift": paper.Options(period=700),
    "spread": paper.Options(spread=1.0),
    "one tap": function.Options(lambda x: np.tanh(x[..., 0]), 1),
    "own windows": function.Options(product, 3, inputs=shifted, noise="laplace"),
    "own numbers": function.Options(product, 3, inputs=walk, noise="student"),
    "own rows": function.Options(lambda x: x[:, 0], 3, inputs=rows, noise="uniform"),
    "own drift": function.Options(paper.f, 4, inputs="iid", change=first, period=100_000),
}


@pytest.mark.parametrize("name", EVERY)
def test_every_stream_obeys_every_rule_about_it(name):
    for rule in of_samples.STREAM:
        if not why_not(rule, EVERY[name]):
            rule(EVERY[name])


def test_f_has_the_values_of_the_paper():
    x = np.array([[3.0, 0.0, 2.0, 0.5], [0.0, 1.0, -1.0, 0.25]])
    expected = [np.sqrt(10) + 0.6, np.sqrt(0.5) - (0.8 - 0.5 / np.e)]
    assert np.allclose(paper.f(x), expected, rtol=1e-14)


def test_the_laws_fill_their_ranges():
    laws = STREAM.laws(Seeds(0), np.arange(20_000))
    for field in laws._fields:
        values, (low, high) = getattr(laws, field), getattr(STREAM, field)
        assert low <= values.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < values.max() <= high
        assert abs(values.mean() - (low + high) / 2) < 0.02 * (high - low)


def test_the_series_is_ar1_from_its_stationary_law_on_and_windows_are_newest_first():
    clients = np.arange(3)
    laws = STREAM.laws(Seeds(1), clients)
    x = STREAM.samples(Seeds(1), clients, 0, 4000).x
    assert np.array_equal(x[:, 1:, 1:], x[:, :-1, :-1])
    innovation = x[:, :, 0] - laws.theta[:, None] * x[:, :, 1]
    innovation /= np.sqrt(1 - laws.theta**2)[:, None]
    assert np.allclose(innovation.mean(axis=1), laws.mean, atol=4 / np.sqrt(4000))
    assert np.allclose(innovation.var(axis=1) / laws.variance, 1, atol=4 * np.sqrt(2 / 4000))
    many = np.arange(10_000)
    laws, first = STREAM.laws(Seeds(2), many), STREAM.samples(Seeds(2), many, 0, 1).x[:, 0]
    mean = laws.mean * np.sqrt((1 + laws.theta) / (1 - laws.theta))
    standard = (first - mean[:, None]) / np.sqrt(laws.variance)[:, None]
    assert np.abs(standard.mean(axis=0)).max() < 4 / np.sqrt(10_000)
    assert np.abs(standard.var(axis=0) - 1).max() < 4 * np.sqrt(2 / 10_000)


@pytest.mark.parametrize(("clients", "count"), [(3, 10), (10, 10), (1000, 20)])
def test_a_snapshot_covers_the_clients_evenly(clients, count, monkeypatch):
    seen = []
    laws = paper.Options.laws
    monkeypatch.setattr(
        paper.Options, "laws", lambda self, s, ids: seen.append(ids) or laws(self, s, ids)
    )
    assert STREAM.snapshot(Seeds(0), "test", clients, count).x.shape == (count, 4)
    assert len(np.unique(seen[0])) == len(seen[0]) == min(clients, count)
    assert 0.9 * clients - 1 <= seen[0].max() < clients


def test_the_windows_of_the_iid_stream_are_independent_over_time():
    clients, stream = np.arange(40), EVERY["iid"]
    x = stream.samples(Seeds(5), clients, 0, 3000).x
    mean, covariance = stream.input_law(Seeds(5), clients)
    centred = (x - mean[:, None]) / np.sqrt(covariance[:, None, 0, :1])
    lagged = np.einsum("kni,knj->kij", centred[:, 1:], centred[:, :-1]) / 2999
    assert np.abs(lagged).max() < 6 / np.sqrt(3000)


def personal(stream, seeds, clients, x):
    """f + spread g_k, one number after another."""
    slopes, phases = (
        seeds.world.normals("own slopes", clients, 8 * stream.taps),
        seeds.world.uniforms("own phases", client=clients, count=8),
    )
    found = np.empty(x.shape[:-1])
    for k, n in np.ndindex(found.shape):
        waves = slopes[k].reshape(8, -1) @ x[k, n] / 2 + 2 * np.pi * phases[k]
        [f] = stream.function(x[k, n : n + 1])
        found[k, n] = f + stream.spread * np.sqrt(2 / 8) * np.cos(waves).sum()
    return found


@pytest.mark.parametrize("stream", [STREAM, function.Options(product, 3)], ids=["paper", "own"])
def test_with_a_spread_each_client_has_its_own_function_in_learning_and_in_testing(stream):
    seeds, ids, apart = Seeds(2, 3), np.array([4, 1, 7]), replace(stream, spread=0.7)
    drawn, plain = (each.samples(seeds, ids, 0, 40) for each in (apart, stream))
    np.testing.assert_array_equal(drawn.x, plain.x)
    np.testing.assert_array_equal(drawn.noise, plain.noise)
    np.testing.assert_allclose(drawn.clean, personal(apart, seeds, ids, drawn.x), rtol=1e-9)
    test = apart.snapshot(seeds, "test", ids, 30)
    by_client = np.swapaxes(test.x.reshape(10, 3, -1), 0, 1)
    expected = personal(apart, seeds, ids, by_client).T.ravel()
    np.testing.assert_allclose(test.clean, expected, rtol=1e-9)


def test_the_functions_of_clients_differ_by_the_spread_on_average():
    seeds, ids = Seeds(0), np.arange(400)
    apart = paper.Options(spread=2.0).samples(seeds, ids, 0, 64).clean
    apart -= STREAM.samples(seeds, ids, 0, 64).clean
    assert 3.6 < np.square(apart).mean() < 4.4
    assert np.abs(np.corrcoef(apart[:20, :64]) - np.eye(20)).mean() < 0.5
    with pytest.raises(psofed.InputError, match="spread is 1, but f changes over time"):
        paper.Options(spread=1.0, at=5)
    with pytest.raises(psofed.InputError, match="spread is -1"):
        paper.Options(spread=-1.0)


def test_a_change_leaves_the_inputs_and_what_was_before_and_a_drift_goes_there_and_back():
    ids = np.arange(6)
    plain, changed = (s.samples(Seeds(0), ids, 0, 60) for s in (STREAM, paper.Options(at=25)))
    assert np.array_equal(plain.x, changed.x)
    assert np.array_equal(plain.y[:, :25], changed.y[:, :25])
    assert np.array_equal(changed.clean[:, 25:], backwards(plain.x[:, 25:]))
    rounds = np.array([0, 25, 50, 75, 100])
    assert np.allclose(paper.Options(period=100).blend(rounds), [0, 0.5, 1, 0.5, 0])
    assert not STREAM.blend(rounds).any()
    assert [s.changes for s in (STREAM, EVERY["change"], EVERY["drift"])] == [False, True, True]


@pytest.mark.parametrize(("stream", "every"), [(EVERY["change"], 1), (paper.Options(period=80), 7)])
def test_kernel_and_lockstep_judge_a_changing_f_alike(stream, every):
    options = pso.Options(shared=1), pso.Options(shared=4), onlinefed.Options()
    experiment = small(stream, *options, evaluate_every=every, dtype="float64")
    task, marks = experiment.task(0), experiment.evaluated
    draws, test = draw(experiment, task, everybody=True), draw_test(experiment, task)
    shares = stream.blend(marks)
    fast = family.run(draws, experiment.start(task), marks, test, shares).mse
    for j, method in enumerate(experiment.start(task)):
        play = any_method.play(method, any_method.RunSamples(draws))
        models = np.array([moment.server["w"].copy() for moment in play])
        slow = [test.mse(models[n], a) for n, a in zip(marks, shares, strict=True)]
        assert np.allclose(fast[j], slow, rtol=1e-9)


SAME = {
    "paper": (STREAM, function.Options(paper.f, 4)),
    "iid": (EVERY["iid"], function.Options(paper.f, 4, inputs="iid")),
    "change": (EVERY["change"], function.Options(paper.f, 4, change=backwards, at=20)),
    "drift": (EVERY["drift"], function.Options(paper.f, 4, change=backwards, period=700)),
}


@pytest.mark.parametrize("name", SAME)
@given(st.integers(0, 2**40), st.sampled_from(["float32", "float64"]), st.integers(1, 2 * BLOCK))
@settings(max_examples=5)
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


def linear(x):
    return 0.5 - x[..., 0] + 2 * x[..., 2]


def affine(x):
    """Features in whose span `linear` is."""
    return np.concatenate([np.ones_like(x[..., :1]), x], axis=-1) / 2


@dataclass(frozen=True)
class Overridden(paper.Options):
    """As a user would write it: the paper's stream with another f and other taps."""

    taps = 3

    def function(self, x):
        return linear(x)


LINEAR = {
    "subclass": Overridden(noise=(0, 0)),
    "own inputs": function.Options(linear, 3, noise=(0, 0), inputs=shifted),
    "own series": function.Options(linear, 3, noise=(0, 0), inputs=walk),
    "after a change": function.Options(product, 3, noise=(0, 0), change=linear, at=0),
}


@pytest.mark.filterwarnings("ignore::psofed.PsofedWarning")  # windows are correlated in time
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
    if not experiment.stream.changes:
        assert floors(experiment, 2)[0] < 1e-6
    if not experiment.stream.changes and name != "own series":  # of which it needs many
        few = replace(experiment, methods=(pso.Options(shared=2),), rounds=400, evaluate_every=400)
        (predicted,) = psofed.predict_curves(few)
        assert predicted.mse[-1] < 1e-3 * predicted.mse[0]


def test_theory_and_simulation_agree_for_an_own_f_and_own_inputs():
    stream = function.Options(product, 3, inputs=shifted, noise="laplace")
    experiment = small(
        stream, pso.Options(shared=3), onlinefed.Options(), clients=3, rounds=80, runs=200,
        evaluate_every=80, features=psofed.Features(dim=8), dtype="float64", world=0,
    )  # fmt: skip
    curves, predicted = montecarlo.run(experiment), psofed.predict_curves(experiment)
    assert not prediction.world(experiment).moments.analytic
    for each, mse, stderr in zip(predicted, curves.mse, curves.stderr, strict=True):
        gap = abs(each.mse[-1] - mse[-1])
        assert gap < 0.05 * mse[-1] + 4 * stderr[-1]  # of the pooling, and of the runs


def test_of_a_series_of_numbers_a_window_has_the_newest_first():
    x = function.Options(first, 3, inputs=walk).samples(Seeds(0), np.arange(2), 0, 40).x
    assert np.array_equal(x[:, 1:, 1:], x[:, :-1, :-1])
    assert len(np.unique(x[0, :, 0])) == 40


def test_a_client_is_itself_in_learning_and_in_testing_and_another_in_another_world():
    stream = function.Options(first, 3, inputs=shifted)
    learned = stream.samples(Seeds(0, 5, 1), np.arange(4), 0, 4000).x.mean(axis=(1, 2))
    tested, other = (
        stream.snapshot(Seeds(0, 6, world), "test", 4, 16_000).x.reshape(-1, 4, 3).mean(axis=(0, 2))
        for world in (1, 2)
    )
    assert np.allclose(learned, tested, atol=0.04)
    assert np.abs(learned - other).max() > 0.2


KURTOSIS = {"normal": 3, "laplace": 6, "student": 7, "uniform": 1.8}


@pytest.mark.parametrize("law", KURTOSIS)
def test_noise_of_any_law_has_the_variance_of_its_client(law):
    stream = function.Options(first, 1, noise=(0.1, 0.4), law=law)
    wanted = stream.laws(Seeds(0), np.arange(4)).noise
    noise = stream.samples(Seeds(0), np.arange(4), 0, 20_000).noise
    alone = stream.snapshot(Seeds(0), "test", 4, 80_000).noise.reshape(-1, 4).T
    for found in (noise, alone):
        assert np.allclose(found.var(axis=1) / wanted, 1, atol=0.12)
        assert np.abs(found.mean(axis=1)).max() < 0.02
    tails = (noise**4).mean(axis=1) / noise.var(axis=1) ** 2
    assert np.median(tails) == pytest.approx(KURTOSIS[law], rel=0.35)


def test_noise_that_a_function_draws_is_used_as_it_is():
    stream = function.Options(first, 2, noise=lambda c, count: c.random.choice([-0.2, 0.2], count))
    learned, tested = (
        stream.samples(Seeds(0), np.arange(3), 0, 50), stream.snapshot(Seeds(0), "test", 3, 50)
    )  # fmt: skip
    for found in (learned, tested):
        assert np.allclose(np.abs(found.noise), 0.2)
