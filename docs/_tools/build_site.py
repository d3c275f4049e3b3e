"""The documentation site: the Markdown of docs/, the command line and the docstrings, as HTML.

    python3 dev.py docs [FOLDER]

The pages can be read on a code host as they are. What only a site has is added to a copy: the menu,
and the pages that are written from the code (methods, keys of the files, command line, library).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import fields_page
import methods_page
import notebooks
import site_api

from psofed.errors import InputError
from psofed.report import playground

NEEDS = ("sphinx", "myst_parser", "sphinx_click")
PLAYGROUND = "playground.html"
OPEN = f"\nOn this site: [open the playground](site:_static/{PLAYGROUND}).\n"
MARK = "objects.inv"  # a folder that holds it is a site, and may be replaced by a new one
# Beside docs/: name there, and on the site.
BESIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
# Pages that are written from the code, and the source that other pages link to in their place.
FROM_SOURCE = {
    "src/psofed/methods": "methods.md",
    "src/psofed/experiment.py": "fields.md",
    "src/psofed/cli": "cli.md",
    "src/psofed": "api.md",
}
# The four parts of the menu. A page that does not exist is left out; one that is not named here
# goes to the last part, so that no page is lost.
MENU = {
    "Start": [
        "paper_in_five_minutes", "partial_sharing", "exercise", "tutorial", "your_own_method",
        "readme",
    ],
    "How to": ["experiments", "comparison", "tables", "extend", "deploy", "operate", "device"],
    "Explanation": [
        "paper", "theory", "memofed", "protocol", "privacy", "trust", "real_data", "performance",
        "field",
    ],
    "Reference": [
        "cli", "fields", "methods", "api", "bytes", "glossary", "contributing", "changelog",
        "security", "benchmarks",
    ],
}  # fmt: skip
# Where the title of a page is not clear enough in the menu.
TITLES = {"readme": "At a glance <readme>"}
CLI = """# The command line

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a bug, or a check that failed |
| 2 | an option, a file or a value that you gave is wrong; one line says which |
| 130 | interrupted |

Tab completes verbs, options and files after `eval "$(_PSOFED_COMPLETE=bash_source psofed)"`,
in `~/.bashrc`; `zsh_source` and `fish_source` are for other shells.

```{eval-rst}
.. click:: psofed.cli.verbs:cli
   :prog: psofed
   :nested: full
```
"""


def build(docs: Path, out: Path) -> Path:
    """Build the site of `docs` into `out`, empty or an older site; returns its first page."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        right = "build it with: python3 dev.py docs"
        raise InputError("the site", f"needs {', '.join(missing)}", right)
    if out.exists() and not (out.is_dir() and (MARK in os.listdir(out) or not any(out.iterdir()))):
        raise InputError(str(out), "is not empty and is not a site", "give a new folder")
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
        text = (docs.parent / name).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](").replace("](../docs/", "](")
        text = text.replace("](src/", "](../src/").replace("](benchmarks/", "](../benchmarks/")
        text = re.sub(r"\]\((?=\w+\.md)(?=[A-Z])", "](../", text)
        (source / page).write_text(text, encoding="utf-8")
    notebooks.pages(docs, source)
    (source / "_static" / PLAYGROUND).write_text(playground.render(), encoding="utf-8")
    (source / "api").mkdir()
    for name, text in from_code().items():
        (source / f"{name}.md").write_text(text, encoding="utf-8")
    for path in source.glob("*.md"):
        text = notebooks.linked(for_site(path.read_text(encoding="utf-8")))
        if path.stem == "partial_sharing":
            text += OPEN
        if path.stem == "index":
            text += menu({p.stem for p in source.glob("*.md")})
        path.write_text(text, encoding="utf-8")


@cache
def from_code() -> dict[str, str]:
    """The pages that are written from the code, by name."""
    pages = {"methods": methods_page.page(), "fields": fields_page.page(), "cli": CLI}
    return pages | {"api": site_api.index()} | site_api.api_pages()


def for_site(text: str) -> str:
    """Links that lead out of docs/ on a code host, as the site has them.

    >>> for_site("[`contract.py`](../src/psofed/federation/contract.py), [how](../CONTRIBUTING.md)")
    '{py:mod}`contract.py <psofed.federation.contract>`, [how](contributing.md)'
    """
    for place, page in FROM_SOURCE.items():
        text = text.replace(f"](../{place})", f"]({page})")
    text = re.sub(r"\[([^]]+)\]\(\.\./src/([\w/]+)\.py\)", _module, text)
    # Files in C and JavaScript have no page.
    text = re.sub(r"\[([^]]+)\]\(\.\./src/[\w/]+\.(?:c|h|js)\)", r"`\1`", text)
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


def main() -> None:
    """Build the site of this clone into the folder that is given, or into site/."""
    docs = Path(__file__).resolve().parents[1]
    try:
        print(f"Open {build(docs, Path(sys.argv[1] if sys.argv[1:] else 'site'))}")
    except InputError as error:
        sys.exit(f"dev.py docs: {error}")


if __name__ == "__main__":
    main()
