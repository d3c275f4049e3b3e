"""What a result depends on besides the experiment: versions, plug-ins and the machine."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info

from psofed import native, plugins
from psofed.experiment import Experiment
from psofed.plugins import Plugin


def versions() -> dict[str, str]:
    """The versions that can change a number."""
    packages = {name: version(name) for name in ("psofed", "numpy")}
    return {"python": platform.python_version(), **packages}


class Written(NamedTuple):
    """An experiment or a plan as a folder keeps it, with the plug-ins that it is made of."""

    table: dict[str, Any]  # as plain values
    toml: str  # a comment says so, and why, if it cannot be read back
    plugins: list[dict[str, str]]  # path and digest of each
    sources: dict[str, bytes]  # the files that have to lie beside it, by name


def written(to_table: Callable[[], dict[str, Any]]) -> Written:
    """What `to_table` gives, never refused: plug-ins of one file are named as copies beside it."""
    import tomli_w

    with plugins.naming(_copy, lenient=True) as named:
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


def identity(experiment: Experiment) -> dict[str, Any]:
    """What must be the same for a result to be continued: all but the number of runs."""
    with plugins.naming(lambda plugin: plugin.file, lenient=True) as named:
        table = experiment.to_table()
    del table["runs"]
    learners = [part.learner for _, part in experiment.parts()]
    needed = {name: version(name) for learner in learners for name in learner.packages}
    same: dict[str, Any] = {"experiment": table, "versions": machine() | needed}
    if named.used:
        same["plugins"] = [plugin.about() for plugin in named.used.values()]
    if named.nameless:
        same["unknown"] = named.nameless
    return same


def changed(was: list[dict[str, str]], now: list[dict[str, str]]) -> list[str]:
    """In words, which plug-ins are not those that were used before."""
    before = {each["digest"]: each["file"] for each in was}
    lines = []
    for each in now:
        if each["digest"] not in before:
            old = [digest for digest, file in before.items() if file == each["file"]]
            then = (
                f"has changed: its digest was {old[0]} and is" if old else "is new: its digest is"
            )
            lines.append(f"{each['path']} {then} {each['digest']}")
    return lines


def machine() -> dict[str, str]:
    """Versions, psofed's own source, and what of the processor decides how numbers are rounded."""
    return {**versions(), "code": code(), "compiled": native.about(), "processor": _processor()}


def _processor() -> str:
    """The instructions that NumPy and its linear algebra choose here."""
    found: Any = np.show_config(mode="dicts")
    simd = found.get("SIMD Extensions", {}).get("found", [])
    known = [each for each in threadpool_info() if each.get("user_api") == "blas"]
    blas = sorted({str(each.get("architecture")) for each in known})
    return " ".join([*simd[-1:], *blas])


def code() -> str:
    """A digest of psofed's own source: between releases, the version does not change."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        if path.parent.name not in ("cli", "report", "web"):
            digest.update(path.read_bytes())
    return digest.hexdigest()
