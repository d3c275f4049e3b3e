"""Real processes and a real broker: equal to the engine, whatever is killed on the way."""

import json
import random
import re
import subprocess
import threading

import numpy as np
import pytest

from helpers.devices import wait_for
from helpers.runs import FULL, LIVE, SMALL, assert_equal_to_the_engine
from psofed.fleet import client_loop
from psofed.fleet.broker import Address
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


def test_what_was_learned_is_exported(team, psofed, broker):
    run = team(SMALL, broker.url, serve=("--set", "log=json"))
    run.start("server", *range(3))
    run.finish()
    rows = [json.loads(line) for line in run.log("server").splitlines() if '"n": ' in line]
    assert [row["n"] for row in rows] == list(range(40))
    assert rows[-1]["mse_db"] < rows[0]["mse_db"]
    assert rows[-1]["total_accepted"] == 80
    assert np.isfinite(np.load(run.folder / "server" / "model.npy")).all()
    assert_equal_to_the_engine(run, 40)
    done = psofed("deploy", "export", "server", "--to", "onnx")
    assert "shared model after 40 rounds" in done.stdout, done.stderr
    done = psofed("deploy", "export", "1", "--to", "c", "--out", "device1.h")
    assert "device1_predict(" in (run.folder / "device1.h").read_text(), done.stderr


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
    assert client.wait(20) == 0, "though its input stays open"
    said = client.communicate(timeout=20)[1]
    assert abs(answer["y"] - 1.5) < 1, "learned, though a round may have come in between"
    assert answer["low"] < answer["y"] < answer["high"]
    assert re.search(r"[01]\.\d{3} of 200 labels were inside the interval of 0\.9$", said, re.M)
    for part in ("line 201: 3 values in", "line 202", "line 203: a value is not finite", "2 mal"):
        assert part in said
    assert "Stopped after 200 samples" in said
    learns_from_an_iterator(plans.read(run.file), Address.parse(broker.url), tmp_path / "own")


def learns_from_an_iterator(plan, broker, state):
    """A device in Python; what it has learned is there when it is started again."""
    samples = (Sample(np.full(4, i / 50), 2.0) for i in range(100))
    device = client_loop.device(plan, 1, state, broker, samples)
    thread = threading.Thread(target=device.run)
    thread.start()
    wait_for(lambda: device.member.client.last_round >= 0 and device.member.client.position == 100)
    device.stop()
    thread.join(10)
    assert not thread.is_alive()
    device.member.store.disk.close()
    again = client_loop.device(plan, 1, state, broker).member
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
