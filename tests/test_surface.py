"""The names at the top, what they show of themselves, and what is said if an extra is missing."""

from __future__ import annotations

import dataclasses
import pickle
import pydoc
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import site_api

import psofed
from psofed import extras
from psofed.federation import schema
from psofed.simulate import montecarlo

HOMES = {  # of what is found by its name in a file, the packages with the classes
    "methods": ("methods", "rivals"), "streams": ("streams",), "policies": ("policies",),
    "learners": ("learners",), "sample_checks": ("checks",), "attacks": ("attacks",),
    "defences": ("defences",),
}  # fmt: skip
SPECIAL = {"none": {"nocheck", "nodefence"}, "range": {"inrange"}, "linear": {"linearlearner"}}
FEW = psofed.Experiment(
    clients=5, cohort=2, rounds=10, runs=2, test_samples=20, features=psofed.Features(dim=6),
    methods=(psofed.OnlineFed(), psofed.PSOFed(shared=2)),
)  # fmt: skip
HOSTILE = '<img src=x onerror="alert(1)">&\'"'


@pytest.fixture(scope="module")
def curves():
    return montecarlo.run(FEW, 1)


@pytest.mark.parametrize("group", HOMES)
def test_everything_found_by_name_has_its_class_in_a_public_package(group):
    for name in schema.names(f"psofed.{group}"):
        options = schema.load(f"psofed.{group}", name).Options
        here = [
            getattr(getattr(psofed, package), options.__name__, None) for package in HOMES[group]
        ]
        assert options in here
        assert options.name == name
        assert options.__name__.lower() in SPECIAL.get(name, {name, name + "stream"})


def test_few_names_are_at_the_top_and_all_are_there_and_documented():
    assert len(psofed.__all__) <= 25
    for name in psofed.__all__:
        assert getattr(psofed, name) is not None
        assert name.startswith("_") or getattr(psofed, name).__doc__
    page = site_api.index()
    for name in site_api.public():
        assert f"`{name}`" in page, name


def test_no_name_at_the_top_is_that_of_a_module():
    folder = Path(psofed.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} | {
        path.parent.name for path in folder.glob("*/__init__.py")
    }
    assert not modules & {*psofed.__all__}


def test_importing_the_package_loads_nothing_else():
    code = "import psofed, sys; print(sorted(m for m in sys.modules if m.startswith(('psofed', 'numpy'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['psofed', 'psofed.core']"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such"):
        psofed.no_such  # noqa: B018


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("pandas", "frame", lambda c: c.to_frame()),
        ("matplotlib", "plot", lambda c: c.plot()),
        ("sklearn", "sklearn", lambda c: _estimator("FederatedRegressor")),
        ("river", "river", lambda c: _estimator("RFFKLMSStream")),
    ],
)
def test_a_missing_extra_is_named_with_the_way_to_get_it(curves, monkeypatch, module, extra, use):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(psofed.extras.MissingExtraError) as told:
        use(curves)
    assert f"pip install '.[{extra}]' in a clone" in str(told.value)
    assert isinstance(told.value, ImportError | psofed.InputError)
    assert "\n" not in str(told.value)


def _estimator(name):
    from psofed.tables import estimators

    return getattr(estimators, name)


def test_an_extra_that_is_there_but_broken_says_why_itself(tmp_path, monkeypatch):
    (tmp_path / "broken_extra.py").write_text("import a_thing_that_it_needs")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_thing_that_it_needs"):
        extras.need("broken_extra", "plot", "figures")


