"""Years in the field: real processes whose output nobody reads, that are asked, and that end."""

import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

from helpers.devices import free_port, wait_for
from helpers.loopback import World, disk, plan
from helpers.runs import SMALL
from psofed.cli import logs
from psofed.cli.serve import global_answers
from psofed.errors import InputError
from psofed.federation.records import unpack
from psofed.fleet import client_loop, mqtt, queries, requests
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.member import Member
from psofed.fleet.queries import ask
from psofed.stages.mix import MixOptions

LIVE = SMALL.replace("[deploy]", '[deploy]\nclock = "live"')


@pytest.fixture
def client(start, tmp_path):
    """`client(*more, **pipes)`: a live client that reads lines, without a broker."""
    (tmp_path / "run.toml").write_text(LIVE)

    def begin(*more, **pipes):
        url = f"mqtt://127.0.0.1:{free_port()}"
        words = ("deploy", "client", "run.toml", "--id", 0, "--state", "s", "--broker", url)
        begun = start(*words, "--stream", "-", *more, **{"stdin": subprocess.PIPE} | pipes)
        wait_for(lambda: (tmp_path / "s" / "ask").exists())
        return begun

    return begin


def tell(process, *rows):
    process.stdin.write("".join(json.dumps(row) + "\n" for row in rows))
    process.stdin.flush()


def ended(process, seconds=20):
    """What it ends with, asked by SIGTERM."""
    process.terminate()
    return process.wait(seconds)


def samples(count):
    rng = np.random.default_rng(0)
    return [{"x": x.tolist(), "y": float(x.sum())} for x in rng.normal(size=(count, 4))]


