"""A federation whose samples come one by one plays the rounds of all other executors."""

import pickle
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest

import psofed
from helpers.battery import TRIED, small
from helpers.mistakes import refused
from psofed.cli.laws.drivers import exchange, samples
from psofed.errors import InputError
from psofed.federation.membership import Change
from psofed.federation.stage import around
from psofed.simulate import any_method, kernel
from psofed.simulate.draws import draw, draw_test
from psofed.stages.checks import outliers
from psofed.stages.defences import clip
from psofed.stages.mix import MixOptions


def federation(experiment, clients=None, **more):
    """One with the settings of an experiment of one method."""
    copied = ("cohort", "step", "features", "learner", "mix", "check", "defence", "seed", "dtype")
    settings = {key: getattr(experiment, key) for key in copied}
    clients = experiment.clients if clients is None else clients
    (method,) = experiment.methods
    return psofed.Federation(4, clients, method, **settings | more)


def reference(experiment):
    """Global models, states of clients and bytes before each round; and the samples."""
    task = kernel.faster(experiment.task(0))
    (method,) = experiment.start(task)
    if experiment.mix is not None:
        assert any(stage.answers for stage in around(method))
    draws = draw(experiment, task, everybody=True)
    found, sent = [], np.zeros(2)
    for moment in any_method.play(method, any_method.RunSamples(draws)):
        sent += moment.traffic[:2]
        local = {name: array.copy() for name, array in moment.clients.items()}
        found.append((method.models(moment.server, moment.clients).copy(), local, sent.copy()))
    return found, *samples(draws)


def replayed(fed, X, Y, at=lambda n: None):
    """The same of a federation that gets these samples."""
    found = []
    for n in range(Y.shape[1] + 1):
        turns = fed._turns
        w = turns.method.models(turns.server, turns.clients.states).copy()
        local = {name: array.copy() for name, array in turns.clients.states.items()}
        found.append((w, local, np.array(fed.traffic[:2])))
        at(n)
        for k in range(len(Y)) if n < Y.shape[1] else ():
            if not np.isnan(Y[k, n]):
                fed.learn_one(k, X[k, n], Y[k, n])
        if fed.every == 0 and n < Y.shape[1]:
            fed.round()
    return found


def assert_same(found, expected, close=False):
    for (w, local, sent), (v, others, bytes_) in zip(found, expected, strict=True):
        assert np.allclose(w, v, 1e-12, 1e-12) if close else np.array_equal(w, v)
        assert np.array_equal(sent, bytes_)
        for name, array in others.items() if not close else ():
            assert np.array_equal(local[name][: len(array)], array, equal_nan=True), name


# Lazy clients learn all samples since their last contact in one product of matrices; others have
# products over the clients of a stack.
ROUNDED = {"memofed", "fedpoe", "pofmkl", "structured"}


@pytest.mark.parametrize(
    "options", [o for o in TRIED if not (o.values[0].policy or o.values[0].gapless)],
    ids=lambda o: f"{o.name}-{o.title()}",
)  # fmt: skip
def test_models_and_bytes_are_those_of_a_run_to_the_bit(options):
    experiment = small(options)
    expected, X, Y = reference(experiment)
    assert_same(replayed(federation(experiment), X, Y), expected, options.name in ROUNDED)


AROUND = [
    {"mix": MixOptions(season=3), "judge": "personal"},
    {"check": outliers.Options()},
    {"defence": clip.Options()},
    {"dtype": "float32"},
    {"cohort": 5},
    {"seed": 7, "learner": psofed.learners.LinearLearner(), "features": psofed.Features()},
]


@pytest.mark.parametrize("around", AROUND, ids=lambda around: next(iter(around)))
def test_so_they_are_with_what_stands_around_a_method(around):
    experiment = small(psofed.PSOFed(3), **around)
    expected, X, Y = reference(experiment)
    assert_same(replayed(federation(experiment), X, Y), expected)


def test_clients_may_come_and_go_as_in_a_fleet():
    experiment = small(psofed.PSOFed(3), fleet=(Change(4, add=(5, 6)), Change(9, remove=(2,))))
    expected, X, Y = reference(experiment)

    def change(n):
        if n == 4:
            fed.join(5)
            fed.join(6)
        if n == 9:
            fed.leave(2)

    Y[5:, :4] = Y[2, 9:] = np.nan
    fed = federation(experiment, clients=5, every=0)
    for (w, local, sent), (v, others, bytes_) in zip(
        replayed(fed, X, Y, change), expected, strict=True
    ):
        assert np.array_equal(w, v)
        assert np.array_equal(local["w"][[0, 1, 3, 4]], others["w"][[0, 1, 3, 4]])
        assert np.array_equal(sent, bytes_)
    assert np.array_equal(fed._turns.clients.states["w"][5:7], others["w"][5:])
    assert fed.clients == [0, 1, 3, 4, 5, 6]


