"""What a terminal shows: within its width."""

import io
import os
import sys

import pytest

from helpers.command import Screen
from psofed.cli import printing
from psofed.report.files import Grid

WIDE = Grid(
    [["method", *(f"n={100 * i}" for i in range(1, 20)), "steady"],
     ["Online-Fed", *["-10.00"] * 19, "-11.74 ±0.03"], ["PSO-Fed", *["diverged"] * 20]],
    least=tuple(range(1, 20)), where="report.html",
)  # fmt: skip
LONG = "  [yes] " + "M = 40 ends slightly below Online-Fed after 3000 rounds, " * 5


def shown(monkeypatch, stream, columns=80):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", stream)
    printing.show(WIDE, LONG)
    return stream.getvalue()


@pytest.mark.parametrize("columns", [80, 100, 120, 140])
def test_no_line_is_wider_than_the_terminal(monkeypatch, columns):
    text = shown(monkeypatch, Screen(), columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "steady" in text
    assert "see report.html" in text


def test_a_pipe_gets_the_whole_table(monkeypatch):
    text = shown(monkeypatch, io.StringIO(), 80)
    assert str(WIDE) in text
    assert LONG in text


def test_wrapped_lines_keep_their_indent():
    first, *others = printing.fitted(LONG, 60).splitlines()
    assert first.startswith("  [yes] M = 40")
    assert others
    assert all(line.startswith(" " * 8 + w) for line in others for w in [line.split()[0]])


def test_a_command_ends_well_where_only_ascii_can_be_printed(process, file):
    few = {"clients": 4, "cohort": 2, "rounds": 20, "runs": 2, "test_samples": 20}
    done = process(
        "run",
        file(**few, methods=[{"name": "onlinefed"}]),
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert " ?" in done.stdout


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_output_that_was_closed_goes_nowhere_and_input_is_empty(monkeypatch, name):
    for closed in ("stdin", name):
        monkeypatch.setattr(sys, closed, None)
    printing.make_printable()
    printing.show("nobody reads this", stderr=name == "stderr")
    with sys.stdin, getattr(sys, name):
        assert os.read(sys.stdin.fileno(), 9) == b""
