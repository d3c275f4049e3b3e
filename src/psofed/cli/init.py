"""`psofed init FILE`: a commented experiment to start from."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.resources import files

import click

PRESETS = ("paper", "lean", "tracking")


@click.command()
@click.argument("file")
@click.option(
    "--preset",
    type=click.Choice(PRESETS),
    default="paper",
    show_default=True,
    help="paper: the paper's setting. lean: the fewest bytes (MEMO-Fed). tracking: a function f"
    " that changes with time.",
)
def init(file: str, preset: str) -> None:
    """Write a commented experiment to FILE ("-" prints it): the paper's setting, or another."""
    from psofed.errors import InputError

    text = files("psofed").joinpath(f"presets/{preset}.toml").read_text(encoding="utf-8")
    if file == "-":
        print(text, end="")
        return
    try:
        with open(file, "x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise InputError(file, "exists already", "give another name; nothing was changed") from None
    except OSError as error:
        with suppress(OSError):
            os.unlink(file)  # no incomplete file
        raise InputError(
            file, f"cannot be written: {error.strerror}", "give another name"
        ) from None
    print(f"Wrote {file}. Run it with: psofed run {file}")