@pytest.mark.parametrize("options", [psofed.PSOFed(3), psofed.FedAvg(local_steps=3)])
def test_a_lockstep_deployment_ends_with_the_same_models(options):
    experiment = small(options)
    _, X, Y = reference(experiment)
    deployed = exchange(experiment)
    fed = federation(experiment)
    replayed(fed, X, Y)
    assert np.abs(deployed.models[-1] - fed.model).max() <= 1e-12
    assert np.abs(deployed.local[-1] - fed._turns.clients.states["w"]).max() <= 1e-12


@pytest.mark.parametrize(("options", "apart"), [(psofed.FedAvg(), 0), (psofed.PSOFed(3), 1e-12)])
def test_its_test_errors_are_those_that_run_returns(options, apart):
    """To the bit where `run` computes in NumPy; PSO-Fed is compiled, and adds in another order."""
    experiment = small(options, test_samples=50)
    _, X, Y = reference(experiment)
    test = draw_test(experiment, experiment.task(0))
    errors = [float(test.mse(w)) for w, _, _ in replayed(federation(experiment), X, Y)]
    assert errors == pytest.approx(psofed.run(experiment, 1).mse[0].tolist(), rel=apart, abs=0)


def test_a_round_ends_with_a_count_of_samples_or_by_hand():
    x = np.zeros(4)
    counted, by_hand = psofed.Federation(4, 2, every=3), psofed.Federation(4, 2, every=0)
    for i in range(7):
        counted.learn_one(0, x, 1.0)
        by_hand.learn_one(i % 2, x, 1.0)
    assert (counted.rounds, by_hand.rounds) == (2, 0)
    assert by_hand.round() == (320, 320)
    assert by_hand.traffic == (320, 320, 16)


@pytest.fixture
def trained():
    fed = psofed.Federation(["a", "b"], ["mill", "hill"], features=psofed.Features(dim=20))
    draw = np.random.default_rng(3)
    for i in range(401):
        a, b = draw.standard_normal(2)
        fed.learn_one(["mill", "hill"][i % 2], {"b": b, "a": a}, np.sin(a) + 0.3 * b)
    return fed


def test_it_has_learned_and_takes_samples_in_each_form(trained):
    row = type("Row", (), {"keys": lambda self: ["a", "b"], "__getitem__": lambda self, k: 0.5})()
    said = [trained.predict_one("mill", x) for x in ([0.5, 0.5], {"b": 0.5, "a": 0.5}, row)]
    assert said[0] == said[1] == said[2] == pytest.approx(np.sin(0.5) + 0.15, abs=0.2)


def test_who_is_not_known_is_answered_by_the_model_of_all(trained):
    z = trained._turns.features(np.ones((1, 2)))
    assert trained.predict_one("new", [1, 1]) == pytest.approx(float(z[0] @ trained.model))
    assert "new" not in trained.clients
    trained.learn_one("new", [1, 1], 1.0)
    assert trained.predict_one("new", [1, 1]) == pytest.approx(float(z[0] @ trained.model))
    trained.round()
    for _ in range(3):  # asked now, so it begins with all of w
        trained.learn_one("new", [1, 1], 1.0)
    assert trained.predict_one("new", [1, 1]) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("method", [None, psofed.FedAvg(), psofed.rivals.Raw()])
def test_it_goes_on_after_a_file_as_if_nothing_had_been(method, tmp_path):
    fed = psofed.Federation(2, 3, method, mix=True, every=5)
    for i in range(33):
        fed.learn_one(i % 3, [i % 4, 1], i % 2)
    fed.save(tmp_path / "fed.psofed")
    again, copied = psofed.Federation.load(tmp_path / "fed.psofed"), pickle.loads(pickle.dumps(fed))
    assert repr(again) == repr(fed)
    for each in (fed, again, copied):
        for i in range(40):
            each.learn_one(i % 4, [i % 5, 1], i % 2)
    assert np.array_equal(again.model, fed.model)
    assert np.array_equal(copied.model, fed.model)
    assert again.traffic == copied.traffic == fed.traffic
    assert again.predict_one(3, [1, 1]) == fed.predict_one(3, [1, 1])


