"""The report of a result: made of its files alone, the same for the same files, small, honest."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from psofed.curves import Curves, Estimate
from psofed.experiment import Experiment, Features
from psofed.methods import centralised, local, onlinefed, psofed, raw
from psofed.report import files, html, results, run_section, section, thinning
from psofed.simulate import montecarlo

SMALL = Experiment(
    clients=6, cohort=2, rounds=150, runs=3, test_samples=50, features=Features(dim=8),
    methods=(onlinefed.Options(), psofed.Options(shared=2)),
)  # fmt: skip


@pytest.fixture(scope="module")
def result():
    """The files of a small run."""
    return files.render(montecarlo.run(SMALL), "psofed run experiment.toml --runs 3", {})


@pytest.fixture
def folder(result, tmp_path):
    """The same on the disk."""
    return write(tmp_path / "r", result)


def write(path, result):
    path.mkdir()
    for name, data in result.items():
        (path / name).write_bytes(data)
    return path


def data_of(page):
    """What a page was told."""
    text = page.decode() if isinstance(page, bytes) else page
    return json.loads(re.search(r'id="data">(.*?)</script>', text)[1])


def test_a_folder_gives_the_page_that_its_run_wrote(folder, process, psofed):
    page = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    result = process("report", folder)
    assert result.returncode == 0, result.stderr
    assert "report.html" in result.stdout
    assert (folder / "report.html").read_bytes() == page
    assert psofed("report", folder).returncode == 0  # over its own page, again and again


def test_a_run_of_the_command_line_comes_with_its_report(psofed, tmp_path):
    (tmp_path / "e.toml").write_text(SMALL.to_toml())
    assert psofed("run", "e.toml", "--out", "out").returncode == 0
    page = (tmp_path / "out" / "report.html").read_bytes()
    assert html.render([results.gather(tmp_path / "out")]) == page
    assert str(tmp_path).encode() not in page


def test_a_report_has_the_answer_the_table_and_how_to_repeat_it(result):
    (told,) = data_of(result["report.html"])["sections"]
    summary = json.loads(result["summary.json"])
    assert told["answer"].split(" ends lowest")[0] in ("Online-Fed", "PSO-Fed M=2 uncoordinated")
    assert told["command"] == summary["command"]
    assert told["toml"].encode() == result["experiment.toml"]
    assert dict(told["versions"]) == summary["versions"]
    assert [row[0] for row in told["tables"][0]["rows"]] == [
        entry["method"] for entry in summary["methods"]
    ]
    sent = {row["method"]: row["up"] for row in told["traffic"]}
    assert sent == {"Online-Fed": 2 * 8 * 4, "PSO-Fed M=2 uncoordinated": 2 * 2 * 4}


def undo(steps, scale):
    """What the page does: numbers from the steps between them."""
    values = np.array([np.nan if step is None else step for step in steps], dtype=float)
    return np.where(np.isnan(values), np.nan, np.nancumsum(values)) / scale


def test_packed_curves_are_those_of_the_csv(result):
    curves = data_of(result["report.html"])["sections"][0]["curves"]
    assert curves["thinned"] is None
    rows = list(csv.DictReader(result["curves.csv"].decode().splitlines()))
    for packed in curves["series"]:
        own = [row for row in rows if row["method"] == packed["label"]]
        assert undo(curves["x"], 1).tolist() == [float(row["round"]) for row in own]
        for key, column in (("y", "mse_db"), ("error", "stderr_db")):
            wanted = np.array([float(row[column]) for row in own])
            assert np.abs(undo(packed[key], 1000) - wanted).max() <= 0.0005 + 1e-9


def paper_curves(noise, runs=2):
    """Curves of the paper's size, as noisy as told."""
    experiment = Experiment(runs=runs)
    rng, rounds = np.random.default_rng(0), experiment.evaluated
    count = (len(experiment.methods), len(rounds))
    mse_db = 2 - 14 * (1 - np.exp(-rounds / 300)) + noise * rng.standard_normal(count)
    mse = 10 ** (mse_db / 10)
    sent = np.where(rounds > 0, 3200.0, 0.0) * np.ones(count)
    points = np.ones((count[0], 6)) * mse[:, -1:]
    return Curves(
        experiment, runs, rounds, mse, mse * 0.1 * rng.random(count), sent, sent, sent / 4, points,
        np.ones((6, 7, 7)) * 1e-6, {"noise": Estimate(-17.7, 0.01)},
    )  # fmt: skip


