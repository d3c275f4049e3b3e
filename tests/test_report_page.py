"""Reports in a real browser: what they show, and that they are for everybody."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from psofed import compare
from psofed import experiment as experiments
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.methods import local, onlinefed, psofed
from psofed.report import comparison, files, html, section, sources
from psofed.simulate import montecarlo
from test_web import HOSTILE

SMALL = Experiment(
    clients=6, cohort=2, rounds=300, runs=4, test_samples=50, features=Features(dim=8),
    methods=(
        onlinefed.Options(), psofed.Options(1, "coordinated"), psofed.Options(2, "coordinated"),
        psofed.Options(1), psofed.Options(2), local.Options(),
    ),
)  # fmt: skip
X = "[chart.plot.scales.x.min, chart.plot.scales.x.max]"
# The page keeps no names of its own: find the first chart by its part of the page.
CHARTS = """() => { const made = []; const draw = LineChart.prototype.build;
  LineChart.prototype.build = function () { if (!made.includes(this)) made.push(this); window.chart = made[0]; draw.call(this); };
  main.replaceChildren(); waiting.length = 0; show(); }"""


@pytest.fixture(scope="module")
def result():
    """The files of a run."""
    return files.render(montecarlo.run(SMALL), "psofed run experiment.toml --runs 4", {})


@pytest.fixture
def opened(tab, result, tmp_path):
    """The page of a run, with its first chart as `chart`."""

    def open_page(page=None, **options):
        path = tmp_path / "report.html"
        path.write_bytes(page or result["report.html"])
        shown = tab(path, **options)
        shown.evaluate(CHARTS)
        return shown

    return open_page


@pytest.fixture(scope="module")
def rows(result):
    """The lines of curves.csv."""
    return list(csv.DictReader(result["curves.csv"].decode().splitlines()))


def press(shown, name):
    shown.get_by_role("button", name=name, exact=True).first.click()


def legend(shown):
    """The values under the cursor, by the curve's name."""
    found = shown.locator(".legend button").all_inner_texts()
    parts = (re.split(r"\n+", text.strip()) for text in found)
    return {label: float(value.replace(section.MINUS, "-")) for label, value in parts}


def test_a_report_shows_the_answer_first_and_all_its_parts(opened, result):
    shown = opened()
    headings = shown.locator("h1, h2").all_inner_texts()
    assert headings == ["Learning curves of 6 methods", "Test error", "Traffic", "Repeat it"]
    answer = shown.locator("h1 + p").inner_text()
    assert "ends lowest" in answer
    assert shown.locator("table").count() == 2
    assert "psofed run experiment.toml --runs 4" in shown.locator("pre").first.inner_text()
    shown.get_by_text("The experiment, as TOML").click()
    assert result["experiment.toml"].decode().strip() in shown.locator("details pre").inner_text()


def test_hovering_shows_the_values_of_the_csv(opened, rows):
    shown = opened()
    shown.locator(".u-over").first.hover(position={"x": 250, "y": 80})
    n = int(shown.locator(".at").first.inner_text().split()[-1])
    assert 0 < n < 300
    seen = legend(shown)
    assert len(seen) == 4  # those of the first figure, and what belongs to no scheme
    for label, value in seen.items():
        (own,) = (r for r in rows if r["method"] == label and r["round"] == str(n))
        assert value == pytest.approx(float(own["mse_db"]), abs=0.0056)


def test_the_bytes_switch_draws_over_the_cumulative_bytes_of_the_csv(opened, rows):
    shown = opened()
    press(shown, "All")
    press(shown, "Bytes")
    press(shown, "Linear")
    curves = shown.evaluate("chart.spec.series.map((s) => [s.label, s.x, s.y])")
    assert len(curves) == 5
    for label, x, y in curves:
        own = [row for row in rows if row["method"] == label]
        assert x == pytest.approx([float(row["cumulative"]) for row in own], abs=0.06)
        assert y == pytest.approx([float(row["mse_db"]) for row in own], abs=0.0006)
    assert "Local only" in shown.locator(".curves [role=status]").inner_text()
    press(shown, "up + multicast down")
    first = shown.evaluate("chart.spec.series[0].x")
    own = [row for row in rows if row["method"] == "Online-Fed"]
    sent = np.cumsum([float(r["uplink_bytes"]) + float(r["multicast_bytes"]) for r in own])
    assert first == pytest.approx(sent.tolist(), abs=0.06)
    press(shown, "Rounds")
    assert shown.evaluate(X) == [0, 300]