AWAY = """
import pickle, sys
client = pickle.load(open(sys.argv[1], "rb"))
for i in range(50):
    client.learn_one({"a": i % 3, "b": 1}, 5.0)
pickle.dump(client, open(sys.argv[1], "wb"))
"""


def test_a_client_learns_in_another_process_and_joins_again(trained, tmp_path):
    client = trained.leave("hill")
    (tmp_path / "hill").write_bytes(pickle.dumps(client))
    for _ in range(10):
        trained.learn_one("mill", [0, 0], 0.0)
    subprocess.run([sys.executable, "-c", AWAY, str(tmp_path / "hill")], check=True)
    back = pickle.loads((tmp_path / "hill").read_bytes())
    assert back.samples == client.samples + 50
    assert back.predict_one([1, 1]) == pytest.approx(5.0, abs=0.5)
    trained.join(back)
    assert trained.predict_one("hill", [1, 1]) == back.predict_one([1, 1])
    assert trained.clients == ["mill", "hill"]
    for _ in range(20):
        trained.round()
    assert trained.predict_one("new", [1, 1]) > 1


def test_clients_are_added_by_their_samples(trained):
    one, other = trained.client("mill"), trained.client("hill")
    other.learn_one([0, 0], 9.0)
    both = one + other
    weighted = one.samples * one.model + other.samples * other.model
    assert both.samples == one.samples + other.samples
    assert both.model == pytest.approx(weighted / both.samples)


def test_a_copy_whose_client_has_gone_on_joins_only_with_what_it_has_become(trained):
    copy = trained.client("mill")
    trained.learn_one("mill", [0, 0], 1.0)
    with pytest.raises(InputError, match="who has gone on here since it was copied"):
        trained.join(copy)
    merged = copy + trained.client("mill")
    trained.join(merged)
    assert np.array_equal(trained.client("mill").model, merged.model)


def federated(*args, **settings):
    return psofed.Federation(*(args or (2, 2)), **settings)


test_a_mistake_is_told_in_a_line = refused({
    "inputs is 'temp'; say how many": lambda: federated("temp"),
    "inputs is 0; say how many": lambda: federated(0),
    "inputs is ['a', 'a']": lambda: federated(["a", "a"]),
    "clients has 'a' twice": lambda: federated(2, ["a", "a"]),
    "client is 2.5; give a text or a whole number": lambda: federated(2, [2.5]),
    "cohort is 0; use a whole number, 1 or more": lambda: federated(cohort=0),
    "every is -1; use a whole number, 0 or more": lambda: federated(every=-1),
    "step is -1.0; use a number above 0": lambda: federated(step=-1.0),
    "method.shared is 300": lambda: federated(method=psofed.PSOFed(300)),
    "method.policy needs": lambda: federated(method=psofed.PSOFed(policy=psofed.policies.FOLB())),
    "stream has no samples of its own": lambda: federated(features=psofed.Features("gaussian")),
    "x has 3 numbers; give 2": lambda: federated().learn_one(0, [1, 2, 3], 1),
    "x is 1.0; give 2, one for each input": lambda: federated().learn_one(0, 1.0, 1),
    "x is None; give 2, one for each input": lambda: federated().predict_one(0, None),
    "x is ['a', 1]; give numbers": lambda: federated().learn_one(0, ["a", 1], 1),
    "x is [nan, 1]; give finite numbers": lambda: federated().learn_one(0, [np.nan, 1], 1),
    "y is None; give a finite number": lambda: federated().learn_one(0, [1, 1], None),
    "y is 'x'; give a number": lambda: federated().learn_one(0, [1, 1], "x"),
    "x has no 'hum'": lambda: federated(["temp", "hum"]).predict_one(0, {"temp": 1}),
    "x has 'hun'; did you mean 'hum'?": lambda: federated(["temp", "hum"]).predict_one(0, {"temp": 1, "hun": 1}),
    "client is 'mil', who is not there; did you": lambda: federated(2, ["mill"]).client("mil"),
    "client is 0, who has joined": lambda: federated().join(0),
    "client is 0, of another federation": lambda: federated().join(federated(3, 3).client(0)),
    "method is FedAvg E=5, whose clients learn only in rounds in which they take part": lambda: federated(method=psofed.FedAvg()).client(0).learn_one([1, 1], 1),
    "method is Raw samples, whose clients keep no model": lambda: federated(method=psofed.rivals.Raw()).client(0).model,
    "method is PSO-Fed M=40 uncoordinated, whose clients also keep 'mix A'": lambda: federated(mix=True).client(0) + federated(mix=True).client(1),
    "method is local, whose clients can neither join nor leave": lambda: federated(method=psofed.methods.Local()).learn_one("new", [1, 1], 1),
})  # fmt: skip


