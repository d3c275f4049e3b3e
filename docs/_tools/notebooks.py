"""The notebooks of docs/notebooks: executed in place, and as pages of the site.

python docs/_tools/notebooks.py docs/notebooks/*.ipynb
"""

from __future__ import annotations

import ast
import base64
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

WRITE = "%%writefile "  # the first line of a cell that becomes a file
KEPT = ("text/html", "image/png", "text/plain")  # of what a cell shows, the first that is there


def execute(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with new outputs, run in this process and in a folder; a cell that fails raises.

    Of what Jupyter has, cells here may use the value of a last expression and `%%writefile`.
    """
    space: dict[str, Any] = {"__name__": "__main__"}
    cells = [dict(cell) for cell in notebook["cells"]]
    with chdir(folder), _importable(folder):
        for count, cell in enumerate((c for c in cells if c["cell_type"] == "code"), 1):
            cell["execution_count"] = count
            cell["outputs"] = _run("".join(cell["source"]), space, count)
    return notebook | {"cells": cells}


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Modules of a folder can be imported in here, and are forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


def _run(source: str, space: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What a cell prints, and the value of its last expression, as nbformat 4 has them."""
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        if source.startswith(WRITE):
            name, _, text = source.removeprefix(WRITE).partition("\n")
            Path(name.strip()).write_text(text, encoding="utf-8")
            print(f"Writing {name.strip()}")
        else:
            tree = ast.parse(source)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, f"<cell {count}>", "exec"), space)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"<cell {count}>", "eval"), space)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        outputs.append(
            {"output_type": "execute_result", "execution_count": count, "data": _data(value)}
        )
    return outputs


def _data(value: Any) -> dict[str, str]:
    """A value in the forms in which it can be shown; some say None where they have none."""
    data = {}
    if png := getattr(value, "_repr_png_", bytes)():
        data["image/png"] = base64.b64encode(png).decode()
    if html := getattr(value, "_repr_html_", str)():
        data["text/html"] = html
    return data | {"text/plain": repr(value)}


def tidy(notebook: dict[str, Any]) -> dict[str, Any]:
    """What is worth keeping: the cells, their order and what they show; no times, no machine."""
    cells = []
    for i, cell in enumerate(notebook["cells"]):
        kept = {"cell_type": cell["cell_type"], "id": f"cell-{i}", "metadata": {}}
        kept["source"] = _lines(cell["source"])
        if cell["cell_type"] == "code":
            kept["execution_count"] = cell["execution_count"]
            kept["outputs"] = [_output(o) for o in cell["outputs"] if not _is_progress(o)]
        cells.append(kept)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def _is_progress(output: dict[str, Any]) -> bool:
    """The line that says how far a run is."""
    return "<progress" in "".join(output.get("data", {}).get("text/html", ""))


def _output(output: dict[str, Any]) -> dict[str, Any]:
    if output["output_type"] == "stream":
        return output | {"text": _lines(output["text"])}
    data = {}
    for kind, value in output["data"].items():
        # Nobody needs a picture's address in memory, and a picture is one line in the file.
        data[kind] = "".join(value).strip() if kind == "image/png" else _lines(value)
    kept = {"output_type": output["output_type"], "data": data, "metadata": {}}
    if output["output_type"] == "execute_result":
        kept["execution_count"] = output["execution_count"]
    return kept


def _lines(text: str | list[str]) -> list[str]:
    return "".join(text).splitlines(keepends=True)


def markdown(notebook: dict[str, Any], name: str, pictures: Path) -> str:
    """The notebook as a page of the site; its pictures go into a folder beside it."""
    parts = []
    for i, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for j, output in enumerate(cell["outputs"]):
            parts.append(_shown(output, pictures / f"{name}-{i}-{j}.png"))
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any], picture: Path) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    kind = next(kind for kind in KEPT if kind in output["data"])
    value = "".join(output["data"][kind])
    if kind == "text/html":
        return f"```{{raw}} html\n{value}\n```"
    if kind == "image/png":
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(base64.b64decode(value))
        return f"![What the cell shows]({picture.parent.name}/{picture.name})"
    return f"```text\n{value}\n```"


def pages(docs: Path, source: Path) -> None:
    """Each notebook as a page of its name, and links to it as links to the page."""
    for path in sorted((docs / "notebooks").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        text = markdown(notebook, path.stem, source / "pictures")
        text = re.sub(r"\]\(\.\./(\w+\.md|\.\./src)", r"](\1", text)
        text += f"\nThis page is a notebook: {{download}}`{path.name} <notebooks/{path.name}>`.\n"
        (source / f"{path.stem}.md").write_text(text, encoding="utf-8")


def linked(text: str) -> str:
    """Links to notebooks, as the site has them.

    >>> linked("[one](notebooks/one.ipynb)")
    '[one](one.md)'
    """
    return re.sub(r"\]\((?:docs/)?(?:notebooks/)?(\w+)\.ipynb\)", r"](\1.md)", text)


def main() -> None:
    """Execute notebooks in place."""
    for name in sys.argv[1:]:
        path = Path(name)
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            done = tidy(execute(notebook, Path(folder)))
        path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
