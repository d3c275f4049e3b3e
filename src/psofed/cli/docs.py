"""`psofed docs`: the documentation as a site that opens offline."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("psofed-docs"),
    show_default=True,
    help="Folder for the pages; an older site in it is replaced.",
)
@click.option("--open", "show", is_flag=True, help="Open the first page in a browser.")
def docs(out: Path, show: bool) -> None:
    """Build the documentation as a site that can be read offline."""
    from importlib import import_module

    # The tools that build the pages are packaged with the pages, not with the library.
    pages = sources()
    sys.path.insert(0, str(pages / "_tools"))
    first: Path = import_module("build_site").build(pages, out)
    print(f"Open {first}")
    if show:
        import webbrowser

        webbrowser.open(first.resolve().as_uri())


def sources() -> Path:
    """The folder of the pages: docs/ of a clone, or the copy in the wheel."""
    from psofed.errors import InputError

    package = Path(__file__).parents[1]
    for folder in (package / "_docs", package.parents[1] / "docs"):
        if (folder / "conf.py").exists():
            return folder
    right = "install the wheel, or work in a clone"
    raise InputError("docs", "are not part of this installation", right)