def test_the_log_switch_leaves_round_zero_out_and_names_round_numbers(opened):
    shown = opened()
    press(shown, "Log")
    assert shown.evaluate(X) == [1, 300]
    assert shown.evaluate("chart.plot.scales.x.distr") == 3
    names = shown.evaluate("chart.plot.axes[0]._values.filter((v) => v)")
    assert {"1", "10", "100"} <= set(names)
    press(shown, "Linear")
    assert shown.evaluate(X) == [0, 300]


def test_groups_share_one_vertical_range_and_bands_are_one_error(opened, rows):
    shown = opened()
    span = "[chart.plot.scales.y.min, chart.plot.scales.y.max]"
    first = shown.evaluate(span)
    press(shown, "(b) Uncoordinated")
    labels = shown.evaluate("chart.spec.series.map((s) => s.label)")
    assert "PSO-Fed M=1 uncoordinated" in labels
    assert "PSO-Fed M=1 coordinated" not in labels
    assert shown.evaluate(span) == first
    low, y, high = shown.evaluate("(({low, y, high}) => [low, y, high])(chart.spec.series[1])")
    own = [r for r in rows if r["method"] == labels[1]]
    error = [float(r["stderr_db"]) for r in own]
    assert (np.array(y) - low)[1:] == pytest.approx(error[1:], abs=0.0011)
    assert (np.array(high) - y)[1:] == pytest.approx(error[1:], abs=0.0011)


def test_floors_are_levels_that_can_be_put_away(opened, result):
    shown = opened()
    floors = json.loads(result["summary.json"])["floors_db"]
    assert floors
    levels = shown.evaluate("chart.spec.levels.map((l) => l.value)")
    assert levels == pytest.approx([floor["value"] for floor in floors.values()], abs=0.001)
    bottom = shown.evaluate("chart.plot.scales.y.min")
    press(shown, "Floors")
    assert shown.evaluate("chart.spec.levels") == []
    assert shown.evaluate("chart.plot.scales.y.min") > bottom


def test_zoom_by_mouse_and_by_button(opened):
    shown = opened()
    box = shown.locator(".u-over").first.bounding_box()
    shown.mouse.move(box["x"] + 300, box["y"] + 40)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 500, box["y"] + 42, steps=4)
    shown.mouse.up()
    low, high = shown.evaluate(X)
    assert 50 < low < high < 250
    press(shown, "Zoom out")
    press(shown, "Show all")
    assert shown.evaluate(X) == [0, 300]


def test_a_name_in_the_legend_stresses_its_curve_under_the_pointer(opened):
    shown = opened()
    button = shown.locator(".legend button").nth(1)
    button.hover()
    assert shown.evaluate("chart.plot.series.map((s) => s.alpha)")[4] == 1
    assert shown.evaluate("chart.plot.series[1].alpha") < 0.5
    shown.locator("h1").hover()
    assert shown.evaluate("chart.plot.series[1].alpha") == 1


@pytest.mark.parametrize("width", [320, 375])
def test_a_phone_scrolls_down_and_not_aside(opened, width):
    shown = opened(viewport={"width": width, "height": 667}, has_touch=True)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    box = shown.locator(".u-over").first.bounding_box()
    assert box["width"] > 0.6 * width
    press(shown, "Bytes")
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def brightness(colour):
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return (299 * red + 587 * green + 114 * blue) / 1000


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_the_page_is_as_dark_as_the_reader_wants_it(opened, scheme, dark):
    shown = opened(color_scheme=scheme)
    style = "getComputedStyle(document.querySelector('{}')).{}"
    paper = brightness(shown.evaluate(style.format("body", "backgroundColor")))
    assert (paper < 60) == dark
    for part in ("h1", ".soft", "td", ".legend button", ".answer"):
        ink = brightness(shown.evaluate(style.format(part, "color")))
        assert abs(ink - paper) > 90, part
    assert shown.evaluate("tone(0)") == ("#ffffff" if dark else "#000000")


def test_printing_fits_the_sheet_drops_the_buttons_and_opens_the_folds(opened):
    shown = opened(color_scheme="dark", viewport={"width": 1400, "height": 900})
    shown.evaluate(
        "addEventListener('beforeprint', () => { setTimeout(() => {}, 0); window.inked = tone(0); })"
    )
    assert len(shown.pdf(format="A4")) > 10_000
    assert shown.evaluate("window.inked") == "#000000"
    shown.emulate_media(media="print")
    shown.set_viewport_size({"width": 718, "height": 1000})
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.evaluate("document.documentElement.scrollWidth") <= 718
    assert shown.locator(".bar").first.is_hidden()
    assert shown.locator("details pre").is_visible()
    assert shown.locator(".u-over").first.bounding_box()["width"] < 680
    shown.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown.locator("details pre").is_hidden()


