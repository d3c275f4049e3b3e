"""`fit`, `predict` and `advise` as people use them."""

import csv
import json

import pytest

from psofed.tables import example


def wrong(result, *parts):
    """Exit code 2, no traceback, all parts in the last line."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr.strip().splitlines()[-1]


QUICK = ("--width", 2, "--step", 0.4, "--dim", 50)


def test_fit_the_example_then_predict(psofed, tmp_path):
    result = psofed("fit", "--example", *QUICK, "--method", "psofed:shared=10", "--out", "r")
    assert result.returncode == 0, result.stderr
    for part in ("PSO-Fed M=10", "Persistence", "Linear", "Local only", "Centralised", "loses"):
        assert part in result.stdout
    assert "synthetic" in result.stderr
    names = {path.name for path in (tmp_path / "r").iterdir()}
    assert {"model.psofed", "plan.toml", "scores.csv", "clients.csv", "summary.json"} <= names
    assert {"scores.png", "clients.pdf", "report.html"} <= names
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert summary["rows"] == len(example.rows())
    said = psofed("predict", "r/model.psofed", example.path(), "--out", "p.csv")
    assert said.returncode == 0, said.stderr
    assert "RMSE" in said.stderr
    with open(tmp_path / "p.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == summary["rows"]


def test_advise_writes_a_plan_that_fit_reads(psofed, tmp_path):
    result = psofed("advise", "--example", *QUICK, "--link", "lorawan-dr3", "--json", "--out", "a")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["recommended"]["largest_message"] <= 115
    again = psofed("fit", example.path(), "--plan", "a/plan.toml", "--alone", "--json")
    assert again.returncode == 0, again.stderr
    shown = json.loads(again.stdout)
    assert [s["method"] for s in shown["scores"]] == [answer["recommended"]["method"]]


TABLE = "t,who,a,y\n" + "\n".join(f"{n},{k},{n % 7},{n % 5}" for n in range(200) for k in "pq")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("fit",), ["Missing option '--time'"]),
        (("fit", "--time", "t", "--target", "z", "--client", "who"), ["row 1", "column 'z'", "is not there"]),
        (("fit", "--time", "t", "--target", "y", "--client", "wo"), ["did you mean 'who'"]),
        (("fit", "--time", "t", "--target", "y", "--client", "who", "--method", "psofd"), ["did you mean"]),
        (("fit", "--time", "t", "--target", "y", "--client", "who", "--method", "psofed:shared=x"), ["shared"]),
        (("fit", "--time", "t", "--target", "y", "--client", "who", "--label-delay", 999), ["label"]),
        (("fit", "--time", "t", "--target", "y", "--client", "who", "--calendar", "hour"), ["time is a number"]),
        (("fit", "--time", "t", "--target", "y", "--client", "who", "--missing", "a"), ["--missing"]),
        (("advise", "--time", "t", "--target", "y", "--client", "who", "--link", "x"), ["--link"]),
    ],
)  # fmt: skip
def test_mistakes_get_one_clear_line_and_no_folder(psofed, tmp_path, change, parts):
    (tmp_path / "table.csv").write_text(TABLE)
    verb, *rest = change
    wrong(psofed(verb, "table.csv", *rest), *parts)
    assert not (tmp_path / "results").exists()


def test_lags_of_one_column_are_given_by_its_name(psofed, tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    asked = ("--time", "t", "--target", "y", "--client", "who", *QUICK, "--alone", "--json")
    done = psofed("fit", "table.csv", *asked, "--lags", "1,a:4,a:9")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["inputs"] == ["a", "a[-1]", "a[-4]", "a[-9]"]
    again = psofed(
        "fit", "table.csv", "--plan", f"{shown['folder']}/plan.toml", "--alone", "--json"
    )
    assert json.loads(again.stdout)["inputs"] == shown["inputs"]
    wrong(psofed("fit", "table.csv", *asked, "--lags", "a:x"), "--lags has 'x'")


def test_predict_names_the_column_that_is_missing_and_the_file_that_is_no_model(psofed, tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    asked = ("--time", "t", "--target", "y", "--client", "who", "--dim", 20, "--out", "r")
    done = psofed("fit", "table.csv", *asked, "--alone", "--width", 1, "--step", 0.5)
    assert done.returncode == 0, done.stderr
    (tmp_path / "other.csv").write_text("t,who,b\n0,p,1\n")
    wrong(psofed("predict", "r/model.psofed", "other.csv"), "other.csv: row 1: column 'a'")
    wrong(psofed("predict", "table.csv", "other.csv"), "is not a psofed model")
    (tmp_path / "unlabelled.csv").write_text("t,who,a\n0,p,1\n1,new,1\n")
    said = psofed("predict", "r/model.psofed", "unlabelled.csv")
    assert said.returncode == 0, said.stderr
    assert len(said.stdout.splitlines()) == 3
