"""Real processes and a real broker: equal to the engine, whatever is killed on the way."""

import json
import random
import re
import subprocess
import threading
import time

import numpy as np
import pytest

from helpers.devices import free_port, wait_for
from helpers.runs import FULL, LIVE, SMALL, assert_equal_to_the_engine
from psofed.fleet import client_loop
from psofed.fleet.address import Address
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.samples import Sample

MASKED = """
clients = 5
cohort = 4
rounds = 20
dtype = "float64"
features = { dim = 20 }
methods = [{ name = "psofed", shared = 4, scheme = "coordinated" }]
privacy = { masks = true }
deploy = { run = "m", wire = "float64" }
"""


def committed(team):
    return len(re.findall(r"^round ", team.log("server"), re.M))


@pytest.mark.long
def test_killed_many_times_server_and_clients_still_equal_the_engine(team, broker):
    chance = random.Random(1)
    text = FULL.replace("clients = 10", "clients = 5").replace("rounds = 200", "rounds = 120")
    run = team(text, broker.url, serve=("--set", "every=0.03"))
    run.start("server", *range(5))
    wait_for(lambda: committed(run) > 2)
    for _ in range(6):
        before = committed(run)
        for who in ("server", chance.randrange(5)):
            run.kill(who)
            run.start(who)
        wait_for(lambda b=before: committed(run) > b, 60)  # so that every kill meets a live one
    server = run.running["server"]
    run.finish(120)
    assert server.returncode == 0
    rounds = [int(n) for n in re.findall(r"^round (\d+)", run.log("server"), re.M)]
    assert sorted(set(rounds)) == rounds, "a committed round is never repeated"
    assert_equal_to_the_engine(run, 120)


@pytest.mark.long
def test_a_broker_that_goes_and_comes_back_changes_nothing(team, broker):
    run = team(f"{SMALL}qos = 1\n", broker.url, serve=("--set", "every=0.05"))
    run.start("server", 0, 1, 2)
    wait_for(lambda: committed(run) > 5)
    broker.stop()
    time.sleep(0.5)
    broker.start()
    run.finish()
    assert "no broker at mqtt://127.0.0.1" in run.log("server")
    assert "still learning" in run.log(0)
    assert_equal_to_the_engine(run, 40)


def test_the_embedded_broker_needs_nothing_and_gives_the_same(team):
    port = free_port()
    run = team(SMALL, f"mqtt://127.0.0.1:{port}")
    run.start(*range(3))
    run.url, run.serve = "", ("--listen", f"127.0.0.1:{port}", "--set", "log=json")
    run.start("server")
    run.finish()
    rows = [json.loads(line) for line in run.log("server").splitlines() if line.startswith("{")]
    assert [row["n"] for row in rows] == list(range(40))
    assert rows[-1]["mse_db"] < rows[0]["mse_db"]
    assert rows[-1]["total_accepted"] == 80
    assert np.isfinite(np.load(run.folder / "server" / "model.npy")).all()
    assert_equal_to_the_engine(run, 40)


def test_a_deadline_goes_on_without_those_who_are_gone_and_sigterm_ends_in_order(team, broker):
    run = team(SMALL, broker.url, serve=("--set", "deadline=0.3", "--rounds", "6"))
    run.start(1, "server")
    wait_for(lambda: run.running["server"].poll() is not None, seconds=60)
    process = run.running[1]
    process.terminate()
    assert process.wait(10) == 0
    assert "Stopped after" in run.log(1)
    assert "missing 0, 2" in run.log("server") or "missing 0" in run.log("server")
    assert "Traceback" not in run.log("server") + run.log(1)


def test_a_live_client_learns_from_lines_and_answers_questions(start, tmp_path, team, broker):
    run = team(LIVE, broker.url, serve=("--set", "deadline=0.5", "--set", "every=0.1"))
    run.start("server")
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    to = ("--broker", broker.url, "--state", tmp_path / "live", "--stream", "-")
    client = start("deploy", "client", run.file, "--id", 0, *to, **pipes)
    for i in range(200):
        print(json.dumps({"x": [i / 100, 1, 2, 3], "y": 1.5}), file=client.stdin)
    print("1,1,2\n{broken\nnan,1,2,3,4\n1.99,1,2,3", file=client.stdin, flush=True)
    answer = json.loads(client.stdout.readline())
    wait_for(lambda: re.search(r"^round \d+: 1 of", run.log("server"), re.M))
    client.terminate()
    said = client.communicate(timeout=20)[1]
    assert client.returncode == 0
    assert abs(answer["y"] - 1.5) < 1, "learned, though a round may have come in between"
    assert answer["low"] < answer["y"] < answer["high"]
    assert re.search(r"^[01]\.\d{3} of 200 labels were inside the interval of 0\.9$", said, re.M)
    for part in ("line 201: 3 values in", "line 202", "line 203: a value is not finite", "3 so"):
        assert part in said
    assert "Stopped after 200 samples" in said


def test_a_device_learns_from_any_iterator(tmp_path, team, broker):
    run = team(LIVE, broker.url, serve=("--set", "deadline=0.5", "--set", "every=0.1"))
    run.start("server")
    samples = (Sample(np.full(4, i / 50), 2.0) for i in range(100))
    plan = plans.read(run.file)
    device = client_loop.device(plan, 0, tmp_path / "own", Address.parse(broker.url), samples)
    thread = threading.Thread(target=device.run)
    thread.start()
    wait_for(lambda: device.member.client.last_round >= 0 and device.member.client.position == 100)
    device.stop()
    thread.join(10)
    assert not thread.is_alive()
    device.member.store.disk.close()
    again = client_loop.device(plan, 0, tmp_path / "own", Address.parse(broker.url)).member
    assert again.client.position == 100
    again.store.disk.close()


@pytest.fixture
def masked(tmp_path, broker, team, psofed):
    """A team whose clients have mask keys."""
    (tmp_path / "run.toml").write_text(MASKED)
    assert psofed("deploy", "keys", "make", "run.toml").returncode == 0
    for k in range(5):
        assert psofed("deploy", "keys", "add", k).returncode == 0
    return team(MASKED, broker.url, client=("--ca", tmp_path / "keys" / "ca.pem"))


@pytest.mark.long
def test_after_kills_of_everybody_the_masked_sums_give_the_model_of_the_simulation(masked):
    masked.start("server", *range(5))
    for who in (1, "server"):
        reached = committed(masked)
        wait_for(lambda reached=reached: committed(masked) > reached + 2)
        masked.kill(who)
        masked.start(who)
    masked.finish()
    assert_equal_to_the_engine(masked, 20)
