"""`psofed study theory FILE.toml`: predictions before a run, and how well they hold."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.printing import results, show
from psofed.cli.run import Overrides, jobs
from psofed.cli.verbs import FILE, common, fields
from psofed.errors import InputError
from psofed.federation.progress import counting

if TYPE_CHECKING:
    from psofed.curves import Curves
    from psofed.experiment import Experiment
    from psofed.theory.study import Study


@click.command()
@click.argument("file", type=FILE)
@fields("settings.Settings", "runs", default="no simulation")
@common("set", "out")
def theory(file: Path, **options: Any) -> None:
    """Predict the experiment in FILE: which steps are safe, how fast it learns, where it ends.

    Prints the limits of the step with a verdict for each method, the convergence rate of the mean
    error compared with the paper's eq. (13), and the expected MSE over the rounds. Writes theory
    (.png, .pdf, .csv, .json, .txt). With --runs it also simulates the same world and adds the
    measured curves.
    """
    from psofed import experiment as experiments
    from psofed.theory import prediction

    how = Overrides(**options)
    experiment = prediction.fix_world(how.changed(experiments.read(file), None, {"runs": 2}), None)
    try:
        prediction.check(experiment)
        prediction.uncovered(experiment)
        _work(experiment, how, file.stem)
    except InputError as error:
        raise error if error.where else error.inside(where=str(file)) from None


def _work(experiment: Experiment, how: Overrides, stem: str) -> None:
    from psofed.report import theory as words

    simulates = how.runs is not None
    with results(how.out, f"{stem}-theory") as folder:
        study = _study(experiment)
        curves = _simulate(study) if simulates else None
        # The folder holds the experiment, with its world, so the command starts there.
        command = "psofed study theory experiment.toml" + f" --runs {how.runs}" * simulates
        found = words.Findings(study, curves, command)
        folder.write(words.render(found))
    show(*words.blocks(found), f"\nresults in {folder.path}")


def _study(experiment: Experiment) -> Study:
    """All that needs no simulation, by processes that are started once."""
    from threadpoolctl import threadpool_limits

    from psofed.federation.workers import in_parallel
    from psofed.theory import prediction
    from psofed.theory import study as studies

    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        with counting("moments and limits, %") as on_percent:
            world = prediction.world(experiment)
            workers = stack.enter_context(in_parallel(world, jobs() or os.cpu_count() or 1))
            study = studies.judge(workers, lambda share: on_percent(int(100 * share), 100))
        with counting("predicting, rounds") as on_round:
            return replace(study, predictions=prediction.predictions(workers, on_round))


def _simulate(study: Study) -> Curves:
    """The same world by Monte Carlo."""
    from psofed.simulate import montecarlo

    known = {p.title for p in study.predictions}
    experiment = study.world.experiment
    which = [j for j, title in enumerate(experiment.titles) if title in known]
    return montecarlo.run(experiment.only(which), jobs(), progress=True)
