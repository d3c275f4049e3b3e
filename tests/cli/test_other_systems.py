"""What a system without POSIX can do: all but servers, clients and keys, which say so in a line."""

import subprocess
import sys

import pytest

BLOCKED = """
import sys
sys.modules["fcntl"] = None
from psofed.cli import main
main.main(sys.argv[1:])
"""
SETTINGS = {
    "clients": 4, "rounds": 10, "runs": 1, "cohort": 2, "test_samples": 20, "features": {"dim": 8},
    "methods": [{"name": "psofed", "shared": 4}],
}  # fmt: skip


def elsewhere(*words, folder, program=BLOCKED):
    return subprocess.run(
        [sys.executable, "-c", program, *words], cwd=folder, capture_output=True, text=True
    )


@pytest.fixture
def folder(tmp_path, file):
    file("tiny.toml", **SETTINGS)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["deploy", "serve", "tiny.toml", "--state", "s", "--broker", "mqtt://127.0.0.1:1"],
        ["deploy", "client", "tiny.toml", "--id", "0", "--state", "s", "--broker", "mqtt://127.0.0.1:1"],
        ["demo"],
    ],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_what_needs_locks_says_so_in_one_line(folder, words):
    done = elsewhere(*words, folder=folder)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("psofed: this system has no file locks of POSIX")
    assert "Linux or macOS" in line


@pytest.mark.parametrize(
    "words",
    [
        ["run", "tiny.toml", "--runs", "1"],
        ["study", "verify", "tiny.toml"],
        ["study", "privacy", "tiny.toml", "--rounds", "5"],
        ["check", "mine.py"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_needs_none_works(folder, words):
    if words[0] == "check":
        assert elsewhere("init", "mine.py", "--preset", "learner", folder=folder).returncode == 0
    done = elsewhere(*words, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_demo_says_what_is_missing_before_an_address(folder):
    missing = BLOCKED.replace('["fcntl"]', '["paho"]')
    done = elsewhere("demo", folder=folder, program=missing)
    assert done.returncode == 2
    assert "pip install '.[deploy]'" in done.stderr
    assert "http" not in done.stdout
