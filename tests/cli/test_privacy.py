"""`psofed study privacy`, as people type it: files and tables."""

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
    # Nothing is overwritten.
    assert psofed("study", "privacy", file, "--out", "out").returncode == 2


@pytest.mark.usefixtures("sketched")
def test_with_and_without_privacy_stand_side_by_side(psofed, file, tmp_path):
    text = RUN.replace("clients = 2", "clients = 16").replace("cohort = 2", "cohort = 16")
    file.write_text(text.replace("= 30", "= 9") + "[privacy]\nmasks = true\n")
    done = psofed("study", "privacy", file, "--rounds", 4, "--clients", 1, "--out", "out")
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "out" / "privacy.json").read_text())
    (plain,), (masked,) = table["methods"], table["with_privacy"]
    assert (plain["gauge"], masked["gauge"]) == ("readable", "closed")
    assert plain["bytes_up"] == masked["bytes_up"] == 16 * 9 * 4
    assert (table["read"], table["unknowns"]) == (0, masked["unknowns"])


@pytest.mark.usefixtures("sketched")
def test_the_columns_of_a_table_are_read_in_their_units(psofed, table, tmp_path):
    done = psofed("study", "privacy", table, "--rounds", 10, "--clients", 2, "--out", "out")
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
