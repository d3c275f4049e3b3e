"""Frames that were captured at a broker."""

import sys

import captured_frames
import pytest

from helpers.devices import Team, wait_for
from helpers.processes import end_in_order, start
from psofed.errors import InputError

RUN = """
clients = 2
cohort = 2
rounds = 8
[features]
dim = 60
[[methods]]
name = "psofed"
shared = 30
scheme = "coordinated"
[deploy]
run = "p"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


def test_frames_of_a_real_broker_are_attacked(file, broker, mosquitto_sub, tmp_path):
    words = (
        captured_frames.CAPTURE.partition(" > ")[0].replace("HOST", "127.0.0.1").replace("RUN", "p")
    )
    words = words.replace("-h 127.0.0.1", f"-h 127.0.0.1 -p {broker.port}")
    team = Team(tmp_path, file, broker.url)
    with (tmp_path / "frames.jsonl").open("wb") as frames:
        listener = start(
            "sh", "-c", f"exec {words.replace('mosquitto_sub', mosquitto_sub)}", stdout=frames
        )
    try:
        wait_for(lambda: "as" in (tmp_path / "mosquitto.log").read_text())
        for who in (0, 1, "server"):
            team.start(who)
        wait_for(lambda: team.running["server"].poll() is not None, 60)
    finally:
        team.stop()
        end_in_order([listener], 10)
    found = captured_frames.attacked(file, tmp_path / "frames.jsonl", 3)
    assert (found.methods[0].read, found.rounds, found.methods[0].samples) == (1.0, 8, 16)


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (None, "cannot be read"),
        ("not a message\n", "line 1 is no message"),
        ('{"topic": "p/0/u", "payload": "00"}\n', "has no invitation of this run"),
    ],
)
def test_what_holds_no_frames_of_the_run_is_refused_in_a_line(
    file, tmp_path, monkeypatch, capsys, frames, said
):
    path = tmp_path / "frames.jsonl"
    if frames is not None:
        path.write_text(frames)
    monkeypatch.setattr(sys, "argv", ["captured_frames.py", str(file), str(path)])
    with pytest.raises(SystemExit) as ended:
        captured_frames.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_frames_of_a_live_run_are_not_judged(file, tmp_path):
    file.write_text(RUN + 'clock = "live"\n')
    with pytest.raises(InputError, match=r"deploy\.clock"):
        captured_frames.attacked(file, tmp_path / "frames.jsonl", 3)
