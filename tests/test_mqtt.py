"""Real processes and a real broker: equal to the engine, whatever is killed on the way."""

import json
import random
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from devices import Mosquitto, Team, free_port, mosquitto, wait_for
from psofed.deploy import join
from psofed.deploy import plan as plans
from psofed.deploy.mqtt import Address
from psofed.deploy.sources import Sample
from psofed.report.twin import deployed, simulate

FULL = """
clients = 10
rounds = 200
cohort = 4
dtype = "float64"
test_samples = 100
[features]
dim = 200
[[methods]]
name = "psofed"
shared = 40
[deploy]
wire = "float64"
"""
SMALL = (
    FULL.replace("clients = 10", "clients = 3")
    .replace("cohort = 4", "cohort = 2")
    .replace("rounds = 200", "rounds = 40")
)
LIVE = SMALL.replace('wire = "float64"', 'clock = "live"')
needs_mosquitto = pytest.mark.skipif(not mosquitto(), reason="mosquitto is not installed")


@pytest.fixture
def broker(tmp_path):
    started = Mosquitto(tmp_path)
    yield started
    started.stop()


@pytest.fixture
def team(tmp_path):
    made = []

    def make(text, url, **options):
        file = tmp_path / "run.toml"
        file.write_text(text)
        made.append(Team(tmp_path, file, url, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def committed(team):
    return len(re.findall(r"^round ", team.log("server"), re.M))


def assert_equal_to_the_engine(team, rounds):
    plan = plans.read(team.file)
    folders = [team.folder / str(k) for k in range(plan.experiment.clients)]
    server, local = deployed(plan, team.folder / "server", folders)
    assert server.n == rounds
    w, expected = simulate(plan, rounds)
    assert np.abs(server.state["w"] - w).max() <= 1e-12
    assert np.abs(local - expected).max() <= 1e-12
    counts = server.ledger.counts
    assert counts["accepted"] == counts["asked"] == rounds * plan.experiment.cohort
    assert counts["refused"] == counts["lost"] == 0


@needs_mosquitto
def test_killed_twenty_times_each_server_and_clients_still_equal_the_engine(team, broker):
    chance, kills = random.Random(1), {"server": 0, "client": 0}
    run = team(FULL, broker.url, serve=("--every", "0.1"))
    for who in ("server", *range(10)):
        run.start(who)
    wait_for(lambda: committed(run) > 2)
    while kills["server"] < 20 or kills["client"] < 20:
        for kind, who in (("server", "server"), ("client", chance.randrange(10))):
            if kills[kind] < 20:
                run.kill(who)
                kills[kind] += 1
                run.start(who)
        time.sleep(chance.uniform(0.1, 1.0))
        assert committed(run) < 200, "the kills must come while it runs"
    wait_for(lambda: run.running["server"].poll() is not None, seconds=120)
    assert run.running.pop("server").returncode == 0
    run.stop()
    rounds = [int(n) for n in re.findall(r"^round (\d+)", run.log("server"), re.M)]
    assert sorted(set(rounds)) == rounds, "a committed round is never repeated"
    assert_equal_to_the_engine(run, 200)


@needs_mosquitto
@pytest.mark.parametrize("qos", [0, 1])
def test_a_broker_that_goes_and_comes_back_changes_nothing(team, broker, qos):
    run = team(SMALL, broker.url, serve=("--every", "0.05", "--qos", qos), client=("--qos", qos))
    for who in ("server", 0, 1, 2):
        run.start(who)
    wait_for(lambda: committed(run) > 5)
    broker.stop()
    time.sleep(0.5)
    broker.start()
    wait_for(lambda: run.running["server"].poll() is not None, seconds=60)
    run.stop()
    assert "no broker at mqtt://127.0.0.1" in run.log("server")
    assert "learning on" in run.log(0)
    assert_equal_to_the_engine(run, 40)


def test_the_embedded_broker_needs_nothing_and_gives_the_same(team):
    port = free_port()
    run = team(SMALL, f"mqtt://127.0.0.1:{port}")
    for k in range(3):
        run.start(k)
    run.url, run.serve = "", ("--listen", f"127.0.0.1:{port}", "--log-json")
    run.start("server")
    wait_for(lambda: run.running["server"].poll() is not None, seconds=60)
    run.stop()
    rows = [json.loads(line) for line in run.log("server").splitlines() if line.startswith("{")]
    assert [row["n"] for row in rows] == list(range(40))
    assert rows[-1]["mse_db"] < rows[0]["mse_db"]
    assert rows[-1]["total_accepted"] == 80
    assert np.isfinite(np.load(run.folder / "server" / "model.npy")).all()
    assert_equal_to_the_engine(run, 40)


@needs_mosquitto
def test_a_deadline_goes_on_without_those_who_are_gone_and_sigterm_ends_in_order(team, broker):
    run = team(SMALL, broker.url, serve=("--deadline", "0.3", "--rounds", "6"))
    run.start(1)
    run.start("server")
    wait_for(lambda: run.running["server"].poll() is not None, seconds=60)
    process = run.running[1]
    process.terminate()
    assert process.wait(10) == 0
    assert "Stopped after" in run.log(1)
    assert "missing 0, 2" in run.log("server") or "missing 0" in run.log("server")
    assert "Traceback" not in run.log("server") + run.log(1)


@needs_mosquitto
def test_a_live_client_learns_from_lines_and_answers_questions(tmp_path, team, broker):
    run = team(LIVE, broker.url, serve=("--deadline", "0.5", "--every", "0.1"))
    run.start("server")
    command = [sys.executable, "-m", "psofed", "client", run.file, "--id", 0, "--broker",
               broker.url, "--state", tmp_path / "live", "--stream", "-"]  # fmt: skip
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(list(map(str, command)), text=True, **pipes) as client:
        for i in range(200):
            print(json.dumps({"x": [i / 100, 1, 2, 3], "y": 1.5}), file=client.stdin)
        print("1,1,2\n{broken\nnan,1,2,3,4\n1.99,1,2,3", file=client.stdin, flush=True)
        prediction = json.loads(client.stdout.readline())["y"]
        wait_for(lambda: re.search(r"^round \d+: 1 of", run.log("server"), re.M))
        client.terminate()
        said = client.communicate(timeout=20)[1]
    assert client.returncode == 0
    assert abs(prediction - 1.5) < 1, "learned, though a round may have come in between"
    for part in ("line 201: 3 values came", "line 202", "line 203: a value is not finite", "3 so"):
        assert part in said
    assert "Stopped after 200 samples" in said


@needs_mosquitto
def test_a_device_learns_from_any_iterator(tmp_path, team, broker):
    run = team(LIVE, broker.url, serve=("--deadline", "0.5", "--every", "0.1"))
    run.start("server")
    samples = (Sample(np.full(4, i / 50), 2.0) for i in range(100))
    plan = plans.read(run.file)
    device = join.device(plan, 0, tmp_path / "own", Address.parse(broker.url), samples)
    thread = threading.Thread(target=device.run)
    thread.start()
    wait_for(lambda: device.member.client.last_round >= 0 and device.member.client.position == 100)
    device.stop()
    thread.join(10)
    assert not thread.is_alive()
    device.member.store.disk.close()
    again = join.device(plan, 0, tmp_path / "own", Address.parse(broker.url)).member
    assert again.client.position == 100
    again.store.disk.close()


@needs_mosquitto
def test_a_client_of_another_run_or_experiment_is_told_so(tmp_path, team, broker):
    run = team(SMALL, broker.url)
    run.start("server")
    other, lonely = tmp_path / "other.toml", tmp_path / "lonely.toml"
    other.write_text(SMALL.replace("dim = 200", "dim = 100"))
    lonely.write_text(SMALL + 'run = "q"\n')
    for k, file in ((0, other), (1, lonely)):
        run.file = file
        run.start(k)
    wait_for(lambda: "the server runs another experiment" in run.log(0))
    wait_for(lambda: "no server of run q answers" in run.log(1))


def test_mistakes_are_one_clear_line_each(psofed, tmp_path):
    def wrong(*arguments, parts):
        result = psofed(*arguments)
        assert result.returncode == 2, result.stderr
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
        for part in parts:
            assert part in result.stderr

    (tmp_path / "a.toml").write_text(SMALL)
    (tmp_path / "b.toml").write_text(SMALL + "[deploy.more]\n")
    (tmp_path / "many.toml").write_text("clients = 5\n")
    to = ("--state", "s", "--broker", "mqtt://127.0.0.1:1")
    wrong("client", "a.toml", "--id", 7, *to, parts=["--id is 7", "0 to 2"])
    wrong("client", "b.toml", "--id", 0, *to, parts=["b.toml", "deploy.more is not a known key"])
    wrong("client", "many.toml", "--id", 0, *to, parts=["methods has 7 tables", "[deploy]"])
    wrong("client", "a.toml", "--id", 0, "--state", "s", "--broker", "host", parts=["mqtt://HOST"])
    far = ("--state", "s", "--broker", "mqtt://broker.example")
    wrong("client", "a.toml", "--id", 0, *far, parts=["plain text", "--plain"])
    wrong("serve", "a.toml", *far, parts=["plain text", "--plain"])
    wrong("serve", "a.toml", "--state", "s", "--listen", "0.0.0.0:1", parts=["plain text"])
    wrong("client", "a.toml", "--id", 0, *to, "--stream", "-", parts=['clock = "live"'])
    wrong("client", "a.toml", "--id", 0, *to, "--stream", "no.csv", parts=["no.csv cannot be read"])
    (tmp_path / "bad.csv").write_text("a,b,c,d,y\n1,2,3,4,5\n1,2,x,4,5\n")
    wrong("client", "a.toml", "--id", 0, *to, "--stream", "bad.csv", parts=["bad.csv: line 3"])
    (tmp_path / "few.csv").write_text("1,2,3,4,5\n")
    wrong("client", "a.toml", "--id", 0, *to, "--stream", "few.csv", parts=["has 1 samples"])
    wrong("serve", "a.toml", "--state", "a.toml/x", parts=["cannot be used"])
    wrong("serve", "a.toml", "--state", "s", "--rounds", 41, parts=["--rounds is 41"])
    for option in ("--every", "--deadline"):
        result = psofed("serve", "a.toml", *to, option, "nan")
        assert (result.returncode, "not a finite number" in result.stderr) == (2, True)
    assert psofed("client", "a.toml", "--id", 0, *to, "--rate", "nan").returncode == 2
    (tmp_path / "big.csv").write_text("1,2,3,4,5\n" * 39 + "1,2,3,4,5e20\n")
    wrong("client", "a.toml", "--id", 0, *to, "--stream", "big.csv", parts=["sample 39 a value is"])
    wrong("serve", "a.toml", *to, "--ca", "x", parts=["belong together"])
    tls = ("--state", "s", "--broker", "mqtts://127.0.0.1:1")
    wrong("client", "a.toml", "--id", 0, *tls, parts=["needs certificates"])


@needs_mosquitto
def test_a_port_that_is_taken_is_one_clear_line(psofed, tmp_path, broker):
    (tmp_path / "a.toml").write_text(SMALL)
    result = psofed("serve", "a.toml", "--state", "s", "--listen", f"127.0.0.1:{broker.port}")
    assert result.returncode == 2, result.stderr
    assert "cannot be listened at" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_demo_that_is_terminated_ends_what_it_started(tmp_path):
    command = [sys.executable, "-m", "psofed", "demo", "--rounds", "5000", "--keep", tmp_path / "d"]
    demo = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    logs = [tmp_path / "d" / f"{who}.log" for who in ("server", *range(10))]
    wait_for(lambda: all(log.exists() and "connected" in log.read_text() for log in logs), 60)
    demo.terminate()
    assert "Traceback" not in demo.communicate(timeout=60)[1]
    assert demo.returncode == 143
    assert all("Stopped" in log.read_text() for log in logs)


def test_the_demo_ends_with_the_proof(psofed):
    result = psofed("demo", "--rounds", 60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("The deployment equals the simulation.\n")
    assert "240 of 240 uploads folded in" in result.stdout
    assert result.stderr.count("kill -9 the server") == 2
    assert "kill -9 client 3" in result.stderr
