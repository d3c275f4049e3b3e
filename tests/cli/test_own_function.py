"""An own f and own features from a TOML file, through every command."""

import json

import pytest

from helpers.command import wrong
from psofed.experiment import read

SETTINGS = {
    "clients": 4, "cohort": 2, "rounds": 30, "runs": 3, "test_samples": 100,
    "stream": {"name": "function", "taps": 3, "f": "./mine.py:f", "inputs": "./mine.py:inputs",
               "noise": [0.005, 0.03]},
    "features": {"name": "./mine.py:z", "dim": 6},
    "methods": [{"name": "onlinefed"}, {"name": "psofed", "shared": 2}],
}  # fmt: skip
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
def folder(tmp_path, file):
    (tmp_path / "mine.py").write_text(MINE)
    file("own.toml", **SETTINGS)
    return tmp_path


def test_own_functions_run_and_are_reported_and_read_back(works, folder):
    works("run", "own.toml", "--out", "out")
    written = read(folder / "out" / "experiment.toml")  # with copies of the file beside it
    assert written.stream.f.__name__ == "f"
    assert written.features.dim == 6
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["experiment"]["stream"]["taps"] == 3


@pytest.mark.usefixtures("sketched")
def test_own_functions_have_a_theory_and_are_compared(works, folder):
    done = works("study", "theory", "own.toml", "--out", "theory")
    assert "D = 6: sampled" in done.stdout
    known = ("--runs", "2", "--rounds", "100", "--tuning", "none", "--budget", "0.5")
    done = works("compare", "own.toml", "--out", "out", *known)
    assert "on the function stream" in done.stdout


def test_a_wrong_f_in_a_file_is_one_line(psofed, folder, file):
    f = SETTINGS["stream"] | {"f": "./mine.py:g"}
    file("own.toml", **SETTINGS | {"stream": f})
    wrong(psofed("run", "own.toml", "--out", "out"), "own.toml: stream.f is './mine.py:g', but")
    assert not (folder / "out").exists()


def test_features_that_are_not_scaled_are_told_before_a_run(psofed, tmp_path, file):
    wide = "def wide(x):\n    return 9 * np.concatenate([x, x], axis=-1)\n"
    (tmp_path / "mine.py").write_text(MINE + "\n" + wide)
    methods = [{"name": "fedavg"}, *SETTINGS["methods"][1:]]
    features = {"name": "./mine.py:wide", "dim": 6}
    file("own.toml", **SETTINGS | {"features": features, "methods": methods})
    result = psofed("run", "own.toml", "--set", "rounds=6", "--runs", "1")
    assert "Warning: FedAvg E=5: step 0.75 is above the mean-square limit of LMS" in result.stderr
    assert "Warning: PSO-Fed M=2 uncoordinated: step 0.75 is unsafe" in result.stderr
