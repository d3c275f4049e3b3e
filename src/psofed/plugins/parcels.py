"""Objects that travel to other processes with the plug-ins that they are made of."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psofed.errors import InputError
from psofed.plugins.loading import Plugin, execute, from_package, loaded, relative_to


@dataclass(frozen=True)
class Packed:
    """Something to be sent to another process, with the plug-ins that it is made of."""

    data: bytes
    sources: tuple[Plugin, ...]

    def unpack(self) -> Any:
        """The thing itself, after its plug-ins have been made known to this process."""
        for plugin in self.sources:
            _settle(plugin)
        return pickle.loads(self.data)


def pack(thing: Any, dumps: Callable[[Any], bytes] = pickle.dumps) -> Packed:
    """`thing` with the plug-ins whose classes and functions are in it.

    >>> pack({"a": 1}).unpack()
    {'a': 1}
    """
    data = dumps(thing)
    return Packed(data, tuple(p for name, p in loaded.items() if name.encode() in data))


def _settle(plugin: Plugin) -> None:
    """Make a plug-in of another process known here; refuse another version of it."""
    if plugin.module in loaded and loaded[plugin.module].digest == plugin.digest:
        return
    own = plugin.module.startswith("psofed_plugin_")
    try:
        there = own or importlib.util.find_spec(plugin.module) is not None
    except ModuleNotFoundError:
        there = False
    if own or (not there and plugin.source is not None):
        execute(plugin, plugin.path)
        return
    with relative_to(plugin.root or Path.cwd()):
        here = loaded[from_package(plugin.module).__name__]
    if here.digest != plugin.digest:
        found = f"{plugin.module} of a worker, {here.path}, is not the one of {plugin.path}"
        raise InputError("", found, "install the same everywhere, or use one file")
