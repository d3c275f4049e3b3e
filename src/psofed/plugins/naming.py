"""How plug-ins are named where something is written down, and whose an error is."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psofed.errors import InputError
from psofed.plugins.installed import GROUPS, entries
from psofed.plugins.loading import Plugin, loaded, of, outside


@dataclass(frozen=True)
class Naming:
    """How plug-ins are named where an experiment is written down, and what was named."""

    name: Callable[[Plugin], str]
    lenient: bool  # what has no name that can be read is written, too, and noted
    used: dict[str, Plugin] = field(default_factory=dict)
    nameless: list[str] = field(default_factory=list)


# Functions of theirs may be used as plug-ins, but what fails in them is seldom their own fault.
_TRUSTED = {*sys.stdlib_module_names, "numpy"}
_naming: ContextVar[Naming | None] = ContextVar("naming", default=None)


@contextmanager
def naming(name: Callable[[Plugin], str], lenient: bool = False) -> Iterator[Naming]:
    """In here `spelled` names plug-ins in this way, not by their whole paths."""
    here = Naming(name, lenient)
    token = _naming.set(here)
    try:
        yield here
    finally:
        _naming.reset(token)


def spelled(thing: Any) -> str:
    """The text by which a class or a function is found again; nothing for one of ours.

    For a class that is the name of its module, for a function "./mine.py:f". An InputError says why
    there is none.
    """
    here = _naming.get() or Naming(lambda plugin: plugin.given, False)
    try:
        plugin = of(thing)
        if plugin is None:
            return ""
        made, name = sys.modules[plugin.module], thing.__qualname__
        wanted = "Options" if isinstance(thing, type) else name
        if vars(made).get(wanted) is not thing:
            found = f"is of {name}, which {plugin.path} does not have under the name {wanted}"
            raise InputError("name", found, "give it that name, at the top of a file of its own")
        if not outside(plugin.given) and not any(plugin.given in entries(g) for g in GROUPS):
            found = f"is of {name} in {plugin.given}"
            raise InputError("name", found, "put it into a module with a dotted name, or a file")
    except InputError as error:
        unwritten(error)
        return f"{thing.__module__}:{thing.__qualname__}"
    here.used[plugin.module] = plugin
    return here.name(plugin) + ("" if isinstance(thing, type) else f":{name}")


def unwritten(error: InputError) -> None:
    """Something cannot be written so that it is read again: an error, or a note of it."""
    here = _naming.get()
    if here is None or not here.lenient:
        raise error from None
    here.nameless.append(str(error))


def blamed(error: BaseException) -> InputError | None:
    """An error that was raised in the code of a plug-in, told as its own; None if it was not."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_foreign(f.filename)]
    if not frames or isinstance(error, InputError):
        return None
    last = frames[-1]
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    found = f"{last.filename}:{last.lineno}: {last.name} failed with {' '.join(what.split())}"
    return InputError("", found, "this is in the plug-in: correct it there, or try `psofed check`")


def _is_foreign(filename: str) -> bool:
    """Whether a file is a plug-in, or lies in the package of one."""
    for plugin in loaded.values():
        if filename == plugin.path:
            return True
        inside = plugin.source is None and plugin.module.split(".")[0] not in _TRUSTED
        if inside and Path(plugin.path).parent in Path(filename).parents:
            return True
    return False
