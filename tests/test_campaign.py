"""The campaign of benchmarks/, in short."""

import subprocess
import sys

from conftest import ROOT


def test_the_campaign_catches_every_planted_fault_and_finds_no_other():
    command = [
        sys.executable,
        ROOT / "benchmarks" / "campaign.py",
        "--scale",
        "0.005",
        "--jobs",
        "1",
    ]
    for part in ("faults", "schedules", "kills", "damage", "fuzz"):
        command += ["--only", part]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "NOT CAUGHT" not in result.stdout
    assert "no fault: no alarm" in result.stdout
    assert "faults: 23 planted, all caught" in result.stdout
    for line in ("schedules: 0 of 500", "kills: 0 of 20", "fuzz: 0 of"):
        assert line in result.stdout
