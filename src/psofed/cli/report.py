"""`psofed report DIR ...`: one page from one or several results."""

from __future__ import annotations

import os
from pathlib import Path

import click

from psofed.errors import InputError

MARK = b'<script type="application/json" id="data">'  # what every page of ours holds


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True,
                type=click.Path(path_type=Path))  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path),
              help="File for the page. [default: report.html in DIR, or here]")  # fmt: skip
@click.option("--open/--no-open", "show", default=False, help="Show it in a browser.")
def report(folders: tuple[Path, ...], out: Path | None, show: bool) -> None:
    """Make one page from the results in DIR, or from several side by side.

    The page is one file that needs no network: curves over rounds and over bytes, the table, the
    traffic, and how to repeat it. It is made of the files in the folders; nothing is computed
    again. Every result comes with its own, so this is for results side by side, or older ones.
    """
    import webbrowser

    from psofed.report import html, sources

    real = [os.path.realpath(folder) for folder in folders]
    for i, folder in enumerate(folders):
        if real[i] in real[:i]:
            raise InputError(str(folder), "is given twice", "give each result once")
    page = html.render([sources.gather(folder) for folder in folders])
    out = out or (folders[0] if len(folders) == 1 else Path()) / html.NAME
    _write(out, page)
    click.echo(f"{out}: {len(page) / 1000:,.0f} kB, opens without a network")
    if show and not webbrowser.open(out.resolve().as_uri()):
        click.echo("No browser was found; open it by hand.", err=True)


def _write(out: Path, page: bytes) -> None:
    """All or nothing, and never over anything but an older page."""
    draft = out.with_name(f".{out.name}.draft")
    try:
        if out.exists() and MARK not in out.read_bytes():
            found = "exists already, and is no report"
            raise InputError(str(out), found, "give another --out; nothing was changed")
        draft.write_bytes(page)
        draft.replace(out)
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(out), found, "give another --out") from None
    finally:
        draft.unlink(missing_ok=True)
