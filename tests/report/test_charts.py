"""Pages in a real browser: charts, and texts from outside that would like to be code."""

import json
import math
import re

import pytest

from helpers.hostile import HOSTILE
from psofed.report.page import CHARTS, asset, document, embed

DRAW = "const chart = new LineChart(document.getElementById('main'), DATA);"


@pytest.fixture
def chart_page(tmp_path, monkeypatch):
    """A page with one chart of what is given."""

    def make(spec):
        monkeypatch.setattr(
            "psofed.report.page.asset", lambda name: DRAW if name == "draw.js" else asset(name)
        )
        path = tmp_path / "page.html"
        path.write_text(
            document("chart", spec, (*CHARTS, "draw.js"), ("uPlot.min.css",)), encoding="utf-8"
        )
        return path

    return make


def spec(**more):
    rounds = list(range(0, 1000, 10))
    y = [-0.01 * n for n in rounds]
    band = {"low": [v - 1 for v in y], "high": [v + 1 for v in y]}
    series = [{"label": "one", "y": y, **band}, {"label": "two", "y": [2 * v for v in y]}]
    return {"xLabel": "round", "yLabel": "dB", "x": rounds, "series": series} | more


@pytest.mark.parametrize("text", HOSTILE)
def test_embedded_text_comes_back_and_never_holds_a_tag(text):
    embedded = embed({"a": [text]})
    assert not re.search(r"[<>&\u2028\u2029]", embedded)
    assert json.loads(embedded) == {"a": [text]}


@pytest.mark.parametrize("y", [-0.7071, 1e12, 0.0])
def test_curves_that_differ_by_rounding_alone_are_drawn(tab, chart_page, y):
    series = [{"label": "one", "y": [y]}, {"label": "two", "y": [math.nextafter(y, 1e300)]}]
    shown = tab(chart_page(spec(x=[0], series=series)))
    low, high = shown.evaluate("[chart.plot.scales.y.min, chart.plot.scales.y.max]")
    assert low < y < high


def test_dragging_zooms_and_a_double_click_shows_all(tab, chart_page):
    shown = tab(chart_page(spec()))
    box = shown.locator(".u-over").bounding_box()
    shown.mouse.move(box["x"] + 200, box["y"] + 100)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 500, box["y"] + 102, steps=4)
    shown.mouse.up()
    scale = shown.evaluate("[chart.plot.scales.x.min, chart.plot.scales.x.max]")
    assert 100 < scale[0] < 300 < scale[1] < 700
    shown.locator(".u-over").dblclick()
    assert shown.evaluate("[chart.plot.scales.x.min, chart.plot.scales.x.max]") == [0, 990]


def test_the_keyboard_moves_along_the_curves_and_zooms(tab, chart_page):
    shown = tab(chart_page(spec()))
    shown.locator(".plot").focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowRight"):
        shown.keyboard.press(key)
    assert shown.locator(".at").inner_text() == "round 110"
    shown.keyboard.press("+")
    low, high = shown.evaluate("[chart.plot.scales.x.min, chart.plot.scales.x.max]")
    assert 0 <= low <= 110 <= high < 990
    shown.keyboard.press("0")
    assert shown.evaluate("chart.plot.scales.x.max") == 990


def test_a_legend_button_hides_its_curve_and_its_band(tab, chart_page):
    shown = tab(chart_page(spec()))
    shown.get_by_role("button", name="one").click()
    shows = shown.evaluate("chart.plot.series.map((s) => s.show)")
    assert shows == [True, False, False, False, True]


def test_curves_of_unequal_rounds_share_one_logarithmic_axis(tab, chart_page):
    series = [
        {"label": "a", "x": [0, 10, 100], "y": [0, -1, -2]},
        {"label": "b", "x": [0, 5, 50], "y": [0, -3, -4]},
    ]
    shown = tab(chart_page(spec(x=None, series=series, xLog=True)))
    assert shown.evaluate("Array.from(chart.data[0])") == [5, 10, 50, 100]
    shown.locator(".plot").focus()
    shown.keyboard.press("ArrowRight")
    assert shown.locator(".legend .value").all_inner_texts() == ["-1", "-3"]
