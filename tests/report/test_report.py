"""The report of a result: the same for the same numbers, small and honest."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from helpers.opened import SMALL, told
from psofed.curves import Curves, Estimate
from psofed.experiment import Experiment
from psofed.methods import centralised, local
from psofed.report import charts, runs
from psofed.report.charts import Chart, Curve
from psofed.rivals import raw
from psofed.simulate import montecarlo

SENT = {"Online-Fed": 2 * 8 * 4, "Local only": 0}
SENT |= {f"PSO-Fed M={m} {s}": 2 * m * 4 for s in ("coordinated", "uncoordinated") for m in (1, 2)}


def test_a_run_of_the_command_line_comes_with_its_report(works, tmp_path):
    (tmp_path / "e.toml").write_text(SMALL.to_toml())
    works("run", "e.toml", "--out", "out")
    assert str(tmp_path).encode() not in (tmp_path / "out" / "report.html").read_bytes()
    assert told(tmp_path / "out")["title"] == "Learning curves of 6 methods"


def test_a_report_has_the_answer_the_table_and_how_to_repeat_it(result):
    page = told(result["report.html"])
    summary = json.loads(result["summary.json"])
    assert page["answer"].split(" ends lowest")[0].split(" (")[0] in SENT
    assert page["command"] == summary["command"]
    assert page["toml"].encode() == result["experiment.toml"]
    assert dict(page["versions"]) == summary["versions"]
    errors, traffic = page["parts"]
    assert [row[0] for row in errors["rows"]] == [entry["method"] for entry in summary["methods"]]
    assert {name: int(up) for name, up, *_ in traffic["rows"]} == SENT


def test_the_curves_of_the_page_are_those_of_the_csv(result):
    curves = told(result["report.html"])["curves"]
    assert curves["thinned"] is None
    rows = list(csv.DictReader(result["curves.csv"].decode().splitlines()))
    for series in curves["series"]:
        own = [row for row in rows if row["method"] == series["label"]]
        assert series["x"] == [float(row["round"]) for row in own]
        for key, column in (("y", "mse_db"), ("error", "stderr_db")):
            wanted = np.array([float(row[column]) for row in own])
            assert np.abs(np.array(series[key]) - wanted).max() <= 0.0005 + 1e-9


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
def test_the_report_of_the_papers_figures_is_small_and_says_that_it_is_thinned(noise):
    made = runs.render(paper_curves(noise), "psofed reproduce", {})["report.html"]
    assert len(made) < 400_000
    curves = told(made)["curves"]
    shown, whole = curves["thinned"]
    assert whole == 5001
    assert 1000 < shown <= 2000
    assert all(series["x"][-1] == 5000 for series in curves["series"])
    assert curves["groups"] == [
        ["(a) Coordinated", [0, 1, 2, 3]], ["(b) Uncoordinated", [0, 4, 5, 6]]
    ]  # fmt: skip
    styles = [series["style"] for series in curves["series"]]
    assert styles == [0, 1, 2, 3, 8, 9, 10]  # the same M has the same colour in both figures


def test_thinning_keeps_both_ends_and_every_spike():
    x = np.arange(50_001)
    rng = np.random.default_rng(1)
    curves = -5 * np.log10(x + 10) + 0.01 * rng.standard_normal((3, len(x)))
    spikes = rng.choice(np.arange(200, 50_000), 20, replace=False)
    curves[rng.integers(0, 3, 20), spikes] += 3
    kept = charts.thinned(x, curves, 1200)
    assert len(kept) <= 1200
    assert {0, 50_000, *range(1, 20)} <= set(kept.tolist())
    assert len(set(spikes.tolist()) & set(kept.tolist())) >= 19  # two in one gap are one


def test_a_thinned_chart_says_so_and_a_diverged_curve_has_gaps():
    x = np.arange(60_000)
    y = np.where(x > 100, np.inf, 1.0)
    made = Chart("", "x", "y", [Curve("a", x, y), Curve("b", x, -x / 1e4)]).data()
    shown, whole = made["thinned"]
    assert shown <= charts.MARKS / 2
    assert whole == 60_000
    assert made["series"][0]["y"][-1] is None
    assert made["series"][1]["y"][-1] == pytest.approx(-5.9999, abs=1e-3)


def test_bytes_that_grow_evenly_are_one_number_and_others_stay_exact():
    x = np.array([0, 1, 2, 3, 7, 8])
    even, stairs = x * 12.0, np.array([0, 0, 50, 50, 50, 99.5])
    made = Curve("a", x, x, sent=(even, stairs)).data(np.arange(6))
    assert made["sent"] == [12.0, stairs.tolist()]


def entries(ends):
    """Methods with these steady values and errors; the first is Online-Fed."""
    return [
        {
            "method": f"m{j}", "mse_db": {"steady": {"value": value, "stderr": error}},
            "difference_db": {"steady": {"value": None if None in (value, ends[0][0]) else value - ends[0][0], "stderr": error}},
            "traffic_share": 0.2,
        }
        for j, (value, error) in enumerate(ends)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([(-10, 0.1), (-12, 0.1)], "m1 ends lowest, at -12.00 ±0.10 dB after 9 rounds: 2.00 dB below m0, with 20 % of its traffic."),
        ([(-10, 0.1), (-10.05, 0.1)], "m1 ends lowest (m0 within error of it), at -10.05 ±0.10 dB after 9 rounds: within error of m0, with 20 % of its traffic."),
        ([(-12, None), (-10, None)], "m0 ends lowest, at -12.00 dB after 9 rounds; no other method does better."),
        ([(None, None), (-10, 0.1)], "m1 ends lowest, at -10.00 ±0.10 dB after 9 rounds: m0 has diverged, with 20 % of its traffic."),
        ([(-3.0, 0.5)], "m0 is at -3.00 ±0.50 dB after 9 rounds."),
        ([(None, None), (None, None)], "All methods have diverged after 9 rounds."),
    ],
)  # fmt: skip
def test_the_answer_is_one_sentence_and_knows_what_is_within_error(ends, expected):
    assert runs.answer(entries(ends), 0 if len(ends) > 1 else None, 9) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 1, "runs": 1}, {"step": 1e6}, {"step": 50.0, "runs": 1},
        {"methods": (local.Options(),)}, {"evaluate_every": 150},
        {"methods": (centralised.Options(), raw.Options(), local.Options())},
    ],
    ids=str,
)  # fmt: skip
def test_no_result_is_too_odd_for_a_page(tab, tmp_path, change):
    with np.errstate(all="ignore"):
        made = runs.render(montecarlo.run(replace(SMALL, **change)), "psofed run", {})
    (tmp_path / "odd.html").write_bytes(made["report.html"])
    shown = tab(tmp_path / "odd.html")
    assert shown.locator("h1 + p").inner_text()
    assert shown.locator("table").count() == 2
    shown.get_by_role("button", name="Bytes", exact=True).click()
    shown.get_by_role("button", name="Linear", exact=True).click()
