"""What the tests of reports and of the playground share."""

import pytest

from helpers.opened import CHARTS, SMALL
from helpers.playing import until
from psofed.report import playground, runs
from psofed.report.page import document
from psofed.simulate import montecarlo


@pytest.fixture(scope="session")
def result():
    """The files of a run."""
    return runs.render(montecarlo.run(SMALL), "psofed run experiment.toml --runs 4", {})


@pytest.fixture
def opened(tab, result, tmp_path):
    """The page of a run, with its first chart as `chart`."""

    def open_page(page=None, **options):
        path = tmp_path / "report.html"
        path.write_bytes(page or result["report.html"])
        shown = tab(path, **options)
        shown.evaluate(CHARTS)
        return shown

    return open_page


@pytest.fixture
def bench(tab, tmp_path):
    """A tab in which the worker's scripts stand ready, but nothing runs."""
    path = tmp_path / "bench.html"
    scripts = ("dom.js", *playground.WORKER)
    path.write_text(document("bench", {}, scripts), encoding="utf-8")
    return tab(path)


@pytest.fixture
def open_play(tab, tmp_path):
    """Open the playground with these settings, paused unless said otherwise."""

    def make(address="", playing=False, **options):
        path = tmp_path / "playground.html"
        path.write_text(playground.render(), encoding="utf-8")
        motion = "no-preference" if playing else "reduce"
        shown = tab(
            path.as_uri() + address, allow=path.as_uri(), **{"reduced_motion": motion} | options
        )
        until(shown, "Boolean(playground.shown && playground.curves.done)")
        return shown

    return make
