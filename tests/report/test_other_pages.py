"""Reports of comparisons, theory, fits and several folders, and hostile names, in a real browser."""

import csv
import json
import re
from dataclasses import replace

import pytest

from helpers.hostile import HOSTILE
from helpers.opened import SMALL, X, press
from psofed import experiment as experiments
from psofed.compare import budget, tuning
from psofed.errors import InputError
from psofed.experiment import Features
from psofed.methods import local, onlinefed, psofed
from psofed.report import comparison, files, html, results, section
from psofed.simulate import montecarlo


def test_hostile_labels_are_shown_as_text(opened, tmp_path):
    tables = "".join(
        f'[[methods]]\nname = "psofed"\nshared = {i + 1}\nlabel = {json.dumps(label)}\n'
        for i, label in enumerate([*HOSTILE, "a,b\n\"c\"\rd", "\x00nothing"])
    )  # fmt: skip
    (tmp_path / "h.toml").write_text(
        f"clients = 4\nrounds = 120\nruns = 2\ntest_samples = 40\n[features]\ndim = 20\n{tables}",
        encoding="utf-8",
    )
    experiment = experiments.read(tmp_path / "h.toml")
    made = files.render(montecarlo.run(experiment), f"psofed run {HOSTILE[0]}", {})
    shown = opened(made["report.html"])
    press(shown, "Bytes")
    assert shown.evaluate("window.hacked") is None
    assert shown.locator("img, script[src], iframe").count() == 0
    text = shown.evaluate("document.getElementById('main').textContent")
    for label in HOSTILE:
        assert text.count(label) >= 3  # legend, table, traffic


def test_hostile_folder_names_are_shown_as_text(opened, result, tmp_path):
    names = ["<img src=x onerror='window.hacked = 1'>", "'\"><script>window.hacked = 1"]
    for name in names:
        (tmp_path / name).mkdir()
        for file, data in result.items():
            (tmp_path / name / file).write_bytes(data)
    page = html.render([results.gather(tmp_path / name) for name in names])
    shown = opened(page)
    assert shown.evaluate("window.hacked") is None
    for name in names:
        assert shown.get_by_role("button", name=name, exact=True).count() == 1
        assert shown.get_by_role("link", name=name, exact=True).count() == 1


def test_results_side_by_side_share_one_chart_and_have_a_section_each(opened, result, tmp_path):
    other = files.render(montecarlo.run(replace(SMALL, rounds=200, seed=5)), "psofed run", {})
    found = []
    for name, made in (("long", result), ("short", other)):
        found.append(results.Result(str(tmp_path / name), made))
    shown = opened(html.render(found))
    labels = shown.evaluate("chart.spec.series.map((s) => s.label)")
    assert len(labels) == 12
    assert {"long: Online-Fed", "short: Online-Fed"} <= set(labels)
    looks = shown.evaluate("chart.spec.series.map((s) => tone(s.style) + dash(s.style))")
    assert len(set(looks)) == 12
    tones = shown.evaluate("chart.spec.series.map((s) => tone(s.style))")
    assert tones[:6] == tones[6:]  # a method has its colour in both
    assert shown.locator("section").count() == 2
    press(shown, "short")
    assert shown.evaluate("chart.spec.series.length") == 6
    assert shown.evaluate(X) == [0, 200]
    differs = shown.locator("table").first.inner_text()
    assert re.search(r"rounds\s+300\s+200", differs)
    assert re.search(r"seed\s+0\s+5", differs)
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1100


def test_a_comparison_of_many_methods_begins_with_the_best_over_bytes(opened):
    methods = (onlinefed.Options(), *(psofed.Options(m) for m in range(1, 20)), local.Options())
    experiment = replace(SMALL, rounds=400, features=Features(dim=20), methods=methods)
    entries = [tuning.Entry(o, budget.Cost(0.5, 80, 160), 0.75, ()) for o in methods]
    made = comparison.Comparison(
        montecarlo.run(experiment), entries, [("Left", "too <b>dear</b>")], 0.5, -3.0, "unicast",
        "fair", "psofed compare",
    )  # fmt: skip
    shown = opened(comparison.render(made)["report.html"])
    assert shown.locator("h1 + p").inner_text() == section.minus(comparison.sentence(made))
    assert shown.evaluate("chart.spec.xLabel") == "bytes, up + down"
    assert 6 <= shown.evaluate("chart.spec.series.length") <= 7
    press(shown, "All")
    press(shown, "Rounds")
    assert shown.evaluate("chart.spec.series.length") == len(entries)
    assert shown.evaluate("chart.spec.yRange[1]") <= made.curves.mse_db[:, 0].max() + 2.1
    assert "Left out: Left, too <b>dear</b>." in shown.inner_text("main")
    assert shown.get_by_role("heading", name="What a target costs").count() == 1
    press(shown, "All methods")


