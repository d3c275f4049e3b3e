"""`fit --hold-out` and `fit --newcomers` as people use them."""

import csv
import json
import math

import pytest

ROLES = ("--time", "t", "--target", "y", "--client", "who")
QUICK = ("--width", 1, "--step", 0.4, "--dim", 30, "--alone")


def wrong(result, *parts):
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr.strip().splitlines()[-1]


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    """A table on which all is quick; the other figures of a fit are not drawn."""
    monkeypatch.setattr("psofed.report.fits.can_draw", lambda: False)
    lines = [
        f"{n},{who},{math.sin(n * (k + 2)):.4f},{math.sin(2 * math.sin(n * (k + 2))):.4f}"
        for n in range(300)
        for k, who in enumerate(("ash", "birch", "cedar"))
    ]
    (tmp_path / "table.csv").write_text("t,who,a,y\n" + "\n".join(lines) + "\n")


def test_each_client_in_turn_arrives_when_the_others_have_learned(psofed, tmp_path):
    done = psofed("fit", "table.csv", *ROLES, *QUICK, "--newcomers", "--out", "r")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("newcomer"))
    assert lines[head].split()[-6:] == ["own", "catches", "up", "own*", "catches", "up"]
    assert [line.split()[0] for line in lines[head + 2 : head + 5]] == ["ash", "birch", "cedar"]
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert summary["clients"] == 3
    found = summary["newcomers"]["clients"]
    assert [entry["arrival_round"] for entry in found] == [225] * 3
    for entry in found:
        assert entry["errors"]["shared"] < entry["errors"]["own"]
        assert entry["errors"]["own_best"] <= entry["errors"]["own"]
    with open(tmp_path / "r" / "newcomers.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["client"] == "birch"]
    assert [row["labels_from"] for row in rows] == ["0", "10", "30"]
    assert sum(int(row["samples"]) for row in rows) == found[1]["samples"] == 75
    assert (tmp_path / "r" / "newcomers.png").stat().st_size > 10_000
    assert (tmp_path / "r" / "newcomers.pdf").exists()
    again = psofed("fit", "table.csv", *ROLES, *QUICK, "--out", "r", "--force")
    assert again.returncode == 0
    assert not (tmp_path / "r" / "newcomers.csv").exists()  # of the other run


def test_the_model_of_a_fit_has_never_seen_who_is_held_out(psofed, tmp_path):
    asked = ("--hold-out", "ash", "--out", "r", "--json")
    done = psofed("fit", "table.csv", *ROLES, *QUICK, *asked)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["clients"] == 2
    assert shown["rows"] == 600  # of the two
    assert [entry["client"] for entry in shown["newcomers"]["clients"]] == ["ash"]
    wrong(
        psofed("export", "r/model.psofed", "--to", "json", "--client", "ash"), "--client is 'ash'"
    )


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--hold-out", "birsh"), ["--hold-out is 'birsh'", "did you mean 'birch'"]),
        (("--hold-out", "ash", "--newcomers"), ["--hold-out or --newcomers"]),
        (("--hold-out", "ash", "--hold-out", "birch", "--hold-out", "cedar"), ["every client"]),
        (("--newcomers", "--method", "local"), ["Local only", "no shared model"]),
    ],
)
def test_newcomers_that_make_no_sense_are_refused(psofed, tmp_path, options, parts):
    wrong(psofed("fit", "table.csv", *ROLES, *QUICK, *options), *parts)
    assert not (tmp_path / "results").exists()
