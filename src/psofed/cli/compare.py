"""`psofed compare [FILE.toml]`: all methods on the same data, at equal bytes."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli import printing
from psofed.cli.progress import counted, counting, metered, say
from psofed.cli.work import Wishes, changed, compute, leave_interrupted, options, runs_asked
from psofed.errors import InputError

if TYPE_CHECKING:
    from psofed.compare.budget import Fitted
    from psofed.compare.tuning import Entry
    from psofed.experiment import Experiment

RUNS = 100


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--budget",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.2,
    show_default=True,
    metavar="SHARE",
    help="Traffic of each method, up and down, as a share of Online-Fed's.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=2),
    metavar="N",
    help=f"Number of independent runs. [default: {RUNS}]",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=100),
    metavar="N",
    help="Number of rounds. [default: FILE's, or 5000]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Seed of all random numbers. [default: FILE's, or 0]",
)
@click.option(
    "--target",
    type=float,
    metavar="DB",
    help="Test MSE that has to be reached. [default: 1 dB above Online-Fed's steady MSE]",
)
@click.option(
    "--total",
    type=click.Choice(["unicast", "up", "multicast"]),
    default="unicast",
    show_default=True,
    help="Bytes that count. unicast: up and down, each download once per member. up: uploads only."
    " multicast: as unicast, but a download that is equal for all members counts once.",
)
@click.option(
    "--sort",
    type=click.Choice(["bytes", "mse"]),
    default="bytes",
    show_default=True,
    help="Sort by bytes to the target, or by the MSE at the end.",
)
@click.option("--no-tune", is_flag=True, help="Use the steps in FILE; do not tune them.")
@click.option("--average", is_flag=True, help="Average a method's models where that helps.")
@options
def compare(file: Path | None, budget: float, runs: int | None, **wishes: Any) -> None:
    """Compare methods on the same streams, features and cohorts, at equal traffic.

    Sets the knob of each method (M, E or the budget) to the given share of Online-Fed's bytes,
    counted from encoded messages. Tunes its step in a pilot on another seed. Runs all methods on
    the same draws. FILE describes the experiment; if it lists methods, those, Online-Fed and FedAvg
    are compared. Without FILE: all methods in the paper's setting. Writes a table and figures: the
    error over rounds, the error over bytes, and the bytes that each method needs for each error.
    """
    from psofed.report import files

    asked = {key: wishes.pop(key) for key in ("rounds", "seed", "target", "total", "sort")}
    asked |= {key: wishes.pop(key) for key in ("no_tune", "average")}
    how = Wishes(**wishes)
    if asked["target"] is not None and not abs(asked["target"]) < 1000:
        raise InputError("--target", f"is {asked['target']}", "use a number of dB, such as -11")
    experiment = _experiment(file, asked["rounds"], asked["seed"])
    experiment = replace(experiment, runs=runs_asked(runs, RUNS, how))
    name = f"{file.stem}-compare" if file else "compare"
    out = how.out or files.default_folder(Path("results") / name, how.resume)
    folder = files.ResultFolder(out, how.force, how.resume)
    try:
        fitted = _fit(experiment, budget)
        entries = _tune(experiment, [f for _, f in fitted], how, asked)
    except BaseException:
        folder.discard()
        raise
    every = experiment.evaluate_every or max(experiment.rounds // 1000, 1)
    methods = tuple(entry.options for entry in entries)
    experiment = replace(experiment, methods=methods, evaluate_every=every)
    curves, finished, store = compute(experiment, folder, how)
    if curves is None or not finished:
        leave_interrupted(folder, store)
    command = _command(file, budget, curves.experiment, asked)
    _write(curves, entries, fitted, folder, command, budget, asked, how)
    store.remove()


def _experiment(file: Path | None, rounds: int | None, seed: int | None) -> Experiment:
    """What to compare on, with the methods to compare."""
    from psofed import experiment as experiments
    from psofed.compare import budget

    experiment, own = experiments.Experiment(), False
    if file is not None:
        experiment, own = experiments.read_for(
            file, {"methods": [{"name": budget.reference().name}]}
        )
    dim = experiment.dim
    known = experiment.methods if own else budget.everything(dim, experiment.learner)
    methods = budget.completed(known, dim)
    if not own and (unfit := budget.unfit(experiment.learner)):
        say(f"Left out, for the learner {experiment.learner.name}: {', '.join(unfit)}.")
    return changed(replace(experiment, methods=methods), rounds, seed)


def _fit(experiment: Experiment, budget: float) -> list[tuple[str, Fitted]]:
    from psofed.compare.comparing import fit_all

    with counting("fitting to the budget") as on_step:
        return fit_all(experiment, budget, "--budget", on_step)


def _tune(experiment: Experiment, fitted: list[Fitted], how: Wishes, asked: Any) -> list[Entry]:
    from psofed.compare.tuning import PILOT_RUNS, tune, untuned
    from psofed.simulate import pools

    if asked["no_tune"]:
        return untuned(experiment, fitted)
    with metered("tuning steps", "pilot runs", total=PILOT_RUNS) as meter:

        def pool(pilot: Experiment) -> AbstractContextManager[pools.Pool]:
            return counted(pools.local(pilot, how.jobs), meter)

        return tune(experiment, fitted, pool, meter.advance, asked["average"])


def _command(file: Path | None, budget: float, experiment: Experiment, asked: Any) -> str:
    parts = ["psofed compare", str(file) if file else "", f"--budget {budget:g}"]
    parts += [f"--runs {experiment.runs}", f"--rounds {experiment.rounds}"]
    parts += [f"--seed {asked['seed']}"] if asked["seed"] is not None else []
    parts += [f"--target {asked['target']:g}"] if asked["target"] is not None else []
    parts += [f"--total {asked['total']}", f"--sort {asked['sort']}"]
    parts += ["--no-tune" if asked["no_tune"] else "", "--average" if asked["average"] else ""]
    return " ".join(filter(None, parts))


def _write(
    curves: Any, entries: Any, fitted: Any, folder: Any, command: str, budget: float, asked: Any,
    how: Wishes,
) -> None:  # fmt: skip
    from psofed.compare.comparing import Comparison
    from psofed.compare.target import default_target
    from psofed.report import comparison as words

    target = asked["target"] if asked["target"] is not None else default_target(curves)
    left_out = [(title, f.why) for title, f in fitted if f.options is None]
    result = Comparison(
        curves, entries, left_out, budget, target, asked["total"], asked["sort"],
        not asked["no_tune"], command, asked["average"],
    )  # fmt: skip
    folder.write(words.render(result))
    if how.as_json:
        print(json.dumps(words.to_table(result) | {"folder": str(folder.path)}, indent=2))
        return
    printing.show(*words.blocks(result))
    printing.show(f"\n{curves.counted_runs()}; results in {folder.path}")