def test_theory_is_drawn_over_its_simulation(opened, psofed, tmp_path):
    (tmp_path / "t.toml").write_text(
        'clients = 6\ncohort = 2\nrounds = 80\ntest_samples = 60\n[stream]\nname = "iid"\n'
        '[features]\ndim = 6\n[[methods]]\nname = "onlinefed"\n[[methods]]\nname = "psofed"\n'
        "shared = 2\n"
    )
    result = psofed("theory", "t.toml", "--simulate", "--runs", 4, "--out", "t")
    assert result.returncode == 0, result.stderr
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
    assert shown.get_by_role("heading", name="The end against step μ").count() == 1
    assert shown.locator(".chart").count() == 3
    whole = (tmp_path / "t" / "theory.csv").read_text().splitlines()
    (tmp_path / "t" / "theory.csv").write_text("\n".join(whole[:-3]) + "\n")
    with pytest.raises(InputError, match=r"theory\.csv: ends at round 77 of 80"):
        html.render([results.gather(tmp_path / "t")])


def test_fits_and_advice_have_pages_whose_clients_are_only_text(opened):
    shared = {
        "command": "psofed fit t.csv", "versions": {"psofed": "1"}, "rounds": 9, "notes": ["a note"],
        "plan": {"columns": {"target": HOSTILE[1]}, "dim": 5},
    }  # fmt: skip
    score = {
        "method": "PSO-Fed", "prequential": 0.5, "frozen": 0.4, "prequential_own": None,
        "frozen_own": 0.3, "bytes_per_device_and_day": 1234.5,
    }  # fmt: skip
    client = {"samples": 5, "shared": 0.1, "own": 0.2, "alone": None, "sharing": "gains"}
    summary = shared | {
        "rows": 100, "clients": 2, "first_round": 1, "frozen_round": 5,
        "scores": [score, score | {"method": "Linear", "frozen": 0.2}],
        "by_client": [client | {"client": name} for name in (*HOSTILE, *map(str, range(200)))],
    }  # fmt: skip
    made = {"summary.json": summary, "scores.csv": "", "plan.toml": "dim = 5"}
    shown = opened(html.render([results.Result("", {k: encoded(v) for k, v in made.items()})]))
    assert shown.evaluate("window.hacked") is None
    text = shown.evaluate("main.textContent")
    assert all(name in text for name in HOSTILE)
    assert "Linear does better, with 0.200" in shown.locator("h1 + p").inner_text()
    assert f"And {len(HOSTILE) + 100} more in clients.csv." in text
    setting = {
        "method": "PSO-Fed", "error": 0.4, "bytes_per_device_and_day": 12.0, "why_not": "",
        "messages_per_device_and_day": 3.0, "largest_message": 4,
    }  # fmt: skip
    table = shared | {
        "words": [HOSTILE[0], "more"],
        "recommended": setting,
        "settings": [
            setting,
            setting | {"method": HOSTILE[2], "why_not": HOSTILE[3]},
            setting | {"method": "Local only", "bytes_per_device_and_day": 0},
        ],
    }
    made = {"advice.json": table, "plan.toml": ""}
    shown = opened(html.render([results.Result("", {k: encoded(v) for k, v in made.items()})]))
    assert shown.evaluate("window.hacked") is None
    assert shown.locator("h1 + p").text_content() == HOSTILE[0]
    assert shown.evaluate("chart.spec.series.map((s) => s.label)") == [
        "PSO-Fed",
        "beyond the limits",
    ]


def encoded(value):
    return (value if isinstance(value, str) else json.dumps(value)).encode()
