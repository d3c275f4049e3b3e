"""What `reproduce` and `run` share: run an experiment with progress, write and print the result."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from psofed.cli import printing
from psofed.cli.progress import progress, say

if TYPE_CHECKING:
    from psofed.curves import Curves
    from psofed.experiment import Experiment
    from psofed.report.files import ResultFolder
    from psofed.simulate.checkpoint import Checkpoint

MOST_RUNS = 1_000_000
Figures = dict[str, tuple[list[int], str]]


targets_option = click.option(
    "--targets", type=click.Choice(["clean", "noisy"]),
    help="Test on noise-free targets f(x), or on y = f(x) + noise, as the paper prints it."
    " [default: FILE's, or clean]",
)  # fmt: skip


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that runs an experiment."""
    precision = click.option(
        "--precision",
        type=float,
        metavar="DB",
        help="Run until every steady MSE has a standard error below DB decibels.",
    )
    return precision(plain_options(command))


def plain_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same without a precision."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
        click.option("--force", is_flag=True, help="Write into a folder that is not empty."),
        click.option("--resume", is_flag=True, help="Continue from the runs that are finished."),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            help="Folder for the results. [default: a new folder in results/]",
        ),
        click.option(
            "--cluster",
            metavar="ADDRESS",
            help='Compute on the Dask cluster at ADDRESS; "local" starts one on this machine.',
        ),
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Number of threads. [default: all cores]",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class Wishes:
    """How to run an experiment: what the options say."""

    out: Path | None
    force: bool
    resume: bool
    jobs: int | None
    cluster: str | None
    as_json: bool
    precision: float | None = None

    def __post_init__(self) -> None:
        from psofed import schema
        from psofed.errors import InputError

        try:
            schema.positive(self, "precision")  # not a number is neither small nor large
        except InputError as error:
            raise InputError("--precision", error.found, error.right) from None


def changed(
    experiment: Experiment, rounds: int | None, seed: int | None, targets: Any = None
) -> Experiment:
    """The experiment with another number of rounds, seed or test targets, if these are given."""
    experiment = retargeted(experiment, targets)
    rounds = rounds or experiment.rounds
    every = experiment.evaluate_every
    every = every if every is not None and every <= rounds else None
    seed = experiment.seed if seed is None else seed
    made = replace(experiment, rounds=rounds, seed=seed, evaluate_every=every)
    made.check_simulated()
    return made


def retargeted(experiment: Experiment, targets: Any) -> Experiment:
    """The experiment, tested on the targets that --targets names, if it is given."""
    from psofed import validation
    from psofed.streams.contract import measured

    if targets is None:
        return experiment
    if measured(experiment.stream):
        raise validation.no_targets(targets).inside("--")
    return replace(experiment, targets=targets)


def runs_asked(given: int | None, default: int, wishes: Wishes) -> int:
    """The number of runs: as given, or as many as the precision needs, or the default."""
    return given or (MOST_RUNS if wishes.precision is not None else default)


def work(
    experiment: Experiment, command: str, figures: Figures, default: str, wishes: Wishes
) -> None:
    """Run the experiment, write its folder, print its table."""
    from psofed.report import files

    out = wishes.out or files.default_folder(Path("results") / default, wishes.resume)
    if wishes.resume and files.is_finished(out, experiment):
        say(f"Nothing to do: {out} holds the finished result.")
        return
    warn_of_steps(experiment)
    folder = files.ResultFolder(out, wishes.force, wishes.resume)
    if not files.can_draw():
        say("No figures: they need matplotlib (pip install '.[plot]' in a clone).")
    curves, finished, store = compute(experiment, folder, wishes)
    if curves is None:
        leave_interrupted(folder, store)
    if not finished:
        say("Stopped. Writing what is finished (Ctrl-C again stops at once) ...")
    command = f"{command} --runs {curves.experiment.runs}"
    try:
        folder.write(files.render(curves, command, figures))
    except KeyboardInterrupt:
        leave_interrupted(folder, store)
    if finished:
        store.remove()
    show(curves, command, folder.path, wishes)
    if not finished:
        leave_interrupted(folder, store)


