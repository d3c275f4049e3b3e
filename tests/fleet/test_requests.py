"""What operators ask of a folder by mistake is refused in one line, and nothing has changed."""

import json
import os
import shutil
import threading
from contextlib import closing

import pytest

from helpers.devices import wait_for
from helpers.loopback import K, World, plan
from psofed.errors import InputError
from psofed.fleet import requests
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.store import StateFolder


@pytest.fixture
def states(tmp_path):
    """The folders of a server at round 6, with snapshots of 1 and 4, of a copy, and of clients."""
    names = {-1: "server"} | {k: f"client{k}" for k in range(K)}
    world = World(rounds=100, disks={k: StateFolder(tmp_path / name) for k, name in names.items()})
    world.server.snapshots.every = 4
    for folder in world.disks.values():
        world.plan.keep(folder)
    for act, k in (("add", 5), ("remove", 5), ("exclude", 4)):
        world.server.change(act, [k])
    world.rounds(6)
    for folder in world.disks.values():
        folder.close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "run.toml").write_text("")
    return tmp_path


def running(path):
    """Another process uses the folder."""
    return closing(StateFolder(path))


NONE = "is not a state folder of a server; give the folder that `psofed deploy serve --state` was given"
MISTAKES = [
    ("fleet add server 900000000", "is far from"),
    ("fleet list nowhere", f"nowhere {NONE}"),
    ("fleet list empty", f"empty {NONE}"),
    ("fleet list run.toml", f"run.toml {NONE}"),
    ("fleet list client0", "client0 is the state folder of client 0; give the folder that"),
    ("fleet add client0", "client0 is the state folder of client 0; give the folder that"),
    ("fleet add server 0", "client 0 is a member already; use 6 or more"),
    ("fleet add server 4", "client 4 is excluded; use 6 or more"),
    ("fleet add server 5", "client 5 is removed; use 6 or more: numbers are never used again"),
    ("fleet add server 7 --count 2", "--count is given with numbers; give one of them"),
    ("fleet remove server 9", "client 9 is not a member; name a member"),
    ("fleet remove server 5", "client 5 is removed; name a member"),
    ("fleet exclude server 4", "client 4 is excluded; name a member"),
    ("fleet exclude server 0 1 2 3", "client 3 is the last member in round 6; add another first"),
    ("fleet readmit server 0", "client 0 is a member already; name one that is excluded"),
    ("restore client0", "client0 is the state folder of client 0; give the folder that"),
    ("restore empty --list", f"empty {NONE}"),
    ("restore client0 --list", "client0 is the state folder of client 0; give the folder that"),
    ("restore server --round 3", "--round is 3, of which there is no snapshot; use one of the last: 1, 4"),
    ("restore server --keep-clients", "--round is missing; give it with --keep-clients"),
]  # fmt: skip


def test_mistakes_are_refused_in_one_line_that_says_what_is_right(states, refused):
    before = requests.members(states / "server")
    for words, said in MISTAKES:
        refused(said, *words.split())
        assert not (states / "nowhere").exists()
        assert list((states / "empty").iterdir()) == [], words
    with running(states / "server"):
        refused("server is in use by a server; stop it, or give --round", "restore", "server")
    assert requests.members(states / "server") == before


def test_a_deployment_is_compared_with_its_simulation_while_it_runs_or_when_it_has_ended(
    states, psofed, refused, tmp_path
):
    """Its fleet has changed. Then answers are lost, which the simulation has."""
    folders = [f"client{k}" for k in range(K - 1)]
    done = psofed("deploy", "verify", "server", *folders)
    assert done.stdout.startswith("round 6: largest difference to the simulation: global ")
    assert ", local " in done.stdout
    assert done.stdout.endswith("The deployment equals the simulation.\n"), done.stderr
    with running(states / "server") as folder:
        coordinator = Coordinator(plan(rounds=100), folder)
        coordinator.commit()  # nobody has answered
        done = psofed("deploy", "verify", "server")
    assert done.returncode == 1
    assert "The deployment DIFFERS: global; it lost 2 answers, the simulation none." in done.stdout
    with running(tmp_path / "live") as folder:
        live = plan(Deploy(clock="live"))
        live.keep(folder)
        Coordinator(live, folder)
    refused("is of the live clock", "verify", "live")
    refused("client0 is the state folder of client 0", "verify", "client0")


