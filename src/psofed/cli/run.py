"""`psofed run FILE.toml`: any experiment."""

from __future__ import annotations

from pathlib import Path

import click

from psofed.cli.work import options, work


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@options
def run(file: Path, out: Path | None, force: bool, jobs: int | None, as_json: bool) -> None:
    """Run the experiment in FILE (TOML; `psofed init` writes one).

    Writes figure (.png, .pdf), curves.csv, summary.json and experiment.toml, and prints the table.
    """
    from psofed import experiment as experiments

    experiment = experiments.read(file)
    figures = {"figure": (list(range(len(experiment.methods))), "")}
    # The folder holds the experiment, so the command that repeats it starts there.
    command = "psofed run experiment.toml"
    work(experiment, command, figures, out, file.stem, force, jobs, as_json)
