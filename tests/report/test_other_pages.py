"""Reports of comparisons, theory, advice and fits, and hostile names, in a real browser."""

import csv
from dataclasses import replace

import pytest

from helpers.extra import Extra
from helpers.hostile import HOSTILE
from helpers.opened import SMALL, press
from psofed import experiment as experiments
from psofed.compare import budget, tuning
from psofed.experiment import Features
from psofed.methods import local, onlinefed, psofed
from psofed.report import advice as advices
from psofed.report import comparisons, fits, runs
from psofed.report.page import minus
from psofed.simulate import montecarlo
from psofed.streams import paper
from psofed.streams.data import reading
from psofed.streams.data.columns import Columns
from psofed.tables import example, fitting
from psofed.tables.advice import Advice, Choice, Limits
from psofed.tables.plan import Plan

figures = Extra("psofed.report.figures")


def test_hostile_labels_are_shown_as_text(opened, file):
    labels = [*HOSTILE, 'a,b\n"c"\rd', "\x00nothing"]
    methods = [{"name": "psofed", "shared": i, "label": each} for i, each in enumerate(labels, 1)]
    few = {"clients": 4, "rounds": 120, "runs": 2, "test_samples": 40, "features": {"dim": 20}}
    experiment = experiments.read(file(**few, methods=methods))
    made = runs.render(montecarlo.run(experiment), f"psofed run {HOSTILE[0]}", {})
    shown = opened(made["report.html"])
    press(shown, "Bytes")
    assert shown.evaluate("window.hacked") is None
    assert shown.locator("img, script[src], iframe").count() == 0
    text = shown.evaluate("document.getElementById('main').textContent")
    for label in HOSTILE:
        assert text.count(label) >= 3  # legend, table, traffic


def test_a_comparison_of_many_methods_begins_with_the_best_over_bytes(opened):
    methods = (onlinefed.Options(), *(psofed.Options(m) for m in range(1, 20)), local.Options())
    experiment = replace(SMALL, rounds=400, features=Features(dim=20), methods=methods)
    entries = [tuning.Entry(o, budget.Cost(0.5, 80, 160), 0.75, ()) for o in methods]
    made = comparisons.Comparison(
        montecarlo.run(experiment), entries, [("Left", "too <b>dear</b>")], 0.5, -3.0, "fair",
        "psofed compare",
    )  # fmt: skip
    shown = opened(comparisons.render(made)["report.html"])
    assert shown.locator("h1 + p").inner_text() == minus(comparisons.sentence(made))
    assert shown.evaluate("chart.spec.xLabel") == "bytes, up + down"
    assert 6 <= shown.evaluate("chart.spec.series.length") <= 7
    press(shown, "All")
    press(shown, "Rounds")
    assert shown.evaluate("chart.spec.series.length") == len(entries)
    assert shown.evaluate("chart.spec.yRange[1]") <= made.curves.mse_db[:, 0].max() + 2.1
    assert "Left out: Left, too <b>dear</b>." in shown.inner_text("main")


@pytest.mark.parametrize("width", [1024, 1920])
def test_a_wide_table_is_not_cut_on_a_screen(opened, width):
    name = "PSO-Fed M=80 uncoordinated, 6 bit, half-whitened 80, momentum 0.8, averaged"
    methods = onlinefed.Options(), psofed.Options(5, label=name)
    experiment = replace(SMALL, methods=methods, judge="personal", stream=paper.Options(spread=1.0))
    entries = [tuning.Entry(o, budget.Cost(0.5, 80000, 160000), 0.75, ()) for o in methods]
    made = comparisons.Comparison(
        montecarlo.run(experiment), entries, [], 0.5, -0.1, "fair", "psofed compare"
    )
    shown = opened(
        comparisons.render(made)["report.html"], viewport={"width": width, "height": 800}
    )
    wide = (
        "[...document.querySelectorAll('.scroll')].map((box) => box.scrollWidth - box.clientWidth)"
    )
    assert not any(shown.evaluate(wide))


def test_theory_is_drawn_over_its_simulation(opened, works, tmp_path, file):
    methods = [{"name": "onlinefed"}, {"name": "psofed", "shared": 2}]
    world = {"stream": {"name": "paper", "inputs": "iid"}, "features": {"dim": 6}}
    path = file(clients=6, cohort=2, rounds=80, test_samples=60, **world, methods=methods)
    works("study", "theory", path, "--runs", 4, "--out", "t")
    shown = opened((tmp_path / "t" / "report.html").read_bytes())
    series = shown.evaluate(
        "chart.spec.series.map((s) => [s.label, !!s.points, s.x, s.y, s.style])"
    )
    assert [(label, points) for label, points, *_ in series] == [
        ("Online-Fed", False), ("Online-Fed, simulated", True),
        ("PSO-Fed M=2 uncoordinated", False), ("PSO-Fed M=2 uncoordinated, simulated", True),
    ]  # fmt: skip
    with open(tmp_path / "t" / "theory.csv", newline="") as file:
        table = {(r["method"], float(r["round"])): r for r in csv.DictReader(file)}
    for (label, _, _, _, line), (_, _, x, y, points) in zip(series[::2], series[1::2], strict=True):
        assert line == points
        wanted = [float(table[label, n]["simulated_db"]) for n in x]
        assert y == pytest.approx(wanted, abs=0.0006)
    assert shown.locator(".chart").count() == 1


