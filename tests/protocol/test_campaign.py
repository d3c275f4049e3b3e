"""The campaign of benchmarks/, in short."""

import subprocess
import sys

import pytest

from helpers import ROOT
from helpers.processes import end, start

PARTS = {
    "faults": "faults: 76 planted, all caught", "schedules": "schedules: 0 of 100",
    "kills": "kills: 0 of 4", "damage": "damage: 0 of 20", "fuzz": "fuzz: 0 of 1120",
    "audits": "audits: 0 of 1", "sieges": "sieges: 0 of 5", "fleets": "fleets: 0 of 10",
    "masks": "masks: 0 of 100", "attackers": "attackers: 0 of 2",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("parts", [["faults"], [part for part in PARTS if part != "faults"]])
def test_the_campaign_catches_every_planted_fault_and_finds_no_other(parts):
    script = ROOT / "benchmarks" / "campaign.py"
    only = [word for part in parts for word in ("--only", part)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    campaign = start(sys.executable, script, "--scale", "0.001", "--jobs", "1", *only, **pipes)
    try:
        printed, _ = campaign.communicate(timeout=600)
    finally:
        end(campaign)
    assert campaign.returncode == 0, printed
    assert "NOT CAUGHT" not in printed
    assert all(PARTS[part] in printed for part in parts)


def test_every_part_of_the_campaign_that_needs_no_broker_is_run():
    text = (ROOT / "benchmarks" / "campaign.py").read_text()
    assert set(PARTS) | {"broker", "processes"} == {
        line.split('"')[1]
        for line in text.splitlines()
        if line.startswith('    "') and ": run_" in line
    }
