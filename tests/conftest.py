"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.json"))

# Compiling and shared machines make single examples slow; what counts is that they hold.
settings.register_profile(
    "psofed", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("psofed")


@pytest.fixture
def psofed(tmp_path):
    """The command line as a process of its own, in an empty folder."""

    def call(*arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "psofed", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            env=os.environ | {"PYTHONWARNINGS": "error"},
            **{"cwd": tmp_path} | options,
        )

    return call
