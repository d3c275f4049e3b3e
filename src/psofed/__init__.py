"""psofed: online federated learning of nonlinear regression when every byte counts.

>>> import psofed
>>> experiment = psofed.Experiment(clients=10, rounds=20, runs=2, test_samples=100)
>>> psofed.run(experiment).mse.shape
(7, 21)

Here are the names that most need. Further methods, streams, policies, learners, checks of samples,
attacks and defences are in a package for each.

>>> psofed.FedAvg(local_steps=3).name, psofed.streams.TableStream.name, psofed.policies.FedCS.name
('fedavg', 'table', 'fedcs')
>>> psofed.attacks.Scale(share=0.1).describe()
'sign flip'
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from psofed.core import __version__ as __version__

# Public packages, by what they are called here
_PACKAGES = {
    "attacks": "psofed.stages.attacks", "checks": "psofed.stages.checks",
    "defences": "psofed.stages.defences", "learners": "psofed.federation.learners",
    "methods": "psofed.methods", "policies": "psofed.rivals.policies", "rivals": "psofed.rivals",
    "streams": "psofed.streams",
}  # fmt: skip


def _homes(package: str) -> dict[str, str]:
    """Where each name of a package is, as its `__init__.pyi` has it: its module, its name there."""
    folder = Path(__file__).parent.joinpath(*package.split(".")[1:])
    stub = (folder / "__init__.pyi").read_text(encoding="utf-8")
    found = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("psofed."):
            found |= {str(alias.asname): f"{node.module}:{alias.name}" for alias in node.names}
    return found


# Loaded on first use, so that `import psofed` and `psofed --help` are fast. No name may be that of
# a module in this folder, which would take its place as soon as it is imported.
_HOMES = {name: home for name, home in _homes("psofed").items() if name not in _PACKAGES}
_HOMES_IN = {package: _homes(package) for package in _PACKAGES.values()}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(_PACKAGES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'psofed' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
