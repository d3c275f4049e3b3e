"""`psofed fit TABLE`: a shared model from a table, with honest scores."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from psofed.cli import tables
from psofed.cli.progress import counting, say


@click.command()
@click.argument("table", type=click.Path(path_type=Path), required=False)
@tables.options
@click.option("--method", "methods", multiple=True, metavar="NAME[:KEY=VALUE,..]",
              help="E.g. psofed:shared=20; may be repeated. [default: psofed]")  # fmt: skip
@click.option("--alone", is_flag=True, help="Only the given methods, no controls to compare with.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the results.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def fit(
    table: Path | None, methods: tuple[str, ...], alone: bool, out: Path | None, force: bool,
    as_json: bool, **wishes: Any,
) -> None:  # fmt: skip
    """Learn a shared model from TABLE (CSV, .csv.gz, .parquet, or a folder with a file per client).

    Every sample is predicted before its label is learned, and a label is learned only when it is
    known. Writes the model, its scores and pictures, beside persistence, a linear model, learning
    alone and centralised learning.
    """
    from psofed.report import files, fits
    from psofed.tables import fit as fitting

    wanted = tables.asked(table, methods, wishes)
    name = "example" if wishes["example"] else wanted.source.name.split(".")[0]
    out = out or files.default_folder(Path("results") / f"{name}-fit", False)
    folder = files.Folder(out, force)
    try:
        if wishes["example"]:
            say("The table of the example is synthetic: made up, not measured.")
        data = tables.read(wanted)
        done = fitting.fit(data, wanted.plan, not alone, counting)
        command = "psofed " + " ".join(sys.argv[1:])
        folder.write(fits.render(done, command), fits.FILES)
    except BaseException:
        folder.discard()
        raise
    if as_json:
        print(json.dumps(fits.summary(done, command) | {"folder": str(out)}, indent=2))
        return
    print(fits.text(done))
    if not alone:
        print("\n" + fits.client_text(done))
    plan = done.plan
    print(f"\nD = {plan.dim}, width {plan.width:g}, step {plan.step:g}, {done.encoder.taps} inputs;"
          f" learned from round {done.span.first}, frozen at {done.span.frozen}")  # fmt: skip
    for note in done.notes:
        print(note)
    print(f"results in {out}; use the model with: psofed predict {out / 'model.psofed'} TABLE")
