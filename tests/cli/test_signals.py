"""Tests that send signals pass however they were started, and leave nothing behind."""

import signal
import subprocess
import sys
from contextlib import contextmanager

from helpers.devices import wait_for
from helpers.processes import end, start


@contextmanager
def deaf():
    """As a background job of a shell without a terminal: SIGINT is ignored, by children too."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