def test_who_leaves_an_open_round_does_not_upload():
    fed = psofed.Federation(2, 2, every=0)
    fed.learn_one(0, [1, 1], 1.0)
    fed.leave(0)
    assert fed.round() == (160, 320)


def test_who_has_no_sample_passes_none_on_a_second_time():
    fed = psofed.Federation(2, 3, psofed.rivals.Raw(), every=0)
    for k in range(3):
        fed.learn_one(k, [1, 1], 1.0)
    first, _ = fed.round()
    fed.learn_one(0, [1, 1], 1.0)
    assert fed.round()[0] == first / 3
    assert fed.round() == (0, 0)


def test_who_has_left_is_not_taught(trained):
    trained.leave("hill")
    with pytest.raises(InputError, match=r"'hill', who has left; let it join first"):
        trained.learn_one("hill", [1, 1], 1.0)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"text", lambda data: b""])
def test_a_damaged_file_is_refused_by_name(trained, tmp_path, damage):
    path = tmp_path / "fed.psofed"
    trained.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"fed\.psofed: is not a saved federation, or is damaged"):
        psofed.Federation.load(path)
    with pytest.raises(InputError, match="cannot be read"):
        psofed.Federation.load(tmp_path / "none")


def test_a_federation_begins_with_nobody():
    fed = psofed.Federation(2, cohort=3)
    assert fed.round() == (0, 0)
    assert fed.predict_one("a", [1, 1]) == 0
    for i in range(300):
        fed.learn_one(f"client {i % 7}", [i % 3, 1], i % 3)
    assert len(fed.clients) == 7
    assert fed.predict_one("client 5", [2, 1]) == pytest.approx(2, abs=0.3)


def test_what_is_no_sample_is_refused_and_changes_nothing():
    fed = psofed.Federation(2, ["m"], features=psofed.Features(dim=8))
    wrong = ["ab", [1, "a"], [1 + 1j, 2], np.ma.masked_array([1, 2], [0, 1]), [10**400, 1],
             np.array(["2024"] * 2, "M8[D]"), {"tmp": np.nan, "hum": 1}]  # fmt: skip
    for x in wrong:
        with pytest.raises(psofed.InputError, match=r"^x is"):
            fed.learn_one("m", x, 1.0)
    for y in (np.ma.masked, np.nan, 1j, [1, 2], 10**400):
        with pytest.raises(psofed.InputError, match=r"^y is"):
            fed.learn_one("m", [1, 2], y)
    fed.learn_one(np.int64(3), {"temp": 1, "hum": 0}, 1.0)
    assert fed.clients == ["m", 3]
    assert fed.predict_one("m", {"hum": 0, "temp": 1}) == fed.predict_one("m", [1, 0])
    row = namedtuple("Row", "hum temp")(0, 1)
    assert fed.predict_one("m", row) == fed.predict_one("m", [1, 0])
    nameless = psofed.Federation(2, ["m"], features=psofed.Features(dim=8))
    nameless.learn_one("m", [1, 0], 1.0)
    with pytest.raises(psofed.InputError, match="earlier samples had none"):
        nameless.predict_one("m", {"b": 0, "a": 1})


def test_samples_before_a_first_contact_are_counted(tmp_path):
    fed = psofed.Federation(1, range(8), cohort=1, features=psofed.Features(dim=8))
    for i in range(40):
        fed.learn_one("new" if i % 2 and i > 9 else i % 8, [i / 40], 1.0)
    learned = int(repr(fed).split(" clients, ")[1].split()[0])
    assert 0 < fed.early == 40 - learned
    assert f"{fed.early} of newcomers not learned" in repr(fed)
    fed.save(tmp_path / "fed")
    assert psofed.Federation.load(tmp_path / "fed").early == fed.early


def test_nobody_leaves_for_ever_where_fleets_cannot_change():
    fed = psofed.Federation(1, ["a", "b"], psofed.methods.Local(), features=psofed.Features(dim=8))
    fed.learn_one("a", [1], 1.0)
    with pytest.raises(psofed.InputError, match="neither join nor leave"):
        fed.leave("a")
    fed.learn_one("a", [1], 1.0)
