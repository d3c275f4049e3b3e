"""`psofed play`: PSO-Fed in a browser, with sliders."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the page to this file, which needs no server, and return at once.",
)
@click.option("--no-open", is_flag=True, help="Do not open the page in a browser.")
def play(out: Path | None, no_open: bool) -> None:
    """Open the playground: an interactive page that shows how PSO-Fed works.

    The page computes in the browser and needs no network. Without --out it is served from memory,
    to this machine only, until Ctrl-C, and nothing is left behind. With --out it is one file, to
    keep or to send. The address of the page holds its settings.
    """
    from psofed.web import playground

    text = playground.render()
    if out is None:
        _serve(text, not no_open)
        return
    path = _write(out, text)
    print(f"The playground is in {path}")
    if not no_open and not _open(path.as_uri()):
        print("No browser was found. Open the file in a browser.")


def _serve(text: str, show: bool) -> None:
    from threading import Event

    from psofed.web.hosting import hosting

    try:
        with hosting(text) as url:
            print(f"The playground is at {url} until Ctrl-C", flush=True)
            if show and not _open(url):
                print("No browser was found. Open the address in a browser.", flush=True)
            forever = Event()
            while not forever.wait(1):  # in parts, because one long wait is deaf on some systems
                pass
    except KeyboardInterrupt:
        print("The playground has ended.")


def _write(out: Path, text: str) -> Path:
    from psofed.errors import InputError

    try:
        out.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(out), found, "give another name") from None
    return out.resolve()


def _open(address: str) -> bool:
    import webbrowser

    return webbrowser.open(address)
