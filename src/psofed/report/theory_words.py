"""The result of `psofed theory`: as text, as a table for scripts, and as figures."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.curves import PER_DB, Curves, table_rounds, to_db
from psofed.provenance import versions, written
from psofed.report import files, html
from psofed.report.grid import Block, Grid, joined
from psofed.theory.mean import RESOLUTION, Radius
from psofed.theory.prediction import DIVERGED, Prediction, systems
from psofed.theory.study import Judgement, Study, Sweep, deviations

Array = NDArray[Any]
FILES = [
    f"{name}.{kind}"
    for name in ("theory", "theory_step", "theory_shared")
    for kind in ("png", "pdf")
]
WHERE = "theory.txt"
ROUNDING = 1e-12  # of the initial error
WITHIN = 1.0  # dB of the end: how fast a method is there


class Findings(NamedTuple):
    """A study, the simulation of the same world (if there was one), and the command."""

    study: Study
    curves: Curves | None
    sweeps: list[Curves]  # as many as the study has, or none
    command: str


def text(found: Findings) -> str:
    """The result as text."""
    return joined(blocks(found))


def blocks(found: Findings) -> list[Block]:
    """The same in parts, for a screen."""
    study, curves = found.study, found.curves
    parts = [_data(study), _limits(study), _judgements(study)]
    parts += [_norms(study)] if study.norms else []
    parts += [_predictions(study)] if study.predictions else []
    parts += [_deviations(study, curves)] if curves is not None else []
    parts += [_sweeps(study, found.sweeps)] if found.sweeps else []
    first, *others = parts
    return [*first, *(block for part in others for block in ("", *part))]


def _data(study: Study) -> list[Block]:
    world = study.world
    data, task = world.moments, world.task
    how = "exact (Gaussian inputs, closed form)" if data.analytic else f"sampled{_error(study)}"
    lines: list[Block] = [
        f"World {world.experiment.world}: the clients, features and windows of that run;"
        " averaged over data and cohorts.",
        f"R_k of {len(data.clients)} of {task.clients} clients, D = {task.dim}: {how};"
        f" targets from {data.windows} windows per client.",
    ]
    if (attack := task.attack) is not None:
        count, words = len(attack.insiders.ids), attack.options.describe()
        lines.append(f"Malicious: {count} of {task.clients} clients, {words}.")
    if study.unknown:
        lines.append(f"No theory for {', '.join(study.unknown)}: only PSO-Fed and Online-Fed.")
    return lines


def _error(study: Study) -> str:
    """The relative standard error of an entry of a sampled R_k, at most."""
    return f" (an entry is off by about {100 / np.sqrt(study.world.moments.windows):.1f} %)"


def _limits(study: Study) -> list[Block]:
    b = study.bounds
    rows = [
        ["limits of the step", "mu", "what it means"],
        ["2 / max|z|^2", f"{b.sure:.3f}", f"below, no sample enlarges an error ({b.seen} seen)"],
        ["mean-square, alone", f"{b.alone:.3f}", "of a client that learns alone, as with M << D"],
        ["mean-square, M = D", f"{b.averaged:.3f}", "of the server, which averages a cohort"],
        [
            "eq. (14)",
            f"{b.mean:.3f}",
            "the paper's bound: of the mean only",
        ],
    ]
    words = (
        f"Safe up to {b.sure:.3g}, if the mean error does not grow; doubtful up to {b.alone:.3g}"
        f" (M = D, or exchanges that are frequent: {b.averaged:.3g}); unsafe above."
    )
    return [Grid(rows, left=(0, 2)), words]


def _judgements(study: Study) -> list[Block]:
    radii = any(j.radius is not None for j in study.judgements)
    head = ["method", "step", "verdict"]
    rows = [[*head, "mean error: radius", "time constant", "by eq. (13)"] if radii else head]
    for j in study.judgements:
        speed = [*_speed(j), _rounds(j.paper)] if radii else []
        rows.append([j.title, f"{j.step:g}", j.verdict, *speed])
    lines: list[Block] = [Grid(rows, least=(5, 3), where=WHERE)]
    for j in study.judgements:
        if j.step >= j.limit:
            lines.append(
                f"{j.title}: step {j.step:g} is above its mean-square limit {j.limit:.3f}: the"
                " error grows without bound."
            )
        if j.radius is not None and j.radius.value > 1 and not j.radius.endless:
            lines.append(
                f"{j.title}: even the mean error grows, by a factor of {j.radius.value:.4g} in"
                f" {j.radius.period} rounds."
            )
    endless = [j for j in study.judgements if j.radius is not None and j.radius.endless]
    if any(j.step * study.bounds.flat < RESOLUTION for j in endless):
        lines.append(
            "endless: some directions have almost no data (smallest eigenvalue of the mean"
            f" R_k {study.bounds.flat:.1e}); they never converge, and hardly matter."
        )
    return lines


def _speed(j: Judgement) -> list[str]:
    if j.radius is None:
        return ["-", "-"]
    digits = 6 if j.radius.exact else 4
    shown = "1" if j.radius.endless else f"{j.radius.value:.{digits}g}"
    return [f"{shown} in {j.radius.period}", _rounds(j.radius)]


def _rounds(radius: Radius | None) -> str:
    """A time constant; one that was not computed from the whole matrix is "about"."""
    if radius is None:
        return "-"
    if radius.endless:
        return "endless"
    if radius.value > 1:
        return "grows"
    exact = f"{radius.time_constant:.4g} rounds"
    return exact if radius.exact else f"about {radius.time_constant:.2g} rounds"


def _norms(study: Study) -> list[Block]:
    part = next(title for title, s in systems(study.world).items() if not s.whole)
    rows = [[f"norms, {part}", "infinity", "2-norm", "the paper takes"]]
    takes = {"E[A]": "1", "E[B]": "1", "I - mu R_e": "below 1"}
    rows += [[n.what, f"{n.infinity:.4f}", f"{n.two:.4f}", takes[n.what]] for n in study.norms]
    words = (
        "The first two are 1 in the infinity norm only; the third is never below 1, because the"
        " server's block of R_e is zero."
    )
    return [Grid(rows), words]


def _predictions(study: Study) -> list[Block]:
    experiment = study.world.experiment
    points = table_rounds(experiment)
    points = sorted({*points, experiment.rounds})
    head = ["predicted MSE in dB", *(f"n={n}" for n in points), "bias at the end", "within 1 dB"]
    rows = [head]
    notes = []
    for p in study.predictions:
        at = {int(n): float(v) for n, v in zip(p.rounds, p.mse_db, strict=True)}
        shown = [f"{at[n]:.2f}" if np.isfinite(at[n]) else "diverged" for n in points]
        survives = p.lost is None
        rows.append([
            p.title, *shown,
            _bias(p) if survives else "-",
            f"n={arrival(p)}" if survives else "-",
        ])  # fmt: skip
        if not survives:
            notes.append(
                f"{p.title} diverges: at n = {p.lost} its MSE is {DIVERGED:g} times the"
                " initial one."
            )
    kinds = {p.kind for p in study.predictions}
    notes.append(f"Errors are on {experiment.judged}.")
    notes.append(
        "Exact for data that are independent over time."
        if kinds == {"exact"}
        else "Reduced recursion (docs/theory.md): one mean per client, pooled covariances."
    )
    if not experiment.stream.independent:
        notes.append(
            "The samples of this stream are NOT independent over time, as the theory assumes: where"
            " clients learn from successive samples it is too optimistic, mostly early on."
        )
    inner = range(1, len(points))
    least = (*inner[1::2], *inner[::2], len(points) + 1)
    return [Grid(rows, least=least, where=WHERE), *notes]


def _bias(p: Prediction) -> str:
    """That of the last model in dB; none where only rounding is left, as of a linear f."""
    return f"{to_db(p.bias[-1]):.2f}" if p.bias[-1] > ROUNDING * p.bias[0] else "none"


def arrival(p: Prediction) -> int:
    """The first evaluated round from which the MSE stays within 1 dB of its end."""
    outside = np.flatnonzero(p.mse_db > p.mse_db[-1] + WITHIN)
    return int(p.rounds[outside[-1] + 1]) if len(outside) else int(p.rounds[0])


def _deviations(study: Study, curves: Curves) -> list[Block]:
    rows = [["theory - simulation, dB", "largest, n >= 50", "at", "rms", "last fifth", "error"]]
    found = deviations(study.predictions, curves.titles, curves.mse_db, curves.rounds)
    for title, gap in found.items():
        with np.errstate(invalid="ignore"):
            error = np.nanmedian(curves.stderr_db[curves.titles.index(title)][1:])
        late = gap["late_db"]
        rows.append([
            title, f"{gap['largest_db']:+.2f}", f"n={gap['at']}", f"{gap['rms_db']:.2f}",
            "-" if late is None else f"{late:+.2f}", f"{error:.2f}",
        ])  # fmt: skip
    lines: list[Block]
    lines = [f"Too short for a comparison: {curves.rounds[-1]} rounds, and it begins at n = 50."]
    if found:
        lines = [
            Grid(rows, least=(3, 2), where=WHERE),
            f"error: the simulation's, of {curves.runs} runs.",
        ]
    for p in study.predictions:
        j = curves.titles.index(p.title)
        if p.lost is not None:
            lost = ~(curves.mse[j] <= DIVERGED * curves.mse[j, 0])
            when = f"at n = {curves.rounds[lost.argmax()]}" if lost.any() else "not yet"
            lines.append(f"{p.title} diverges in theory at n = {p.lost}, simulated {when}.")
    return lines


def _sweeps(study: Study, simulated: list[Curves]) -> list[Block]:
    """How far the theory is from the simulated points of each sweep."""
    lines = []
    for sweep, curves in zip(study.sweeps, simulated, strict=True):
        gap = to_db(sweep.mse) - points(sweep, curves)[0]
        for i, title in enumerate(sweep.lines):
            if np.isfinite(gap[i]).any():
                worst = np.nanargmax(np.abs(np.where(np.isfinite(gap[i]), gap[i], np.nan)))
                at = f"{'M' if sweep.what == 'shared' else 'mu'} = {sweep.x[worst]:g}"
                lines.append([title, sweep.what, f"{gap[i][worst]:+.2f}", at])
    if not lines:
        return ["Sweeps: nothing to compare."]
    head = ["at the end, theory - simulation", "against", "largest, dB", "at"]
    note = "Quasi-static theory with windows averaged over their rotation"
    if study.world.fourth is not None:
        note = "Exact theory"
    steps = [f"M swept at step {s.step:g}" for s in study.sweeps if s.step is not None]
    return [Grid([head, *lines]), f"{'; '.join([note, *steps])}."]


def to_table(found: Findings) -> dict[str, Any]:
    """The result for scripts: what theory.json holds."""
    study, curves = found.study, found.curves
    experiment = study.world.experiment
    made = written(experiment.to_table)
    table: dict[str, Any] = {
        "command": found.command,
        "versions": versions(),
        "targets": experiment.judged,
        "experiment": made.table,
        "bounds": vars(study.bounds),
        "norms": [n._asdict() for n in study.norms],
        "correlations": "analytic" if study.world.moments.analytic else "sampled",
        "independent_data": experiment.stream.independent,
        "methods": [_method(study, j) for j in study.judgements],
        "sweeps": [_sweep(*pair) for pair in zip(study.sweeps, found.sweeps, strict=True)],
    }
    if made.plugins:
        table["plugins"] = made.plugins
    if curves is not None:
        table["runs"] = curves.runs
        table["deviations"] = deviations(
            study.predictions, curves.titles, curves.mse_db, curves.rounds
        )
    plain: dict[str, Any] = files.plain(table)
    return plain


def _sweep(sweep: Sweep, simulated: Curves) -> dict[str, Any]:
    value, error = points(sweep, simulated)
    return {
        "against": sweep.what,
        "step": sweep.step,
        "x": sweep.x.tolist(),
        "lines": sweep.lines,
        "mse_db": to_db(sweep.mse).tolist(),
        "simulated_db": value.tolist(),
        "simulated_stderr_db": error.tolist(),
    }


def _method(study: Study, j: Judgement) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "method": j.title, "step": j.step, "verdict": j.verdict, "limit": j.limit
    }  # fmt: skip
    for name, radius in (("mean", j.radius), ("eq_13", j.paper)):
        if radius is not None:
            entry[name] = radius._asdict() | {"time_constant": radius.time_constant}
    for p in study.predictions:
        if p.title == j.title:
            rounds = table_rounds(study.world.experiment)
            at = {str(n): float(p.mse_db[p.rounds == n][0]) for n in rounds}
            entry["predicted"] = {
                "kind": p.kind, "mse_db": at, "end_db": float(p.mse_db[-1]), "lost_at": p.lost
            }  # fmt: skip
    return entry


def render(found: Findings) -> dict[str, bytes]:
    """Every file of a result by name."""
    study, curves = found.study, found.curves
    made = written(study.world.experiment.to_table)
    out = made.sources | {
        "experiment.toml": made.toml.encode(),
        "theory.json": (json.dumps(to_table(found), indent=2) + "\n").encode(),
        "theory.csv": _csv(study, curves).encode(),
        "theory.txt": (text(found) + "\n").encode(),
    }
    out = html.with_report(out)
    if not files.can_draw():
        return out
    from psofed.report import theory_figures as pictures
    from psofed.report.figures import both

    figures = {"theory": pictures.over_simulation(study, curves)}
    for sweep, simulated in zip(study.sweeps, found.sweeps, strict=True):
        figures[f"theory_{sweep.what}"] = pictures.sweep(study, sweep, points(sweep, simulated))
    for name, figure in figures.items():
        out |= both(figure, name)
    return out


def points(sweep: Sweep, simulated: Curves) -> tuple[Array, Array]:
    """Steady MSE in dB and its standard error of the simulated points, [line, x]."""
    steady = [simulated.point(j, "steady") for j in range(len(simulated.titles))]
    table = np.array(steady).reshape(len(sweep.lines), len(sweep.x), 2)
    return table[..., 0], table[..., 1]


def _csv(study: Study, curves: Curves | None) -> str:
    buffer = StringIO()
    columns = ["method", "round", "mse", "mse_db", "bias_db", "error_db"]
    columns += ["simulated_db", "simulated_stderr_db"] if curves is not None else []
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for p in study.predictions:
        parts = [p.rounds, p.mse, p.mse_db, to_db(p.bias), PER_DB * p.error / p.mse]
        if curves is not None:
            j = curves.titles.index(p.title)
            parts += [curves.mse_db[j], curves.stderr_db[j]]
        for row in zip(*(part.tolist() for part in parts), strict=True):
            writer.writerow([p.title, *map(files.cell, row)])
    return buffer.getvalue()
