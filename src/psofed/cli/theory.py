"""`psofed theory FILE.toml`: what can be known before a run, and how true it is."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.progress import counting, say
from psofed.errors import InputError

if TYPE_CHECKING:
    from psofed.curves import Curves
    from psofed.experiment import Experiment
    from psofed.report.theory import Findings
    from psofed.theory.study import Study

RUNS = 100
SWEEP_RUNS = 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--simulate",
    is_flag=True,
    help="Draw the theory over a simulation of the same world; sweep the step and M.",
)
@click.option(
    "--bounds",
    "only_bounds",
    is_flag=True,
    help="Only the limits of the step: takes seconds, writes no files.",
)
@click.option(
    "--world",
    type=click.IntRange(min=0),
    help="The run whose clients, features and windows are meant. [default: FILE's, or 0]",
)
@click.option(
    "--runs",
    type=click.IntRange(min=2),
    help="Runs of the simulation. [default: FILE's, at most 100]",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes. [default: all cores]")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the results.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")  # fmt: skip
def theory(file: Path, **wishes: Any) -> None:
    """Predict the experiment in FILE: which steps are safe, how fast it learns, where it ends.

    Prints the limits of the step with a verdict for each method, the speed of the mean error beside
    the paper's eq. (13), and the expected MSE over the rounds. Writes theory (.png, .pdf, .csv,
    .json, .txt); with --simulate also the measured curves, and theory_step and theory_shared, the
    MSE at the end against the step and against M.
    """
    from psofed import experiment as experiments
    from psofed.report import files
    from psofed.theory import predict

    how = _Wishes(file=file, **wishes)
    if how.only_bounds and (how.simulate or how.out or how.force):
        raise click.UsageError(
            "--bounds writes no files: it goes with none of --simulate, --out, --force"
        )
    experiment = predict.fix_world(experiments.read(file), how.world)
    how = replace(how, runs=how.runs or max(min(experiment.runs, RUNS), 2))
    if not predict.knows(experiment):
        found, right = "has none that the theory knows", "use psofed or onlinefed"
        raise InputError("methods", found, right, str(file))
    folder = None
    if not how.only_bounds:
        out = how.out or files.default_folder(Path("results") / f"{file.stem}-theory", False)
        folder = files.Folder(out, how.force)
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
    force: bool
    as_json: bool


def _work(experiment: Experiment, how: _Wishes, folder: Any) -> None:
    from threadpoolctl import threadpool_limits

    from psofed.report import theory as words
    from psofed.theory import predict
    from psofed.theory import study as studies

    with threadpool_limits(1):
        with counting("moments and limits") as on_step:
            world = predict.world(experiment)
            study = studies.judge(world, not how.only_bounds, on_step)
        curves: Curves | None = None
        simulated: list[Curves] = []
        if folder is not None:
            with counting("predicting, rounds") as on_round:
                jobs = how.jobs or os.cpu_count() or 1
                study = replace(study, predictions=predict.predict(world, jobs, on_round))
        if folder is not None and how.simulate:
            with counting("sweeps, rounds") as on_round:
                study = replace(study, sweeps=studies.sweeps(study, on_round))
            curves, simulated = _simulate(study, how)
    found = words.Findings(study, curves, simulated, _command(how))
    if folder is not None:
        folder.write(words.render(found), words.FILES)
    _show(found, folder, how)


def _simulate(study: Study, how: _Wishes) -> tuple[Curves, list[Curves]]:
    """The same world by Monte Carlo: the curves, and the points of the sweeps."""
    known = {p.title for p in study.predictions}
    experiment = study.world.experiment
    methods = tuple(o for o in experiment.methods if o.title() in known)
    wanted = how.runs or RUNS
    experiment = replace(experiment, methods=methods, runs=wanted)
    curves = _run(experiment, how, "simulating, runs")
    runs = max(min(wanted, SWEEP_RUNS), 2)
    points = [
        _run(replace(experiment, methods=s.methods, runs=runs), how, f"simulating {s.what}, runs")
        for s in study.sweeps
    ]
    return curves, points


def _run(experiment: Experiment, how: _Wishes, what: str) -> Curves:
    from psofed.simulate import montecarlo

    with counting(what) as on_step:

        def on_run(total: Any) -> None:
            on_step(total.runs, experiment.runs)

        return montecarlo.run(experiment, how.jobs, on_run=on_run)


def _command(how: _Wishes) -> str:
    # The folder holds the experiment, with its world, so the command that repeats it starts there.
    simulate = f" --simulate --runs {how.runs}" if how.simulate else ""
    bounds = " --bounds" if how.only_bounds else ""
    return f"psofed theory {how.file.name if bounds else 'experiment.toml'}{simulate}{bounds}"


def _show(found: Findings, folder: Any, how: _Wishes) -> None:
    from psofed.report import files
    from psofed.report import theory as words

    if how.as_json:
        place = {"folder": str(folder.path)} if folder is not None else {}
        print(json.dumps(words.to_table(found) | place, indent=2))
        return
    print(words.text(found))
    if folder is not None:
        print(f"\nresults in {folder.path}")
        if not files.can_draw():
            say("No figures: they need matplotlib (pip install 'psofed[plot]').")