@pytest.fixture
def unread():
    """The end of a pipe that is full, and that nobody reads."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while os.write(write, b"-" * 4096):
            pass
    os.set_blocking(write, True)
    yield write
    os.close(read)
    os.close(write)


def test_answers_that_nobody_reads_stop_neither_learning_nor_the_end(client, unread, tmp_path):
    log = tmp_path / "log"
    with log.open("w") as file:
        device = client(stdout=unread, stderr=file)
    for row in samples(1200):
        tell(device, {"x": row["x"]}, row)
    tell(device, {"x": [1]})
    wait_for(lambda: "1 inputs instead of 4; skipped" in log.read_text())
    assert ask(tmp_path / "s", id=1, x=[1, 1, 1, 1])["low"] is not None
    assert ended(device) == 0
    assert "1,200 labels were inside" in log.read_text()
    assert "output is not read: " in log.read_text()


def test_a_log_that_nobody_reads_keeps_nobody_from_learning_or_from_the_end(
    client, unread, start, broker, tmp_path
):
    device = client(stderr=unread)
    tell(device, *samples(20))
    wait_for(lambda: ask(tmp_path / "s", id=1, x=[1, 1, 1, 1])["low"] is not None)
    assert ended(device) == 0
    words = ("deploy", "serve", "run.toml", "--state", "server", "--broker", broker.url)
    quick = ("--set", "every=0", "--set", "deadline=0.01")
    server = start(*words, *quick, stdout=unread, stderr=unread)
    wait_for(lambda: (tmp_path / "server" / "record.0").exists())
    wait_for(lambda: requests.members(tmp_path / "server")["round"] > 5)
    assert ended(server) == 0


def test_a_client_ends_while_its_broker_does_not_answer(start, tmp_path):
    """A port that takes connections and says nothing, and a host that is not there."""
    (tmp_path / "run.toml").write_text(LIVE)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        for who in (f"127.0.0.1:{deaf.getsockname()[1]}", "192.0.2.1:1883"):
            state = f"s{who}".replace(":", "-")
            device = start("deploy", "client", "run.toml", "--id", 0, "--state", state, "--plain",
                           "--broker", f"mqtt://{who}")  # fmt: skip
            wait_for(lambda state=state: (tmp_path / state / "ask").exists())
            time.sleep(0.2)
            assert ended(device) == 0


def test_outputs_that_nobody_reads_are_given_up_together_and_soon(unread, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(logs, "sleep", lambda seconds: now.append(now.pop() + seconds))
    monkeypatch.setattr(logs.Outlet, "_write", lambda self: None)
    with open(os.dup(unread), "w") as pipe:
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, pipe)
        with logs.kept("text"):
            logs.say("one")
            logs.out("two")
    assert now[0] + client_loop.LAST + mqtt.LAST < 1.4


def test_what_others_ask_is_answered_at_once_and_changes_nothing_that_is_learned(client, tmp_path):
    """Asked between all samples, or not at all; samples that come together may round otherwise."""
    found, state = {}, tmp_path / "s"
    for asking in (False, True):
        log = tmp_path / f"log{asking}"
        with log.open("w") as file:
            device = client(stderr=file, stdout=subprocess.DEVNULL)
        for i, row in enumerate(samples(60)):
            tell(device, row)
            if asking:
                other = ask(state, id=i, x=[9, 9, 9, 9]), ask(state, id="again", x=row["x"])
                tell(device, {"x": row["x"], "ask": True})
                assert [answer["id"] for answer in other] == [i, "again"]
                assert other[0].keys() == {"id", "y", "low", "high"}
        device.stdin.close()
        wait_for(lambda log=log: "have ended after" in log.read_text())
        assert ended(device) == 0
        assert not (state / "ask").exists()
        found[asking] = unpack((state / "record.1").read_bytes()).arrays  # that of its end
        state.rename(tmp_path / f"was{asking}")
    for name, array in found[False].items():
        np.testing.assert_allclose(found[True][name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("mix", [None, MixOptions()])
def test_what_if_changes_no_bit_of_what_is_learned(mix):
    rows, records = samples(40), []
    for asks in (0, 3):
        member = Member(plan(Deploy(clock="live"), mix=mix), 0, disk())
        for row in rows:
            x = np.array([row["x"]])
            for _ in range(asks):
                assert member.what_if(x[0] + 1).labels == member.confidence.labels
            assert member.answer(x[0]) == member.what_if(x[0])
            member.client.learn(x, np.array([row["y"]]))
        member.save()
        records.append(member.store.disk.files)
    assert records[0] == records[1]


def test_a_question_that_makes_no_sense_is_told_so_and_the_next_one_answered(client, tmp_path):
    client(stderr=subprocess.DEVNULL)
    state = tmp_path / "s"
    for wrong, said in (
        ({"x": [1, 2]}, "2 inputs instead of 4"),
        ({"x": [1, 2, 3, "a"]}, "not a number"),
        ({"x": [1, 2, 3, 1e300]}, "above 1e+09"),
        ({"row": {"a": 1}}, "a JSON line is"),
        ({}, "a question has"),
    ):
        answer = ask(state, id=3, **wrong)
        assert answer["id"] == 3
        assert said in answer["error"]
    with socket.socket(socket.AF_UNIX) as raw:
        os.chdir(state)
        raw.connect("ask")
        raw.sendall(b'[\n{"id": 1, "x": [0, 0, 0, 0]}\n')
        lines = raw.makefile()
        assert json.loads(lines.readline()) == {"id": None, "error": "the line is not JSON"}
        assert json.loads(lines.readline())["y"] == 0
    assert state.stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="has nobody that answers"):
        ask(tmp_path, x=[1])


def test_programs_that_ask_nothing_for_long_make_room_for_others(tmp_path, monkeypatch):
    monkeypatch.setattr(queries, "IDLE", 0.01)
    asked = queries.Questions(tmp_path, lambda row: {"y": 1.0})
    asked.open()
    for _ in range(queries.MOST + 1):
        with socket.socket(socket.AF_UNIX) as idle:
            idle.settimeout(20)
            idle.connect(str(asked.path))
            assert idle.recv(1) == b""
    asked.close()


def test_the_server_answers_from_the_global_model():
    world = World(rounds=40)
    world.rounds(6)
    task, x = world.plan.method().task, np.ones(4)
    y = world.model @ task.features(x[None])[0]
    assert global_answers(world.server)({"x": x.tolist()}) == {"y": pytest.approx(y), "round": 6}


def test_every_line_of_a_json_log_is_json_and_a_quiet_one_has_warnings_only(client, tmp_path):
    found = {}
    for form in ("json", "quiet", "text"):
        with (tmp_path / form).open("w") as log:
            device = client("--set", f"log={form}", stderr=log)
            tell(device, {"x": [1]})
            wait_for(lambda form=form: "1 inputs" in (tmp_path / form).read_text())
            assert ended(device) == 0
        found[form] = (tmp_path / form).read_text().splitlines()
    tables = [json.loads(line) for line in found["json"]]
    assert {table["level"] for table in tables} == {"info", "warning"}
    assert len(found["quiet"]) == sum(table["level"] == "warning" for table in tables)
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (Info|Warning): "
    assert all(re.match(stamp, line) for line in found["text"] + found["quiet"])


def test_a_disk_that_fails_is_told_from_a_wrong_option_by_the_exit_code(start, tmp_path):
    (tmp_path / "run.toml").write_text(LIVE)
    words = ("deploy", "client", "run.toml", "--id", 0, "--broker", "mqtt://127.0.0.1:1")
    quiet = {"stderr": subprocess.DEVNULL}
    assert start(*words, "--state", "run.toml", **quiet).wait(20) == 2
    assert start(*words, "--state", "/proc/psofed", **quiet).wait(20) == 2

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    device = start(*words, "--state", "s", "--stream", "-", stdin=subprocess.PIPE,
                   preexec_fn=full, **quiet)  # fmt: skip
    assert device.wait(20) == 3