def test_without_rich_as_on_devices_all_is_computed_and_nothing_shown(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert psofed.run(FEW, 1).runs == 2
    assert capsys.readouterr().err == ""


class Seen(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style"}
        assert all("color" not in value and "background" not in value for _, value in attrs)

    def handle_data(self, data):
        self.text += data


def shown(thing):
    assert len(repr(thing)) < 200
    assert "\n" not in repr(thing)
    page = Seen(thing._repr_html_())
    assert set(page.tags) <= {
        "div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "small"
    }  # fmt: skip
    return page.text


def labelled():
    methods = (psofed.OnlineFed(), psofed.PSOFed(shared=2, label=HOSTILE))
    return psofed.Experiment(
        clients=5, cohort=2, rounds=100, runs=2, test_samples=20, methods=methods,
        features=psofed.Features(dim=6),
    )  # fmt: skip


def test_what_is_shown_in_a_notebook_is_short_and_labels_are_no_markup():
    experiment = labelled()
    assert HOSTILE in shown(experiment)
    found = psofed.run(experiment, 1)
    assert HOSTILE in shown(found)
    assert HOSTILE in shown(psofed.sweep(experiment, step=[0.1, 0.2], jobs=1))
    for each in psofed.predict_curves(experiment):
        assert each.title in repr(each)
    compared = psofed.compare_methods(experiment, tuning="none", budget=1.0, jobs=1)
    assert HOSTILE in shown(compared)


def test_methods_that_differ_in_anything_get_titles_that_say_so():
    titles = psofed.Experiment(
        methods=(
            psofed.PSOFed(shared=5, step=0.5), psofed.PSOFed(shared=5), psofed.OnlineFed(),
            psofed.PSOFed(shared=5, mask="block"), psofed.PSOFed(shared=5, shift=3, idle=False),
            psofed.PSOFed(shared=5, selection="stochastic"),
        )
    ).titles  # fmt: skip
    assert titles == [
        "PSO-Fed M=5 uncoordinated, step 0.5",
        "PSO-Fed M=5 uncoordinated, step 0.75",
        "Online-Fed",
        "PSO-Fed M=5 uncoordinated, blocks",
        "PSO-Fed M=5 uncoordinated, shift 3, no idle",
        "PSO-Fed M=5 uncoordinated, random windows",
    ]


@pytest.mark.parametrize(
    "methods",
    [
        (psofed.PSOFed(), psofed.PSOFed()),
        (psofed.PSOFed(step=0.75), psofed.PSOFed()),  # the experiment's step
        (psofed.PSOFed(label="x"), psofed.FedAvg(label="x")),
        (psofed.MemoFed(step=0.1), psofed.MemoFed(step=0.2)),  # it has no step
    ],
)
def test_methods_that_are_the_same_are_refused(methods):
    with pytest.raises(psofed.InputError, match="as that of another method"):
        psofed.Experiment(methods=methods)


def test_some_methods_of_an_experiment_keep_their_titles():
    both = psofed.Experiment(methods=(psofed.PSOFed(step=0.5), psofed.PSOFed(), psofed.FedAvg()))
    assert both.only([0, 1]).titles == both.titles[:2]
    assert both.only([1]).titles == [both.titles[1]]


def test_the_frame_has_every_option_as_a_column(curves):
    frame = curves.to_frame()
    assert len(frame) == 2 * 11
    assert {"method", "round", "mse_db", "step", "shared", "idle", "average"} <= set(frame.columns)
    assert frame.groupby("method").step.first().to_dict() == dict.fromkeys(curves.titles, 0.75)
    assert frame.shared.isna().sum() == 11
    ends = frame[(frame["round"] == 10) & (frame["shared"] == 2)].mse_db
    assert ends.tolist() == [curves.mse_db[1, -1]]


def test_the_curves_of_some_methods_are_those_curves(curves):
    one = curves.only([1])
    assert one.titles == curves.titles[1:]
    assert np.array_equal(one.mse[0], curves.mse[1])
    assert one.point(0, "steady") == curves.point(1, "steady")


def test_predictions_name_the_methods_without_a_theory():
    mixed = psofed.Experiment(clients=4, cohort=2, rounds=5, test_samples=20,
                              features=psofed.Features(dim=4),
                              methods=(psofed.PSOFed(shared=2), psofed.FedAvg()))  # fmt: skip
    with pytest.warns(UserWarning, match="no prediction for FedAvg E=5: the theory is that of"):
        [known] = psofed.predict_curves(mixed)
    assert known.title == "PSO-Fed M=2 uncoordinated"
    with pytest.raises(psofed.InputError, match="none with a theory: FedAvg E=5"):
        psofed.predict_curves(mixed.only([1]))


def test_methods_that_a_budget_makes_equal_are_compared_once():
    alike = psofed.Experiment(
        clients=5, cohort=2, rounds=100, runs=2, test_samples=20, features=psofed.Features(dim=6),
        methods=(psofed.PSOFed(shared=2), psofed.PSOFed(shared=4), psofed.PSOFed(step=0.1, shared=4)),
    )  # fmt: skip
    compared = psofed.compare_methods(alike, budget=0.5, tuning="none", jobs=1)
    assert sorted(compared.to_frame().method) == [
        "FedAvg E=2", "Online-Fed",
        "PSO-Fed M=3 uncoordinated, step 0.1", "PSO-Fed M=3 uncoordinated, step 0.75",
    ]  # fmt: skip
    assert compared.plot(over="rounds")._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(psofed.InputError, match="over is 'time'"):
        compared.plot(over="time")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: psofed.run("my.toml"), r"experiment is 'my.toml', .*use psofed\.read\(FILE\)"),
        (lambda: psofed.sweep("my.toml", step=[1]), "experiment is 'my.toml'"),
        (lambda: psofed.compare_methods("my.toml"), "experiment is 'my.toml'"),
        (lambda: psofed.predict_curves("my.toml"), "experiment is 'my.toml'"),
        (lambda: psofed.run(FEW, 0), "jobs is 0"),
        (lambda: psofed.sweep(FEW, [1, 2]), r"settings are \[1, 2\], without a name"),
        (lambda: psofed.compare_methods(FEW, budget="0.2"), "budget is '0.2'"),
        (lambda: psofed.compare_methods(FEW, target="-11"), "target is '-11'"),
    ],
)
def test_what_is_no_experiment_or_no_number_is_refused_in_a_line(call, told):
    with pytest.raises(psofed.InputError, match=told):
        call()


