"""Progress as it is shown: lines in a log, a bar on a terminal."""

from __future__ import annotations

import io
import sys
import time

import pytest

from psofed.federation import progress


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.1)
    monkeypatch.setattr(progress, "TICK", 0.01)


def test_a_short_job_says_nothing(psofed, capsys):
    with progress.counting("learning, rounds") as on_round:
        on_round(1, 2)
    assert capsys.readouterr().err == ""


def test_a_log_has_lines_also_while_nothing_is_finished(quick, capsys):
    with progress.counting("learning without A, B, rounds") as on_round:
        time.sleep(0.15)
        on_round(1, 1000)
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "learning without A, B: 0 rounds, 1 s so far"
    assert "learning without A, B: 1 of 1000 rounds, roughly " in lines[-1]
    assert "?" not in "".join(lines)


def test_lines_get_rarer_in_a_long_job(quick, capsys, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(progress, "EVERY", 10)
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(progress, "TICK", 1e-4)
    with progress.counting("learning, rounds"):
        while next(clock) < 3600:
            time.sleep(0.001)
    assert 3 < len(capsys.readouterr().err.splitlines()) < 60


def test_a_terminal_shows_a_bar_that_goes_away(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.counting("learning, rounds") as on_round:
        on_round(500, 1000)
        time.sleep(0.4)
    text = screen.getvalue()
    assert "500 of 1000 rounds, roughly" in text
    assert text.endswith(("\x1b[2K", "\x1b[1A\x1b[2K"))
