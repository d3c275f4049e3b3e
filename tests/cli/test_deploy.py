"""`serve`, `client` and `demo` as people use them: mistakes, and the proof at the end."""

import re
import signal
import socket
import subprocess

import pytest

from helpers.command import wrong
from helpers.devices import wait_for
from helpers.runs import SMALL

HERE = "--broker mqtt://127.0.0.1:1"
FAR = "--broker mqtt://broker.example"
TLS = "--broker mqtts://127.0.0.1:1"
FILES = {
    "a.toml": SMALL,
    "b.toml": SMALL + "[deploy.more]\n",
    "many.toml": "clients = 5\n",
    "bad.csv": "a,b,c,d,y\n1,2,3,4,5\n1,2,x,4,5\n",
    "few.csv": "1,2,3,4,5\n",
    "big.csv": "1,2,3,4,5\n" * 39 + "1,2,3,4,5e20\n",
}
MISTAKES = [
    (f"client a.toml --id -7 {HERE}", ["--id is '-7'", "0 to 2"]),
    (f"client b.toml --id 0 {HERE}", ["b.toml", "deploy.more is not a known key"]),
    (f"client many.toml --id 0 {HERE}", ["methods has 7 tables", "[deploy]"]),
    ("client a.toml --id 0 --broker host", ["mqtt://HOST"]),
    (f"client a.toml --id 0 {FAR}", ["plain text", "--plain"]),
    (f"serve a.toml {FAR}", ["plain text", "--plain"]),
    (f"serve a.toml {HERE} --dashboard 0.0.0.0:0", ["can be read by everybody there", "--plain"]),
    (f"serve a.toml {HERE} --dashboard here", ["--dashboard is 'here'", "HOST:PORT"]),
    (f"client a.toml --id 0 {HERE} --stream -", ['clock = "live"']),
    (f"client a.toml --id 0 {HERE} --stream no.csv", ["no.csv: cannot be read"]),
    (f"client a.toml --id 0 {HERE} --stream bad.csv", ["bad.csv: line 3"]),
    (f"client a.toml --id 0 {HERE} --stream few.csv", ["has 1 samples"]),
    (f"client a.toml --id 0 {HERE} --stream big.csv", ["sample 39 a value is"]),
    (f"client a.toml --id 0 {TLS}", ["needs certificates"]),
    (f"serve a.toml {HERE} --rounds 41", ["--rounds is 41"]),
    (
        f"serve a.toml {HERE} --set patience=2",
        ["deploy.patience is 2, but in lockstep the whole cohort is waited"],
    ),
    (f"serve a.toml {HERE} --set every=nan", ["--set every is nan; use 0 or more"]),
    (f"serve a.toml {HERE} --set deadline=nan", ["--set deadline is nan; use a number above 0"]),
    (f"serve a.toml {HERE} --set start=0", ["--set start is 0"]),
    (f"serve a.toml {HERE} --set qos=2", ["--set qos is 2; use 1 at most"]),
    (f"serve a.toml {HERE} --set evry=1", ["--set evry is not a known key; did you mean 'every'?"]),
    (f"client a.toml --id 0 {HERE} --set rate=nan", ["--set rate is nan"]),
    (f"client a.toml --id 0 {HERE} --set interval=0.7", ["--set interval is 0.7; use 0.5"]),
    (f"serve a.toml {HERE} --ca x", ["belong together"]),
    (f"serve a.toml {HERE} --state a.toml/x", ["cannot be used"]),
]


def test_mistakes_are_one_clear_line_each(psofed, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for number, (words, parts) in enumerate(MISTAKES):
        # A folder of its own for each: here no process ends that would leave the last one free.
        state = () if "--state" in words else ("--state", f"s{number}")
        result = psofed("deploy", *words.split(), *state)
        wrong(result, *parts)
        assert result.stderr.count("\n") == 1 + ("--plain" in words), result.stderr
        if words.startswith("serve"):
            assert not (tmp_path / f"s{number}").exists(), "before anything else starts"


def test_a_port_that_is_taken_is_one_clear_line(process, tmp_path):
    (tmp_path / "a.toml").write_text(SMALL)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        serve = ("deploy", "serve", "a.toml", "--state", "s", *HERE.split())
        wrong(process(*serve, "--dashboard", port), f"cannot listen at 127.0.0.1:{port}")
        assert not (tmp_path / "s").exists()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_demo_that_is_ended_in_any_way_ends_what_it_started(start, tmp_path, mosquitto, number):
    demo = start("demo", "--rounds", 5000, "--keep", tmp_path / "d", stderr=subprocess.PIPE)
    logs = [tmp_path / "d" / f"{who}.log" for who in ("server", *range(10))]
    wait_for(lambda: all(log.exists() and "connected" in log.read_text() for log in logs), 60)
    demo.send_signal(number)
    assert "Traceback" not in demo.communicate(timeout=60)[1]
    assert demo.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    wait_for(lambda: all("Stopped" in log.read_text() for log in logs), 20)


@pytest.mark.long
def test_the_demo_ends_with_the_proof(process, mosquitto):
    result = process("demo", "--rounds", 60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("The deployment equals the simulation.\n")
    assert "240 of 240 uploads folded in" in result.stdout
    assert result.stderr.count("kill -9 the server") == 2
    assert "kill -9 client 3" in result.stderr
    assert re.search(r"Dashboard at http://127\.0\.0\.1:\d+/", result.stderr)
