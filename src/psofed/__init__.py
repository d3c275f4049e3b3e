"""psofed: online federated learning of nonlinear regression when every byte counts.

>>> import psofed
>>> experiment = psofed.Experiment(clients=10, rounds=20, runs=2, test_samples=100)
>>> psofed.run(experiment).mse.shape
(7, 21)

Every method, stream, policy, learner, check, attack and defence has a name here: that of its file,
as its authors write it, with Stream, Policy, Learner, Check, Attack or Defence after it for those.

>>> psofed.FedAvg(local_steps=3).name, psofed.PaperStream().name, psofed.FedCSPolicy.name
('fedavg', 'paper', 'fedcs')
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from psofed.core import __version__ as __version__


def _homes() -> dict[str, str]:
    """Where each name at the top is, as `__init__.pyi` has it: its module, and its name there."""
    stub = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    found = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom):
            found |= {str(alias.asname): f"{node.module}:{alias.name}" for alias in node.names}
    return found


# Loaded on first use, so that `import psofed` and `psofed --help` are fast. No name may be that of
# a module in this folder, which would take its place as soon as it is imported.
_HOMES = _homes()
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'psofed' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
