"""`psofed init FILE`: a commented experiment to start from."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.resources import files

import click


@click.command()
@click.argument("file")
def init(file: str) -> None:
    """Write a commented experiment with the paper's setting to FILE ("-" prints it)."""
    from psofed.errors import InputError

    text = files("psofed").joinpath("template.toml").read_text(encoding="utf-8")
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
            os.unlink(file)  # rather nothing than a part
        raise InputError(
            file, f"cannot be written: {error.strerror}", "give another name"
        ) from None
    print(f"Wrote {file}. Run it with: psofed run {file}")
