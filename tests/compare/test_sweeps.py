"""Sweeps: every point on the same draws, names that mean one thing, and nothing silent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import psofed
from helpers.mistakes import refused
from psofed.compare import addresses, sweeping
from psofed.errors import InputError
from psofed.methods import psofed as psofed_method
from psofed.report import sweeps
from psofed.simulate import montecarlo

FEW = psofed.Experiment(
    clients=5, cohort=2, rounds=12, runs=2, test_samples=20, features=psofed.Features(dim=6),
    methods=(psofed.OnlineFed(), psofed.PSOFed(shared=2)),
)  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return psofed.sweep(FEW, {"features.width": [1.0, 2.0]}, shared=[1, 3], step=[0.2, 0.4], jobs=1)


def test_every_point_is_what_a_run_of_its_own_gives(found):
    for width in (1.0, 2.0):
        for shared in (1, 3):
            for step in (0.2, 0.4):
                alone = replace(
                    FEW, step=step, features=replace(FEW.features, width=width),
                    methods=(psofed.OnlineFed(), psofed.PSOFed(shared=shared)),
                )  # fmt: skip
                there, ours = found.curves[int(width) - 1], montecarlo.run(alone, 1)
                for j, title in enumerate(ours.titles):
                    i = there.titles.index(f"{title}, step {step}")
                    assert np.allclose(there.mse[i], ours.mse[j], rtol=1e-5)
                    assert np.array_equal(there.uplink[i], ours.uplink[j])


def test_a_method_without_an_option_is_run_once_for_all_its_values(found):
    titles = found.curves[0].titles
    assert titles == [
        "Online-Fed, step 0.2", "Online-Fed, step 0.4",
        "PSO-Fed M=1 uncoordinated, step 0.2", "PSO-Fed M=1 uncoordinated, step 0.4",
        "PSO-Fed M=3 uncoordinated, step 0.2", "PSO-Fed M=3 uncoordinated, step 0.4",
    ]  # fmt: skip
    assert len(list(found.rows())) == 12 == found.plan.curves


def test_the_table_has_settings_options_and_results_as_columns(found):
    frame = found.to_frame()
    assert len(frame) == 12
    assert set(frame["features.width"]) == {1.0, 2.0}
    assert set(frame.step) == {0.2, 0.4}
    assert set(frame.shared.dropna()) == {1, 3}
    assert frame.steady_db.notna().all()
    assert frame.method.is_unique


def test_methods_that_become_equal_are_run_once():
    paper = psofed.sweep(replace(FEW, methods=psofed.Experiment(features=psofed.Features(dim=40)).methods,
                                 features=psofed.Features(dim=40)), shared=[1, 5], jobs=1)  # fmt: skip
    assert paper.curves[0].titles == [
        "Online-Fed", "PSO-Fed M=1 coordinated", "PSO-Fed M=5 coordinated",
        "PSO-Fed M=1 uncoordinated", "PSO-Fed M=5 uncoordinated",
    ]  # fmt: skip


def test_a_label_is_kept_and_told_apart():
    mine = replace(FEW, methods=(psofed.PSOFed(shared=2, label="mine"),))
    made = sweeping.plan(mine, {"shared": [1, 2]})
    assert made.parts[0][1].titles == ["mine, shared 1", "mine, shared 2"]


test_what_cannot_be_swept_is_refused_by_name = refused({
    "settings are missing": {},
    "foo is not a setting of this experiment": {"foo": [1]},
    "methods.prox is an option of none of these methods: Online-Fed": {"methods.prox": [1]},
    "shared has no values": {"shared": []},
    "shared has 1 twice": {"shared": [1, 1]},
    "methods.shared is 7, but dim is 6": {"shared": [7]},
    "methods.shared is 1.5": {"shared": [1.5]},
    "methods.shared is 'one', a text": {"shared": ["one"]},
    "step is nan": {"step": [float("nan")]},
    "seed would give each point other draws": {"seed": [1, 2]},
    "rounds is a point on every curve already": {"rounds": [5]},
    "runs is the same for all points": {"runs": [5]},
    "name can mean a method, a stream or the features": {"name": ["psofed"]},
    "label is made from what differs": {"label": ["x"]},
    "methods.shared is given twice": {"shared": [1], "methods.shared": [2]},
    "step is given twice": {"step": [0.1], "methods.step": [0.2]},
    "cohort is 6, but there are only 5 clients": {"cohort": [1, 6]},
    "features.width is -1": {"features.width": [-1]},
    "methods is not a setting": {"methods": [1]},
    "privacy.epsilon is of an experiment with a table [privacy]": {"privacy.epsilon": [1.0]},
}, lambda given: sweeping.plan(FEW, given))  # fmt: skip


@dataclass(frozen=True)
class Wide(psofed.PSOFed):
    """A method of the user's, with an option that the features have too."""

    name: ClassVar[str] = "wide"
    width: float = 1.0


class Method(psofed_method.Method):
    """What belongs to it: it is found beside its options."""


def test_a_name_with_two_readings_is_refused_with_both():
    own = replace(FEW, methods=(psofed.OnlineFed(), Wide(shared=2)))
    with pytest.raises(InputError, match=r"say which: features\.width or methods\.width"):
        addresses.place(own, "width")
    assert addresses.place(own, "methods.width").of(own.methods[1])
    assert addresses.place(own, "features.width").part == "features"


