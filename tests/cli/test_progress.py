"""Progress as it is shown: lines in a log, a bar on a terminal."""

from __future__ import annotations

import io
import sys
import types
from contextlib import nullcontext

import pytest

from psofed.federation import progress


@pytest.fixture
def clock(monkeypatch):
    """What time it is, for a test to change; nobody looks at a job but the test."""
    now = types.SimpleNamespace(time=0.0)
    monkeypatch.setattr(progress, "monotonic", lambda: now.time)
    monkeypatch.setattr(progress, "_repeated", lambda job, show: nullcontext())
    return now


def test_a_log_has_lines_also_while_nothing_is_finished_and_fewer_as_time_goes_on(clock, capsys):
    job = progress.Progress("learning without A, B", "rounds", total=1000)
    with progress._lines(job) as show:
        for clock.time in range(3600):
            show()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "learning without A, B: 0 of 1000 rounds, 10 s so far"
    assert 3 < len(lines) < 60


def test_a_short_job_says_nothing(capsys):
    with progress.counting("learning, rounds") as on_round:
        on_round(1, 2)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_that_goes_away(monkeypatch, clock):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    job = progress.Progress("learning", "rounds", total=1000)
    with progress._bar(job) as show:
        for done in (250, 500):
            clock.time += 25
            job.advance(done)
        show()
    text = screen.getvalue()
    assert "500 of 1000 rounds, about 50 s left" in text
    assert text.endswith(("\x1b[2K", "\x1b[1A\x1b[2K"))
