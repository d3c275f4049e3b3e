"""A server that begins with a model that exists."""

import numpy as np
import pytest
import tomli_w

from helpers.loopback import disk, plan, play
from psofed.errors import InputError
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.store import StateFolder
from psofed.fleet.samples import replay
from psofed.methods import memofed
from psofed.streams.data import reading as tables
from psofed.tables import example, fitting
from psofed.tables import export as formats
from psofed.tables.plan import Plan, run_table


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


def test_clients_of_a_warm_server_begin_with_its_model(learned):
    made, folder, w = learned
    server = Coordinator(made, disk())
    known = formats.weights(made, folder)
    assert np.abs(known - w).max() < 1e-6
    server.warm(known)
    k, frame = next(iter(server.frames().items()))
    member = Member(made, k, disk(), replay(made.experiment, k))
    begun = []
    real = member.client.method.receive
    member.client.method.receive = lambda *given: begun.append(given[3].row(0)) or real(*given)
    member.take(frame)
    assert np.abs(begun[0] - w).max() < 1e-6


@pytest.mark.parametrize("use", ["frozen", "live"])
def test_the_shared_model_of_a_fit_begins_a_federation_whatever_the_fit_is_used_for(tmp_path, use):
    table = tables.read(example.PATH, example.COLUMNS)
    wanted = Plan(example.COLUMNS, label_delay=6, dim=20, width=2.0, step=0.4, compare=False,
                  use=use)  # fmt: skip
    done = fitting.fit(table, wanted)
    done.save(tmp_path / "model.psofed")
    rounds = fitting.sampled(table, done.plan, done.span)
    made = done.plan.experiment(rounds, done.span, example.PATH)
    (tmp_path / "run.toml").write_text(tomli_w.dumps(run_table(made, "float32")))
    found = formats.weights(plans.read(tmp_path / "run.toml"), tmp_path / "model.psofed")
    assert np.abs(found).max() > 0.1
    np.testing.assert_array_equal(found, done.model.shared)


def test_a_model_of_other_features_is_refused(learned, fitted):
    _, folder, _ = learned
    with pytest.raises(InputError, match="was learned with other features"):
        formats.weights(plan(seed=3), folder)
    with pytest.raises(InputError, match=r"has 60 features of \d+ inputs"):
        formats.weights(plan(), fitted.path)


def test_a_warm_start_needs_a_new_folder_and_a_method_with_one_model(learned):
    made, folder, w = learned
    known = StateFolder(folder)
    with pytest.raises(InputError, match="has a state already"):
        Coordinator(made, known).warm(w)
    known.close()
    with pytest.raises(InputError, match="not possible with memofed"):
        Coordinator(plan(methods=(memofed.Options(),)), disk()).warm(w)
