"""The pictures of a fit, on its page in a real browser and on paper."""

import json

import pytest

from helpers.hostile import HOSTILE
from helpers.portraits import INTERVALS, fitted
from psofed.report import fits, html, portrait_figure, results, section
from psofed.report.figures import to_bytes

TITLES = [
    "How the error falls", "Scores", "Who gains from sharing", "Predicted against actual",
    "Error by client and season", "Error by hour of the day",
    "The 10 worst moments of the frozen part", "Which columns the model rests on",
    "Rows that were not used",
]  # fmt: skip


@pytest.fixture(scope="module")
def made():
    """The files of a fit, without figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits, "can_draw", lambda: False)
        return fits.render(fitted(), "psofed fit t.csv")


def changed(made, **more):
    """The page of the same files with something else in the summary."""
    summary = json.loads(made["summary.json"]) | {"intervals": {}, "columns": []} | more
    return html.render([results.Result("", made | {"summary.json": json.dumps(summary).encode()})])


def test_the_page_of_a_fit_shows_how_it_learns_and_how_it_errs(opened, made):
    shown = opened(changed(made))
    assert shown.locator("h2").all_inner_texts() == [*TITLES, "Repeat it"]
    assert shown.locator(".chart").count() == 4
    labels = shown.evaluate("chart.spec.series.map((s) => s.label)")
    assert labels == [row["method"] for row in json.loads(made["summary.json"])["scores"]]
    assert shown.evaluate("chart.spec.marks") == [{"label": "frozen", "value": 900}]
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1100
    rise = shown.locator("table").filter(has_text="rise of the error").inner_text()
    assert "wind_from" in rise
    assert "By permutation" in shown.inner_text("main")


def test_every_sample_of_the_scatter_is_drawn_although_values_repeat(opened, made):
    data = json.loads(made["summary.json"])["portrait"]["pairs"]
    shown = opened(made["report.html"])
    drawn = shown.evaluate(
        "DATA.sections[0].parts.find((p) => p.title.startsWith('Predicted')).series[0].x"
    )
    assert len(set(drawn)) == len(drawn) == len(data[0])
    assert drawn == sorted(drawn)
    assert drawn == pytest.approx(sorted(data[0]), abs=0.01)


def test_the_page_is_made_again_from_the_files(made, tmp_path):
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    again = html.render([results.Result("", results.gather(tmp_path).files)])
    assert again == made["report.html"]


def test_intervals_and_columns_are_shown_where_the_summary_has_them(opened, made):
    columns = [
        {"name": HOSTILE[0], "role": "number", "missing": 0.25, "low": -1.5, "high": 3},
        {"name": "who", "role": "left out", "why": HOSTILE[1], "values": 1200},
    ]  # fmt: skip
    shown = opened(changed(made, intervals=INTERVALS, columns=columns))
    assert shown.evaluate("window.hacked") is None
    titles = shown.locator("h2").all_inner_texts()
    assert titles[len(TITLES) : -1] == [
        "Prediction intervals of 90 %", "Labels inside, by client and part",
        "Labels inside their interval",
        "What each column was taken for",
    ]  # fmt: skip
    text = shown.evaluate("main.textContent")
    assert HOSTILE[0] in text
    assert HOSTILE[1] in text
    for part in ("0.912", "25 %", f"{section.MINUS}1.5", "1,200"):
        assert part in text


def test_hostile_names_of_clients_and_columns_are_only_text(opened, made):
    text = made["summary.json"].decode().replace('"harbour"', json.dumps(HOSTILE[2]))
    text = text.replace('"wind_from"', json.dumps(HOSTILE[3]))
    shown = opened(html.render([results.Result("", made | {"summary.json": text.encode()})]))
    assert shown.evaluate("window.hacked") is None
    for name in HOSTILE[2:4]:
        assert name in shown.evaluate("main.textContent")


def test_the_figure_has_a_panel_for_what_is_known(made):
    summary = json.loads(made["summary.json"]) | {"intervals": {}}
    whole = portrait_figure.portrait_figure(summary | {"intervals": INTERVALS})
    assert sum(axes.get_visible() for axes in whole.axes) == 6
    bare = summary["portrait"] | {"seasons": None, "hours": None}
    bare["unused"] = bare["unused"] | {"counts": {}}
    small = portrait_figure.portrait_figure(summary | {"portrait": bare})
    assert sum(axes.get_visible() for axes in small.axes) == 2
    assert to_bytes(small, "png").startswith(b"\x89PNG")
