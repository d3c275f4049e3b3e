"""`fit`, `predict` and `advise` as people use them."""

import csv
import json
import tomllib

import pytest

from helpers.command import wrong
from psofed.tables import example
from psofed.tables.fitting import fit_table

QUICK = ("--set", "width=2", "--set", "step=0.4", "--set", "dim=50")


def test_fit_the_example_then_predict(works, tmp_path):
    result = works("fit", "--example", *QUICK, "--method", "psofed:shared=10", "--out", "r")
    for part in (
        "Mix with PSO-Fed M=10",
        "Last value",
        "Line, alone",
        "Ridge regression, alone",
        "Value of a season ago",
        "clients would have been better off",
    ):
        assert part in result.stdout
    assert "synthetic" in result.stderr
    names = {path.name for path in (tmp_path / "r").iterdir()}
    assert {"model.psofed", "plan.toml", "scores.csv", "clients.csv", "summary.json"} <= names
    assert {"portrait.png", "report.html"} <= names - {"portrait.pdf"} == names
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert summary["rows"] == len(example.rows())
    for part in ("RMSE", "MAE", "Intervals of 0.9, last part:", "best constant"):
        assert part in result.stdout
    asked = ("--interval", 0.9, "--out", "p.csv")
    said = works("predict", "r/model.psofed", example.PATH, *asked)
    assert "RMSE" in said.stderr
    assert "are inside the interval of 0.9" in said.stderr
    with open(tmp_path / "p.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        low, predicted, high = (float(row.pop(key)) for key in ("low", "predicted", "high"))
        assert low < predicted < high
    assert rows == example.rows()


@pytest.mark.long
@pytest.mark.usefixtures("sketched")
def test_advise_writes_a_plan_that_fit_reads(works, tmp_path):
    result = works("advise", "--example", *QUICK, "--link", "lorawan-dr3", "--json", "--out", "a")
    answer = json.loads(result.stdout)
    assert answer["recommended"]["largest_message"] <= 115
    again = works("fit", example.PATH, "--plan", "a/plan.toml", "--json")
    shown = json.loads(again.stdout)
    assert shown["scores"][0]["method"] == f"Mix with {answer['recommended']['method']}"
    planned = tomllib.loads((tmp_path / "a" / "plan.toml").read_text())
    assert shown["plan"]["methods"] == planned["methods"]
    assert (tmp_path / "a" / "run.toml").exists() == answer["federate"]


TABLE = "t,who,a,y\n" + "\n".join(f"{n},{k},{n % 7},{n % 5}" for n in range(200) for k in "pq")


ROLES = ("--time", "t", "--target", "y", "--client", "who", "--set", "compare=false")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("fit",), ["Missing option '--time'"]),
        (("fit", "--time", "t", "--target", "z", "--client", "who"), ["row 1", "column 'z'", "is not there"]),
        (("fit", "--time", "t", "--target", "y", "--client", "wo"), ["did you mean 'who'"]),
        (("fit", *ROLES, "--method", "psofd"), ["did you mean"]),
        (("fit", *ROLES, "--method", "psofed:shared=x"), ["shared"]),
        (("fit", *ROLES, "--set", "label_delay=999"), ["label"]),
        (("fit", *ROLES, "--set", "calendar=hour"), ["time is a number"]),
        (("fit", *ROLES, "--set", "lags=x"), ["--set lags is 'x'"]),
        (("fit", *ROLES, "--set", "sep=,,"), ["--set sep is ',,'"]),
        (("fit", *ROLES, "--set", "missing=a"), ["--set missing", "COLUMN"]),
        (("advise", "--time", "t", "--target", "y", "--client", "who", "--link", "x"), ["--link"]),
    ],
)  # fmt: skip
def test_mistakes_get_one_clear_line_and_no_folder(psofed, tmp_path, change, parts):
    (tmp_path / "table.csv").write_text(TABLE)
    verb, *rest = change
    wrong(psofed(verb, "table.csv", *rest), *parts)
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("sketched")
def test_a_model_that_is_worse_than_the_mean_is_not_saved_unless_it_is_forced(
    psofed, works, tmp_path
):
    """What a client has learned is the opposite of what holds in the last part."""
    rows = [f"{n},{k},{n % 7},{(n % 7) * (-1) ** (n > 150)}" for n in range(200) for k in "pq"]
    (tmp_path / "table.csv").write_text("\n".join(["t,who,a,y", *rows]))
    asked = ("fit", "table.csv", *ROLES, *QUICK)
    refused = psofed(*asked, "--out", "r")
    wrong(refused, "model leaves", "more than the mean of the target does", "--set force=true")
    assert "Mix with PSO-Fed" in refused.stdout
    assert "psofed predict" not in refused.stdout
    names = {path.name for path in (tmp_path / "r").iterdir()}
    assert {"plan.toml", "scores.csv", "summary.json", "report.html"} <= names
    assert "model.psofed" not in names
    works(*asked, "--set", "force=true", "--out", "f")
    wrong(psofed("predict", "f/model.psofed", "table.csv", "--interval", 0.7), "interval is 0.7")


