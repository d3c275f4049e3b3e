"""The reference of the library: a page for each package, and docstrings in Sphinx's format.

Docstrings are written to be read in the code: plain text, `names` in backticks, formulas with stars
and bars. Sphinx reads reStructuredText, in which these mean something else.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import psofed
from psofed import contract

# The command line has its own page; the packages that it prints and draws with are not public.
# What is in a package of theirs is listed all the same.
ABOUT = """Each module with its docstring; classes and functions of those that users import from.
"""
LEFT_OUT = ("psofed.__main__", "psofed.cli", "psofed.report")


def index() -> str:
    """The page with the names at the top of the package; the others are below it."""
    names = "\n".join(f"api/{name.partition('/')[2]}" for name in api_pages())
    below = f"```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"
    return f"# The library\n\n{_homes()}\n## Packages\n\n{ABOUT}\n{below}"


@cache
def api_pages() -> dict[str, str]:
    """The text of each page by its name: the top of the package, then its folders and theirs."""
    return {f"api/{name}": text for name, text in _pages()}


def _pages() -> Iterator[tuple[str, str]]:
    files, folders = _inside("psofed", psofed.__path__)
    yield "psofed", _page("psofed", files)
    while folders:
        name = folders.pop(0)
        files, below = _inside(name, import_module(name).__path__)
        if name not in LEFT_OUT:
            yield name, _page(name, files)
        folders = below + folders


def _inside(package: str, path: Any) -> tuple[list[str], list[str]]:
    """The modules and the packages that a package holds."""
    found = [(m.name, m.ispkg) for m in pkgutil.iter_modules(path, f"{package}.")]
    files = [name for name, folder in found if not folder and name not in LEFT_OUT]
    return files, [name for name, folder in found if folder]


def _page(package: str, modules: list[str]) -> str:
    parts = [f"# {package}\n", _automodule(package)]
    parts += [f"## {name.removeprefix(package + '.')}\n\n{_automodule(name)}" for name in modules]
    return "\n".join(parts)


def _automodule(name: str) -> str:
    members = "   :members:\n" if name in _public() or name.startswith("psofed.core.") else ""
    return f"```{{eval-rst}}\n.. automodule:: {name}\n{members}```\n"


@cache
def public() -> dict[str, tuple[str, str]]:
    """What users call, by its name: the module where it is, and its name there."""
    homes = {f"psofed.{name}": home for name, home in psofed._HOMES.items()}
    for package, module in psofed._PACKAGES.items():
        names = psofed._HOMES_IN[module]
        homes |= {f"psofed.{package}.{name}": home for name, home in names.items()}
    return {name: tuple(home.split(":")) for name, home in homes.items()}  # type: ignore[misc]


@cache
def _public() -> set[str]:
    """The modules whose members users call: where the names at the top and of the contract are."""
    names = (getattr(contract, name) for name in contract.__all__)
    homes = {module for module, _ in public().values()}
    return homes | {getattr(thing, "__module__", "") for thing in names}


def _homes() -> str:
    lines = ["| name | what it is |", "|---|---|"]
    for name, (module, attribute) in public().items():
        lines.append(f"| `{name}` | {{py:obj}}`{module}.{attribute}` |")
    return "\n".join(lines) + "\n"


def restructured(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText that shows the same text.

    >>> restructured(["w_k is `w` * |z|:", "", "    a = b*c"])
    ['w\\\\_k is ``w`` \\\\* \\\\|z\\\\|:', '', '::', '', '    a = b*c', '']
    """
    done: list[str] = []
    literal = False
    for block in _blocks(lines):
        indented = all(line.startswith("    ") for line in block)
        if block[0].startswith(">>>"):
            done += [*block, ""]
        elif indented or _is_formula(block):
            done += [] if literal else ["::", ""]
            done += [*(block if indented else ["    " + line for line in block]), ""]
        else:
            done += [*_text(block), ""]
        literal = indented
    return done


def _blocks(lines: list[str]) -> list[list[str]]:
    """Paragraphs."""
    text = "\n".join(lines).strip("\n")
    return [block.split("\n") for block in re.split(r"\n\s*\n", text) if block.strip()]


def _is_formula(block: list[str]) -> bool:
    """Whether the lines have indents, which a paragraph would lose."""
    inside = [line for line in block[1:] if line.startswith(" ")]
    return bool(inside) and not block[0].startswith("- ")


def _text(block: list[str]) -> list[str]:
    """Plain text: only backticks, and hyphens of a list, are markup."""
    done = []
    for line in block:
        bullet = "- " if line.startswith("- ") else ""
        pieces = re.split(r"(`[^`]+`)", line[len(bullet) :])
        shown = [
            f"`{p}`" if p.startswith("`") else re.sub(r"([\\*|_`])", r"\\\1", p) for p in pieces
        ]
        done.append(bullet + "".join(shown))
    return done


def set_up(app: Any) -> None:
    """Teach Sphinx our docstrings; called by docs/conf.py."""
    app.connect("autodoc-process-docstring", _on_docstring)
    app.connect("autodoc-skip-member", _on_member)
    for part in ("description", "options", "arguments"):
        app.connect(f"sphinx-click-process-{part}", _on_help)
    app.connect("env-check-consistency", _on_read)


def _on_read(app: Any, env: Any) -> None:
    """All names are known now, and the same ones are looked for in thousands of signatures."""
    domain = env.domains.python_domain
    domain.find_obj = cache(domain.find_obj)


def _on_docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: Any) -> None:
    lines[:] = restructured(lines)


def _on_help(app: Any, command: Any, lines: Any) -> None:
    """The help of a command and its options; lines that are markup already stay."""
    for i, line in enumerate(lines):
        words = line.lstrip()
        if words and not words.startswith((".. ", ":")) and "``" not in words:
            lines[i] = line[: len(line) - len(words)] + _text([words])[0]


def _on_member(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Remove the docstrings of fields of named tuples, which have no content."""
    return True if type(thing).__name__ == "_tuplegetter" else None