def test_a_copy_does_not_do_again_what_was_asked_of_the_first(states, psofed):
    """docs/operate.md copies the records first: the log may have lines that they do not count."""
    shutil.copytree(states / "server", states / "copy")
    before = requests.history(states / "copy")
    with (states / "copy" / "fleet.jsonl").open("a") as log:
        log.write('{"round": 7, "add": [6]}\n')
    assert requests.history(states / "copy") == before
    (states / "copy" / "request.1").write_text(json.dumps({"act": "add", "count": 1}))
    assert "The copy has round 6." in psofed("deploy", "restore", "copy").stdout
    assert not list((states / "copy").glob("request.*"))


@pytest.fixture
def server(states):
    """A server that takes requests, in the folder `server`."""
    with running(states / "server") as folder:
        yield Coordinator(plan(rounds=100), folder)


ODD = ["", "\x00\xff", "[]", '"add"', "7", "null", '{"act": "add", "count": Infinity}',
       '{"restore": 1e999}', '{"act": ["add"]}', "[" * 99_999, '{"act": "add"}' + " " * 3_000_000,
       ]  # fmt: skip


def test_what_is_no_request_is_answered_and_thrown_away(states, server):
    folder, before = states / "server", server.server.table.next
    for i, text in enumerate(ODD):
        (folder / f"request.{i}").write_text(text)
    (folder / "elsewhere").write_text('{"act": "add", "count": 1}')
    (folder / "request.link").symlink_to("elsewhere")
    os.mkfifo(folder / "request.pipe")
    (folder / "request.folder").mkdir()
    said = []
    assert requests.Requests(server, folder).look(said.append) is None
    assert (server.server.table.next, said) == (before, [])
    assert [path.name for path in folder.glob("request.*")] == ["request.folder"]
    outcomes = [json.loads(path.read_text()) for path in folder.glob("reply.*")]
    assert len(outcomes) == len(ODD) + 2
    assert all(list(outcome) == ["error"] for outcome in outcomes)


def test_a_request_is_not_done_twice_by_a_server_that_is_killed_in_between(
    states, server, monkeypatch
):
    folder, before = states / "server", server.server.table.next
    (folder / "request.1").write_text('{"act": "add", "count": 1}')

    def killed(path, data):
        raise KeyboardInterrupt

    monkeypatch.setattr(requests.records, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        requests.Requests(server, folder).look(print)
    monkeypatch.undo()
    requests.Requests(server, folder).look(print)
    assert server.server.table.next == before + 1


def test_the_order_of_numbers_does_not_matter_and_twice_is_once(states, psofed):
    done = psofed("deploy", "fleet", "add", states / "server", 7, 6, 7)
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["6", "7"]


def test_two_commands_at_once_are_both_done_without_a_server(states):
    """The second finds the folder in use, but not by a server that would answer."""
    state, found = states / "server", []

    def ask():
        found.extend(requests.ask(state, {"act": "add", "count": 1}))

    thread = threading.Thread(target=ask)
    with running(state):
        thread.start()
        wait_for(lambda: list(state.glob("request.*")))
    thread.join(10)
    assert found == ["client 6 is a member from round 7 on"]
    assert requests.members(state)["counts"]["member"] == 5
    assert not list(state.glob("request.*"))


def test_a_command_that_is_not_answered_says_whether_something_may_have_changed(states):
    state = states / "server"
    with running(state):
        with pytest.raises(InputError, match="nothing was changed"):
            requests.ask(state, {"act": "add", "count": 1}, patience=0.1)
        assert not list(state.glob("request.*"))

        def take():
            wait_for(lambda: list(state.glob("request.*")))
            next(state.glob("request.*")).unlink()

        thread = threading.Thread(target=take)
        thread.start()
        with pytest.raises(InputError, match="see `psofed deploy fleet list`"):
            requests.ask(state, {"act": "add", "count": 1}, patience=1.0)
        thread.join()
