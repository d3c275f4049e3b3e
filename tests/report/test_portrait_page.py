"""The pictures of a fit, on its page in a real browser and on paper."""

import pytest

from helpers.portraits import fitted
from psofed.report import fits

TITLES = [
    "How the error falls", "Scores", "Who gains from sharing",
    "The 10 worst moments of the frozen part",
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
    shown = opened(fits.page(fit, table).html())
    assert shown.locator("h2").all_inner_texts() == [*TITLES, "Repeat it"]
    assert shown.locator(".chart").count() == 1
    labels = shown.evaluate("chart.spec.series.map((s) => s.label)")
    assert labels == [row["method"] for row in table["scores"]]
    assert shown.evaluate("chart.spec.marks") == [{"label": "frozen", "value": 900}]
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1100


def test_many_clients_are_cut_and_a_better_control_is_named(fit, table):
    blocks = fits.client_blocks(fit, 3)
    assert blocks[-1] == "... and 5 more in clients.csv"
    own, *others = table["scores"]
    better = table | {"scores": [own, *others, own | {"method": "Better", "frozen": 0.001}]}
    assert "Better does better, with 0.001" in fits.answer(better)


def test_the_figure_shows_how_it_learns_and_who_gains(fit, table):
    from psofed.report.figures import draw, to_bytes

    figure = draw(fits.sheet(fit, table))
    assert sum(axes.get_visible() for axes in figure.axes) == 2
    assert to_bytes(figure, "png").startswith(b"\x89PNG")
