"""`psofed study privacy`, as people type it: files and tables."""

from __future__ import annotations

import json
import re

import pytest

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
TABLE = """
clients = 2
rounds = 30
cohort = 2
[stream]
name = "table"
file = "readings.csv"
clients = ["p", "q"]
first = 10
frozen = 30
[stream.columns]
target = "load"
time = ["t"]
client = "who"
inputs = ["celsius", "hpa"]
[stream.scaling]
celsius = [15, 8]
hpa = [1013, 10]
load = [500, 120]
[features]
dim = 60
[[methods]]
name = "psofed"
shared = 30
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


def test_a_file_is_audited_with_a_report_and_the_way_it_was_made(psofed, file, tmp_path):
    done = psofed("study", "privacy", file, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "experiment.toml", "privacy.json", "privacy.txt", "report.html"
    }  # fmt: skip
    assert re.search(r"PSO-Fed M=30 coordinated +100.0 % +100.0 % .* readable", done.stdout)
    assert '"not by our attacks" is no proof' in done.stdout
    table = json.loads((tmp_path / "out" / "privacy.json").read_text())
    assert {"read", "error", "unknowns", "equations", "versions", "command"} <= table.keys()
    assert (table["read"], table["equations"], table["gauge"]) == (1.0, 30, "readable")
    assert (
        psofed("study", "privacy", file, "--out", "out").returncode == 2
    )  # nothing is overwritten


@pytest.mark.usefixtures("sketched")
def test_with_and_without_privacy_stand_side_by_side(psofed, file, tmp_path):
    text = RUN.replace("clients = 2", "clients = 6").replace("cohort = 2", "cohort = 6")
    file.write_text(text + "[privacy]\nmasks = true\n")
    done = psofed("study", "privacy", file, "--rounds", 4, "--clients", 1, "--out", "out")
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "out" / "privacy.json").read_text())
    (plain,), (masked,) = table["methods"], table["with_privacy"]
    assert (plain["gauge"], masked["gauge"]) == ("readable", "not by our attacks")
    assert plain["bytes_up"] == masked["bytes_up"] == 6 * 30 * 4
    assert (table["read"], table["unknowns"]) == (0, masked["unknowns"])


@pytest.mark.usefixtures("sketched")
def test_the_columns_of_a_table_are_read_in_their_units(psofed, tmp_path):
    (tmp_path / "table.toml").write_text(TABLE)
    rows = [
        f"{t},{who},{12 + 5 * ((7 * t + i) % 11) / 11:.3f},{1000 + (3 * t + 5 * i) % 23},"
        f"{380 + (13 * t + 31 * i) % 240}"
        for t in range(40) for i, who in enumerate("pq") if not (who == "q" and t % 6 == 1)
    ]  # fmt: skip
    (tmp_path / "readings.csv").write_text("\n".join(["t,who,celsius,hpa,load", *rows]) + "\n")
    done = psofed("study", "privacy", "table.toml", "--rounds", 10, "--clients", 2, "--out", "out")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "out" / "privacy.json").read_text())["methods"]
    assert found["read"] == 1
    assert found["samples"] == 20 - 2
    columns = {column["name"]: column for column in found["columns"]}
    assert columns.keys() == {"celsius", "hpa", "load"}
    for column in columns.values():
        assert column["error"] < 1e-3 * column["spread"]
    first = 12 + 5 * (70 % 11) / 11, 1000 + 30 % 23, 380 + 130 % 240
    for column, value in zip(columns.values(), first, strict=True):
        assert column["true"][0] == pytest.approx(value, abs=1e-3)
        assert column["read"][0] == pytest.approx(value, abs=0.01)


def test_what_cannot_be_audited_is_refused_in_a_line(psofed, tmp_path):
    done = psofed("study", "privacy", "nowhere.toml")
    assert done.returncode == 2, done.stdout
    assert "nowhere.toml" in done.stderr
    assert not (tmp_path / "results").exists()
