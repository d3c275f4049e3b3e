"""Models from state folders, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
import tomli_w

from psofed.core.features import Cosines
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.store import StateFolder
from psofed.methods import psofed
from psofed.streams import table
from psofed.streams.data.columns import Columns
from psofed.streams.data.recipe import Recipe
from psofed.tables import export as formats
from psofed.tables.export import portable
from psofed.tables.export.portable import Portable

RUN = {
    "clients": 3, "cohort": 2, "rounds": 20, "features": {"dim": 12}, "deploy": {"clock": "live"},
    "methods": [{"name": "psofed", "shared": 4}],
}  # fmt: skip
GAUSSIAN = {"features": {"dim": 12, "name": "gaussian"}}


def serve(path, folder, rounds=6):
    """A server and its clients, with samples of their own; both keep their state."""
    plan = plans.read(path)
    server = Coordinator(plan, StateFolder(folder / "server"))
    members = [
        Member(plan, k, StateFolder(folder / f"c{k}")) for k in range(plan.experiment.clients)
    ]
    g = np.random.Generator(np.random.PCG64(7))
    for _ in range(rounds):
        for member in members:
            x = g.standard_normal((3, plan.experiment.stream.taps))
            member.client.learn(x, np.sin(x[:, 0]))
        for k, frame in server.frames().items():
            answer, _ = members[k].take(frame)
            assert server.take(k, answer) == "accepted"
        server.commit()
    for member in members:
        member.save()
    return plan, server, members


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "run.toml").write_text(tomli_w.dumps(RUN))
    (folder / "empty").mkdir()
    return folder, *serve(folder / "run.toml", folder)


def test_the_folder_of_a_running_server_gives_its_model_on_scaled_inputs(run):
    folder, plan, server, _ = run  # its lock is held
    model = formats.load(folder / "server", plan=folder / "run.toml")
    np.testing.assert_allclose(model.w, np.load(folder / "server" / "model.npy"), rtol=1e-6)
    assert [a.name for a in model.arguments] == ["x1", "x2", "x3", "x4"]
    assert "after 6 rounds" in model.whose
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    found = runtime.InferenceSession(formats.render(model, "onnx")).run(None, {"x": x})[0]
    wanted = plan.method().task.features(x) @ server.server.model
    np.testing.assert_allclose(found[:, 0], wanted, atol=1e-5)
    assert b"predict_raw" not in formats.render(model, "c")


def test_the_folder_of_a_client_gives_its_own_model(run):
    folder, _, _, members = run
    model = formats.load(folder / "c1", plan=folder / "run.toml")
    np.testing.assert_allclose(model.w, members[1].client.state["w"][0], rtol=1e-6)
    assert model.whose.endswith("own model of 1")
    assert formats.load(folder / "c1", "1", folder / "run.toml").whose == model.whose


@pytest.mark.parametrize(
    ("where", "client", "change", "message"),
    [
        ("server", None, None, "is a folder without run.toml; give the file .* --plan run.toml"),
        ("server", "1", {}, "is of a server, which has no client's own model"),
        ("server", "9", {}, "--client is '9'"),
        ("c1", "2", {}, "--client is '2', but the state is of '1'"),
        ("server", None, {"seed": 5}, "holds the state of another experiment"),
        ("server", None, GAUSSIAN, "holds the state of another experiment"),
        ("empty", None, {}, "is a folder without a model"),
    ],
)  # fmt: skip
def test_a_folder_that_does_not_fit_is_refused(run, file, where, client, change, message):
    folder = run[0]
    plan = None if change is None else file(**RUN | change)
    with pytest.raises(InputError, match=message):
        formats.load(folder / where, client, plan)


@pytest.mark.parametrize(
    ("rounds", "change", "found"),
    [
        (0, {}, "has learned nothing yet"),
        (1, GAUSSIAN, "gaussian features, which cannot be exported"),
    ],
)
def test_what_has_learned_nothing_and_other_features_are_refused(
    tmp_path, file, rounds, change, found
):
    plan = file(**RUN | change)
    serve(plan, tmp_path, rounds)
    for name in ("server", "c1"):
        with pytest.raises(InputError, match=found):
            formats.load(tmp_path / name, plan=plan)


def test_the_folder_of_a_server_of_a_table_has_the_recipe(tmp_path):
    stream = table.Options(
        Columns("y", ("t",), client="who", inputs=("a", "sky")), {"a": (10, 2), "y": (100, 5)},
        ("p", "q", "r"), categories={"sky": ("blue", "grey")}, label_delay=2,
    )  # fmt: skip
    made = Experiment(
        clients=3, cohort=2, rounds=10**9 // 100, runs=1, stream=stream,
        features=Features(dim=12, width=2.0), methods=(psofed.Options(4),),
    )  # fmt: skip
    plan = tmp_path / "run.toml"
    plan.write_text(tomli_w.dumps(made.to_table() | {"deploy": {"clock": "live"}}))
    _, server, _ = serve(plan, tmp_path)
    model = formats.load(tmp_path / "server", plan=plan)
    assert [a.name for a in model.arguments] == ["a", "sky"]
    assert (model.centre, model.scale, model.label_delay) == (100, 5, 2)
    with pytest.raises(InputError, match="--client is 'z'; use one of p, q, r"):
        formats.load(tmp_path / "server", "z", plan)
    np.testing.assert_allclose(model.w, server.server.model, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "asked", "found"),
    [
        ({}, {"plan": "it"}, "--plan is given, but MODEL is not a state folder"),
        ({}, {"client": "markt"}, "did you mean 'market'"),
        ({"shared": np.full(60, np.nan, "f4")}, {}, "makes no sense"),
    ],
)
def test_a_file_without_the_model_that_is_wanted_is_refused(fitted, tmp_path, change, asked, found):
    replace(fitted.model, **change).save(tmp_path / "it")
    with pytest.raises(InputError, match=found):
        formats.load(tmp_path / "it", **asked)


@pytest.mark.parametrize(
    "columns",
    [
        {"inputs": ("a", "a[-1]"), "lags_of": {"a": (1,)}},
        {"inputs": ("a", "sin hour"), "calendar": ("hour",)},
        {"inputs": ("a", "predicted y")},
        {"inputs": ("a", "y[-3]"), "target_lags": (3,)},
    ],
)
def test_inputs_that_one_name_would_mix_up_are_refused(columns):
    inputs = columns["inputs"]
    recipe = Recipe(Columns("y", ("t",), **columns), dict.fromkeys((*inputs, "y"), (0.0, 1.0)))
    entries = portable.entries(recipe)
    cosines = Cosines(np.zeros((2, len(entries)), np.float32), np.zeros(2, np.float32))
    model = Portable(
        "it", entries, cosines, np.zeros(2, np.float32), np.zeros(len(entries) + 1), "y", 0.0, 1.0
    )
    with pytest.raises(InputError, match=re.escape(inputs[1])):
        portable.check(model, "file")
