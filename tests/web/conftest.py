"""What the tests of the playground share."""

from __future__ import annotations

import pytest

from helpers.playing import until
from psofed.report.page import document
from psofed.report.web import playground


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
