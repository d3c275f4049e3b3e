"""The documentation site: the Markdown of docs/, the command line and the docstrings, as HTML.

The pages can be read on a code host as they are. The parts that only a site has (the menu, the
reference from docstrings and --help, links to the documentation of a source file) are added to a
copy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import notebooks
from site_api import api_pages

from psofed.errors import InputError
from psofed.web import playground

NEEDS = ("sphinx", "myst_parser", "furo", "sphinx_click")
PLAYGROUND = "playground.html"  # beside the pages: playground.md becomes another file of that name
MARK = "objects.inv"  # a folder that holds it is a site, and may be replaced by a new one
# Beside docs/ in a clone, and within it in a wheel: name there, and on the site.
BESIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
# The four parts of the menu. A page that does not exist is left out; one that is not named here
# goes to the last part, so that no page is lost.
MENU = {
    "Tutorial": ["tutorial", "paper_in_five_minutes", "your_own_method"],
    "How to": [
        "comparison", "own_function", "features", "own_learner", "adding_a_method", "tables",
        "samples", "choosing_m", "deploy", "operations", "fleet", "securing_a_broker", "threats",
        "privacy", "export", "cluster", "reports", "dashboard", "playground",
    ],
    "Explanation": [
        "partial_sharing", "readme", "paper", "theory", "protocol", "memofed", "air_quality",
        "performance",
    ],
    "Reference": ["cli", "fields", "methods", "api", "glossary", "contributing", "changelog"],
}  # fmt: skip
# Where the title of a page is not clear enough in the menu.
TITLES = {
    "readme": "At a glance <readme>",
    "air_quality": "On real data: ozone at twelve stations <air_quality>",
}
ADDED = {
    "cli": """```{eval-rst}
.. click:: psofed.cli.verbs:cli
   :prog: psofed
   :nested: full
```
""",
    "playground": f"\nOn this site: [open the playground](site:_static/{PLAYGROUND}).\n",
    "api": "```{toctree}\n:maxdepth: 1\n\n{pages}\n```\n",
}


def build(docs: Path, out: Path) -> Path:
    """Build the site of `docs` into `out`, empty or an older site; returns its first page."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        right = "run: pip install '.[docs]' in a clone"
        raise InputError("psofed docs", f"needs {', '.join(missing)}", right)
    if out.exists() and not (out.is_dir() and (MARK in os.listdir(out) or not any(out.iterdir()))):
        raise InputError(str(out), "is not empty and is not a site", "give a new folder as --out")
    with tempfile.TemporaryDirectory(prefix="psofed-site-") as folder:
        source, html = Path(folder) / "source", Path(folder) / "html"
        lay_out(docs, source)
        _run_sphinx(source, html, Path(folder) / "doctrees")
        if out.exists():
            shutil.rmtree(out)
        shutil.copytree(html, out)
    return out / "index.html"


def _run_sphinx(source: Path, html: Path, doctrees: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    # Python's own warnings are about Sphinx's code, not about our pages.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}
    done = subprocess.run(
        [*command, "-d", str(doctrees), str(source), str(html)],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.replace(f"{source}/", "").strip()
        raise RuntimeError(f"the pages have mistakes:\n{said}")
    (html / ".buildinfo").unlink(missing_ok=True)  # only Sphinx needs it, to build again


def lay_out(docs: Path, source: Path) -> None:
    """A copy of the pages, with what only the site has."""
    shutil.copytree(docs, source, ignore=shutil.ignore_patterns("__pycache__", "_build"))
    for name, page in BESIDE.items():
        (source / name).unlink(missing_ok=True)
        place = next(p for p in (docs / name, docs.parent / name) if p.exists())
        text = (
            place.read_text(encoding="utf-8")
            .replace("](docs/", "](")
            .replace("](src/", "](../src/")
        )
        text = re.sub(r"\]\((?=\w+\.md)(?=[A-Z])", "](../", text)
        (source / page).write_text(text, encoding="utf-8")
    notebooks.pages(docs, source)
    (source / "_static" / PLAYGROUND).write_text(playground.render(), encoding="utf-8")
    api = api_pages()
    (source / "api").mkdir()
    for name, text in api.items():
        (source / "api" / f"{name}.md").write_text(text, encoding="utf-8")
    pages = "\n".join(f"api/{name}" for name in api)
    for path in source.glob("*.md"):
        text = notebooks.linked(for_site(path.read_text(encoding="utf-8")))
        text += "\n" + ADDED.get(path.stem, "").replace("{pages}", pages)
        if path.stem == "index":
            text += menu({p.stem for p in source.glob("*.md")})
        path.write_text(text, encoding="utf-8")


def for_site(text: str) -> str:
    """Links that lead out of docs/ on a code host, as the site has them.

    >>> for_site("[`contract.py`](../src/psofed/methods/contract.py), [how](../CONTRIBUTING.md)")
    '{py:mod}`contract.py <psofed.methods.contract>`, [how](contributing.md)'
    """
    text = re.sub(r"\[([^]]+)\]\(\.\./src/([\w/]+)\.py\)", _module, text)
    text = re.sub(r"\[([^]]+)\]\(\.\./src/[\w/]+\.[ch]\)", r"`\1`", text)  # C has no page
    for name, page in BESIDE.items():
        text = text.replace(f"](../{name}", f"]({page}")
    return re.sub(r"\[([^]]+)\]\((?:LICENSE|CITATION\.cff)\)", r"\1", text)


def _module(link: re.Match[str]) -> str:
    label, path = link[1].replace("`", ""), link[2].removesuffix("/__init__")
    return f"{{py:mod}}`{label} <{path.replace('/', '.')}>`"


def menu(pages: set[str]) -> str:
    """The menu of the site, from the pages that exist."""
    parts = {title: [n for n in names if n in pages] for title, names in MENU.items()}
    known = {name for names in parts.values() for name in names} | {"index"}
    parts["More"] = sorted(pages - known)
    return "\n".join(
        "```{toctree}\n:hidden:\n:caption: "
        + title
        + "\n\n"
        + "\n".join(TITLES.get(n, n) for n in names)
        + "\n```\n"
        for title, names in parts.items()
        if names
    )
