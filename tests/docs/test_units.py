"""The units for systemd in docs/systemd."""

import shlex
import subprocess

import pytest

from helpers import ROOT

UNITS = sorted((ROOT / "docs" / "systemd").glob("*.service"))
EXPOSURE = 30  # tenths of what systemd-analyze calls the exposure


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_hardened_and_starts_a_command_that_there_is(
    unit, systemd_analyze, psofed, monkeypatch
):
    judge = [systemd_analyze, "security", "--offline=true", f"--threshold={EXPOSURE}", unit]
    done = subprocess.run(judge, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = unit.read_text().replace("\\\n", " ").splitlines()
    (start,) = (line.partition("=")[2] for line in lines if line.startswith("ExecStart="))
    (named,) = (line[4:] for line in lines if line.startswith("#   PSOFED_"))
    monkeypatch.setenv(*named.split("="))
    said = psofed(*shlex.split(start)[1:]).stderr
    assert said.startswith("psofed: /etc/psofed/run.toml: cannot be read: No such file")