def test_curves_are_told_apart_without_colour(opened):
    shown = opened()
    looks = shown.evaluate("Array.from({length: 49}, (_, i) => tone(i) + dash(i))")
    assert len(set(looks)) == 49
    press(shown, "All")
    dashes = shown.evaluate("chart.spec.series.map((s) => dash(s.style).join())")
    assert len(set(dashes)) == len(dashes)


def test_the_keyboard_reaches_and_works_every_switch(opened):
    shown = opened()
    seen = []
    for _ in range(60):
        shown.keyboard.press("Tab")
        seen.append(shown.evaluate(
            "(() => { const a = document.activeElement; const s = getComputedStyle(a);"
            " return [a.tagName, a.textContent.slice(0, 40), s.outlineStyle, parseFloat(s.outlineWidth)]; })()"
        ))  # fmt: skip
        if seen[-1][1].startswith("The experiment"):
            break
    texts = [text for _, text, _, _ in seen]
    wanted = ["(a) Coordinated", "All", "Rounds", "Bytes", "Linear", "Log", "Floors", "+"]
    assert [t for t in texts if t in wanted] == wanted
    assert any(text.startswith("Online-Fed") for text in texts)
    assert "Copy command" in texts
    assert all(line == "solid" and width >= 2 for _, _, line, width in seen)
    shown.get_by_role("button", name="Bytes", exact=True).focus()
    shown.keyboard.press("Enter")
    assert shown.evaluate("chart.spec.xLabel") == "bytes, up + down"
    pressed = shown.get_by_role("button", name="Bytes", exact=True)
    assert pressed.get_attribute("aria-pressed") == "true"
    assert shown.get_by_role("button", name="Rounds").get_attribute("aria-pressed") == "false"
    shown.locator(".plot").first.focus()
    shown.keyboard.press("ArrowRight")
    assert shown.locator(".at").first.inner_text().startswith("bytes, up + down")


def test_the_command_is_copied_or_at_least_selected(opened):
    shown = opened()
    press(shown, "Copy command")
    shown.wait_for_function("document.querySelector('.copy [role=status]').textContent")
    closed = "() => Object.defineProperty(navigator, 'clipboard', {value: undefined})"
    shown.evaluate(closed)
    shown.evaluate("document.execCommand = () => false")
    press(shown, "Copy command")
    shown.wait_for_function("getSelection().toString().startsWith('psofed run')")
    assert "press Ctrl+C" in shown.locator(".copy [role=status]").first.inner_text()


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
    page = html.render([sources.gather(tmp_path / name) for name in names])
    shown = opened(page)
    assert shown.evaluate("window.hacked") is None
    for name in names:
        assert shown.get_by_role("button", name=name, exact=True).count() == 1
        assert shown.get_by_role("link", name=name, exact=True).count() == 1


def test_results_side_by_side_share_one_chart_and_have_a_section_each(opened, result, tmp_path):
    other = files.render(montecarlo.run(replace(SMALL, rounds=200, seed=5)), "psofed run", {})
    found = []
    for name, made in (("long", result), ("short", other)):
        found.append(sources.Source(str(tmp_path / name), made))
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
    entries = [compare.Entry(o, compare.Cost(0.5, 80, 160), 0.75, ()) for o in methods]
    made = comparison.Comparison(
        montecarlo.run(experiment), entries, [("Left", "too <b>dear</b>")], 0.5, -3.0, "unicast",
        "bytes", False, "psofed compare",
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
        html.render([sources.gather(tmp_path / "t")])


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
    shown = opened(html.render([sources.Source("", {k: encoded(v) for k, v in made.items()})]))
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
    shown = opened(html.render([sources.Source("", {k: encoded(v) for k, v in made.items()})]))
    assert shown.evaluate("window.hacked") is None
    assert shown.locator("h1 + p").text_content() == HOSTILE[0]
    assert shown.evaluate("chart.spec.series.map((s) => s.label)") == [
        "PSO-Fed",
        "beyond the limits",
    ]


def encoded(value):
    return (value if isinstance(value, str) else json.dumps(value)).encode()
