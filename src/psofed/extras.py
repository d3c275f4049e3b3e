"""Packages: optional ones, imported when they are used, and versions on which numbers depend."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from psofed.core import __version__, native
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


def locks() -> Any:
    """The module with the file locks that state folders and keys need, which Windows has not."""
    try:
        return import_module("fcntl")
    except ImportError:
        found = "has no file locks of POSIX, which state folders and keys need"
        right = "run servers, clients and their keys on Linux or macOS; all else works here"
        raise InputError("this system", found, right) from None


def report(module: str) -> Any:
    """A module of the report layer, which draws results and is above them: for `plot` alone."""
    return import_module(f"psofed.report.{module}")


def have(module: str) -> bool:
    """Whether an optional module is installed."""
    return find_spec(module) is not None


def versions() -> dict[str, str]:
    """The versions that can change a number."""
    packages = {name: version(name) for name in ("psofed", "numpy")}
    return {"python": platform.python_version(), **packages}


def machine() -> dict[str, str]:
    """Versions, psofed's own source, and what of the processor decides how numbers are rounded."""
    return {**versions(), "code": code(), "compiled": native.about(), "processor": _processor()}


def _processor() -> str:
    """The instructions that NumPy and its linear algebra choose here."""
    from threadpoolctl import threadpool_info

    found: Any = np.show_config(mode="dicts")
    simd = found.get("SIMD Extensions", {}).get("found", [])
    known = [each for each in threadpool_info() if each.get("user_api") == "blas"]
    blas = sorted({str(each.get("architecture")) for each in known})
    return " ".join([*simd[-1:], *blas])


def release() -> str:
    """The version, and what tells it from others of that number: the commit of the clone that this
    is or was built from, else a digest of the code."""
    here, describe = Path(__file__).parent, ("describe", "--always", "--dirty", "--exclude=*")
    try:
        commit = (here / "commit").read_text(encoding="ascii")  # of a wheel: hatch_build.py
    except OSError:
        git = ["git", "-C", str(here.parents[1]), *describe]
        cloned = (here.parents[1] / ".git").exists() and shutil.which("git")
        commit = subprocess.run(git, capture_output=True, text=True).stdout if cloned else ""
    return f"{__version__}+{commit.strip() or f'code.{code()}'}"


def code() -> str:
    """A digest of psofed's own source: between releases, the version does not change."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        if path.parent.name not in ("cli", "report", "web"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """A table as HTML. All texts are escaped: a label is never markup. Colours are the page's.

    >>> made = table("<T>", ["method", "dB"], [["a & b", "-1.0"]])
    >>> "&lt;T&gt;" in made, "a &amp; b</td>" in made, "-1.0</td></tr></tbody>" in made
    (True, True, True)
    """
    body = "".join(_line(row, "td") for row in rows)
    small = f"<p><small>{escape(note)}</small></p>" if note else ""
    return (
        f"<div><p><b>{escape(title)}</b></p><table><thead>{_line(head, 'th')}</thead>"
        f"<tbody>{body}</tbody></table>{small}</div>"
    )


def _line(cells: Sequence[str], kind: str) -> str:
    """A row: names on the left, numbers to the right."""
    sides = ["left", *["right"] * (len(cells) - 1)]
    made = (
        f'<{kind} style="text-align:{side};padding:0 .5em">{escape(str(cell))}</{kind}>'
        for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(made)}</tr>"


def estimate(value: float | None, stderr: float | None = None, sign: str = "") -> str:
    """A value in dB with its standard error, if it has one; what is not finite has diverged.

    >>> estimate(-11.25, 0.125), estimate(-3, float("nan")), estimate(float("inf"), 0.0)
    ('-11.25 ±0.12', '-3.00', 'diverged')
    """
    if value is None or not abs(value) < float("inf"):
        return "diverged"
    known = stderr is not None and abs(stderr) < float("inf")
    return f"{value:{sign}.2f}" + (f" ±{stderr:.2f}" if known else "")


def counted(number: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "run"), counted(5000, "round")
    ('1 run', '5,000 rounds')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")