def test_the_page_of_an_advice_has_candidates_that_are_only_text(opened):
    sent = (12.0, 3.0, 4, 8)
    best = Choice(HOSTILE[0], "kernel", psofed.Options(2), 0.4, 0.4, *sent)
    beyond = replace(best, title=HOSTILE[2], why_not=HOSTILE[3], bytes=14.0)
    alone = replace(best, title="Local only", kind="alone", bytes=0.0)
    plan = Plan(Columns(target=HOSTILE[1], time=("t",), client="c"), dim=5)
    made = Advice(plan, [best, beyond, alone], best, None, 9, Limits(), ["a note"], None)
    shown = opened(advices.page(made, "psofed advise t.csv").html())
    assert shown.evaluate("window.hacked") is None
    assert HOSTILE[0] in shown.locator("h1 + p").text_content()
    labels = shown.evaluate("chart.spec.series.map((s) => s.label)")
    assert sorted(labels) == sorted([HOSTILE[0], "beyond the limits"])
    text = shown.evaluate("main.textContent")
    assert all(name in text for name in (HOSTILE[1], HOSTILE[2], HOSTILE[3]))


@pytest.fixture(scope="module")
def fit():
    """A quick fit of the example."""
    columns = Columns(
        target="pollutant", time=("time",), client="station", calendar=("hour", "weekday"),
        categorical=("wind_from",), lags=(1,), lags_of={"wind": (2,)}, target_lags=(12,),
        missing={"traffic": "indicator", "temperature": "skip"},
    )  # fmt: skip
    methods = (psofed.Options(10),)
    plan = Plan(columns, label_delay=6, dim=40, width=2.0, step=0.4, methods=methods)
    return fitting.fit(reading.read(example.PATH, columns), plan)


@pytest.fixture(scope="module")
def table(fit):
    """What its summary holds."""
    return fits.summary(fit, "psofed fit t.csv")


def test_the_page_of_a_fit_shows_how_it_learns_and_how_it_errs(opened, fit, table):
    first, *others = table["worst"]
    worst = [first | {"client": HOSTILE[2]}, *others]
    shown = opened(fits.page(fit, table | {"worst": worst}).html())
    assert shown.evaluate("window.hacked") is None
    assert HOSTILE[2] in shown.evaluate("main.textContent")
    assert shown.locator("h2").all_inner_texts() == [
        "How the error falls", "Scores", "The model of each client",
        "The 10 worst moments of the frozen part", "Repeat it",
    ]  # fmt: skip
    assert shown.locator(".chart").count() == 1
    labels = shown.evaluate("chart.spec.series.map((s) => s.label)")
    assert labels == [row["method"] for row in table["scores"]]
    assert shown.evaluate("chart.spec.marks") == [{"label": "frozen", "value": 900}]
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1100


def test_many_clients_are_cut_and_a_better_control_is_named(fit, table):
    blocks = fits.client_blocks(fit, 3)
    assert blocks[-1] == "... and 5 more in clients.csv"
    assert [row["better"] for row in table["by_client"]].count("") > 4
    assert "clients would have been better off" in fits.answer(fit)
    ridge = next(s for s in fit.scores.scores if s.title == "Ridge regression, alone")
    errors = {name: dict(parts) for name, parts in ridge.errors.items()}
    errors["frozen"]["global"] = 0 * errors["frozen"]["global"]
    scores = [replace(s, errors=errors) if s is ridge else s for s in fit.scores.scores]
    better = replace(fit, scores=replace(fit.scores, scores=scores))
    assert {row["better"] for row in fits.client_rows(better)} == {"ridge"}
    told = "8 of 8 clients would have been better off, most with a ridge regression alone"
    assert told in fits.answer(better)


def test_the_figure_shows_how_it_learns_and_the_model_of_each_client(fit, table):
    figure = figures.draw(fits.sheet(fit, table))
    assert sum(axes.get_visible() for axes in figure.axes) == 2
    assert figures.to_bytes(figure, "png").startswith(b"\x89PNG")
