"""`psofed fit TABLE`: a shared model from a table, with honest scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from psofed.cli import tables
from psofed.cli.progress import counting


@click.command()
@click.argument("table", type=click.Path(path_type=Path), required=False)
@tables.options
@click.option("--method", "methods", multiple=True, metavar="NAME[:KEY=VALUE,..]",
              help="E.g. psofed:shared=20; may be repeated. [default: psofed]")  # fmt: skip
@click.option("--alone", is_flag=True, help="Only the given methods, no controls to compare with.")
def fit(table: Path | None, methods: tuple[str, ...], alone: bool, **wishes: Any) -> None:
    """Learn a shared model from TABLE (CSV, .csv.gz, .parquet, or a folder with a file per client).

    Every sample is predicted before its label is learned, and a label is learned only when it is
    known. Writes the model, its scores and pictures, beside persistence, a linear model, learning
    alone and centralised learning.
    """
    from psofed.report import fits
    from psofed.tables import fit as fitting

    wanted = tables.asked(table, methods, wishes)
    with tables.results(wanted, "fit", wishes) as folder:
        done = fitting.fit(tables.read(wanted), wanted.plan, not alone, counting)
        folder.write(fits.render(done, tables.command()), fits.FILES)
    out = folder.path
    if wishes["as_json"]:
        summary = fits.summary(done, tables.command())
        print(json.dumps(summary | {"folder": str(out)}, indent=2))
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
