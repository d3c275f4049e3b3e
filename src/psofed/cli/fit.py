"""`psofed fit TABLE`: a shared model from a table, with scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from psofed.cli import printing, table_options
from psofed.cli.progress import counting


@click.command()
@click.argument("table", type=click.Path(path_type=Path), required=False)
@table_options.options
@click.option("--method", "methods", multiple=True, metavar="NAME[:KEY=VALUE,..]",
              help="Method with its options, e.g. psofed:shared=20; may be repeated."
              " [default: psofed with M = D/5]")  # fmt: skip
@click.option("--alone", is_flag=True, help="Run the given methods only, without controls.")
@click.option("--hold-out", "held", multiple=True, metavar="CLIENT",
              help="Learn without this client, then show what the model is worth to it from its"
              " first row on; may be repeated.")  # fmt: skip
@click.option("--newcomers", is_flag=True, help="The same for each client in turn.")
def fit(
    table: Path | None, methods: tuple[str, ...], alone: bool, held: tuple[str, ...],
    newcomers: bool, **wishes: Any,
) -> None:  # fmt: skip
    """Learn a shared model from TABLE (CSV, .csv.gz, .parquet, or a folder with a file per client).

    Every sample is predicted before its label is learned, and a label is learned only when it is
    known. Writes the model, scores and figures. For comparison it also scores full sharing,
    learning alone, centralised learning, a linear model and persistence.
    """
    from psofed.fit import fitting
    from psofed.fit import newcomers as arriving
    from psofed.report import arrivals, fits
    from psofed.report.files import plain

    if held and newcomers:
        raise click.UsageError("Give --hold-out or --newcomers, not both.")
    wanted = table_options.asked(table, methods, wishes)
    with table_options.results(wanted, "fit", wishes) as folder:
        rows, found = table_options.read(wanted), None
        if held or newcomers:
            groups = arriving.check(held, rows.clients, wanted.plan, newcomers)
        others = [k for k in range(len(rows.clients)) if not held or k not in groups[0]]
        known = rows.part(others) if held else rows
        done = fitting.fit(known, wanted.plan, not alone, counting)
        if held or newcomers:
            found = arriving.study(rows, done.plan if held else wanted.plan, groups, counting)
        more = {} if found is None else arrivals.summary(found)
        files = fits.render(done, table_options.command(), more)
        files |= {} if found is None else arrivals.render(found)
        folder.write(files, (*fits.FILES, *arrivals.FILES))
    out = folder.path
    if wishes["as_json"]:
        summary = fits.summary(done, table_options.command())
        print(json.dumps(summary | plain(more) | {"folder": str(out)}, indent=2))
        return
    printing.show(*fits.blocks(done))
    if not alone:
        printing.show("", *fits.client_blocks(done))
    if found is not None:
        printing.show("", *arrivals.blocks(found))
    if held:
        printing.show(f"held out of all other scores and of the model: {', '.join(held)}")
    plan = done.plan
    inputs = f"width {plan.width:g}, step {plan.step:g}, {done.encoder.taps} inputs"
    learned = f"learned from round {done.span.first}, frozen at {done.span.frozen}"
    printing.show(f"\nD = {plan.dim}, {inputs}; {learned}", *done.notes)
    printing.show(
        f"results in {out}; use the model with: psofed predict {out / 'model.psofed'} TABLE"
    )
