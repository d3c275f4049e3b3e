"""Methods and streams are found by the name of their file: adding one touches nothing else."""

from __future__ import annotations

import pkgutil
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from psofed.errors import InputError


def names(package: str) -> list[str]:
    """The names that `load` knows: every file of the package but its contract.

    >>> "psofed" in names("psofed.methods")
    True
    """
    found = (module.name for module in pkgutil.iter_modules(import_module(package).__path__))
    return sorted(name for name in found if name != "contract")


def load(package: str, name: object) -> ModuleType:
    """The module of that name, or an InputError with the nearest one."""
    known = names(package)
    if name not in known:
        raise InputError("name", f"is {name!r}, which does not exist", nearest(str(name), known))
    return import_module(f"{package}.{name}")


def nearest(name: str, known: list[str]) -> str:
    """Advice for a misspelt name.

    >>> nearest("rouns", ["rounds", "runs"])
    "did you mean 'rounds'?"
    """
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else "use one of " + ", ".join(sorted(known))