@pytest.mark.parametrize("noise", [0.01, 1.0])
def test_the_report_of_the_papers_figures_is_small_and_lacks_no_mark(noise):
    made = files.render(paper_curves(noise), "psofed reproduce", {})["report.html"]
    assert len(made) < 500_000
    (told,) = data_of(made)["sections"]
    assert told["curves"]["thinned"] is None
    assert len(told["curves"]["x"]) == 5001
    assert [group["name"] for group in told["groups"]] == [
        "(a) Coordinated",
        "(b) Uncoordinated",
    ]
    assert [group["rows"] for group in told["groups"]] == [[0, 1, 2, 3], [0, 4, 5, 6]]
    styles = [series["style"] for series in told["curves"]["series"]]
    assert styles == [0, 1, 2, 3, 8, 9, 10]  # the same M has the same colour in both figures


def test_thinning_keeps_both_ends_and_every_spike():
    x = np.arange(50_001)
    rng = np.random.default_rng(1)
    curves = -5 * np.log10(x + 10) + 0.01 * rng.standard_normal((3, len(x)))
    spikes = rng.choice(np.arange(200, 50_000), 20, replace=False)
    curves[rng.integers(0, 3, 20), spikes] += 3
    kept = thinning.marks(x, curves, 1200)
    assert len(kept) <= 1200
    assert {0, 50_000, *range(1, 20)} <= set(kept.tolist())
    assert len(set(spikes.tolist()) & set(kept.tolist())) >= 19  # two in one gap are one


def test_a_thinned_page_says_so_and_a_diverged_curve_has_gaps():
    x = np.arange(60_000)
    y = np.where(x > 100, np.inf, 1.0)
    packed = thinning.pack([thinning.Curve("a", x, y), thinning.Curve("b", x, -x / 1e4)], 2000)
    shown, whole = packed["thinned"]
    assert shown <= 1000
    assert whole == 60_000
    assert packed["series"][0]["y"][-1] is None
    assert undo(packed["series"][1]["y"], 1000)[-1] == pytest.approx(-5.9999, abs=1e-3)


def test_bytes_that_grow_evenly_take_two_numbers_and_others_stay_exact():
    x = np.array([0, 1, 2, 3, 7, 8])
    even, stairs = x * 12.0, np.array([0, 0, 50, 50, 50, 99.5])
    assert thinning.bends(x, even) == [[0, 5], [0, 960]]
    at, values = (undo(part, scale) for part, scale in zip(thinning.bends(x, stairs), (1, 10), strict=True))  # fmt: skip
    assert np.interp(x, x[at.astype(int)], values) == pytest.approx(stairs)


def summary(ends, **more):
    """A summary with these steady values and errors; the first is Online-Fed."""
    entries = [
        {
            "method": f"m{j}", "mse_db": {"steady": {"value": value, "stderr": error}},
            "difference_db": {"steady": {"value": None if None in (value, ends[0][0]) else value - ends[0][0], "stderr": error}},
            "traffic_share": 0.2,
        }
        for j, (value, error) in enumerate(ends)
    ]  # fmt: skip
    names = [{"name": "onlinefed"}, *({"name": "psofed"} for _ in ends[1:])]
    return {"methods": entries, "rounds": 9, "experiment": {"methods": names}} | more


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([(-10, 0.1), (-12, 0.1)], "m1 ends lowest, at -12.00 ±0.10 dB after 9 rounds: 2.00 dB below m0, with 20 % of its traffic."),
        ([(-10, 0.1), (-10.05, 0.1)], "m1 ends lowest (m0 within error of it), at -10.05 ±0.10 dB after 9 rounds: within error of m0, with 20 % of its traffic."),
        ([(-12, None), (-10, None)], "m0 ends lowest, at -12.00 dB after 9 rounds; no other method does better."),
        ([(None, None), (-10, 0.1)], "m1 ends lowest, at -10.00 ±0.10 dB after 9 rounds: m0 has diverged, with 20 % of its traffic."),
        ([(None, None), (None, None)], "All methods have diverged after 9 rounds."),
    ],
)  # fmt: skip
def test_the_answer_is_one_sentence_and_knows_what_is_within_error(ends, expected):
    assert run_section.answer(summary(ends)) == section.minus(expected)


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 1, "runs": 1}, {"runs": 1}, {"step": 1e6}, {"step": 50.0, "runs": 1},
        {"methods": (local.Options(),)}, {"methods": (psofed.Options(shared=3),)},
        {"methods": (centralised.Options(), raw.Options(), local.Options())},
        {"evaluate_every": 150}, {"world": 1}, {"absent": 0.5},
    ],
    ids=str,
)  # fmt: skip
def test_no_result_is_too_odd_for_a_page(tab, tmp_path, change):
    with np.errstate(all="ignore"):
        made = files.render(montecarlo.run(replace(SMALL, **change)), "psofed run", {})
    (tmp_path / "odd.html").write_bytes(made["report.html"])
    shown = tab(tmp_path / "odd.html")
    assert shown.locator("h1 + p").inner_text()
    assert shown.locator("table").count() == 2
    shown.get_by_role("button", name="Bytes", exact=True).click()
    shown.get_by_role("button", name="Linear", exact=True).click()


