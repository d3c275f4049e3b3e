"""What a terminal shows: within its width, with colour only where it is wanted."""

from __future__ import annotations

import io
import os
import sys

import pytest

from psofed.cli import printing
from psofed.report.files import Grid

WIDE = Grid(
    [["method", *(f"n={100 * i}" for i in range(1, 20)), "steady"],
     ["Online-Fed", *["-10.00"] * 19, "-11.74 ±0.03"], ["PSO-Fed", *["diverged"] * 20]],
    least=tuple(range(1, 20)), where="report.html",
)  # fmt: skip
LONG = "  [yes] " + "M = 40 ends slightly below Online-Fed after 3000 rounds, " * 5


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, stream, columns=80, **environment):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": str(columns), **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream)
    printing.show("recommended", WIDE, LONG, "Claim 1: it is so: HOLDS")
    return stream.getvalue()


@pytest.mark.parametrize("columns", [80, 100, 120, 140])
def test_no_line_is_wider_than_the_terminal(monkeypatch, columns):
    text = shown(monkeypatch, Terminal(), columns, NO_COLOR="1")
    assert max(map(len, text.splitlines())) <= columns
    assert "steady" in text
    assert "see report.html" in text


def test_colour_is_for_terminals_that_did_not_refuse_it(monkeypatch):
    assert "\x1b[32m" in shown(monkeypatch, Terminal())
    assert "\x1b" not in shown(monkeypatch, Terminal(), NO_COLOR="1")
    assert "\x1b" not in shown(monkeypatch, io.StringIO())


def test_a_pipe_gets_the_whole_table(monkeypatch):
    text = shown(monkeypatch, io.StringIO(), 80)
    assert str(WIDE) in text
    assert LONG in text


def test_wrapped_lines_keep_their_indent():
    first, *others = printing.fitted(LONG, 60).splitlines()
    assert first.startswith("  [yes] M = 40")
    assert others
    assert all(line.startswith(" " * 8 + w) for line in others for w in [line.split()[0]])


def test_signs_that_the_output_cannot_hold_are_written_with_others(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    printing.speak_plainly()
    printing.show("-11.74 ±0.03 of 5 μs, ß")
    stream.flush()
    assert stream.buffer.getvalue() == b"-11.74 +-0.03 of 5 mus, ?\n"


def test_a_command_ends_well_where_only_ascii_can_be_printed(process, tmp_path):
    (tmp_path / "own.toml").write_text(
        "clients = 4\ncohort = 2\nrounds = 20\nruns = 2\ntest_samples = 20\n"
        "[[methods]]\nname = 'onlinefed'\n"
    )
    done = process("run", "own.toml", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert " +-" in done.stdout


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_output_that_was_closed_goes_nowhere(monkeypatch, name):
    monkeypatch.setattr(sys, name, None)
    printing.speak_plainly()
    printing.show("nobody reads this", beside=name == "stderr")
    getattr(sys, name).close()
