"""`psofed report DIR ...`: one page from one or several results."""

from __future__ import annotations

import os
from pathlib import Path

import click

from psofed.errors import InputError

MARK = b'<script type="application/json" id="data">'  # found in every report


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True,
                type=click.Path(path_type=Path))  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path),
              help="File for the page. [default: report.html, in DIR if there is only one]"
              )  # fmt: skip
@click.option("--open/--no-open", "show", default=False,
              help="Open the page in a browser. [default: no]")  # fmt: skip
def report(folders: tuple[Path, ...], out: Path | None, show: bool) -> None:
    """Make one page from the results in DIR, or from several results side by side.

    The page is one file that needs no network: curves over rounds and over bytes, the table, the
    traffic, and the command that repeats it. It uses the files in the folders and computes nothing
    again. Every command writes the report of its own result; this one is for several results, and
    for older ones.
    """
    import webbrowser

    from psofed.report import html, results

    real = [os.path.realpath(folder) for folder in folders]
    for i, folder in enumerate(folders):
        if real[i] in real[:i]:
            raise InputError(str(folder), "is given twice", "give each result once")
    page = html.render([results.gather(folder) for folder in folders])
    out = out or (folders[0] if len(folders) == 1 else Path()) / html.NAME
    _write(out, page)
    click.echo(f"{out}: {len(page) / 1000:,.0f} kB, opens without a network")
    if show and not webbrowser.open(out.resolve().as_uri()):
        click.echo("No browser was found. Open the file in a browser.", err=True)


def _write(out: Path, page: bytes) -> None:
    """Write the page completely or not at all, and replace nothing but an older page."""
    from psofed import records

    try:
        if out.exists() and MARK not in out.read_bytes():
            found = "exists already and is not a report"
            raise InputError(str(out), found, "give another --out; nothing was changed")
        records.write(out, page)
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(out), found, "give another --out") from None
