"""From the paper to the code: which function is which equation, found in the docstrings.

The first line of a docstring names the equation that its function implements ("Eq. (10)."), in C
and JavaScript that of the comment before it, so the index is a search for them. It is part of a
page, between two marks:

python docs/_tools/paper_index.py docs/paper.md
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psofed

START, END = "<!-- index: start -->", "<!-- index: end -->"
# What the paper numbers, in plain letters.
EQUATIONS = {
    1: "y = f(x) + nu, the data",
    2: "J_k = E \\|y - w_k^T z(x)\\|^2, the cost of a client",
    3: "J = (1/K) sum_k J_k, the cost of all",
    4: "w* = argmin J",
    5: "w_k = w + mu z epsilon, LMS",
    6: "w = the mean of w_k over S_n",
    7: "Online-Fed with selection matrices",
    8: "epsilon_e = y_e - Z_e^T A w_e, all errors at once",
    9: "A: receive a window",
    10: "w_e = B (A w_e + mu Z_e epsilon_e), the recursion",
    11: "B: fold windows in",
    12: "the error of (10)",
    13: "the mean of (12), approximated",
    14: "mu < 2 / max lambda(R_k)",
}
ALGORITHM = "Algorithm 1"
# What has no number, but a name at the beginning of a first line.
SYMBOLS = {
    "S_{k,n}": "the window of client k in round n",
    "S_n": "the cohort of round n",
    "Section 4": "the function f of the simulations",
}
# Folders in the order in which a reader would open them.
LAYERS = (
    "core",
    "federation",
    "methods",
    "rivals",
    "stages",
    "streams",
    "simulate",
    "theory",
    "fleet",
    "tables",
    "report",
)


class Place(NamedTuple):
    """A function, class or module that says which equation it is."""

    key: int | str  # the equation, ALGORITHM or a symbol
    path: str  # below src/psofed
    name: str  # within the file, empty for the file itself
    variant: bool  # something is different


def places() -> list[Place]:
    """All of them, in the order of the layers."""
    root = Path(psofed.__file__).parent
    found = []
    for file in sorted([*root.rglob("*.py"), *root.rglob("*.[ch]"), *root.rglob("*.js")]):
        path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
        if path.partition("/")[0] in LAYERS:
            first = docstrings(ast.parse(text)) if file.suffix == ".py" else comments(text)
            for name, line in first:
                found += [Place(key, path, name, v) for key, v in named(line)]
    return sorted(found, key=lambda p: (LAYERS.index(p.path.partition("/")[0]), p.path))


def docstrings(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, str]]:
    """The name and the first line of the docstring of everything in a file."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    if isinstance(tree, kinds) and (text := ast.get_docstring(tree)):
        yield inside, text.partition("\n")[0]
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, kinds[1:]):
            yield from docstrings(node, f"{inside}.{node.name}".lstrip("."))


def comments(text: str) -> Iterator[tuple[str, str]]:
    """The name of each function of C or JavaScript and the comment before it, whose lines are one.

    >>> list(comments("/* Eq. (9): a\\n   window. */\\nstatic void NAME(receive)(int c)\\n{"))
    [('receive', 'Eq. (9): a window.')]
    """
    pattern = (
        r"/\* ((?:(?!\*/).)*?)\*/\n(?:INLINE|static|void|int64_t|double)[^{;]*?NAME\((\w+)\)\("
    )
    script = r"((?:// .*\n)+)(?:function|class) (\w+)"
    for said, name in re.findall(pattern, text, re.DOTALL) + re.findall(script, text):
        yield name, " ".join(said.replace("//", "").split())


def named(line: str) -> list[tuple[int | str, bool]]:
    """What a first line names, and whether as a variant.

    >>> named("Eq. (5) and (10): w <- w + mu z epsilon.")
    [(5, False), (10, False)]
    >>> named("Eq. (9)-(11) with decoded values.")
    [(9, True), (10, True), (11, True)]
    """
    found: list[tuple[int | str, bool]] = []
    pattern = r"[Ee]q\. (\(\d+\)(?:(?:, | and |-)\(\d+\))*)([^.:]*)"
    for match in re.finditer(pattern, line):
        numbers = [int(n) for n in re.findall(r"\d+", match[1])]
        if "-" in match[1]:
            numbers = list(range(numbers[0], numbers[-1] + 1))
        found += [(n, _differs(match[2])) for n in numbers]
    if said := re.search(ALGORITHM + "([^.:]*)", line):
        found.append((ALGORITHM, _differs(said[1])))
    return found + [(s, False) for s in SYMBOLS if re.match(re.escape(s) + r"( =| is |:)", line)]


def _differs(rest: str) -> bool:
    return bool(re.match(r" (with(?! literal)|whose|in blocks)|, projected", rest))


def table() -> str:
    """The index as a table of Markdown, with links to the files."""
    found = places()
    lines = ["| paper | what | code | with a change |", "|---|---|---|---|"]
    rows: dict[Any, str] = dict(EQUATIONS) | {ALGORITHM: "PSO-Fed"} | SYMBOLS
    for key, what in rows.items():
        cells = [
            _links([p for p in found if p.key == key and p.variant == v]) for v in (False, True)
        ]
        title = f"({key})" if isinstance(key, int) else key if " " in key else f"`{key}`"
        lines.append(f"| {title} | {what} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def _links(found: list[Place]) -> str:
    return "<br>".join(
        f"[{p.path}](../src/psofed/{p.path})" + (f" `{p.name}`" if p.name else "") for p in found
    )


def updated(page: str) -> str:
    """The page with the index as it is now."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