def warn_of_steps(experiment: Experiment) -> None:
    """Say before a run starts which of its steps, or which noise, will make it diverge."""
    from psofed.streams.contract import about
    from psofed.theory.bounds import alarms

    if caution := about(experiment.stream).caution():
        say(f"Warning: stream: {caution}.")
    for alarm in alarms(experiment):
        start = f"Warning: {alarm.title}: step {alarm.step:g} is"
        end = "expect it to diverge. See `psofed theory FILE`."
        if alarm.sure:
            say(f"{start} unsafe, its mean-square limit is about {alarm.limit:.2g}; {end}")
        else:
            limit = f"the mean-square limit of LMS here, about {alarm.limit:.2g}"
            say(f"{start} above {limit}; it may diverge. Lower it, or scale the features.")


def leave_interrupted(folder: ResultFolder, store: Checkpoint) -> NoReturn:
    """Say what is kept and leave at once, without waiting for a run to end."""
    kept = store.count()
    if kept:
        runs = "1 run was finished; it is" if kept == 1 else f"{kept} runs were finished; these are"
        say(f"Interrupted: {runs} kept.")
        say(f"To continue, repeat the command with --out {folder.path} --resume.")
    else:
        store.remove()
        folder.discard()
        say("Interrupted before the first run was finished; nothing was written.")
    sys.stdout.flush()
    os._exit(130)


def compute(
    experiment: Experiment, folder: ResultFolder, wishes: Wishes, beside: str = ""
) -> tuple[Curves | None, bool, Checkpoint]:
    """The curves, whether they are finished, and the checkpoint that was kept on the way.

    `beside` is a text that is kept with it.
    """
    from psofed import native, plugins
    from psofed.errors import InputError
    from psofed.simulate import montecarlo, pools
    from psofed.simulate.checkpoint import Checkpoint

    if not native.available():
        right = "with a C compiler, install psofed again"
        say(f"This psofed has no compiled code: it takes many times as long; {right}.")
    store = Checkpoint(folder.path, experiment)
    pool = pools.cluster(wishes.cluster) if wishes.cluster else pools.local(experiment, wishes.jobs)
    try:
        if not (wishes.resume and store.exists()):
            store.begin(beside)
        precise: Any = {"store": store, "precision": wishes.precision}
        with progress(experiment, pool, **precise) as (counted, on_run):
            curves = montecarlo.run(experiment, pool=counted, on_run=on_run, **precise)
            return curves, True, store
    except montecarlo.Interrupted as stop:
        return stop.curves, False, store
    except KeyboardInterrupt:  # before the first run began, or after the last
        return None, False, store
    except Exception as error:
        told = error if isinstance(error, InputError) else plugins.blamed(error)
        if told is None and not isinstance(error, OSError):
            raise
        kept = store.count()
        if not kept:
            store.remove()
            folder.discard()
        if told is not None or not isinstance(error, OSError):
            raise told or error from None
        found = f"cannot be written: {error.strerror}"
        right = f"free some space and continue with --resume: {kept} finished runs are kept"
        right = right if kept else "free some space; no run was finished"
        raise InputError(str(folder.path), found, right) from None


def show(curves: Curves, command: str, folder: Path, wishes: Wishes) -> None:
    """The result on standard output: for people, or as JSON."""
    from psofed.report import claims, files, summaries

    summary = files.summary(curves, command)
    if wishes.as_json:
        print(json.dumps(summary | {"folder": str(folder)}, indent=2))
        return
    printing.show(summaries.grid(curves), *summaries.levels(curves))
    if "claims" in summary:
        head = f"\nThe paper's claims, as measured here on {curves.experiment.judged}"
        printing.show(head, claims.text(claims.judge(curves)))
        printing.show(*claims.caution(int(curves.rounds[-1]), curves.experiment.judged))
    printing.show(f"\n{curves.counted_runs()}; results in {folder}")
    if wishes.precision is not None:
        worst = max(curves.point(j, "steady").stderr for j in range(len(curves.titles)))
        reached = "reached" if worst <= wishes.precision else "NOT reached"
        printing.show(f"precision {reached}: the largest standard error is {worst:.3f} dB")
