"""`psofed.run`: the simulation, and in warnings what the command line says next to it."""

from __future__ import annotations

from typing import Any
from warnings import warn

import numpy as np

from psofed.core import native
from psofed.curves import Curves
from psofed.errors import PsofedWarning
from psofed.experiment import Experiment, given
from psofed.simulate import montecarlo
from psofed.simulate.montecarlo import OnRun
from psofed.theory.prediction import DIVERGED
from psofed.theory.system import Alarm, alarms

SLOW = (
    "This psofed has no compiled code: it takes many times as long; with a C compiler, install"
    " psofed again."
)


def run(
    experiment: Experiment,
    jobs: int | None = None,
    *,
    on_run: OnRun | None = None,
    progress: bool | None = None,
    each: bool = False,
) -> Curves:
    """Run the experiment and return its curves.

    On `jobs` threads, as many as there are cores. `on_run` is called with the sums after each run.
    `progress` shows how far it is: always, never, or (not given) in a notebook and on a terminal.
    With `each`, `curves.each` has the MSE of every run [run, method, mark].
    A `psofed.PsofedWarning` says which steps are too large, which methods have diverged, and that
    there is no compiled code.

    An interrupt (stopping the cell, Ctrl-C) raises `psofed.Interrupted`; `psofed.finished_runs()`
    then returns the curves of the runs that were finished.

    >>> run(Experiment(clients=5, rounds=3, runs=2, test_samples=50)).mse.shape
    (7, 4)
    """
    given(experiment).check_simulated()
    if not native.available():
        warn(SLOW, PsofedWarning, stacklevel=2)
    for alarm in alarms(experiment):
        warn(unsafe(alarm), PsofedWarning, stacklevel=2)
    curves = montecarlo.run(experiment, jobs, on_run=on_run, progress=progress, each=each)
    if lost := diverged(curves):
        found = f"{', '.join(lost)} diverged: the error is not a number or {DIVERGED:g} times"
        warn(f"{found} that of the start; use a smaller step", PsofedWarning, stacklevel=2)
    return curves


def unsafe(alarm: Alarm) -> str:
    """What is said of a step that is too large."""
    start = f"{alarm.title}: step {alarm.step:g} is"
    if alarm.sure:
        limit = f"unsafe, its mean-square limit is about {alarm.limit:.2g}"
        return f"{start} {limit}; expect it to diverge. See `psofed study theory FILE`."
    limit = f"above the mean-square limit of LMS here, about {alarm.limit:.2g}"
    return f"{start} {limit}; it may diverge. Lower it, or scale the features."


def diverged(curves: Curves) -> list[str]:
    """The methods whose models are lost at the end."""
    first: Any = curves.mse[:, 0]
    kept = curves.mse[:, -1] <= DIVERGED * first  # NaN is not
    return [curves.titles[j] for j in np.flatnonzero(~kept)]
