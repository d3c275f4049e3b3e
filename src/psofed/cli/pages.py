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
def play(out: Path | None) -> None:
    """Open the playground: an interactive page that shows how PSO-Fed works.

    The page computes in the browser and needs no network. Without --out it is served from memory,
    to this machine only, until Ctrl-C, and nothing is left behind. With --out it is one file, to
    keep or to send. The address of the page holds its settings.
    """
    from psofed.federation import records
    from psofed.report import playground

    text = playground.render()
    if out is None:
        _serve(text)
        return
    try:
        records.write(out, text.encode())
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(out), found, "give another --out") from None
    print(f"The playground is in {out.resolve()}: open it in a browser.")


def _serve(text: str) -> None:
    import webbrowser
    from threading import Event

    from psofed.report.playground import hosting

    try:
        with hosting(text) as url:
            print(f"The playground is at {url} until Ctrl-C", flush=True)
            if not webbrowser.open(url):
                click.echo("No browser was found. Open the address in a browser.", err=True)
            forever = Event()
            while not forever.wait(1):  # in parts, because one long wait is deaf on some systems
                pass
    except KeyboardInterrupt:
        print("The playground has ended.")
