"""Figures for papers and slides: their size, their fonts, and a legend that covers no curve."""

from __future__ import annotations

import re
import shutil
import zlib

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import psofed
from psofed.errors import InputError
from psofed.report import styles
from psofed.report.charts import Chart, Curve, Sheet
from psofed.report.figures import draw

INCHES = {"ieee-column": 3.5, "ieee-page": 7.16, "slides": 12.8}
every_style = pytest.mark.parametrize("style", INCHES)


def of_windows(*shared, rounds=30):
    """Curves of Online-Fed, and of PSO-Fed with each number of shared entries."""
    methods = (psofed.OnlineFed(), *(psofed.PSOFed(shared=m) for m in shared))
    experiment = psofed.Experiment(
        clients=6, cohort=2, rounds=rounds, runs=3, test_samples=30, methods=methods,
        features=psofed.Features(dim=20),
    )  # fmt: skip
    return psofed.run(experiment, 1)


@pytest.fixture(scope="module")
def curves():
    return of_windows(1, 2, 3, 5)


@every_style
def test_a_style_has_its_width_and_a_legend_beside_the_axes(curves, style):
    figure = curves.plot(style=style)
    width, height = figure.get_size_inches()
    assert width == INCHES[style]
    assert style != "slides" or width / height == pytest.approx(16 / 9)
    figure.draw_without_rendering()
    [legend], [axes] = figure.legends, figure.axes
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    whole = figure.bbox
    for box in (legend.get_window_extent(), axes.get_tightbbox()):
        assert box.x0 >= whole.x0 - 1
        assert box.x1 <= whole.x1 + 1
        assert box.y0 >= whole.y0 - 1
        assert box.y1 <= whole.y1 + 1
    assert axes.texts
    for name in axes.texts:  # of levels
        assert name.get_window_extent().y0 >= axes.get_window_extent().y0 - 1


@every_style
def test_fonts_are_embedded_as_text_also_if_it_is_saved_later(curves, style, tmp_path):
    curves.plot(tmp_path / "now.pdf", style=style)
    curves.plot(style=style).savefig(tmp_path / "later.pdf")
    for name in ("now.pdf", "later.pdf"):
        data = (tmp_path / name).read_bytes()
        kinds = set(re.findall(rb"/Subtype /(Type3|CIDFontType2|Type42|TrueType)", data))
        assert kinds, name
        assert b"Type3" not in kinds
        assert b"/FontFile2" in data


def test_the_settings_of_a_style_do_not_stay(curves):
    before = dict(mpl.rcParams)
    curves.plot(style="slides")
    assert dict(mpl.rcParams) == before


def test_curves_go_into_axes_of_the_users_below_the_legend(curves):
    figure = Figure(figsize=(10, 4))
    left, right = figure.subplots(1, 2)
    assert curves.plot(ax=left) is left
    assert curves.plot(ax=right, style="ieee-column") is right
    figure.draw_without_rendering()
    for axes in (left, right):
        lowest = axes.get_legend().get_window_extent().y0
        for line in axes.get_lines()[:5]:
            heights = line.get_transform().transform(line.get_xydata())[:, 1]
            assert heights.max() <= lowest


def test_the_name_of_the_lowest_level_is_inside_the_axes(curves):
    from dataclasses import replace

    floored = replace(curves, floors={"noise": psofed.curves.Estimate(-30.0, 0.1)})
    axes = floored.plot(style="ieee-column").axes[0]
    axes.figure.draw_without_rendering()
    [text] = axes.texts
    assert text.get_window_extent().y0 >= axes.get_window_extent().y0 - 1


def test_a_style_that_is_not_known_is_refused(curves):
    with pytest.raises(InputError, match="style is 'ieee'; did you mean 'ieee-page'"):
        curves.plot(style="ieee")


def test_latex_that_is_not_installed_is_refused_in_a_line(curves, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="latex is true, but latex and dvipng cannot be found"):
        curves.plot(latex=True)


def test_latex_gets_labels_that_it_can_print(curves, monkeypatch):
    monkeypatch.setattr(styles, "_check_latex", lambda: None)
    figure = Figure()
    hostile = styles.escaped(r"50 % of #1 & $x_i^2$ {a} ~ \b")
    assert not re.search(r"(?<!\\)[#$%&_]", hostile)
    axes = curves.plot(ax=figure.subplots(), latex=True)
    assert all(text.get_usetex() for text in axes.get_legend().get_texts())
    assert axes.get_xlabel() == "round $n$"


def test_a_notebooks_picture_is_as_wide_as_its_page(curves):
    for style in (None, *INCHES):
        data = curves.plot(style=style)._repr_png_()
        assert 700 <= int(np.frombuffer(data[16:20], ">u4")[0]) <= 760
        assert zlib.crc32(data) == zlib.crc32(curves.plot(style=style)._repr_png_())


def test_many_curves_are_told_apart_by_colour_and_dashes_together():
    [axes] = of_windows(*range(1, 20), rounds=2).plot().axes
    shown = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    assert len({(line.get_color(), str(line._unscaled_dash_pattern)) for line in shown}) == 20


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": "missing/a.png"}, r"path is 'missing/a.png', which cannot be written: No such"),
        ({"path": "a.foo"}, r"path is 'a.foo'; let it end with .png, .pdf or .svg"),
        ({"path": "."}, r"path is '.', a folder"),
        ({"ax": np.zeros(2)}, r"ax is of type ndarray; give one axes"),
    ],
)
def test_a_place_where_nothing_can_be_drawn_is_refused(
    curves, monkeypatch, tmp_path, options, told
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=told):
        curves.plot(**options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("count", [3, 20])
def test_a_legend_in_axes_of_ones_own_covers_no_curve_and_no_name_is_cut(count):
    from matplotlib import pyplot

    made = of_windows(*range(1, count), rounds=40)
    figure, axes = pyplot.subplots(figsize=(5, 4))
    made.plot(ax=axes)
    figure.draw_without_rendering()
    box = axes.get_legend().get_window_extent()
    for line in axes.get_lines():
        if not line.get_label().startswith("_"):
            points = axes.transData.transform(line.get_xydata())
            assert not any(box.contains(x, y) for x, y in points)
    for name in axes.texts:
        assert name.get_window_extent().y0 >= axes.get_window_extent().y0 - 1
    pyplot.close(figure)


def test_a_level_beyond_the_top_of_a_chart_is_not_drawn_above_it():
    levels = [("within", 0.5, ""), ("far above", 9.0, "")]
    chart = Chart("", "x", "y", [Curve("a", [1, 2], [0.4, 0.6])], levels, bottom=0, top=0.7)
    figure = draw(Sheet([chart]))
    figure.draw_without_rendering()  # pytest makes the warning of a layout that fails an error
    [axes] = figure.axes
    assert [text.get_text() for text in axes.texts] == ["within"]
