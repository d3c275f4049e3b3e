"""`theory` as people use it: words, files, mistakes, and being stopped."""

import json
import pathlib
import re
import signal
import subprocess

import pytest

from helpers.devices import wait_for

TOML = """
clients = 4
cohort = 2
rounds = 120
test_samples = 200
[stream]
name = "paper"
inputs = "iid"
[features]
dim = 8
[[methods]]
name = "onlinefed"
[[methods]]
name = "psofed"
shared = 2
[[methods]]
name = "psofed"
shared = 1
step = 3.6
[[methods]]
name = "local"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    return path


def test_theory_tells_limits_speed_and_curves_in_words_and_files(psofed, file, tmp_path):
    result = psofed("study", "theory", file, "--runs", 40, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    for words in ("2 / max|z|^2", "eq. (14)", "eq. (13)", "unsafe", "safe", "No theory for Local only"):  # fmt: skip
        assert words in result.stdout
    assert "PSO-Fed M=1 uncoordinated diverges in theory at n = " in result.stdout
    assert "the error grows without bound" in result.stdout
    assert not re.search(r"\b(inf|nan)\b", result.stdout)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    kinds = {f"theory.{kind}" for kind in ("png", "pdf", "csv", "json", "txt")}
    assert names == kinds | {"experiment.toml", "report.html"}
    said = result.stdout.split("\n\nresults in")[0] + "\n"
    assert (tmp_path / "out" / "theory.txt").read_text() == said
    table = json.loads((tmp_path / "out" / "theory.json").read_text())
    assert table["experiment"]["world"] == 0
    verdicts = {m["method"]: m["verdict"] for m in table["methods"]}
    assert verdicts["PSO-Fed M=1 uncoordinated"] == "unsafe"
    assert abs(table["deviations"]["Online-Fed"]["late_db"]) < 0.5


@pytest.fixture
def short(file):
    """As few rounds as will do where their number does not matter."""
    file.write_text(TOML.replace("rounds = 120", "rounds = 12"))
    return file


@pytest.mark.usefixtures("sketched")
def test_the_command_that_a_folder_names_repeats_it(psofed, short, tmp_path):
    tables = []
    for file, out in ((short, "one"), ("one/experiment.toml", "two")):
        more = ("--set", "world=3") if out == "one" else ()
        assert psofed("study", "theory", file, *more, "--out", out).returncode == 0
        tables.append(json.loads((tmp_path / out / "theory.json").read_text()))
    assert tables[0]["command"] == "psofed study theory experiment.toml"
    assert tables[0]["methods"] == tables[1]["methods"]


@pytest.mark.usefixtures("sketched")
def test_features_without_energy_are_no_accident(psofed, file, tmp_path):
    text = TOML.replace("rounds = 120", "rounds = 40")
    text = text.replace('inputs = "iid"\n', "")
    file.write_text(text.replace("dim = 8", 'dim = 8\nname = "gaussian"\nwidth = 0.001'))
    result = psofed("study", "theory", file, "--runs", "2", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert "NOT independent over time" in result.stdout
    assert psofed("run", file, "--runs", "1", "--out", tmp_path / "run").returncode == 0


def is_alive(process):
    """Whether it runs; one that has ended but was not waited for does not count."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.long
@pytest.mark.skipif(not pathlib.Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_prediction_that_is_stopped_leaves_no_folder_and_no_process(
    start, file, tmp_path, number
):
    # So long that it takes processes, and so small that they are there soon.
    file.write_text(
        'clients = 30\nrounds = 100000\n[stream]\nname = "paper"\ninputs = "iid"\n[features]\ndim = 60\n'
        '[[methods]]\nname = "psofed"\nshared = 5\n[[methods]]\nname = "psofed"\nshared = 9\n'
    )
    process = start("study", "theory", file, "--out", tmp_path / "out", stderr=subprocess.PIPE)
    listed = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_for(lambda: len(listed.read_text().split()) >= 2, 120)
    children = [int(child) for child in listed.read_text().split()]
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()
    wait_for(lambda: not any(is_alive(child) for child in children), 20)


@pytest.mark.long
@pytest.mark.parametrize("change", [
    ("rounds = 120", "rounds = 1"), ("cohort = 2", "cohort = 4", "dim = 8", "dim = 2"),
    ("clients = 4", "clients = 2000", "rounds = 120", "rounds = 30"),
])  # fmt: skip
@pytest.mark.usefixtures("sketched")
def test_the_ends_of_the_range_work(psofed, file, tmp_path, change):
    text = TOML
    for old, new in zip(change[::2], change[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    result = psofed("study", "theory", file, "--runs", "2", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr


@pytest.mark.usefixtures("sketched")
def test_a_run_with_an_unsafe_step_warns_before_it_starts(psofed, file, tmp_path):
    result = psofed("run", file, "--runs", "1", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("Warning: PSO-Fed M=1 uncoordinated: step 3.6 is unsafe")
    assert result.stderr.count("is unsafe") == 1
