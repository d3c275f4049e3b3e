"""Figures for papers, slides and notebooks: style sheets, axes of one's own, legends, levels."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace

import numpy as np
import pytest

import psofed
from helpers.extra import Extra
from psofed.errors import InputError
from psofed.report.charts import Chart, Curve, Sheet

mpl, figures = Extra("matplotlib"), Extra("psofed.report.figures")
OURS = {"ieee-column": 3.5, "ieee-page": 7.16, "slides": 12.8}  # inches


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


def check_places(axes):
    """The legend covers no curve, and the name of every level is inside the axes."""
    axes.figure.draw_without_rendering()
    box = axes.get_window_extent()
    assert not axes.get_legend().get_window_extent().overlaps(box)
    assert axes.texts
    assert all(name.get_window_extent().y0 >= box.y0 - 1 for name in axes.texts)


@pytest.mark.parametrize("style", OURS)
def test_a_style_of_ours_has_its_width_its_legend_and_embedded_fonts(curves, style, tmp_path):
    before = dict(mpl.rcParams)
    low = replace(curves, floors={"noise": psofed.curves.Estimate(-30.0, 0.1)})
    figure = low.plot(tmp_path / "now.pdf", style=style)
    assert dict(mpl.rcParams) == before
    assert figure.get_size_inches()[0] == OURS[style]
    [axes] = figure.axes
    check_places(axes)
    for box in (axes.get_legend().get_window_extent(), axes.get_tightbbox()):
        assert box.x0 >= figure.bbox.x0 - 1
        assert box.x1 <= figure.bbox.x1 + 1
        assert box.y0 >= figure.bbox.y0 - 1
        assert box.y1 <= figure.bbox.y1 + 1
    figure.savefig(tmp_path / "later.pdf")
    for name in ("now.pdf", "later.pdf"):
        data = (tmp_path / name).read_bytes()
        assert b"/FontFile2" in data
        assert not re.search(rb"/Subtype /Type3", data)


def test_any_style_of_matplotlib_and_any_file_will_do(curves, tmp_path):
    path = tmp_path / "mine.mplstyle"
    path.write_text("figure.figsize: 4, 3\n")
    assert curves.plot(style=path).get_size_inches().tolist() == [4, 3]
    assert curves.plot(style="ggplot").axes[0].get_facecolor() == mpl.colors.to_rgba("#E5E5E5")


@pytest.mark.parametrize("count", [3, 20])
def test_curves_go_into_axes_of_the_users_above_their_legend(count):
    made = of_windows(*range(1, count))
    for axes, style in zip(
        figures.Figure(figsize=(10, 4)).subplots(1, 2), (None, "slides"), strict=True
    ):
        assert made.plot(ax=axes, style=style) is axes
        check_places(axes)


def test_a_notebooks_picture_is_as_wide_as_its_page(curves):
    for style in (None, *OURS):
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
        ({"style": "ieee"}, r"style is 'ieee'; did you mean 'ieee-page'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(curves, monkeypatch, tmp_path, options, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=told):
        curves.plot(**options)
    assert not list(tmp_path.iterdir())


def test_a_level_beyond_the_top_of_a_chart_is_not_drawn_above_it():
    levels = [("within", 0.5, ""), ("far above", 9.0, "")]
    chart = Chart("", "x", "y", [Curve("a", [1, 2], [0.4, 0.6])], levels, bottom=0, top=0.7)
    figure = figures.draw(Sheet([chart]))
    figure.draw_without_rendering()  # pytest makes the warning of a layout that fails an error
    [axes] = figure.axes
    assert [text.get_text() for text in axes.texts] == ["within"]


def test_of_49_curves_no_two_look_alike():
    assert len({figures.style(i) for i in range(49)}) == 49
