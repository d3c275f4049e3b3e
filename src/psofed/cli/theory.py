"""`psofed study theory FILE.toml`: predictions before a run, and how well they hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli import printing
from psofed.cli.run import Wishes
from psofed.cli.verbs import FILE, common, fields
from psofed.errors import InputError
from psofed.federation.progress import counting

if TYPE_CHECKING:
    from psofed.curves import Curves
    from psofed.experiment import Experiment
    from psofed.theory.study import Study

RUNS = 100


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--simulate",
    is_flag=True,
    help="Also simulate the same world and compare.",
)
@click.option(
    "--bounds",
    "only_bounds",
    is_flag=True,
    help="Compute the limits of the step only: takes seconds, writes no files.",
)
@fields("settings.Settings", "runs", default=f"FILE's, at most {RUNS}")
@common("set", "jobs", "out", "force", "json")
def theory(file: Path, simulate: bool, only_bounds: bool, **options: Any) -> None:
    """Predict the experiment in FILE: which steps are safe, how fast it learns, where it ends.

    Prints the limits of the step with a verdict for each method, the convergence rate of the mean
    error compared with the paper's eq. (13), and the expected MSE over the rounds. Writes theory
    (.png, .pdf, .csv, .json, .txt), with --simulate also the measured curves.
    """
    from psofed import experiment as experiments
    from psofed.theory import prediction

    how = Wishes(**options)
    tests = any(text.startswith("targets=") for text in how.settings)
    if only_bounds and (simulate or tests or how.out or how.force):
        raise click.UsageError(
            "--bounds writes no files and tests nothing: leave out --simulate, --out, --force and"
            " --set targets"
        )
    read = experiments.read(file)
    runs = max(min(read.runs, RUNS), 2)
    experiment = prediction.fix_world(how.changed(read, runs, {"runs": 2}), None)
    try:
        prediction.check(experiment)
    except InputError as error:
        raise error.inside(where=str(file)) from None
    if not prediction.supports(experiment):
        found, right = "has none that the theory covers", "use psofed or onlinefed"
        raise InputError("methods", found, right, str(file))
    folder = None if only_bounds else how.folder(f"{file.stem}-theory")
    # The folder holds the experiment, with its world, so the command that repeats it starts there.
    command = f"psofed study theory {file.name} --bounds{how.sets()}"
    if folder is not None:
        simulated = f" --simulate --runs {experiment.runs}" if simulate else ""
        command = f"psofed study theory experiment.toml{simulated}"
    try:
        _work(experiment, how, folder, simulate, command)
    except BaseException as error:
        if folder is not None:
            folder.discard()
        if isinstance(error, InputError) and not error.where:
            raise error.inside(where=str(file)) from None
        raise


def _work(experiment: Experiment, how: Wishes, folder: Any, simulate: bool, command: str) -> None:
    from threadpoolctl import threadpool_limits

    from psofed.report import theory as words

    with threadpool_limits(1):
        study = _study(experiment, how, folder is not None)
        curves = _simulate(study, how) if simulate else None
    found = words.Findings(study, curves, command)
    if folder is None:
        if how.as_json:
            print(json.dumps(words.to_table(found), indent=2))
        else:
            printing.show(*words.blocks(found))
        return
    folder.write(words.render(found), words.FILES)
    end = f"\nresults in {folder.path}"
    how.show(folder, lambda: words.to_table(found), *words.blocks(found), end)


def _study(experiment: Experiment, how: Wishes, curves: bool) -> Study:
    """All that needs no simulation, by processes that are started once."""
    from psofed.federation.workers import in_parallel
    from psofed.theory import prediction
    from psofed.theory import study as studies

    with ExitStack() as stack:
        with counting("moments and limits, %") as on_percent:
            world = prediction.world(experiment)
            workers = stack.enter_context(in_parallel(world, how.jobs or os.cpu_count() or 1))
            study = studies.judge(workers, curves, _percent(on_percent))
        if not curves:
            return study
        with counting("predicting, rounds") as on_round:
            study = replace(study, predictions=prediction.predictions(workers, on_round))
    return study


def _percent(tell: Callable[[int, int], None]) -> Callable[[float], None]:
    return lambda share: tell(int(100 * share), 100)


def _simulate(study: Study, how: Wishes) -> Curves:
    """The same world by Monte Carlo."""
    from psofed.simulate import montecarlo

    known = {p.title for p in study.predictions}
    experiment = study.world.experiment
    which = [j for j, title in enumerate(experiment.titles) if title in known]
    return montecarlo.run(experiment.only(which), how.jobs, progress=True)
