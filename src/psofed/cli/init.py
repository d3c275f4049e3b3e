"""`psofed init FILE`: a commented experiment to start from, or the skeleton of a plug-in."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.resources import files

import click

PRESETS = ("paper", "lean", "tracking", "private", "lean-private")
SKELETONS = ("method", "stream", "policy", "learner", "attack", "defence")


@click.command()
@click.argument("file")
@click.option("--preset", type=click.Choice([*PRESETS, *SKELETONS]), default="paper",
              show_default=True, metavar="NAME",
              help="paper: the paper's setting. lean: few bytes (MEMO-Fed). tracking: a function f"
              " that changes with time. private: masked sums and noise. lean-private: the same with"
              " an eighth of the bytes. method, stream, policy, learner, attack, defence: the"
              " skeleton of one of your own, which `psofed check` accepts.")  # fmt: skip
def init(file: str, preset: str) -> None:
    """Write a commented experiment to FILE ("-" prints it), or the skeleton of a plug-in."""
    from psofed.errors import InputError

    skeleton = preset in SKELETONS
    if skeleton and file != "-" and not file.endswith(".py"):
        raise InputError("FILE", f"is {file!r}", "give a file that ends in .py")
    name = f"cli/presets/{preset}.{'template' if skeleton else 'toml'}"
    text = files("psofed").joinpath(name).read_text(encoding="utf-8")
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
        found = f"cannot be written: {error.strerror}"
        raise InputError(file, found, "give another name") from None
    then = "Try its rules with: psofed check" if skeleton else "Run it with: psofed run"
    print(f"Wrote {file}. {then} {file}")
