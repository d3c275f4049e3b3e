"""A server that begins with a model that exists."""

import json

import numpy as np
import pytest

from helpers.loopback import disk, plan, play
from psofed.errors import InputError
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.store import StateFolder
from psofed.fleet.samples import replay
from psofed.methods import memofed
from psofed.tables import export as formats
from psofed.tables.export import origin


@pytest.fixture
def learned(tmp_path):
    """The state folder of a server after some rounds, and its plan."""
    made = plan()
    folder = StateFolder(tmp_path / "old")
    server = Coordinator(made, folder)
    made.keep(folder)
    members = [Member(made, k, disk(), replay(made.experiment, k)) for k in range(5)]
    for _ in range(20):
        play(server, members)
    folder.close()
    return made, tmp_path / "old", server.server.state["w"].copy()


def test_folder_export_and_array_give_the_same_model(learned, tmp_path):
    made, folder, w = learned
    exported = tmp_path / "model.json"
    exported.write_bytes(formats.render(origin.load(folder), "json"))
    for path in (folder, exported, folder / "model.npy"):
        assert np.abs(origin.weights(made, path) - w).max() < 1e-6


def test_clients_of_a_warm_server_begin_with_its_model(learned):
    made, folder, w = learned
    server = Coordinator(made, disk())
    server.warm(origin.weights(made, folder))
    k, frame = next(iter(server.frames().items()))
    member = Member(made, k, disk(), replay(made.experiment, k))
    begun = []
    real = member.client.method.receive
    member.client.method.receive = lambda *given: begun.append(given[3].row(0)) or real(*given)
    member.take(frame)
    assert np.abs(begun[0] - w).max() < 1e-6


def test_a_model_of_other_features_is_refused(learned, tmp_path):
    _, folder, _ = learned
    with pytest.raises(InputError, match="was learned with other features"):
        origin.weights(plan(seed=3), folder)
    table = json.loads(formats.render(origin.load(folder), "json"))
    short = tmp_path / "short.json"
    short.write_text(json.dumps(table | {"w": table["w"][:4]}))
    with pytest.raises(InputError, match="has numbers of shape"):
        origin.weights(plan(), short)
    for text in ("{}", "[", json.dumps({"W": 3})):
        short.write_text(text)
        with pytest.raises(InputError, match="is no exported model"):
            origin.weights(plan(), short)


def test_a_warm_start_needs_a_new_folder_and_a_method_with_one_model(learned):
    made, folder, w = learned
    known = StateFolder(folder)
    with pytest.raises(InputError, match="has a state already"):
        Coordinator(made, known).warm(w)
    known.close()
    with pytest.raises(InputError, match="not possible with memofed"):
        Coordinator(plan(methods=(memofed.Options(),)), disk()).warm(w)
