"""Reports in a real browser: what they show, and that they are for everybody."""

import csv
import json
import re

import numpy as np
import pytest

from helpers.opened import X, press
from psofed.report.page import MINUS

FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


@pytest.fixture(scope="module")
def rows(result):
    """The lines of curves.csv."""
    return list(csv.DictReader(result["curves.csv"].decode().splitlines()))


def legend(shown):
    """The values under the cursor, by the curve's name."""
    found = shown.locator(".legend button").all_inner_texts()
    parts = (re.split(r"\n+", text.strip()) for text in found)
    return {label: float(value.replace(MINUS, "-")) for label, value in parts}


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


def test_the_log_switch_leaves_round_zero_out_and_buttons_zoom(opened):
    shown = opened()
    press(shown, "Log")
    assert shown.evaluate(X) == [1, 300]
    assert shown.evaluate("chart.plot.scales.x.distr") == 3
    names = shown.evaluate("chart.plot.axes[0]._values.filter((v) => v)")
    assert {"1", "10", "100"} <= set(names)
    press(shown, "Linear")
    press(shown, "Zoom in")
    low, high = shown.evaluate(X)
    assert 50 < low < high < 250
    press(shown, "Zoom out")
    press(shown, "Show all")
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
    looks = shown.evaluate("Array.from({length: 49}, (_, i) => tone(i) + dash(i))")
    assert len(set(looks)) == 49
    low, y, high = shown.evaluate("(({low, y, high}) => [low, y, high])(chart.spec.series[1])")
    own = [r for r in rows if r["method"] == labels[1]]
    error = [float(r["stderr_db"]) for r in own]
    assert (np.array(y) - low)[1:] == pytest.approx(error[1:], abs=0.0011)
    assert (np.array(high) - y)[1:] == pytest.approx(error[1:], abs=0.0011)
    press(shown, "All")
    dashes = shown.evaluate("chart.spec.series.map((s) => dash(s.style).join())")
    assert len(set(dashes)) == len(dashes)  # told apart without colour


def test_floors_are_levels_that_can_be_put_away(opened, result):
    shown = opened()
    floors = json.loads(result["summary.json"])["floors_db"]
    assert floors
    levels = shown.evaluate("chart.spec.levels.map((l) => l.value)")
    assert levels == pytest.approx([floor["value"] for floor in floors.values()], abs=0.001)
    bottom = shown.evaluate("chart.plot.scales.y.min")
    press(shown, "Levels")
    assert shown.evaluate("chart.spec.levels") == []
    assert shown.evaluate("chart.plot.scales.y.min") > bottom


def test_a_name_in_the_legend_stresses_its_curve_under_the_pointer(opened):
    shown = opened()
    button = shown.locator(".legend button").nth(1)
    button.hover()
    assert shown.evaluate("chart.plot.series.map((s) => s.alpha)")[4] == 1
    assert shown.evaluate("chart.plot.series[1].alpha") < 0.5
    shown.locator("h1").hover()
    assert shown.evaluate("chart.plot.series[1].alpha") == 1


def test_a_phone_scrolls_down_and_not_aside(opened):
    shown = opened(viewport={"width": 375, "height": 667}, has_touch=True)
    for width, axis in ((375, "Bytes"), (320, "Rounds")):
        shown.set_viewport_size({"width": width, "height": 667})
        shown.evaluate(FRAMES)  # the chart follows
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.locator(".u-over").first.bounding_box()["width"] > 0.6 * width
        press(shown, axis)
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
    wanted = ["(a) Coordinated", "All", "Rounds", "Bytes", "Linear", "Log", "Levels", "+"]
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
