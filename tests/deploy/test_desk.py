"""What operators ask of a folder by mistake is refused in one line, and nothing has changed."""

import json
import shutil
import threading
import tomllib
from contextlib import contextmanager

import pytest

from helpers.devices import wait_for
from helpers.loopback import plan, play
from psofed.deploy import muster
from psofed.deploy.samples import replay
from psofed.protocol.client import Member
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.store import StateFolder


@pytest.fixture
def states(tmp_path):
    """The folders of a server at round 6, with snapshots of 1 and 4, of a copy, and of clients."""
    given = plan(rounds=100)
    count = given.experiment.clients
    folders = [StateFolder(tmp_path / f"client{k}") for k in range(count)]
    members = [Member(given, k, folders[k], replay(given.experiment, k)) for k in range(count)]
    folders.append(StateFolder(tmp_path / "server"))
    server = Coordinator(given, folders[-1])
    server.snapshots.every = 4
    for folder in folders:
        given.keep(folder)
    server.change("add", [5])
    server.change("remove", [5])
    server.change("exclude", [4])
    for _ in range(6):
        play(server, members)
    for folder in folders:
        folder.close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "run.toml").write_text("")
    return tmp_path


@contextmanager
def running(path):
    """Another process uses the folder."""
    folder = StateFolder(path)
    try:
        yield
    finally:
        folder.close()


NONE = "is no state folder of a server; give the folder that `psofed serve --state` was given"
MISTAKES = [
    ("fleet list nowhere", f"nowhere {NONE}"),
    ("fleet list empty", f"empty {NONE}"),
    ("fleet list run.toml", f"run.toml {NONE}"),
    ("fleet list client0", "client0 is the state folder of client 0; give the folder that"),
    ("fleet add client0", "client0 is the state folder of client 0; give the folder that"),
    ("fleet add server 0", "client 0 is a member already; use 6 or more"),
    ("fleet add server 4", "client 4 is excluded; use 6 or more"),
    ("fleet add server 5", "client 5 is removed; use 6 or more: numbers are never used again"),
    ("fleet add server 7 --count 2", "--count is given with numbers; give one of them"),
    ("fleet remove server 9", "client 9 is no member; name a member"),
    ("fleet remove server 5", "client 5 is removed; name a member"),
    ("fleet exclude server 4", "client 4 is excluded; name a member"),
    ("fleet exclude server 0 1 2 3", "client 3 is the last member in round 6; add another first"),
    ("fleet readmit server 0", "client 0 is a member already; name one that is excluded"),
    ("restore client0", "client0 is the state folder of client 0; give the folder that"),
    ("restore empty --list", f"empty {NONE}"),
    ("restore client0 --list", "client0 is the state folder of client 0; give the folder that"),
    ("restore server --round 3", "--round is 3, of which there is no snapshot; use one of the last: 1, 4"),
    ("restore server --without 1", "--round is missing; give it with --without"),
    ("restore server --round 4 --without 9", "--without is 9, but no answer of that client was"),
]  # fmt: skip


def test_mistakes_are_refused_in_one_line_that_says_what_is_right(states, psofed):
    before = muster.read(states / "server")
    for words, said in MISTAKES:
        done = psofed(*words.split())
        assert (done.returncode, done.stdout) == (2, ""), words
        assert said in done.stderr, words
        assert len(done.stderr.splitlines()) == 1, words
        assert not (states / "nowhere").exists()
        assert list((states / "empty").iterdir()) == [], words
    assert muster.read(states / "server") == before


def test_a_running_client_is_not_taken_for_a_server(states, psofed):
    with running(states / "client0"):
        done = psofed("fleet", "add", "client0")  # a server would be waited for
    assert "client0 is the state folder of client 0" in done.stderr


def test_a_running_server_is_not_put_back_as_a_copy(states, psofed):
    with running(states / "server"):
        done = psofed("restore", "server")
    assert done.returncode == 2
    assert "server is in use by a server; stop it, or give --round to go back" in done.stderr


def test_a_copy_does_not_do_again_what_was_asked_of_the_first(states, psofed):
    shutil.copytree(states / "server", states / "copy")
    (states / "copy" / "wish.1").write_text(json.dumps({"act": "add", "count": 1}))
    assert "The copy has round 6." in psofed("restore", "copy").stdout
    assert not list((states / "copy").glob("wish.*"))


def test_the_rounds_to_go_back_to_are_listed(states, psofed):
    assert psofed("restore", "server", "--list").stdout == "1 4\n"
    for path in (states / "server").glob("snapshot.*"):
        path.unlink()
    assert psofed("restore", "server", "--list").stdout == "There is no snapshot yet.\n"


def test_members_are_counted_and_listed(states, psofed):
    first, head, *rows = psofed("fleet", "list", "server").stdout.splitlines()
    assert first == "Round 6: 4 members, 1 excluded, 1 removed"
    assert head.split() == ["client", "standing", "since", "answers", "last", "lost"]
    assert [row.split()[:2] for row in rows[3:]] == [
        ["3", "member"], ["4", "excluded"], ["5", "removed"],
    ]  # fmt: skip


def test_a_copy_of_a_running_folder_can_be_read_if_the_records_come_first(tmp_path, psofed):
    """docs/operations.md: a server closes rounds and changes its fleet while it is copied."""
    given, done = plan(rounds=10_000), threading.Event()
    folder = StateFolder(tmp_path / "server")
    server = Coordinator(given, folder)
    given.keep(folder)
    server.change("add", [5])

    def serve():
        for k in range(6, 10_000):
            if done.is_set():
                return
            server.change("add", [k])
            server.commit()
            server.change("remove", [k])

    thread = threading.Thread(target=serve)
    thread.start()
    rounds = []
    try:
        for i in range(12):
            wait_for(lambda i=i: server.n > i)
            copy = tmp_path / f"copy{i}"
            copy.mkdir(mode=0o700)
            for name in ("record.0", "record.1", "run.toml", "fleet.jsonl"):
                shutil.copy(tmp_path / "server" / name, copy)
    finally:
        done.set()
        thread.join()
        folder.close()
    for i in range(12):
        copied = muster.read(tmp_path / f"copy{i}")
        rounds.append(copied["round"])
        text = psofed("fleet", "list", f"copy{i}", "--toml").stdout
        changes = tomllib.loads(text)["fleet"]
        added, gone = (sum(act in change for change in changes) for act in ("add", "remove"))
        assert added - gone + 5 == copied["counts"]["member"]
        assert f"The copy has round {rounds[-1]}." in psofed("restore", f"copy{i}").stdout
    assert rounds == sorted(rounds)
    assert rounds[-1] > rounds[0]
