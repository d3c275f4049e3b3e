"""`psofed reproduce`: the paper's figures (a) and (b), with error bars, traffic and a verdict."""

from __future__ import annotations

from pathlib import Path

import click

from psofed.cli.work import options, work


@click.command()
@click.option("--runs", type=click.IntRange(min=1), default=500, show_default=True,
              help="Independent experiments to average.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), default=5000, show_default=True,
              help="Global iterations.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Decides every random number.")  # fmt: skip
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32",
              show_default=True, help="Precision of the recursion.")  # fmt: skip
@options
def reproduce(
    runs: int, rounds: int, seed: int, dtype: str, out: Path | None, force: bool,
    jobs: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Reproduce the paper's figures.

    Online-Fed and PSO-Fed with M = 1, 5, 40, coordinated (a) and uncoordinated (b), on the
    paper's stream. Writes figure_a and figure_b (.png, .pdf), curves.csv, summary.json and
    experiment.toml, and prints the table and what became of the paper's three claims.
    """
    from psofed.experiment import Experiment

    experiment = Experiment(runs=runs, rounds=rounds, seed=seed, dtype=dtype)  # type: ignore[arg-type]
    command = f"psofed reproduce --runs {runs} --rounds {rounds} --seed {seed} --dtype {dtype}"
    figures = {
        "figure_a": ([0, 1, 2, 3], "(a) Coordinated partial sharing"),
        "figure_b": ([0, 4, 5, 6], "(b) Uncoordinated partial sharing"),
    }
    work(experiment, command, figures, out, "reproduce", force, jobs, as_json)