def test_one_method_alone_has_an_answer_too():
    table = summary([(-3.0, 0.5)])
    table["experiment"]["methods"] = [{"name": "psofed"}]
    expected = section.minus("m0 is at -3.00 ±0.50 dB after 9 rounds.")
    assert run_section.answer(table) == expected


def test_several_results_say_what_differs_and_share_the_room(folder, tmp_path, psofed):
    other = replace(SMALL, step=0.5, rounds=100)
    second = write(tmp_path / "s", files.render(montecarlo.run(other), "psofed run", {}))
    result = psofed("report", folder, second, "--out", "both.html")
    assert result.returncode == 0, result.stderr
    data = data_of((tmp_path / "both.html").read_bytes())
    assert [each["name"] for each in data["sections"]] == ["r", "s"]
    assert data["differs"] == [["rounds", "150", "100"], ["step", "0.75", "0.5"]]


def test_folders_of_one_name_are_told_apart():
    assert html.short_names(["x/out", "y/out", "y/z"]) == ["x/out", "y/out", "z"]


def test_a_folder_written_twice_is_read_as_its_experiment_says(result):
    stale = json.loads(result["summary.json"]) | {"budget": 1}
    stale["experiment"]["seed"] = 77
    both = dict(result) | {"comparison.json": json.dumps(stale).encode()}
    assert results.kind(results.Result("r", both)) == "summary.json"


def cut(text):
    return text[: len(text) // 2]


@pytest.mark.parametrize(
    ("name", "change", "parts"),
    [
        ("summary.json", cut, ["summary.json: is not JSON", "is the file complete?"]),
        ("summary.json", lambda t: "[1]", ["summary.json: is not a JSON object"]),
        ("summary.json", lambda t: "{}", ["summary.json: 'experiment' is missing"]),
        ("summary.json", lambda t: t.replace('"rounds": 150', '"rounds": "x"'), ["summary.json: is not as psofed writes it"]),
        ("summary.json", lambda t: t.replace('"methods": [', '"methods": 3, "old": ['), ["summary.json:"]),
        ("curves.csv", lambda t: t[:-20], ["curves.csv: line 303 has", "cells", "is the file complete?"]),
        ("curves.csv", lambda t: t.replace("mse_db", "mse"), ["curves.csv: mse_db is missing from the first line"]),
        ("curves.csv", lambda t: t.replace(",1,", ",one,", 1), ["curves.csv: could not convert"]),
        ("curves.csv", lambda t: t.replace(",,,9,", ",,,7,", 1), ["curves.csv: round of 'Online-Fed' does not grow"]),
        ("curves.csv", lambda t: "", ["curves.csv: method is missing"]),
        ("curves.csv", lambda t: t.splitlines()[0] + "\n", ["curves.csv: has no curve of 'Online-Fed'"]),
        ("curves.csv", lambda t: "\n".join(t.splitlines()[:250]) + "\n", ["curves.csv: ends at round 97 of 150 for 'PSO-Fed M=2", "is the file complete?"]),
        ("experiment.toml", None, ["experiment.toml: is missing"]),
        ("curves.csv", None, ["curves.csv: is missing"]),
    ],
)  # fmt: skip
def test_a_damaged_result_is_named_with_file_and_fault(folder, psofed, name, change, parts):
    path = folder / name
    if change is None:
        path.unlink()
    else:
        path.write_text(change(path.read_text()))
    before = (folder / "report.html").read_bytes()
    result = psofed("report", folder)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    for part in ("r/", *parts):
        assert part in result.stderr
    assert (folder / "report.html").read_bytes() == before


def test_a_file_that_is_no_text_is_named(folder, psofed):
    (folder / "curves.csv").write_bytes(b"\xff\xfe\x00")
    assert "r/curves.csv: is not text" in psofed("report", folder).stderr


def test_what_is_no_result_is_refused(folder, psofed, tmp_path):
    (tmp_path / "empty").mkdir()
    for arguments, part in (
        (["nowhere"], "nowhere does not exist; give a folder with a result"),
        ([folder / "curves.csv"], "is not a folder"),
        (
            ["empty"],
            "empty holds no result: none of theory.json, comparison.json, sweep.json, attack.json, summary.json",
        ),
        ([folder, folder], "is given twice"),
        ([folder, "--out", tmp_path / "no" / "x.html"], "cannot be written: No such file"),
    ):
        result = psofed("report", *arguments)
        assert result.returncode == 2
        assert part in result.stderr, result.stderr
        assert "Traceback" not in result.stderr


def test_a_file_that_is_no_report_is_never_written_over(folder, psofed, tmp_path):
    (tmp_path / "mine.html").write_text("mine")
    result = psofed("report", folder, "--out", "mine.html")
    assert result.returncode == 2
    assert "mine.html exists already and is not a report" in result.stderr
    assert (tmp_path / "mine.html").read_text() == "mine"
    assert not list(tmp_path.glob(".*draft"))
