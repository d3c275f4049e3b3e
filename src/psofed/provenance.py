"""What a number depends on besides the experiment: versions, and the machine's instructions."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import version
from typing import Any

from psofed.experiment import Experiment


def versions() -> dict[str, str]:
    """The versions that can change a number."""
    packages = {name: version(name) for name in ("psofed", "numpy", "numba")}
    return {"python": platform.python_version(), **packages}


def identity(experiment: Experiment) -> dict[str, Any]:
    """What must be the same for a result to be continued: all but the number of runs."""
    table = experiment.to_table()
    del table["runs"]
    cpu = import_module("llvmlite.binding").get_host_cpu_name()
    return {"experiment": table, "versions": versions(), "processor": cpu}
