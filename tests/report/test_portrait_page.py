"""The pictures of a fit, on its page in a real browser and on paper."""

import json

import pytest

from helpers.hostile import HOSTILE
from helpers.opened import told
from helpers.portraits import INTERVALS, fitted
from psofed.report import fits
from psofed.report.page import MINUS

COLUMNS = "What each column was taken for"
TITLES = [
    "How the error falls", "Scores", "Who gains from sharing", "Predicted against actual",
    "Error by client and season", "Error by hour of the day",
    "The 10 worst moments of the frozen part", "Rows that were not used",
]  # fmt: skip


@pytest.fixture(scope="module")
def fit():
    """A quick fit of the example."""
    return fitted()


@pytest.fixture(scope="module")
def table(fit):
    """What its summary holds."""
    return fits.summary(fit, "psofed fit t.csv")


def test_the_page_of_a_fit_shows_how_it_learns_and_how_it_errs(opened, fit, table):
    shown = opened(fits.page(fit, table | {"intervals": {}}).html())
    assert shown.locator("h2").all_inner_texts() == [*TITLES, COLUMNS, "Repeat it"]
    assert shown.locator(".chart").count() == 4
    labels = shown.evaluate("chart.spec.series.map((s) => s.label)")
    assert labels == [row["method"] for row in table["scores"]]
    assert shown.evaluate("chart.spec.marks") == [{"label": "frozen", "value": 900}]
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1100


def test_every_sample_of_the_scatter_is_drawn_although_values_repeat(fit, table):
    actual = table["portrait"]["pairs"][0]
    parts = told(fits.page(fit, table).html())["parts"]
    (drawn,) = (
        part["series"][0]["x"]
        for part in parts
        if not isinstance(part, str) and part["title"].startswith("Predicted")
    )
    assert len(set(drawn)) == len(drawn) == len(actual)
    assert drawn == sorted(drawn)
    assert drawn == pytest.approx(sorted(actual), abs=0.01)


def test_intervals_and_columns_are_shown_where_the_summary_has_them(opened, fit, table):
    columns = [
        {"name": HOSTILE[0], "role": "number", "missing": 0.25, "low": -1.5, "high": 3},
        {"name": "who", "role": "left out", "why": HOSTILE[1], "values": 1200},
    ]  # fmt: skip
    shown = opened(fits.page(fit, table | {"intervals": INTERVALS, "columns": columns}).html())
    assert shown.evaluate("window.hacked") is None
    titles = shown.locator("h2").all_inner_texts()
    assert titles[len(TITLES) : -1] == [
        "Prediction intervals of 90 %", "Labels inside, by client and part",
        "Labels inside their interval", COLUMNS,
    ]  # fmt: skip
    text = shown.evaluate("main.textContent")
    for part in (HOSTILE[0], HOSTILE[1], "0.912", "25 %", f"{MINUS}1.5", "1,200"):
        assert part in text


def test_hostile_names_of_clients_and_columns_are_only_text(opened, fit, table):
    text = json.dumps(table).replace('"harbour"', json.dumps(HOSTILE[2]))
    text = text.replace('"wind_from"', json.dumps(HOSTILE[3]))
    shown = opened(fits.page(fit, json.loads(text)).html())
    assert shown.evaluate("window.hacked") is None
    for name in HOSTILE[2:4]:
        assert name in shown.evaluate("main.textContent")


def test_many_clients_are_cut_and_a_better_control_is_named(fit, table):
    blocks = fits.client_blocks(fit, 3)
    assert blocks[-1] == "... and 5 more in clients.csv"
    own, *others = table["scores"]
    better = table | {"scores": [own, *others, own | {"method": "Better", "frozen": 0.001}]}
    assert "Better does better, with 0.001" in fits.answer(better)


def test_the_figure_has_a_panel_for_what_is_known(fit, table):
    from psofed.report.figures import draw, to_bytes

    whole = draw(fits.sheet(fit, table | {"intervals": INTERVALS}))
    assert sum(axes.get_visible() for axes in whole.axes) == 6
    bare = table["portrait"] | {"seasons": None, "hours": None}
    bare["unused"] = bare["unused"] | {"counts": {}}
    small = draw(fits.sheet(fit, table | {"portrait": bare, "intervals": {}}))
    assert sum(axes.get_visible() for axes in small.axes) == 3
    assert to_bytes(small, "png").startswith(b"\x89PNG")
