"""`psofed reproduce`: the paper's figures (a) and (b), with error bars, traffic and a verdict."""

from __future__ import annotations

from typing import Any

import click

from psofed.cli.work import Wishes, options, retargeted, runs_asked, targets_option, work


@click.command()
@click.option("--runs", type=click.IntRange(min=1), metavar="N",
              help="Number of independent runs to average. [default: 500]")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), default=5000, show_default=True, metavar="N",
              help="Number of rounds.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
              help="Seed of all random numbers.")  # fmt: skip
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32",
              show_default=True, help="Number format of the computation.")  # fmt: skip
@targets_option
@options
def reproduce(
    runs: int | None, rounds: int, seed: int, dtype: Any, targets: Any, **wishes: Any
) -> None:
    """Reproduce the paper's figures.

    Online-Fed and PSO-Fed with M = 1, 5, 40, coordinated (a) and uncoordinated (b), on the
    paper's stream. Writes figure_a and figure_b (.png, .pdf), curves.csv, summary.json and
    experiment.toml. Prints the table and a verdict on each of the paper's claims.
    """
    from psofed.experiment import Experiment

    how = Wishes(**wishes)
    experiment = Experiment(runs=runs_asked(runs, 500, how), rounds=rounds, seed=seed, dtype=dtype)
    experiment = retargeted(experiment, targets)
    command = f"psofed reproduce --rounds {rounds} --seed {seed} --dtype {dtype}"
    command += f" --targets {targets}" if targets else ""
    figures = {
        "figure_a": ([0, 1, 2, 3], "(a) Coordinated partial sharing"),
        "figure_b": ([0, 4, 5, 6], "(b) Uncoordinated partial sharing"),
    }
    work(experiment, command, figures, "reproduce", how)
