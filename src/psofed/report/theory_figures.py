"""Theory drawn over simulation. Needs matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from psofed.curves import PER_DB, Curves, to_db
from psofed.report.figures import finish, style
from psofed.theory.study import Study, Sweep

Array = NDArray[Any]
MARKERS = "osD^vPX"


def over_simulation(study: Study, curves: Curves | None) -> Figure:
    """Predicted curves as lines with their band; the simulation as points with error bars."""
    figure = Figure(figsize=(7.6, 5.0), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    last = study.world.experiment.rounds
    shown = np.unique(np.geomspace(1, max(last, 2), 22).astype(int))
    for i, p in enumerate(study.predictions):
        colour, dashes = style(i)
        with np.errstate(invalid="ignore"):
            band = PER_DB * p.error / p.mse
        axes.plot(p.rounds, p.mse_db, color=colour, linestyle=dashes, linewidth=1.5,
                  label=" " + p.title)  # fmt: skip
        axes.fill_between(p.rounds, p.mse_db - band, p.mse_db + band, color=colour, alpha=0.25,
                          linewidth=0)  # fmt: skip
        if curves is None:
            continue
        j = curves.titles.index(p.title)
        # Shifted from curve to curve, so that points of equal rounds do not hide one another.
        at = np.unique(np.searchsorted(curves.rounds[:-1], shown * (1 + 0.1 * i / 7)))
        at = at[np.isfinite(curves.mse_db[j][at])]
        axes.errorbar(
            curves.rounds[at], curves.mse_db[j][at], np.nan_to_num(curves.stderr_db[j][at]),
            fmt=MARKERS[i % len(MARKERS)], color=colour, markersize=3.6, elinewidth=1, capsize=2,
            markerfacecolor="white", markeredgewidth=0.9, linestyle="none",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(1, max(last, 2))
    lowest = min(np.nanmin(p.mse_db) for p in study.predictions)
    # Errors above that of no model are cut off: a method that diverges would hide the rest.
    axes.set_ylim(lowest - 1, study.predictions[0].mse_db[0] + 2)
    axes.set_xlabel("round n")
    axes.set_ylabel(f"test MSE (dB), {study.world.experiment.judged}")
    finish(axes, _title(study, curves))
    return figure


def _title(study: Study, curves: Curves | None) -> str:
    data = study.world.experiment.stream
    words = "theory" if curves is None else f"lines: theory, points: {curves.runs} runs ±1 s.e."
    note = "" if data.independent else " (theory assumes independent data; these are not)"
    return f"World {study.world.experiment.world}; {words}{note}"


def sweep(study: Study, sweep: Sweep, simulated: tuple[Array, Array]) -> Figure:
    """MSE at the end against the step or M: lines are theory, points are simulated."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    for i, title in enumerate(sweep.lines):
        colour, dashes = style(i)
        axes.plot(sweep.x, to_db(sweep.mse[i]), color=colour, linestyle=dashes, linewidth=1.5,
                  label=" " + title)  # fmt: skip
        axes.errorbar(
            sweep.x, simulated[0][i], np.nan_to_num(simulated[1][i]), color=colour,
            fmt=MARKERS[i % len(MARKERS)], markersize=4, elinewidth=1, capsize=2,
            markerfacecolor="white", markeredgewidth=0.9, linestyle="none",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(sweep.x, [f"{x:g}" for x in sweep.x])
    axes.minorticks_off()
    experiment = study.world.experiment
    axes.set_xlabel("step mu" if sweep.what == "step" else "shared entries M")
    end = f"test MSE at the end of {experiment.rounds} rounds"
    axes.set_ylabel(f"{end}\n(dB, {experiment.judged})")
    if sweep.what == "step":
        _mark_limits(axes, study)
    at = "" if sweep.step is None else f" at step {sweep.step:g}"
    kind = "quasi-static" if study.world.fourth is None else "exact"
    words = f"lines: {kind} theory, points: simulated ±1 s.e."
    finish(axes, f"World {study.world.experiment.world}{at}; {words}")
    return figure


def _mark_limits(axes: Any, study: Study) -> None:
    """Where no sample can enlarge the error, and where that of M < D grows without bound."""
    for value, name in ((study.bounds.sure, "safe below"), (study.bounds.alone, "unsafe (M < D)")):
        axes.axvline(value, color="0.45", linewidth=0.9, linestyle=(0, (1, 1.5)))
        axes.annotate(
            f"{name} {value:.2f}", (value, 0.02), xycoords=("data", "axes fraction"), rotation=90,
            ha="right", va="bottom", fontsize=8, color="0.35",
        )  # fmt: skip
