"""`psofed study sweep`, as people type it."""

import csv
import json


def test_a_sweep_writes_its_table_figure_curves_and_report(psofed, tiny, tmp_path):
    sets = ("--set", "methods.shared=1,3", "--set", "step=0.2,0.4", "--set", "width=1,2")
    done = psofed("study", "sweep", tiny, *sets, "--set", "seed=3", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "12 curves, 3 runs of 30 rounds, all on the same draws" in done.stdout
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        "experiment.toml", "sweep.csv", "sweep.json", "sweep.png", "sweep.pdf", "curves.csv",
        "report.html",
    }  # fmt: skip
    table = json.loads((out / "sweep.json").read_text())
    assert table["settings"] == {
        "methods.shared": [1, 3], "step": [0.2, 0.4], "features.width": [1, 2]
    }  # fmt: skip
    rows = list(csv.DictReader((out / "sweep.csv").read_text().splitlines()))
    assert len(rows) == 12 == len(table["methods"])
    assert {row["features.width"] for row in rows} == {"1", "2"}
    curves = list(csv.DictReader((out / "curves.csv").read_text().splitlines()))
    assert len(curves) == 12 * 31
    assert "seed 3" in (out / "report.html").read_text()
    again = psofed(*table["command"].removeprefix("psofed ").replace("experiment.toml", "out/experiment.toml").split(), "--out", "again")  # fmt: skip
    assert again.returncode == 0, again.stderr
    for name in ("sweep.csv", "curves.csv", "sweep.png", "sweep.pdf"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes(), name


def test_a_sweep_that_was_stopped_goes_on(psofed, tiny, tmp_path, monkeypatch):
    from psofed.cli import studies as command

    real, seen = command.compute, []

    def lost(experiment, part):
        seen.append(experiment)
        if len(seen) == 2:
            raise OSError(28, "No space left on device")
        return real(experiment, part)

    arguments = ("study", "sweep", tiny, "--set", "width=1,2,3", "--out", "out")
    monkeypatch.setattr(command, "compute", lost)
    assert psofed(*arguments).returncode == 3
    assert (tmp_path / "out" / "checkpoint" / "identity.json").exists()
    monkeypatch.setattr(command, "compute", real)
    other = psofed("study", "sweep", tiny, "--set", "width=7,2,3", "--out", "out")
    assert "was started with other settings" in other.stderr
    assert psofed(*arguments).returncode == 0
    table = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert table["settings"] == {"features.width": [1, 2, 3]}
    assert not (tmp_path / "out" / "checkpoint").exists()
    whole = psofed("study", "sweep", tiny, "--set", "width=1,2,3", "--out", "whole")
    assert whole.returncode == 0
    assert (tmp_path / "out" / "curves.csv").read_bytes() == (
        tmp_path / "whole" / "curves.csv"
    ).read_bytes()