@pytest.mark.usefixtures("sketched")
def test_predict_names_the_column_that_is_missing_and_the_file_that_is_no_model(
    psofed, works, tmp_path
):
    (tmp_path / "table.csv").write_text(TABLE)
    asked = (*ROLES, "--set", "dim=20", "--set", "force=true", "--out", "r")
    works("fit", "table.csv", *asked, "--set", "width=1", "--set", "step=0.5")
    (tmp_path / "other.csv").write_text("t,who,b\n0,p,1\n")
    wrong(psofed("predict", "r/model.psofed", "other.csv"), "other.csv: row 1: column 'a'")
    wrong(psofed("predict", "table.csv", "other.csv"), "is not a psofed model")
    (tmp_path / "unlabelled.csv").write_text("t,who,a\n0,p,1\n1,new,1\n")
    said = works("predict", "r/model.psofed", "unlabelled.csv")
    assert len(said.stdout.splitlines()) == 3


@pytest.mark.usefixtures("sketched")
def test_an_export_newest_first_with_semicolons_is_fitted_and_predicted_as_any(
    psofed, works, tmp_path
):
    head, *rows = TABLE.splitlines()
    (tmp_path / "table.csv").write_text(TABLE + "\n")
    other = "\n".join([head, *reversed(rows)]).replace(",", ";") + "\n"
    (tmp_path / "export.csv").write_text(other, encoding="utf-16")
    sets = ("--set", "lags=1", "--set", "lags_of.a=4,9", "--set", "markers=-999")
    models = []
    for name in ("table", "export"):
        done = works("fit", f"{name}.csv", *ROLES, *QUICK, *sets, "--out", name)
        models.append((tmp_path / name / "model.psofed").read_bytes())
    assert models[0] == models[1]
    assert "Encoding utf-16, cells separated by semicolons." in done.stderr
    assert "WARNING: marker -999 matched no cell." in done.stderr
    assert "a       number      0.0 %    0 to 6" in done.stderr
    summary = json.loads((tmp_path / "export" / "summary.json").read_text())
    assert [c["role"] for c in summary["columns"]] == ["time", "client", "number", "target"]
    assert summary["inputs"] == ["a", "a[-1]", "a[-4]", "a[-9]"]
    said = psofed("predict", "table/model.psofed", "export.csv", "--json")
    assert json.loads(said.stdout)["rows"] == len(rows) - 18  # those before the first lag
    works("fit", "table.csv", "--plan", "table/plan.toml", "--out", "again")
    plans = [(tmp_path / name / "plan.toml").read_text() for name in ("table", "again")]
    assert plans[0] == plans[1]


def test_predictions_stand_next_to_the_rows_as_the_file_has_them(works, tmp_path):
    lines = [f"{n};p;{n % 7},5;{n % 3},25;kept" for n in range(60)][::-1]
    (tmp_path / "german.csv").write_text("\n".join(["t;who;a;y;note", *lines]) + "\n")
    wide = ["t,p.a,p.y,q.a,q.y", *(f"{n},{n % 7},{n % 3},{n % 5},{n % 2}" for n in range(60))]
    (tmp_path / "wide.csv").write_text("\n".join(wide) + "\n")
    (tmp_path / "each").mkdir()
    (tmp_path / "each" / "q.csv").write_text(
        "t,a,y\n" + "".join(f"{n},{n % 7},{n % 3}\n" for n in range(60))
    )
    for name, more, head in (
        ("german.csv", {"client": "who"}, "t;who;a;y;note;predicted"),
        ("wide.csv", {"wide": "."}, "t,p.a,p.y,q.a,q.y,p.predicted,q.predicted"),
        ("each", {}, "client,t,a,y,predicted"),
    ):
        done = fit_table(tmp_path / name, target="y", time="t", inputs="a", lags=3, dim=9, width=1.0,
                         step=0.3, compare=False, **more)  # fmt: skip
        done.save(tmp_path / "m.psofed")
        said = works("predict", "m.psofed", name)
        first, *rows = said.stdout.splitlines()
        assert first == head
        before = (tmp_path / name / "q.csv" if name == "each" else tmp_path / name).read_text()
        sep = ";" if ";" in head else ","
        prefix = "q," if name == "each" else ""
        for row, was in zip(rows, before.splitlines()[1:], strict=True):
            assert row.startswith(f"{prefix}{was}{sep}")
            answers = row.removeprefix(f"{prefix}{was}{sep}").split(sep)
            assert all(answers) == (int(was.split(sep)[0]) >= 3)  # its lags are known
            assert ("," in answers[0]) == (sep == ";" and bool(answers[0]))


@pytest.mark.usefixtures("sketched")
def test_a_forgotten_client_stops_the_fit_and_nothing_is_written(psofed, works, tmp_path):
    (tmp_path / "table.csv").write_text(TABLE + "\n")
    roles = ("--time", "t", "--target", "y", "--set", "compare=false", *QUICK, "--out", "r")
    wrong(psofed("fit", "table.csv", *roles), "loses 200 of 400 rows", "did you mean 'who'")
    assert not (tmp_path / "r").exists()
    done = works("fit", "table.csv", *roles, "--set", "allow_loss=true")
    assert "dropped: 200" in done.stdout
    assert "allow_loss = true" in (tmp_path / "r" / "plan.toml").read_text()
