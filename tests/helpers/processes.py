"""Processes that tests and benchmarks start: they hear Ctrl-C, and none outlives its test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

PSOFED = (sys.executable, "-m", "psofed")
ENV = os.environ | {"PYTHONWARNINGS": "error", "OPENBLAS_NUM_THREADS": "1"}


@contextmanager
def hearing() -> Iterator[None]:
    """What is started in here hears Ctrl-C, even if we were started to ignore it.

    A shell without a terminal starts its background jobs with SIGINT ignored. That is inherited,
    and a Python that begins so never raises KeyboardInterrupt. A handler is not inherited: with
    one, however short, the child begins with the default.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def start(*command: Any, **options: Any) -> subprocess.Popen[Any]:
    """A process at the head of a group of its own, so that `end` finds all that it starts."""
    with hearing():
        return subprocess.Popen(
            list(map(str, command)), **{"env": ENV, "start_new_session": True} | options
        )


def kill(process: subprocess.Popen[Any]) -> None:
    """Whatever it was doing, it and its children do no more."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end(process: subprocess.Popen[Any]) -> None:
    """The same, and what it said last is not read."""
    kill(process)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def end_in_order(processes: list[subprocess.Popen[Any]], seconds: float = 20) -> None:
    """Ask all to stop, then wait for them; none is left, also if one of them does not listen."""
    for process in processes:
        process.terminate()
    try:
        for process in processes:
            process.wait(seconds)
    finally:
        for process in processes:
            end(process)
