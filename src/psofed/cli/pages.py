"""`psofed play`: the playground, a page for a browser that needs no network."""

from __future__ import annotations

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
    from psofed.federation import records
    from psofed.report import playground

    text = playground.render()
    if out is None:
        _serve(text, show)
        return
    try:
        records.write(out, text.encode())
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(out), found, "give another --out") from None
    print(f"The playground is in {out.resolve()}")
    if show:
        _open(out.resolve().as_uri(), "file")


def _serve(text: str, show: bool) -> None:
    from threading import Event

    from psofed.report.playground import hosting

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


def _open(address: str, what: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        click.echo(f"No browser was found. Open the {what} in a browser.", err=True)
