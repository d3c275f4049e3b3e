"""The campaign of benchmarks/, in short."""

import subprocess
import sys

import pytest

from helpers import ROOT
from helpers.processes import end, start

SCRIPT = ROOT / "benchmarks" / "campaign.py"
SMALL = {
    "schedules": 100, "damage": 20, "fuzz": 1120, "audits": 1, "hostile": 5,
    "attackers": 2,
}  # fmt: skip
MORE = {"kills": 12, "fleets": 30, "histories": 1}  # so many that each planted fault would be met
FEW = {"masks": 20}  # each is dear


def campaign(*words):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    running = start(sys.executable, SCRIPT, "--jobs", "1", *words, **pipes)
    try:
        printed, _ = running.communicate(timeout=600)
    finally:
        end(running)
    assert running.returncode == 0, printed
    return printed


@pytest.mark.long
def test_the_campaign_catches_the_faults_that_are_planted():
    printed = campaign("--only", "faults")
    assert "NOT CAUGHT" not in printed
    assert "faults: 76 planted, all caught" in printed


@pytest.mark.long
@pytest.mark.parametrize(("scale", "parts"), [("0.001", SMALL), ("0.003", MORE), ("0.001", FEW)])
def test_the_campaign_finds_no_fault_that_was_not_planted(scale, parts):
    only = [word for part in parts for word in ("--only", part)]
    printed = campaign("--scale", scale, *only)
    assert all(f"{part}: 0 of {trials} " in printed for part, trials in parts.items())


def test_every_part_of_the_campaign_that_needs_no_broker_is_run():
    parts = (line for line in SCRIPT.read_text().splitlines() if ": run_" in line)
    named = {line.split('"')[1] for line in parts if line.startswith('    "')}
    assert named == {*SMALL, *MORE, *FEW, "faults", "broker", "processes"}
