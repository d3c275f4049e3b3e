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
from psofed.cli.work import (
    Wishes,
    changed,
    compute,
    leave_interrupted,
    options,
    runs_asked,
    targets_option,
)
from psofed.errors import InputError

if TYPE_CHECKING:
    from psofed.compare.budget import Fitted
    from psofed.compare.lattice import Allowance
    from psofed.compare.tuning import Entry, Tuned
    from psofed.experiment import Experiment

RUNS = 100
FLAGS = ("quick", "no_tune", "no_gifts")


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--budget",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.2,
    show_default=True,
    metavar="SHARE",
    help="Traffic of each method, at most, as a share of Online-Fed's.",
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
    help="Test MSE that has to be reached. [default: 1 dB above Online-Fed's best]",
)
@click.option(
    "--total",
    type=click.Choice(["unicast", "up", "multicast"]),
    default="unicast",
    show_default=True,
    help="Bytes that count. unicast: up and down, each download once per member. up: uploads only."
    " multicast: as unicast, but a download that is equal for all members counts once.",
)
@click.option("--quick", is_flag=True, help="Set each knob to the budget; try a few steps only.")
@click.option("--no-tune", is_flag=True, help="Set each knob to the budget; use the steps in FILE.")
@click.option(
    "--no-gifts",
    is_flag=True,
    help="Do not try coded values, a whitened basis and normalised LMS with each method.",
)
@targets_option
@options
def compare(file: Path | None, budget: float, runs: int | None, **wishes: Any) -> None:
    """Compare methods on the same streams, features and cohorts, at equal traffic.

    Searches each method's options, step and averaging on other seeds, within the given share of
    Online-Fed's bytes, counted from encoded messages: once for the lowest error, once for the
    fewest bytes to the target. Runs the winners on the same draws. FILE describes the experiment;
    if it lists methods, those, Online-Fed and FedAvg are compared. Without FILE: all methods in the
    paper's setting. Writes two tables and figures: the error over rounds, the error over bytes, and
    the bytes that each method needs for each error.
    """
    from psofed.compare import kept
    from psofed.compare.lattice import Allowance
    from psofed.report import files
    from psofed.simulate.checkpoint import Checkpoint

    names = ("rounds", "seed", "targets", "target", "total", *FLAGS)
    asked = {key: wishes.pop(key) for key in names}
    how = Wishes(**wishes)
    if asked["target"] is not None and not abs(asked["target"]) < 1000:
        raise InputError("--target", f"is {asked['target']}", "use a number of dB, such as -11")
    if asked["quick"] and asked["no_tune"]:
        raise InputError("--quick", "is given beside --no-tune", "give one of the two")
    experiment, unfit = _experiment(file, asked)
    experiment = replace(experiment, runs=runs_asked(runs, RUNS, how))
    name = f"{file.stem}-compare" if file else "compare"
    out = how.out or files.default_folder(Path("results") / name, how.resume)
    folder = files.ResultFolder(out, how.force, how.resume)
    allowed = Allowance(budget, asked["total"])
    question = {"budget": budget, **{key: asked[key] for key in ("target", "total", *FLAGS)}}
    known = Checkpoint.beside(out) if how.resume else ""
    try:
        found = kept.read(known, experiment, question) or _tuned(experiment, allowed, how, asked)
    except BaseException:
        folder.discard()
        raise
    beside = kept.text(experiment, question, found)
    found = found._replace(left_out=[*unfit, *found.left_out])
    every = experiment.evaluate_every or max(experiment.rounds // 1000, 1)
    methods = tuple(entry.options for entry in found.entries)
    experiment = replace(experiment, methods=methods, evaluate_every=every)
    curves, done, store = compute(experiment, folder, how, beside)
    if curves is None or not done:
        leave_interrupted(folder, store)
    command = _command(file, budget, curves.experiment, asked)
    _write(curves, found, allowed, folder, command, asked, how)
    store.remove()


def _experiment(file: Path | None, asked: Any) -> tuple[Experiment, list[tuple[str, str]]]:
    """What to compare on, with the methods to compare, and those that cannot be attacked."""
    from psofed import experiment as experiments
    from psofed.compare import budget

    experiment, beset, own = experiments.Experiment(), dict[str, Any](), False
    if file is not None:
        missing = {"methods": [{"name": budget.reference().name}]}
        experiment, beset, own = experiments.read_for(file, missing)
    dim = experiment.dim
    known = experiment.methods if own else budget.everything(dim, experiment.learner)
    experiment = replace(experiment, methods=(budget.reference(),), **beset)
    methods, unfit = budget.attacked(experiment, budget.completed(known, dim))
    if not own and (strange := budget.unfit(experiment.learner)):
        say(f"Left out, for the learner {experiment.learner.name}: {', '.join(strange)}.")
    made = replace(experiment, methods=methods)
    return changed(made, asked["rounds"], asked["seed"], asked["targets"]), unfit


def _tuned(experiment: Experiment, allowed: Allowance, how: Wishes, asked: Any) -> Tuned:
    """Each method as it is compared: at its best, or as it was asked for."""
    from psofed.compare.comparing import enough, fit_all
    from psofed.compare.tuning import Tuned, untuned

    if not asked["quick"] and not asked["no_tune"]:
        found = _searched(experiment, allowed, how, asked)
        enough([entry.options for entry in found.entries], found.left_out, allowed, "--budget")
        return found
    with counting("fitting to the budget") as on_step:
        fitted = fit_all(experiment, allowed, "--budget", on_step)
    kept = [f for _, f in fitted]
    entries = untuned(experiment, kept) if asked["no_tune"] else _quickly(experiment, kept, how)
    left_out = [(title, f.why) for title, f in fitted if f.options is None]
    return Tuned(entries, asked["target"], left_out)


def _searched(experiment: Experiment, allowed: Allowance, how: Wishes, asked: Any) -> Tuned:
    from psofed.compare.pilot import Pilot
    from psofed.compare.tuning import tune
    from psofed.meter import in_turn
    from psofed.simulate import pools

    with pools.local(experiment, how.jobs) as workers, in_turn() as told:
        pilot = Pilot(experiment, allowed, workers)
        return tune(experiment, pilot, asked["target"], not asked["no_gifts"], told)


def _quickly(experiment: Experiment, fitted: list[Fitted], how: Wishes) -> list[Entry]:
    from psofed.compare.tuning import QUICK_RUNS, tune_quickly
    from psofed.simulate import pools

    with metered("tuning steps", "pilot runs", total=QUICK_RUNS) as meter:

        def pool(pilot: Experiment) -> AbstractContextManager[pools.Pool]:
            return counted(pools.local(pilot, how.jobs), meter)

        return tune_quickly(experiment, fitted, pool, meter.advance)


def _command(file: Path | None, budget: float, experiment: Experiment, asked: Any) -> str:
    parts = ["psofed compare", str(file) if file else "", f"--budget {budget:g}"]
    parts += [f"--runs {experiment.runs}", f"--rounds {experiment.rounds}"]
    parts += [f"--seed {asked['seed']}"] if asked["seed"] is not None else []
    parts += [f"--targets {asked['targets']}"] if asked["targets"] else []
    parts += [f"--target {asked['target']:g}"] if asked["target"] is not None else []
    parts += [f"--total {asked['total']}"] if asked["total"] != "unicast" else []
    parts += [f"--{key.replace('_', '-')}" for key in FLAGS if asked[key]]
    return " ".join(filter(None, parts))


def _write(
    curves: Any,
    found: Tuned,
    allowed: Allowance,
    folder: Any,
    command: str,
    asked: Any,
    how: Wishes,
) -> None:
    from psofed.compare.comparing import finished
    from psofed.report import comparison as words

    tuning: Any = "none" if asked["no_tune"] else "quick" if asked["quick"] else "fair"
    result = finished(curves, found, allowed, tuning, command)
    folder.write(words.render(result))
    if how.as_json:
        print(json.dumps(words.to_table(result) | {"folder": str(folder.path)}, indent=2))
        return
    printing.show(*words.blocks(result))
    printing.show(f"\n{curves.counted_runs()}; results in {folder.path}")
