"""An own f and own features from a TOML file, through every command."""

import json

import pytest

from psofed.experiment import read

FILE = """
clients = 4
cohort = 2
rounds = 30
runs = 3
test_samples = 100

[stream]
name = "function"
taps = 3
f = "./mine.py:f"
inputs = "./mine.py:inputs"
noise = [0.005, 0.03]

[features]
name = "./mine.py:z"
dim = 6

[[methods]]
name = "onlinefed"

[[methods]]
name = "psofed"
shared = 2
"""
MINE = """
import numpy as np

def f(x):
    return np.sin(3 * x[..., 0]) + x[..., 1] * x[..., 2]

def inputs(client, count):
    return client.random.uniform(-1, 1, (count, 3))

def z(x):
    return np.concatenate([x, np.sin(3 * x)], axis=-1) / 2
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "own.toml").write_text(FILE)
    return tmp_path


def test_own_functions_run_and_are_reported_and_read_back(psofed, folder):
    done = psofed("run", "own.toml", "--out", "out", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    written = read(folder / "out" / "experiment.toml")  # with copies of the file beside it
    assert written.stream.f.__name__ == "f"
    assert written.features.dim == 6
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["experiment"]["stream"]["taps"] == 3


def test_own_functions_have_a_theory(psofed, folder):
    done = psofed("study", "theory", "own.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "D = 6: sampled" in done.stdout


@pytest.mark.usefixtures("hasty", "sketched")
def test_own_functions_are_compared(psofed, folder):
    done = psofed("compare", "own.toml", "--out", "out", "--runs", "2", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "on the function stream" in done.stdout


WRONG = {
    'f = "./mine.py:g"': "own.toml: stream.f is './mine.py:g', but ./mine.py has no 'g'",
    'f = "sin(3*x1) + x4"': "own.toml: stream.f uses x4, but taps is 3; use x1 to x3",
    'f = "9**9**9"': "own.toml: stream.f has 9**9**9, which is inf; use finite numbers",
    "f = 3": "own.toml: stream.f is 3, a whole number; use a text",
    'f = "./mine.py:z"': "own.toml: stream.f returns an array of shape [1, 6], not [1]",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_f_in_a_file_is_one_line(psofed, folder, line):
    text = FILE.replace('f = "./mine.py:f"', line)
    (folder / "own.toml").write_text(text)
    done = psofed("run", "own.toml", "--out", "out")
    assert done.returncode == 2
    assert WRONG[line] in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "out").exists()


def test_cauchys_noise_and_features_that_are_not_scaled_are_told_before_a_run(psofed, tmp_path):
    cauchy = "def noise(client, count):\n    return client.random.standard_cauchy(count)\n"
    wide = "def wide(x):\n    return 9 * np.concatenate([x, x], axis=-1)\n"
    (tmp_path / "mine.py").write_text(MINE + "\n" + cauchy + "\n" + wide)
    text = FILE.replace("[0.005, 0.03]", '"./mine.py:noise"').replace("py:z", "py:wide")
    (tmp_path / "own.toml").write_text(text.replace('"onlinefed"', '"fedavg"'))
    result = psofed("run", "own.toml", "--rounds", "6", "--runs", "1", "--jobs", "1")
    assert "Warning: stream: its noise seems to have no finite variance" in result.stderr
    assert "Warning: FedAvg E=5: step 0.75 is above the mean-square limit of LMS" in result.stderr
    assert "Warning: PSO-Fed M=2 uncoordinated: step 0.75 is unsafe" in result.stderr
