"""`psofed predict MODEL TABLE`: what a saved model says to new rows."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from psofed.cli.progress import say


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path), required=False)
@click.option("--example", is_flag=True, help="Use the synthetic table in the package.")
@click.option("--own", is_flag=True, help="Use a client's own model where the file has one.")
@click.option("--out", type=click.Path(path_type=Path), help="CSV file. [default: print]")
@click.option("--json", "as_json", is_flag=True, help="Print the error and the counts as JSON.")
def predict(
    model: Path, table: Path | None, example: bool, own: bool, out: Path | None, as_json: bool
) -> None:
    """Estimate the target of every row of TABLE with a MODEL that `psofed fit` has saved.

    TABLE needs the columns that the model was fitted with; the target only if its lags are inputs.
    """
    from psofed.tables import example as examples
    from psofed.tables import model as models

    if example == (table is not None):
        raise click.UsageError("Give a TABLE, or --example.")
    loaded = models.load(model)
    recipe = loaded.recipe
    rows, rounds = models.predict(loaded, examples.path() if example else table, own)
    count, judged, squares = 0, 0, 0.0
    with _output(out, as_json) as write:
        write(["client", "time", f"predicted {recipe.columns.target}"])
        for row in rows:
            count += 1
            if row.target == row.target:
                judged, squares = judged + 1, squares + (row.value - row.target) ** 2
            write([row.client, _time(row.time, recipe.calendar), f"{row.value:.7g}"])
    dropped = dict(rounds.table.drops.counts) | dict(rounds.drops.counts)
    rmse = (squares / judged) ** 0.5 if judged else None
    if as_json:
        print(json.dumps({"rows": count, "judged": judged, "rmse": rmse, "dropped": dropped}))
        return
    for line in (*rounds.table.drops.lines(), *rounds.drops.lines()):
        say(f"dropped: {line}")
    known = f"; RMSE {rmse:.4g} on the {judged:,} that have a target" if rmse is not None else ""
    say(f"{count:,} rows predicted{known}.")


def _time(value: float, calendar: bool) -> str:
    return datetime.fromtimestamp(value, UTC).isoformat() if calendar else f"{value:.12g}"


@contextlib.contextmanager
def _output(out: Path | None, quiet: bool) -> Any:
    """A writer of rows: to a file, to standard output, or to nowhere."""
    from psofed.errors import InputError

    if out is None:
        yield (lambda row: None) if quiet else csv.writer(sys.stdout, lineterminator="\n").writerow
        return
    try:
        with open(out, "w", encoding="utf-8", newline="") as file:
            yield csv.writer(file, lineterminator="\n").writerow
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(out), found, "give another --out") from None
