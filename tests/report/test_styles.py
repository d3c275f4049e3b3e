"""Figures for papers and notebooks: axes of one's own, legends, levels."""

from dataclasses import replace

import numpy as np
import pytest

import psofed
from helpers.extra import Extra
from psofed.errors import InputError
from psofed.report.charts import Chart, Curve, Sheet

colors, style = Extra("matplotlib.colors"), Extra("matplotlib.style")
figures = Extra("psofed.report.figures")


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


@pytest.mark.parametrize("count", [3, 20])
def test_curves_go_into_axes_of_the_users_above_their_legend(count):
    """The legend covers no curve, and the name of every level is inside the axes."""
    floor = {"noise": psofed.curves.Estimate(-30.0, 0.1)}
    made = replace(of_windows(*range(1, count)), floors=floor)
    for look in ("default", "ggplot"):
        with style.context(look):
            axes = figures.Figure(figsize=(6, 4)).subplots()
            assert made.plot(ax=axes) is axes
            axes.figure.draw_without_rendering()
        box = axes.get_window_extent()
        assert not axes.get_legend().get_window_extent().overlaps(box)
        assert [name.get_window_extent().y0 >= box.y0 - 1 for name in axes.texts] == [True]
        assert axes.get_facecolor() == colors.to_rgba("#E5E5E5" if look == "ggplot" else "w")


def test_a_notebooks_picture_is_as_wide_as_its_page(curves):
    data = curves.plot()._repr_png_()
    assert 700 <= int(np.frombuffer(data[16:20], ">u4")[0]) <= 760
    assert data == curves.plot()._repr_png_()


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
