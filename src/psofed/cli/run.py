"""`psofed run FILE.toml`: any experiment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from psofed.cli.work import Wishes, changed, options, runs_asked, targets_option, work


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--runs", type=click.IntRange(min=1), metavar="N",
              help="Number of independent runs. [default: FILE's]")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Number of rounds. [default: FILE's]")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), metavar="N",
              help="Seed of all random numbers. [default: FILE's]")  # fmt: skip
@targets_option
@options
def run(file: Path, runs: int | None, **wishes: Any) -> None:
    """Run the experiment in FILE (TOML; `psofed init` writes one).

    Writes figure (.png, .pdf), curves.csv, summary.json and experiment.toml, and prints the table.
    """
    from psofed import experiment as experiments

    asked = {key: wishes.pop(key) for key in ("rounds", "seed", "targets")}
    how = Wishes(**wishes)
    experiment = changed(experiments.read(file), **asked)
    experiment = replace(experiment, runs=runs_asked(runs, experiment.runs, how))
    figures = {"figure": (list(range(len(experiment.methods))), "")}
    # The folder holds the experiment, so the command that repeats it starts there.
    work(experiment, "psofed run experiment.toml", figures, file.stem, how)
