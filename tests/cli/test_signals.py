"""Tests that send signals pass however they were started, and leave nothing behind."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from helpers import ROOT
from helpers.devices import wait_for
from helpers.processes import end, start

INTERRUPTING = (
    "tests/cli/test_commands.py::test_ctrl_c_keeps_what_is_finished_and_says_so",
    f"tests/cli/test_theory.py::test_a_prediction_that_is_stopped_leaves_no_folder_and_no_process[{signal.SIGINT:d}]",
)


@contextmanager
def deaf():
    """As a background job of a shell without a terminal: SIGINT is ignored, by children too."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.long
@pytest.mark.parametrize("test", INTERRUPTING)
def test_a_test_that_interrupts_passes_under_a_parent_that_ignores_interrupts(test):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    with deaf():
        done = subprocess.run(command, cwd=ROOT, env=environment, text=True, timeout=300, **both)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_a_process_hears_ctrl_c_whatever_its_parent_hears():
    with deaf():
        asleep = start(sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)",
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        assert asleep.stdout.readline() == b"1\n"
        asleep.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in asleep.communicate(timeout=60)[1]
    finally:
        end(asleep)


def test_what_a_process_started_ends_with_it():
    parent = start("sh", "-c", "sleep 600 & echo $!; wait", stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    end(parent)

    def is_gone():
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True)
        return found.stdout.strip()[:1] in (b"", b"Z")

    wait_for(is_gone)
