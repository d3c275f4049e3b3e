"""`psofed docs`: the documentation as a site that opens offline."""

from __future__ import annotations

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
    """Build the documentation: tutorial, how-to, explanation and reference, to be read offline."""
    from psofed.report.site import build

    first = build(out)
    print(f"Open {first}")
    if show:
        import webbrowser

        webbrowser.open(first.resolve().as_uri())
