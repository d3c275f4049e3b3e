"""`psofed init FILE`: a commented experiment to start from, or the skeleton of a plug-in."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.resources import files

import click

PRESETS = ("paper", "lean", "tracking", "private", "lean-private")


@click.command()
@click.argument("file", required=False)
@click.option(
    "--preset",
    type=click.Choice(PRESETS),
    help="paper: the paper's setting. lean: few bytes (MEMO-Fed). tracking: a function f"
    " that changes with time. private: masked sums and noise. lean-private: the same with an eighth"
    " of the bytes. [default: paper]",
)
@click.option("--method", metavar="FILE.py", help="Write the skeleton of a method of your own.")
@click.option("--stream", metavar="FILE.py", help="Write the skeleton of a stream of your own.")
@click.option("--policy", metavar="FILE.py", help="Write the skeleton of a policy of your own.")
@click.option("--learner", metavar="FILE.py", help="Write the skeleton of a learner of your own.")
@click.option("--attack", metavar="FILE.py", help="Write the skeleton of an attack of your own.")
@click.option("--defence", metavar="FILE.py", help="Write the skeleton of a defence of your own.")
def init(file: str | None, preset: str | None, **wanted: str | None) -> None:
    """Write a commented experiment to FILE ("-" prints it): the paper's setting, or another.

    With --method, --stream or the like it writes the commented skeleton of a plug-in instead,
    which `psofed check` accepts.
    """
    from psofed.errors import InputError

    given = {kind: path for kind, path in wanted.items() if path is not None}
    if (file is not None) + len(given) != 1:
        raise click.UsageError("Give one FILE: of an experiment, or after --method or the like.")
    if file is not None:
        _write(file, f"{preset or 'paper'}.toml", f"Run it with: psofed run {file}")
        return
    if preset is not None:
        raise click.UsageError("--preset is for experiments.")
    ((kind, path),) = given.items()
    if path != "-" and not path.endswith(".py"):
        raise InputError(f"--{kind}", f"is {path!r}", "give a file that ends in .py")
    _write(path, f"{kind}.template", f"Try its rules with: psofed check {path}")


def _write(file: str, preset: str, then: str) -> None:
    from psofed.errors import InputError

    text = files("psofed").joinpath(f"presets/{preset}").read_text(encoding="utf-8")
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
    print(f"Wrote {file}. {then}")
