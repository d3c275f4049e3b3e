"""`psofed export MODEL --to FORMAT`: a trained model for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from psofed.cli import table_options


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--to", "format", type=click.Choice(["onnx", "c", "json"]), required=True,
              help="onnx: a graph for ONNX runtimes. c: a C99 header. json: all numbers."
              )  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE",
              help="File to write. [default: MODEL's name with the suffix of the format]"
              )  # fmt: skip
@click.option("--client", metavar="NAME", help="Export the own model of this client.")
@click.option("--plan", type=click.Path(path_type=Path), metavar="FILE",
              help="The file of the run, if MODEL is a state folder without one.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def export(
    model: Path, format: str, out: Path | None, client: str | None, plan: Path | None, force: bool
) -> None:
    """Write MODEL in a form that needs no psofed: for ONNX runtimes, microcontrollers, anything.

    MODEL is a file that `psofed fit` has saved, or the state folder of a deployed server or client.
    The scaling of inputs is included. What needs a memory or the time (lags, held values, the
    calendar) becomes an input that the caller gives.
    """
    from psofed import records
    from psofed.errors import InputError
    from psofed.export import formats, origin

    out = out or formats.default_name(model, format, client)
    if out.is_dir():
        raise InputError(str(out), "is a folder", "give a file as --out")
    if out.exists() and not force:
        raise InputError(str(out), "exists already", "give another --out, or --force")
    made = origin.load(model, client, plan, table_options.command())
    data = formats.render(made, format, out.stem)
    try:
        records.write(out, data)
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(out), found, "give another --out") from None
    print(f"Wrote {out}, {len(data):,} bytes: {made.whose}.")
    print("Inputs: " + ", ".join(argument.name for argument in made.arguments))