def test_a_step_that_no_method_takes_is_refused():
    own = replace(FEW, methods=(psofed.PSOFed(shared=2, step=0.3), psofed.MemoFed()))
    with pytest.raises(InputError, match="step changes nothing: all methods have their own step"):
        sweeping.plan(own, {"step": [0.1, 0.2]})
    made = sweeping.plan(own, {"methods.step": [0.1, 0.2]})
    assert [o.step for o in made.parts[0][1].methods] == [0.1, 0.2, None]


def test_too_many_points_are_refused_with_their_number():
    with pytest.raises(InputError, match=r"give 20,000 points; give fewer values"):
        sweeping.plan(FEW, {"step": np.linspace(0.1, 0.9, 200), "test_samples": range(10, 110)})


@given(
    shared=st.sets(st.integers(1, 6), min_size=1),
    step=st.sets(st.sampled_from([0.1, 0.2, 0.3]), min_size=1),
    width=st.sets(st.sampled_from([0.5, 1.0, 2.0]), min_size=1),
)
@settings(max_examples=15)
def test_a_sweep_has_a_curve_for_each_value_that_changes_a_method(shared, step, width):
    made = sweeping.plan(FEW, {"shared": shared, "step": step, "width": width})
    assert made.curves == len(width) * len(step) * (1 + len(shared))


def test_epsilon_can_be_swept():
    private = replace(FEW, methods=(psofed.PSOFed(2),), privacy=psofed.Privacy(epsilon=4.0))
    first, second = psofed.sweep(private, {"privacy.epsilon": [1.0, 1000.0]}, jobs=1).curves
    assert first.mse_db[0, -1] > second.mse_db[0, -1]


def test_numpy_values_and_single_ones_are_taken():
    made = sweeping.plan(FEW, {"shared": np.array([1, 2]), "step": np.float64(0.5)})
    assert [axis.values for axis in made.axes] == [(1, 2), (0.5,)]
    made.parts[0][1].to_toml()


def test_lines_of_the_figure_hold_every_point_once(found):
    axis = sweeps.chosen(found)
    assert axis.place.key == "features.width"
    assert sum(map(len, sweeps.lines(found, axis))) == 12
    labels = {series.label for series in sweeps.along(found).series}
    assert labels >= {"PSO-Fed M=1 uncoordinated, step 0.2"}
    assert found.plot()._repr_png_().startswith(b"\x89PNG")


def test_what_was_finished_of_a_sweep_is_kept(monkeypatch):
    real, calls = montecarlo.run, []

    def stopping(experiment, *args, **kwargs):
        calls.append(experiment)
        if len(calls) == 2:
            raise montecarlo.Interrupted(None)
        return real(experiment, 1)

    monkeypatch.setattr(sweeping.montecarlo, "run", stopping)
    with pytest.raises(psofed.Interrupted, match=r"psofed\.finished_runs"):
        psofed.sweep(FEW, width=[1.0, 2.0, 3.0])
    kept = psofed.finished_runs()
    assert [settings for settings, _ in kept.plan.parts] == [{"features.width": 1.0}]
    assert len(list(kept.rows())) == 2


def test_functions_have_names_in_titles_and_not_addresses():
    stream = psofed.Stream(lambda x: x[..., 0], taps=2)
    small = psofed.Experiment(
        clients=2, cohort=1, rounds=2, runs=1, test_samples=10, stream=stream,
        methods=(psofed.PSOFed(shared=2),), features=psofed.Features(dim=4),
    )  # fmt: skip

    def product(x):
        return x[..., 0] * x[..., 1]

    found = psofed.sweep(small, f=[product, lambda x: x[..., 0], lambda x: x[..., 1]], jobs=1)
    assert [row["method"].partition(", ")[2] for row in found.rows()] == [
        "f product", "f lambda 1", "f lambda 2",
    ]  # fmt: skip
    assert "stream.f product, lambda 1, lambda 2" in repr(found)
    assert " at 0x" not in found._repr_html_()
    [axes] = found.plot().axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["product", "lambda 1", "lambda 2"]


def test_the_legend_of_a_sweep_stands_below_the_axes():
    found = psofed.sweep(FEW, step=[0.1, 0.2], shared=[1, 2], jobs=1)
    figure = found.plot()
    figure.draw_without_rendering()
    [legend], [axes] = figure.legends, figure.axes
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_two_settings_make_a_map_with_the_papers_names(tmp_path):
    made = psofed.sweep(FEW, {"features.width": [1.0, 2.0, 4.0]}, shared=[1, 3], jobs=1)
    [panel] = sweeps.heat(made).panels  # Online-Fed has no M
    assert (panel.title, panel.x, panel.y) == ("PSO-Fed uncoordinated", "kernel width", "M")
    assert (panel.columns, panel.rows) == (["1.0", "2.0", "4.0"], ["1", "3"])
    for width, curves in enumerate(made.curves):
        assert panel.values[:, width].tolist() == [curves.point(j).value for j in (1, 2)]
    made.plot(tmp_path / "map.png", heat=True)
    assert sweeps.along(made).x == "kernel width"
    with pytest.raises(InputError, match=r"settings are methods\.shared; a heat map needs two"):
        psofed.sweep(FEW, shared=[1, 3], jobs=1).plot(heat=True)
