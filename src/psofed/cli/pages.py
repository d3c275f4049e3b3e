"""`psofed play` and `psofed study report`: pages for a browser, each one file without a network."""

from __future__ import annotations

import os
from pathlib import Path

import click

from psofed.cli.verbs import FILE
from psofed.errors import InputError


@click.command()
@click.option(
    "--out",
    type=FILE,
    help="Write the page to this file, which needs no server, and return at once.",
)
@click.option("--open/--no-open", "show", default=True, show_default=True,
              help="Open the page in a browser.")  # fmt: skip
def play(out: Path | None, show: bool) -> None:
    """Open the playground: an interactive page that shows how PSO-Fed works.

    The page computes in the browser and needs no network. Without --out it is served from memory,
    to this machine only, until Ctrl-C, and nothing is left behind. With --out it is one file, to
    keep or to send. The address of the page holds its settings.
    """
    from psofed.report.web import playground

    text = playground.render()
    if out is None:
        _serve(text, show)
        return
    _write(out, text.encode(), replaces=b"")
    print(f"The playground is in {out.resolve()}")
    if show:
        _open(out.resolve().as_uri(), "file")


def _serve(text: str, show: bool) -> None:
    from threading import Event

    from psofed.report.web.hosting import hosting

    try:
        with hosting(text) as url:
            print(f"The playground is at {url} until Ctrl-C", flush=True)
            if show:
                _open(url, "address")
            forever = Event()
            while not forever.wait(1):  # in parts, because one long wait is deaf on some systems
                pass
    except KeyboardInterrupt:
        print("The playground has ended.")


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=FILE)
@click.option(
    "--out",
    type=FILE,
    help="File for the page. [default: report.html, in DIR if there is only one]",
)
@click.option("--open/--no-open", "show", default=False, show_default=True,
              help="Open the page in a browser.")  # fmt: skip
def report(folders: tuple[Path, ...], out: Path | None, show: bool) -> None:
    """Make one page from the results in DIR, or from several results side by side.

    The page is one file that needs no network: curves over rounds and over bytes, the table, the
    traffic, and the command that repeats it. It uses the pages in the folders and computes nothing
    again. Every command writes the report of its own result; this one is for several results.
    """
    from psofed.report import beside
    from psofed.report.page import NAME

    real = [os.path.realpath(folder) for folder in folders]
    for i, folder in enumerate(folders):
        if real[i] in real[:i]:
            raise InputError(str(folder), "is given twice", "give each result once")
    read = [beside.read(folder) for folder in folders]
    page = beside.render(read, [str(each) for each in folders]).encode()
    out = out or (folders[0] if len(folders) == 1 else Path()) / NAME
    _write(out, page, replaces=beside.MARK.encode())
    print(f"{out}: {len(page) / 1000:,.0f} kB, opens without a network")
    if show:
        _open(out.resolve().as_uri(), "file")


def _write(out: Path, page: bytes, replaces: bytes) -> None:
    """Write the page completely or not at all, over no file but one that has this in it."""
    from psofed.federation import records

    try:
        if out.exists() and replaces not in out.read_bytes():
            found = "exists already and is not a report"
            raise InputError(str(out), found, "give another --out; nothing was changed")
        records.write(out, page)
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(out), found, "give another --out") from None


def _open(address: str, what: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        click.echo(f"No browser was found. Open the {what} in a browser.", err=True)
