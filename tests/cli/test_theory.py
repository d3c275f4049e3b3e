"""`theory` as people use it: words, files, mistakes, and being stopped."""

import json
import pathlib
import re
import signal
import subprocess

import pytest

from helpers.devices import wait_for

SETTINGS = {
    "clients": 4, "cohort": 2, "rounds": 120, "test_samples": 200, "features": {"dim": 8},
    "stream": {"name": "paper", "inputs": "iid"},
    "methods": [
        {"name": "onlinefed"}, {"name": "psofed", "shared": 2},
        {"name": "psofed", "shared": 1, "step": 3.6}, {"name": "local"},
    ],
}  # fmt: skip


def test_theory_tells_limits_speed_and_curves_in_words_and_files(works, file, tmp_path):
    result = works("study", "theory", file(**SETTINGS), "--runs", 40, "--out", tmp_path / "out")
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


@pytest.mark.usefixtures("sketched")
def test_the_command_that_a_folder_names_repeats_it(works, file, tmp_path):
    short, tables = file(**SETTINGS | {"rounds": 12}), []
    for given, out in ((short, "one"), ("one/experiment.toml", "two")):
        more = ("--set", "world=3") if out == "one" else ()
        works("study", "theory", given, *more, "--out", out)
        tables.append(json.loads((tmp_path / out / "theory.json").read_text()))
    assert tables[0]["command"] == "psofed study theory experiment.toml"
    assert tables[0]["methods"] == tables[1]["methods"]


@pytest.mark.usefixtures("sketched")
def test_features_without_energy_are_no_accident(works, file, tmp_path):
    features = {"dim": 8, "name": "gaussian", "width": 0.001}
    path = file(**SETTINGS | {"rounds": 40, "features": features, "stream": {"name": "paper"}})
    result = works("study", "theory", path, "--runs", "2", "--out", tmp_path / "out")
    assert "NOT independent over time" in result.stdout
    works("run", path, "--runs", "1", "--out", tmp_path / "run")


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
    methods = [{"name": "psofed", "shared": m} for m in (5, 9)]
    large = {"clients": 30, "rounds": 100_000, "features": {"dim": 60}, "methods": methods}
    process = start(
        "study",
        "theory",
        file(**SETTINGS | large),
        "--out",
        tmp_path / "out",
        stderr=subprocess.PIPE,
    )
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
@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 1},
        {"cohort": 4, "features": {"dim": 2}},
        {"clients": 2000, "rounds": 30},
    ],
)
@pytest.mark.usefixtures("sketched")
def test_the_ends_of_the_range_work(works, file, tmp_path, change):
    works("study", "theory", file(**SETTINGS | change), "--runs", "2", "--out", tmp_path / "out")


@pytest.mark.usefixtures("sketched")
def test_a_run_with_an_unsafe_step_warns_before_it_starts(works, file, tmp_path):
    result = works("run", file(**SETTINGS), "--runs", "1", "--out", tmp_path / "out")
    assert result.stderr.startswith("Warning: PSO-Fed M=1 uncoordinated: step 3.6 is unsafe")
    assert result.stderr.count("is unsafe") == 1