def test_a_point_that_curves_do_not_have_is_refused_with_those_they_have(curves):
    assert curves.point(0, "steady") == curves.point(0, "steady")
    with pytest.raises(psofed.InputError, match="point is 'n=10'; use one of steady"):
        curves.point(0, "n=10")
    with pytest.raises(psofed.InputError, match="point is 10"):
        curves.difference(0, 1, 10)


def test_methods_of_curves_are_named_by_title_or_a_beginning_of_their_own(curves):
    assert curves.difference("PSO-Fed", "Online-Fed") == curves.difference(1, 0, "steady")
    assert curves.point("PSO-Fed M=2 uncoordinated") == curves.point(-1)
    assert curves.only(["Online-Fed"]).titles == ["Online-Fed"]
    assert curves.traffic_share("PSO-Fed", 0) == pytest.approx(1 / 3)
    for name, told in {
        "PSO-Fedd": "is 'PSO-Fedd', which is none of Online-Fed; PSO-Fed M=2 uncoordinated; give",
        "": "which may be any of Online-Fed; PSO-Fed M=2 uncoordinated; give a title",
        2: "method is 2; use a title, or a number from 0 to 1",
    }.items():
        with pytest.raises(psofed.InputError, match=re.escape(told)):
            curves.point(name)


def test_curves_show_their_numbers_as_text_frame_and_latex(curves):
    steady, apart = curves.point(1), curves.difference(1, 0)
    words = f"{steady.value:.2f} ±{steady.stderr:.2f}"
    gap = f"{apart.value:+.2f} ±{apart.stderr:.2f}"
    first, head, *lines = str(curves).splitlines()
    assert first == "Curves of 2 methods: 2 runs of 10 rounds"
    assert re.split("  +", head) == ["method", "steady, dB", "to Online-Fed, dB", "kB up and down"]
    assert re.split("  +", lines[1])[:3] == ["PSO-Fed M=2 uncoordinated", words, gap]
    row = curves.summary().iloc[1]
    assert (row.steady_db, row.difference_db, row.traffic_share) == (
        steady.value, apart.value, pytest.approx(1 / 3)
    )  # fmt: skip
    methods = psofed.OnlineFed(label="$M = D$ & 100 %"), psofed.PSOFed(2, label=r"a_1 \\ $M_2$")
    latex = replace(curves, experiment=replace(FEW, methods=methods)).to_latex()
    assert r"$M = D$ \& 100 \%" in latex
    assert r"a\_1 \textbackslash{}\textbackslash{} $M_2$ & $" in latex
    assert words.replace("±", r"\pm ") in latex
    assert "to Online" not in str(curves.only([1]))


def test_the_curve_of_every_run_is_kept_if_asked_for(curves):
    assert curves.each is None
    every = psofed.run(FEW, 1, each=True)
    assert every.each.shape == (2, 2, 11)
    assert np.allclose(every.each.mean(axis=0), curves.mse, rtol=1e-12)
    assert np.array_equal(every.only([1]).each, every.each[:, [1]])


def test_comparing_shows_its_tuning_only_where_progress_is_wanted(monkeypatch):
    from contextlib import contextmanager

    from psofed.federation import progress

    seen = []

    @contextmanager
    def cell(job):
        seen.append(job.what)
        yield lambda: None

    monkeypatch.setattr(progress, "_cell", cell)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    psofed.compare_methods(FEW, budget=1.0, tuning="none", jobs=1, progress=False)
    assert seen == []
    psofed.compare_methods(FEW, budget=1.0, tuning="none", jobs=1)
    assert list(dict.fromkeys(seen)) == ["fitting to the budget", "simulating"]


def test_an_interrupted_pilot_is_not_taken_for_a_result(monkeypatch):
    from psofed.compare.search import Pilot

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Pilot, "_judged", stop)
    with pytest.raises(psofed.Interrupted, match="before the first run"):
        psofed.compare_methods(FEW, budget=1.0, tuning="plain", jobs=1)
    with pytest.raises(psofed.InputError, match="before its first run was finished"):
        psofed.finished_runs()


def test_help_has_a_line_for_each_option_and_classes_have_their_names():
    for module, attribute in site_api.public().values():
        thing = getattr(import_module(module), attribute)
        if not (isinstance(thing, type) and issubclass(thing, schema.Fields)):
            continue
        lines = pydoc.plain(pydoc.render_doc(thing)).splitlines()
        for field in dataclasses.fields(thing):
            assert any(line.strip(" |").startswith(f"{field.name}: ") for line in lines), field
        assert thing.__name__ != "Options"
        assert pickle.loads(pickle.dumps(thing)) is thing
    assert repr(psofed.FedAvg(3)).startswith("FedAvg(")
