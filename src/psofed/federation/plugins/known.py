"""What is known of code from outside the package: where it is from, how results name it.

`loaded` has all that this process has imported; nothing here imports anything.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from psofed.errors import InputError


@dataclass(frozen=True)
class Plugin:
    """What is known of a module from outside: enough to name it, to know it again, to send it."""

    given: str  # what `module` finds it by from anywhere: a whole path, or a dotted name
    module: str  # its name in this process
    path: str  # its file, as the user named it
    digest: str  # of its source; of all source in its folder, if it is in a package
    version: str = ""  # of the installed package that it belongs to
    source: bytes | None = None  # a file, which workers get; a package they must have
    root: str = ""  # the folder that was searched for its package, besides Python's own

    @property
    def file(self) -> str:
        """Its name without its place."""
        return Path(self.path).name if self.source is not None else self.module

    def about(self) -> dict[str, str]:
        """What a result keeps of it."""
        known = {"file": self.file, "path": self.path, "digest": self.digest}
        return known | ({"version": self.version} if self.version else {})


loaded: dict[str, Plugin] = {}  # those of this process, by the name of the module


def home(thing: Any) -> str:
    """The module of a class or a function, or a module's own name."""
    name: str = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    return name


def is_ours(thing: Any) -> bool:
    """Whether a class, a function or a module is one of psofed's own."""
    return home(thing).split(".")[0] == "psofed"


@dataclass(frozen=True)
class Naming:
    """How plug-ins are named where an experiment is written down, and what was named."""

    name: Callable[[Plugin], str]
    lenient: bool  # what has no name that can be read is written, too, and noted
    used: dict[str, Plugin] = field(default_factory=dict)
    nameless: list[str] = field(default_factory=list)


_naming: ContextVar[Naming | None] = ContextVar("naming", default=None)


@contextmanager
def naming(name: Callable[[Plugin], str], lenient: bool = False) -> Iterator[Naming]:
    """In here plug-ins are named in this way, not by their whole paths."""
    here = Naming(name, lenient)
    token = _naming.set(here)
    try:
        yield here
    finally:
        _naming.reset(token)


def current() -> Naming:
    """How plug-ins are named here."""
    return _naming.get() or Naming(lambda plugin: plugin.given, False)


def unwritten(error: InputError) -> None:
    """Something cannot be written so that it is read again: an error, or a note of it."""
    here = current()
    if not here.lenient:
        raise error from None
    here.nameless.append(str(error))


class Written(NamedTuple):
    """An experiment or a plan as a folder keeps it, with the plug-ins that it is made of."""

    table: dict[str, Any]  # as plain values
    toml: str  # a comment says so, and why, if it cannot be read back
    plugins: list[dict[str, str]]  # path and digest of each
    sources: dict[str, bytes]  # the files that have to lie beside it, by name


def written(to_table: Callable[[], dict[str, Any]]) -> Written:
    """What `to_table` gives, never refused: plug-ins of one file are named as copies beside it."""
    import tomli_w

    with naming(_copy, lenient=True) as named:
        table = to_table()
    text = tomli_w.dumps(table)
    if named.nameless:
        reasons = "".join(f"#   {line}\n" for line in dict.fromkeys(named.nameless))
        text = (
            f"# This file cannot be read back: it does not hold all that was used.\n{reasons}{text}"
        )
    used = list(named.used.values())
    for plugin in used:
        if plugin.root:
            where = (
                f"was found in {plugin.root}: its package has to be beside this file, or installed"
            )
            text = f"# {plugin.module} {where}.\n{text}"
    sources = {_file(p): p.source for p in used if p.source is not None}
    return Written(table, text, [p.about() for p in used], sources)


def _file(plugin: Plugin) -> str:
    mark = f"-{plugin.digest[:8]}"
    return f"{Path(plugin.path).stem.removesuffix(mark)}{mark}.py"


def _copy(plugin: Plugin) -> str:
    return plugin.given if plugin.source is None else f"./{_file(plugin)}"


# Functions of theirs may be used as plug-ins, but what fails in them is seldom their own fault.
_TRUSTED = {*sys.stdlib_module_names, "numpy"}


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
