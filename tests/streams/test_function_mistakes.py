"""What a person may bring as f, inputs or noise that is none: one line says so, at the start."""

import tomllib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import psofed
from helpers.mistakes import refused
from psofed.errors import InputError
from psofed.fleet.samples import replay
from psofed.methods import fedavg, onlinefed
from psofed.simulate import montecarlo
from psofed.simulate.draws import draw
from psofed.streams import function, paper

BUFFER = np.empty(1000)
AXES = "take the inputs as x[..., 0] to x[..., 1]"


def doubled(x):
    x *= 2
    return x[..., 0]


def buffered(x):
    out = BUFFER[: x[..., 0].size].reshape(x.shape[:-1])
    return np.sin(x[..., 0], out=out)


def short(client):
    yield from client.random.normal(size=40)


def ragged(client):
    while True:
        yield client.random.normal(size=2)
        yield client.random.normal(size=3)


def first(x):
    return x[..., 0]


def numbers(client):
    while True:
        yield client.random.uniform(-1, 1)


def three(client, count):
    return client.random.normal(size=(count, 3))


BATCH = "f gives other values for many samples at once than for each alone"
WRONG = {
    "sum over all": (lambda x: x.sum(), "f returns an array of shape [], not [1]; " + AXES),
    "one row only": (lambda x: x[0] + x[1], "f fails at "),
    "other taps": (lambda x: x[..., 2], "IndexError: index 2 is out of bounds"),
    "a column": (lambda x: x[..., :1], "f returns an array of shape [1, 1], not [1]; " + AXES),
    "by the batch": (lambda x: x[..., 0] - x[..., 0].mean(), BATCH + "; " + AXES),
    "nan": (lambda x: np.log(x[..., 0]), "f gives nan for x = ["),
    "infinite": (lambda x: x[..., 0] / 0.0, "for x = ["),
    "complex": (lambda x: x[..., 0] + 1j, "f returns complex numbers; return an array of real"),
    "texts": (lambda x: x[..., 0].astype(str), "f returns texts"),
    "nothing": (lambda x: None, "f returns a NoneType"),
    "a list": (lambda x: [[1.0], [1.0, 2.0]], "f returns a ragged list"),
    "in place": (doubled, "work on a copy of the inputs"),
    "chance": (lambda x: x[..., 0] + np.random.default_rng().normal(size=x.shape[:-1]), BATCH),
    "one array": (buffered, "f returns an array that it changes when it is called again"),
    "two arguments": (lambda x1, x2: x1, "TypeError"),
    "no function": (3.0, "f is 3.0; give a function of x, or its place"),
    "a formula": ("sin(x1)", "f is 'sin(x1)'; give a function of x, or its place"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_function_of_x_is_refused_at_the_start(name):
    f, says = WRONG[name]
    with pytest.raises(InputError) as error:
        function.Options(f, taps=2)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    if callable(f) and "fails" in str(error.value):
        assert "test_function_mistakes.py:" in str(error.value)
    with pytest.raises(InputError) as later:
        function.Options(first, taps=2, change=f, at=3)
    assert str(later.value).startswith("change ")


test_settings_that_mean_nothing_are_refused = refused({
    "taps is missing; say how many inputs f has, 1 to 64": {"taps": 0},
    "taps is 65; say how many inputs f has": {"taps": 65},
    "taps is 2.0, a number; use a whole number": {"taps": 2.0},
    "noise is [0.3, 0.1]; use two numbers that are not negative, the s": {"noise": (0.3, 0.1)},
    "noise is [-0.1, 0.1]; use two numbers that are not negative": {"noise": [-0.1, 0.1]},
    "noise is 0.1; use two numbers": {"noise": 0.1},
    "noise is ['a', 'b']; use two numbers": {"noise": ("a", "b")},
    "noise is [nan, 1]; use two numbers": {"noise": (float("nan"), 1)},
    "theta is [0.5, 1]; use two numbers inside (-1, 1)": {"theta": (0.5, 1)},
    "law is 'laplac'; use normal, laplace, student, uniform, or a function": {"noise": "laplac"},
    "law has mean 0.99": {"noise": lambda client, count: client.random.exponential(size=count)},
    "law returns an array of shape [1000, 1]": {"law": lambda c, count: c.random.normal(size=(count, 1))},
    "inputs is 'ar2'; use ar1, iid, or a function": {"inputs": "ar2"},
    "inputs is 3; use ar1, iid": {"inputs": 3},
    "inputs returns an array of shape [512, 3], not [512, 2]": {"inputs": three},
    "inputs gives other values when it is called again": {"inputs": lambda client, count: np.random.default_rng().normal(size=(count, 2))},
    "inputs ends, for client 0, before round 40; yield for ever": {"inputs": short},
    "inputs gives windows that follow from those before (correlation 0.9": {"inputs": lambda client, count: client.random.normal(size=(count, 2)).cumsum(axis=0)},
    "inputs returns a ragged list": {"inputs": ragged},
    "inputs fails": {"inputs": lambda client: 1},
    "mean is given, but the inputs are drawn by a function": {"inputs": three, "mean": (0, 1)},
    "change is given alone; give what f changes into, and at = ROUND": {"change": first},
    "at is given with period": {"change": first, "at": 3, "period": 30},
    "change is missing; give what f changes into": {"at": 3},
    "at is -1; use the number of a round": {"change": first, "at": -1},
    "at is 2.5, a number; use a whole number": {"change": first, "at": 2.5},
    "period is 1; use 2 rounds or more": {"change": first, "period": 1},
}, lambda given: function.Options(**{"f": first, "taps": 2} | given))  # fmt: skip


def test_an_f_that_fails_later_is_refused_with_its_inputs():
    stream = function.Options(lambda x: np.where(x[..., 0] > 3.5, np.nan, x[..., 0]), taps=1)
    experiment = psofed.Experiment(stream=stream, rounds=2000, runs=1)
    with pytest.raises(InputError, match=r"stream.f gives nan for x = \[3\.\d+\]; return finite"):
        psofed.run(experiment)


@pytest.mark.parametrize("key", ["clean", "at", "period"])
def test_a_derived_stream_must_not_use_a_name_for_something_else(key):
    with pytest.raises(InputError, match=f"Mine has its own `{key}`; (give it|take another)"):
        type("Mine", (paper.Options,), {key: 400})


@pytest.mark.parametrize(("grow", "rounds"), [(1.0, 1000), (0.0, 1000), (1.0, 100)])
def test_a_series_that_grows_is_refused(grow, rounds):
    def trend(client):
        n = 0
        while True:
            n += 1
            yield client.random.normal(size=2) + grow * n / 100

    stream = function.Options(first, 2, inputs=trend)
    experiment = psofed.Experiment(stream=stream, clients=4, rounds=rounds, runs=1)
    if grow and rounds > 200:
        with pytest.raises(InputError, match=r"stream.inputs has other inputs later: their mean"):
            psofed.run(experiment)
    else:
        psofed.run(experiment)


def test_what_no_file_can_name_cannot_be_written():
    for f in (lambda x: x[..., 0], partial(np.sum, axis=-1)):
        experiment = psofed.Experiment(stream=function.Options(f, 2))
        with pytest.raises(InputError, match=r"^stream.f is (<lambda>|partial), which no file"):
            experiment.to_toml()
    text = psofed.Experiment(stream=function.Options(paper.f, 4)).to_toml()
    assert tomllib.loads(text)["stream"]["f"] == "psofed.streams.paper:f"


@pytest.mark.parametrize("inputs", ["ar1", "iid", three])
def test_a_device_gets_the_samples_of_the_simulation(inputs):
    stream = function.Options(first, 3, inputs=inputs, noise="laplace")
    experiment = psofed.Experiment(
        stream=stream, clients=4, rounds=300, methods=(onlinefed.Options(),)
    )
    (chunk,) = draw(experiment, experiment.task(0), everybody=True).chunks()
    source = replay(experiment, 2)
    for start, stop in ((0, 10), (250, 300), (5, 280)):  # a step back starts again
        x, y = source(start, stop)
        assert np.array_equal(x, chunk.x[2, start:stop])
        assert np.array_equal(y, chunk.y[2, start:stop])


@pytest.mark.parametrize("inputs", [three, numbers])
def test_threads_and_other_processes_get_an_own_f_too(inputs):
    experiment = psofed.Experiment(
        stream=function.Options(first, 3, inputs=inputs, noise="uniform"), clients=4, rounds=20,
        runs=3, methods=(fedavg.Options(),), features=psofed.Features(dim=8),
    )  # fmt: skip
    here = montecarlo.run(experiment, jobs=1)
    for how in ({"jobs": 2}, {"pool": montecarlo.local(experiment, 2)}):
        assert np.array_equal(here.mse, montecarlo.run(experiment, **how).mse)
    nameless = replace(experiment, stream=function.Options(lambda x: x[..., 0], 3))
    with pytest.raises(InputError, match="cannot be sent to another process"):
        montecarlo.run(nameless, pool=montecarlo.local(nameless, 2))
