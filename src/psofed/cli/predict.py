"""`psofed predict` and `psofed deploy export`: what a saved model answers, here and elsewhere."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click
import numpy as np

from psofed.cli.fit import FORM, blamed, command, set_option, typed
from psofed.cli.printing import say
from psofed.cli.verbs import FILE, common
from psofed.federation import texts

DIGITS = 7  # of predictions, and more where targets are far from 0 for their spread


@click.command()
@click.argument("model", type=FILE)
@click.argument("table", type=FILE, required=False)
@click.option("--interval", type=float, metavar="LEVEL",
              help="Add two columns: the interval that holds this share of the targets, e.g."
              " 0.9.")  # fmt: skip
@click.option("--out", type=FILE,
              help="CSV file for the predictions. [default: print them]")  # fmt: skip
@set_option(FORM)
@common("example", "json")
def predict(
    model: Path, table: Path | None, example: bool, interval: float | None, out: Path | None,
    as_json: bool, settings: tuple[str, ...],
) -> None:  # fmt: skip
    """Predict the target of every row of TABLE with a MODEL that `psofed fit` has saved.

    Prints the rows of TABLE in their order, with the column `predicted`. TABLE needs the columns
    with which the model was fitted, and the target only if its lags are inputs. Where the target is
    given, the RMSE is reported, and how many targets are inside their intervals. Radii are those of
    the fit, and are not learned any more.
    """
    from psofed.streams.data.sources import RowSource
    from psofed.tables import example as examples
    from psofed.tables import model as models

    if example == (table is not None):
        raise click.UsageError("Give a TABLE, or --example.")
    loaded = models.load(model)
    recipe = loaded.recipe
    source = examples.PATH if example else table
    form = _form(settings)
    parts, rounds = models.answered(loaded, source, form, interval)
    count, judged, inside, squares = 0, 0, 0, 0.0
    with TemporaryFile() as file:
        shape = rounds.table.rows, 1 if interval is None else 3
        values = np.memmap(file, np.float64, "w+", shape=shape)  # of any number of rows
        values[:] = np.nan
        for rows, found, targets in parts:
            values[rows] = found[:, : shape[1]]
            (value, low, high), known = found.T, ~np.isnan(targets)
            count, judged = count + len(rows), judged + int(known.sum())
            squares += float(np.square(value - targets)[known].sum())
            inside += int(((low <= targets) & (targets <= high)).sum())
        if out is not None or not as_json:
            digits = DIGITS + max(round(np.log10(abs(recipe.centre[-1]) / recipe.scale[-1] + 1)), 0)
            _write(out, RowSource(source, recipe.columns, form), values, digits)
    dropped = dict(rounds.table.drops.counts) | dict(rounds.drops.counts)
    rmse = (squares / judged) ** 0.5 if judged else None
    coverage = inside / judged if judged and interval is not None else None
    if as_json:
        summary = {"rows": count, "judged": judged, "rmse": rmse, "dropped": dropped,
                   "notes": rounds.notes()}  # fmt: skip
        sure = {} if interval is None else {"interval": interval, "coverage": coverage}
        print(json.dumps(summary | sure))
        return
    for line in rounds.table.notes:
        say(line[:1].upper() + line[1:] + ".")
    for line in (*rounds.table.drops.lines(), *rounds.drops.lines()):
        say(f"dropped: {line}")
    for line in rounds.notes():
        say(line)
    judgement = (
        f"; RMSE {rmse:.4g} on the {judged:,} that have a target" if rmse is not None else ""
    )
    if coverage is not None:
        judgement += f", of which {coverage:.3f} are inside the interval of {interval:g}"
    say(f"{count:,} rows predicted{judgement}.")
    new = [name for name in rounds.table.clients if name not in loaded.clients]
    if interval is not None and new:
        what = f"{len(new)} clients that the model does not know" if len(new) > 1 else repr(new[0])
        say(f"The interval of {what} has the largest radius of the clients that it knows.")


def _form(settings: tuple[str, ...]) -> Any:
    """How the file is written, as far as the options tell."""
    from psofed.errors import InputError
    from psofed.streams.data.textfile import Form

    given = typed({"settings": settings})
    try:
        return Form(**texts.assigned({"form": Form}, given)["form"])
    except InputError as error:
        raise blamed(error, given) from None


def _write(out: Path | None, files: Any, values: Any, digits: int) -> None:
    """The rows of a table in their order, as they are written there, with what is predicted."""
    from psofed.errors import written
    from psofed.tables.model import COLUMNS

    if out is None:
        _copy(sys.stdout, files, values, COLUMNS, digits)
        return
    with (
        written(out, "give another --out"),
        open(out, "w", encoding="utf-8", newline="") as file,
    ):
        _copy(file, files, values, COLUMNS, digits)


def _copy(file: Any, files: Any, values: Any, names: tuple[str, ...], digits: int) -> None:
    write, header, done, left_out = None, list[str](), 0, set[str]()
    for batch in files.wholes():
        clients = [part.client for part in files.parts(batch)]
        client = [batch.client] if batch.client and Path(files.name).is_dir() else []
        if write is None:
            header, form, wide = list(batch.cells), files.written, files.columns.wide
            write = csv.writer(file, delimiter=form.sep, lineterminator="\n").writerow
            new = [
                f"{k}{wide}{n}" if wide else n for k in clients for n in names[: values.shape[1]]
            ]
            fresh = (f"{n} (2)" if n in header else n for n in new)
            write([*["client"][: len(client)], *header, *fresh])
        left_out |= batch.cells.keys() - set(header)
        count = len(batch.rows)
        here = values[done : done + count * len(clients)]
        done += len(here)
        columns = [_cells(batch.cells[n]) if n in batch.cells else [""] * count for n in header]
        columns += [_numbers(column, form.decimal, digits) for part in np.split(here, len(clients))
                    for column in part.T]  # fmt: skip
        for row in zip(*columns, strict=True):
            write([*client, *row])
    if left_out:
        say(f"WARNING: only later files have these columns, left out: {', '.join(left_out)}")


def _numbers(values: Any, decimal: str, digits: int) -> list[str]:
    return ["" if v != v else f"{v:.{digits}g}".replace(".", decimal) for v in values.tolist()]


def _cells(cells: Any) -> Any:
    """As texts, or as CSV writes them."""
    if not isinstance(cells, np.ndarray):
        return cells
    if cells.dtype.kind == "M":
        return ["" if np.isnat(t) else str(t).removesuffix(".000000") for t in cells]
    return ["" if value != value else value for value in cells.tolist()]


@click.command()
@click.argument("model", type=FILE)
@click.option("--to", "format", type=click.Choice(["onnx", "c", "json", "device"]), required=True,
              help="onnx: a graph for ONNX runtimes. c: a C99 header. json: all numbers."
                   " device: a client in C, or for MicroPython, that learns.")  # fmt: skip
@click.option("--out", type=FILE, metavar="FILE",
              help="File to write; of a device, a new folder. [default: MODEL's name with the"
                   " suffix of the format]")  # fmt: skip
@click.option("--client", metavar="NAME",
              help="Export the own model of this client; of a device: who it is.")  # fmt: skip
@click.option("--plan", type=FILE, metavar="FILE",
              help="The file of the run, if MODEL is a state folder without one.")  # fmt: skip
def export(
    model: Path, format: str, out: Path | None, client: str | None, plan: Path | None
) -> None:
    """Write MODEL in a form that needs no psofed: for ONNX runtimes, microcontrollers, anything.

    MODEL is a file that `psofed fit` has saved, or the state folder of a deployed server or client.
    The scaling of inputs is included. What needs a memory or the time (lags, held values, the
    calendar) becomes an input that the caller gives. With --to device, MODEL is the file of a run.
    """
    from psofed.errors import InputError, written
    from psofed.federation import records
    from psofed.tables import export as formats

    if format == "device":
        return _device(model, client, out)
    out = out or formats.default_name(model, format, client)
    if out.is_dir():
        raise InputError(str(out), "is a folder", "give a file as --out")
    if out.exists():
        raise InputError(str(out), "exists already", "give another --out")
    made = formats.load(model, client, plan, command())
    data = formats.render(made, format, out.stem)
    with written(out, "give another --out"):
        records.write(out, data)
    print(f"Wrote {out}, {len(data):,} bytes: {made.whose}.")
    print("Inputs: " + ", ".join(argument.name for argument in made.arguments))


def _device(file: Path, client: str | None, out: Path | None) -> None:
    """The folder of a client in C."""
    from psofed.errors import InputError, written
    from psofed.fleet.protocol import deployment
    from psofed.tables.export import device

    if client is None:
        raise InputError("--client", "is missing", "name the client that the device will be")
    folder = out or Path(f"device-{client}")
    if folder.exists():
        raise InputError(str(folder), "exists already", "give another --out")
    made = device.render(deployment.read(file), client)
    with written(folder, "give another --out"):
        folder.mkdir(parents=True)
        for name, data in made.items():
            (folder / name).write_bytes(data)
    print(f"Wrote {folder}: {', '.join(made)}. Begin with main.c.")
