"""`psofed theory FILE.toml`: predictions before a run, and how well they hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli import printing
from psofed.cli.progress import counting, progress, say
from psofed.cli.work import retargeted, targets_option
from psofed.errors import InputError

if TYPE_CHECKING:
    from psofed.curves import Curves
    from psofed.experiment import Experiment
    from psofed.report.theory_words import Findings
    from psofed.theory.study import Study

RUNS = 100
SWEEP_RUNS = 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--simulate",
    is_flag=True,
    help="Also simulate the same world and compare; sweep the step and M.",
)
@click.option(
    "--bounds",
    "only_bounds",
    is_flag=True,
    help="Compute the limits of the step only: takes seconds, writes no files.",
)
@click.option(
    "--world",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of the run whose clients, features and windows are used. [default: FILE's, or 0]",
)
@click.option(
    "--runs",
    type=click.IntRange(min=2),
    metavar="N",
    help="Number of runs of the simulation. [default: FILE's, at most 100]",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes. [default: all cores]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the results. [default: a new folder in results/]",
)
@targets_option
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")  # fmt: skip
def theory(file: Path, **wishes: Any) -> None:
    """Predict the experiment in FILE: which steps are safe, how fast it learns, where it ends.

    Prints the limits of the step with a verdict for each method, the convergence rate of the mean
    error compared with the paper's eq. (13), and the expected MSE over the rounds. Writes theory
    (.png, .pdf, .csv, .json, .txt). With --simulate it also writes the measured curves, and
    theory_step and theory_shared: the MSE at the end against the step and against M.
    """
    from psofed import experiment as experiments
    from psofed.report import files
    from psofed.theory import coverage, prediction

    how = _Wishes(file=file, **wishes)
    if how.only_bounds and (how.simulate or how.out or how.force or how.targets):
        raise click.UsageError(
            "--bounds writes no files and tests nothing; do not use it with --simulate, --targets,"
            " --out or --force"
        )
    read = retargeted(experiments.read(file), how.targets)
    experiment = prediction.fix_world(read, how.world)
    how = replace(how, runs=how.runs or max(min(experiment.runs, RUNS), 2))
    try:
        coverage.check(experiment)
    except InputError as error:
        raise error.inside(where=str(file)) from None
    if not coverage.knows(experiment):
        found, right = "has none that the theory covers", "use psofed or onlinefed"
        raise InputError("methods", found, right, str(file))
    folder = None
    if not how.only_bounds:
        out = how.out or files.default_folder(Path("results") / f"{file.stem}-theory", False)
        folder = files.ResultFolder(out, how.force)
    try:
        _work(experiment, how, folder)
    except BaseException as error:
        if folder is not None:
            folder.discard()
        if isinstance(error, InputError) and not error.where:
            raise error.inside(where=str(file)) from None
        raise


@dataclass(frozen=True)
class _Wishes:
    file: Path
    simulate: bool
    only_bounds: bool
    world: int | None
    runs: int | None
    jobs: int | None
    out: Path | None
    targets: str | None
    force: bool
    as_json: bool


def _work(experiment: Experiment, how: _Wishes, folder: Any) -> None:
    from threadpoolctl import threadpool_limits

    from psofed.report import theory_words as words

    with threadpool_limits(1):
        study = _study(experiment, how, sweeps=folder is not None and how.simulate)
        curves: Curves | None = None
        simulated: list[Curves] = []
        if folder is not None and how.simulate:
            curves, simulated = _simulate(study, how)
    found = words.Findings(study, curves, simulated, _command(how))
    if folder is not None:
        folder.write(words.render(found), words.FILES)
    _show(found, folder, how)


def _study(experiment: Experiment, how: _Wishes, sweeps: bool) -> Study:
    """All that needs no simulation, by processes that are started once."""
    from psofed.theory import prediction
    from psofed.theory import study as studies
    from psofed.theory.staff import staff

    with ExitStack() as stack:
        with counting("moments and limits, %") as on_percent:
            world = prediction.world(experiment)
            workers = stack.enter_context(staff(world, how.jobs or os.cpu_count() or 1))
            study = studies.judge(workers, not how.only_bounds, _percent(on_percent))
        if how.only_bounds:
            return study
        with counting("predicting, rounds") as on_round:
            study = replace(study, predictions=prediction.predictions(workers, on_round))
        if sweeps:
            with counting("sweeps, %") as on_percent:
                study = replace(study, sweeps=studies.sweeps(workers, study, _percent(on_percent)))
    return study


def _percent(tell: Callable[[int, int], None]) -> Callable[[float], None]:
    return lambda share: tell(int(100 * share), 100)


def _simulate(study: Study, how: _Wishes) -> tuple[Curves, list[Curves]]:
    """The same world by Monte Carlo: the curves, and the points of the sweeps."""
    import numpy as np

    known = {p.title for p in study.predictions}
    experiment = study.world.experiment
    which = [j for j, title in enumerate(experiment.titles) if title in known]
    wanted = how.runs or RUNS
    experiment = replace(experiment.only(which), runs=wanted)
    curves = _run(experiment, how, "simulating")
    if not study.sweeps:
        return curves, []
    # All points in one simulation, which draws the data once.
    methods = tuple(method for sweep in study.sweeps for method in sweep.methods)
    runs = max(min(wanted, SWEEP_RUNS), 2)
    together = _run(replace(experiment, methods=methods, runs=runs), how, "simulating the sweeps")
    ends = np.cumsum([len(sweep.methods) for sweep in study.sweeps]).tolist()
    return curves, [together.only(range(a, b)) for a, b in zip([0, *ends], ends, strict=False)]


def _run(experiment: Experiment, how: _Wishes, what: str) -> Curves:
    from psofed.simulate import montecarlo, pools

    with progress(experiment, pools.threads(how.jobs), what=what) as (pool, on_run):
        return montecarlo.run(experiment, pool=pool, on_run=on_run)


def _command(how: _Wishes) -> str:
    # The folder holds the experiment, with its world, so the command that repeats it starts there.
    simulate = f" --simulate --runs {how.runs}" if how.simulate else ""
    bounds = " --bounds" if how.only_bounds else ""
    return f"psofed theory {how.file.name if bounds else 'experiment.toml'}{simulate}{bounds}"


def _show(found: Findings, folder: Any, how: _Wishes) -> None:
    from psofed.report import files
    from psofed.report import theory_words as words

    if how.as_json:
        place = {"folder": str(folder.path)} if folder is not None else {}
        print(json.dumps(words.to_table(found) | place, indent=2))
        return
    printing.show(*words.blocks(found))
    if folder is not None:
        printing.show(f"\nresults in {folder.path}")
        if not files.can_draw():
            say("No figures: they need matplotlib (pip install '.[plot]' in a clone).")
