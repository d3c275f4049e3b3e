"""`psofed compare [FILE.toml]`: all methods on the same data, at equal bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.fit import command
from psofed.cli.printing import finish, results, say
from psofed.cli.run import Overrides, compute, jobs, leave_interrupted
from psofed.cli.verbs import FILE, experiment_options, fields
from psofed.errors import InputError
from psofed.federation.progress import in_turn
from psofed.federation.schema import inside

if TYPE_CHECKING:
    from psofed.compare.tuning import How, Tuned
    from psofed.experiment import Experiment

RUNS = 100


@click.command()
@click.argument("file", required=False, type=FILE)
@click.option(
    "--budget",
    type=float,
    default=0.2,
    show_default=True,
    metavar="SHARE",
    help="Traffic of each method, at most, as a share of Online-Fed's.",
)
@click.option(
    "--target",
    type=float,
    metavar="DB",
    help="Test MSE that has to be reached. [default: 1 dB above Online-Fed's best]",
)
@click.option(
    "--tuning",
    type=click.Choice(["fair", "plain", "none"]),
    default="fair",
    show_default=True,
    help="fair: search options, steps and averaging of each method, with coded values, a"
    " whitened basis and normalised LMS for all. plain: without these. none: only set each"
    " method's knob to the budget.",
)
@fields("settings.Settings", "runs", default=str(RUNS))
@experiment_options("rounds", default="FILE's, or the paper's")
def compare(
    file: Path | None, budget: float, target: float | None, tuning: How, **options: Any
) -> None:  # fmt: skip
    """Compare methods on the same streams, features and cohorts, at equal traffic.

    Searches each method's options, step and averaging on other seeds, within the given share of
    Online-Fed's bytes, counted from encoded messages: once for the lowest error, once for the
    fewest bytes to the target. Runs the winners on the same draws. FILE describes the experiment;
    if it lists methods, those, Online-Fed and FedAvg are compared. Without FILE: all methods in the
    paper's setting. Writes two tables, and figures of the error over rounds and over bytes.
    """
    from psofed.compare import tuning as searches
    from psofed.compare.comparing import check, finished
    from psofed.report import comparisons as words
    from psofed.simulate.finished import Checkpoint

    with inside("--"):
        check(budget, target, tuning)
    how = Overrides(**options)
    experiment, unfit = _experiment(file, how)
    question = {"budget": budget, "target": target, "tuning": tuning}
    with results(how.out, f"{file.stem}-compare" if file else "compare", resumes=True) as folder:
        known = Checkpoint.note(folder.path)
        kept = searches.from_text(known, experiment, question)
        if known and kept is None:
            found = "holds the beginning of another comparison"
            raise InputError(str(folder.path), found, "repeat its command, or give another --out")
        tuned = kept or _tuned(experiment, budget, target, tuning)
        note = searches.to_text(experiment, question, tuned)
        tuned = tuned._replace(left_out=[*unfit, *tuned.left_out])
        every = experiment.evaluate_every or max(experiment.rounds // 1000, 1)
        methods = tuple(entry.options for entry in tuned.entries)
        experiment = replace(experiment, methods=methods, evaluate_every=every)
        curves, done, store = compute(experiment, folder.path, note)
        if curves is None or not done:
            leave_interrupted(folder, store)
        result = finished(curves, tuned, budget, tuning, command())
        folder.write(words.render(result))
    store.remove()
    end = f"\n{curves.counted_runs()}; results in {folder.path}"
    finish(folder, how.as_json, words.to_table(result), *words.blocks(result), end)


def _experiment(file: Path | None, how: Overrides) -> tuple[Experiment, list[tuple[str, str]]]:
    """What to compare on, with the methods to compare, and those that cannot be attacked."""
    from psofed import experiment as experiments
    from psofed.compare import budget

    experiment, threats, own = experiments.Experiment(), dict[str, Any](), False
    if file is not None:
        missing = {"methods": [{"name": budget.reference().name}]}
        experiment, threats, own = experiments.read_for(file, missing)
    dim = experiment.dim
    known = experiment.methods if own else budget.everything(dim, experiment.learner)
    experiment = replace(experiment, methods=(budget.reference(),), **threats)
    methods, unfit = budget.attacked(experiment, budget.completed(known, dim))
    if not own and (strange := budget.unfit(experiment.learner)):
        say(f"Left out, for the learner {experiment.learner.name}: {', '.join(strange)}.")
    made = replace(experiment, methods=methods)
    return how.changed(made, RUNS, {"runs": 2, "rounds": 100}), unfit


def _tuned(experiment: Experiment, budget: float, target: float | None, tuning: How) -> Tuned:
    """Each method as it is compared: at its best, or as it was asked for."""
    from psofed.compare.tuning import tune
    from psofed.simulate import montecarlo

    with montecarlo.local(experiment, jobs()) as workers, in_turn() as report:
        try:
            return tune(experiment, budget, tuning, target, workers, report)
        except InputError as error:
            raise error.inside("--") if error.field == "budget" else error from None
