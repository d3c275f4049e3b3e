"""`psofed play`: PSO-Fed in a browser, with sliders."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File for the page. [default: a temporary file]",
)
@click.option("--no-open", is_flag=True, help="Write the page, but do not open it in a browser.")
def play(out: Path | None, no_open: bool) -> None:
    """Open the playground: an interactive page that shows how PSO-Fed works.

    It is one file that computes in the browser, without a server or a network. The address of the
    page holds its settings, so it can be bookmarked or sent.
    """
    from psofed.web import playground

    path = _write(out, playground.render())
    print(f"The playground is in {path}")
    if not no_open:
        _open(path)


def _write(out: Path | None, text: str) -> Path:
    import tempfile

    from psofed.errors import InputError

    path = out or Path(tempfile.mkdtemp(prefix="psofed-")) / "playground.html"
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(path), found, "give another name") from None
    return path.resolve()


def _open(path: Path) -> None:
    import webbrowser

    if not webbrowser.open(path.as_uri()):
        print("No browser was found. Open the file in a browser.")
