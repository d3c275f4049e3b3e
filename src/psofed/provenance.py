"""What a result depends on besides the experiment: versions, and the machine's instructions."""

from __future__ import annotations

import hashlib
import platform
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
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
    return {"experiment": table, "versions": machine()}


def machine() -> dict[str, str]:
    """Versions, psofed's own source and the processor, whose instructions round differently."""
    cpu = import_module("llvmlite.binding").get_host_cpu_name()
    return {**versions(), "code": code(), "processor": cpu}


def code() -> str:
    """A digest of psofed's own source: between releases, the version does not change."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        if path.parent.name not in ("cli", "report", "web"):
            digest.update(path.read_bytes())
    return digest.hexdigest()
