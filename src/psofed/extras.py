"""Optional packages: imported when they are used, or named with the way to get them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from psofed.errors import InputError


class MissingExtraError(InputError, ImportError):
    """A package that is not installed; the line says which extra brings it."""


def need(module: str, extra: str, what: str, also: str = "") -> Any:
    """An optional module, for `what`; where it is not installed, an error that says how.

    >>> need("no_such_package.deep", "plot", "figures")
    Traceback (most recent call last):
    psofed.extras.MissingExtraError: figures need no_such_package; pip install '.[plot]' in a clone
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != package:
            raise  # it is there, and broken: the true reason helps more
        right = f"pip install '.[{extra}]' in a clone{also}"
        raise MissingExtraError(what, f"need {package}", right) from None


def have(module: str) -> bool:
    """Whether an optional module is installed.

    >>> have("numpy"), have("no_such_package")
    (True, False)
    """
    return find_spec(module) is not None
