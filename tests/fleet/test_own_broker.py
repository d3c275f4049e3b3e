"""The broker of a trial: it ends with its process, and says so where it cannot be had."""

import shutil
import subprocess
import sys

import pytest

from helpers.devices import free_port, listening, wait_for
from psofed.errors import InputError
from psofed.fleet.broker import Broker

OPENED = "import sys, time; from psofed.fleet.broker import Broker; Broker(int(sys.argv[1])).open(); time.sleep(60)"


def test_a_broker_of_our_own_ends_with_us_also_if_we_are_killed(mosquitto):
    port = free_port()
    with subprocess.Popen([sys.executable, "-c", OPENED, str(port)]) as process:
        wait_for(lambda: listening(port))
        process.kill()
    wait_for(lambda: not listening(port))
    broker = Broker(port)
    broker.open()
    assert listening(port)
    broker.close()
    assert not listening(port)


def test_without_mosquitto_one_line_says_what_to_install(psofed, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    result = psofed("demo")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "mosquitto is not installed" in result.stderr
    with pytest.raises(InputError, match="apt install mosquitto"):
        Broker(1).open()
