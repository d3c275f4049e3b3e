"""The command line without a process of its own: what it prints and how it leaves."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner

from psofed.cli.main import main


@dataclass(frozen=True)
class Done:
    """As `subprocess.run` gives it."""

    returncode: int
    stdout: str
    stderr: str


def call(*arguments: Any, cwd: Path) -> Done:
    """`psofed ARGUMENTS` in the folder `cwd`, in this process: starting one costs a second.

    If it starts processes itself, it starts one and not one for each core, unless it is told how many.
    """
    words = list(map(str, arguments))
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with CliRunner().isolation() as (out, err, _), chdir(cwd):
        with (
            mock.patch.object(sys, "argv", ["psofed", *words]),
            mock.patch.object(os, "cpu_count", return_value=1),
            mock.patch.dict(os.environ),
        ):
            try:
                main(words)
                code = 0
            except SystemExit as leave:
                code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        sys.stdout.flush()
        sys.stderr.flush()
        return Done(code, out.getvalue().decode(), err.getvalue().decode())


class Screen(io.StringIO):
    """A standard output that is a terminal, or a file."""

    def __init__(self, terminal: bool = True) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def wrong(done: Done, *parts: str) -> None:
    """Exit code 2, no traceback, and a last line that has all parts."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr.strip().splitlines()[-1]
