"""What a file imports: nothing that lies beside it."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

from psofed.errors import InputError


def alone(text: str, path: Path, source: str) -> None:
    """Refuse an import of a file beside it: results do not know it, workers do not have it."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return  # told when it is executed
    for node in nodes:
        if isinstance(node, ast.Import):
            beside = any(_beside(path.parent, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            beside = node.level > 0 or _beside(path.parent, str(node.module).split(".")[0])
        else:
            continue
        if beside:
            found = f"is {text!r}, whose line {node.lineno} imports a file beside it"
            right = "put all into one file, or into a package and give its dotted name"
            raise InputError("", found, right)


def _beside(folder: Path, name: str) -> bool:
    """Whether a name to import is that of a file or a folder here, and of nothing installed."""
    if name in sys.stdlib_module_names or name == "psofed":
        return False
    if not (folder / f"{name}.py").exists() and not list((folder / name).glob("*.py")):
        return False
    spec = importlib.util.find_spec(name)
    return spec is None or spec.origin is None or folder in Path(spec.origin).resolve().parents
