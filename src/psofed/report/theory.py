"""Theory for readers: which steps are safe, how fast methods learn, how far from simulation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from psofed.curves import Curves, table_rounds, to_db
from psofed.extras import estimate
from psofed.federation.plugins import written
from psofed.report import files, page
from psofed.report.charts import COLOURS, Chart, Curve, Sheet
from psofed.report.files import Block, Grid, joined
from psofed.theory.mean import RESOLUTION, Radius
from psofed.theory.prediction import DIVERGED, Prediction
from psofed.theory.study import Judgement, Study, deviations

WHERE = "theory.txt"
ROUNDING = 1e-5  # of the initial error: what single precision leaves
POINTS = 26  # of a simulated curve, even in log n
GIVEN_INPUTS = "moments given the inputs' state: samples are NOT independent over time"
OF_ALL = "one mean per client, pooled covariances"
WITHIN = 1.0  # dB of the end: how fast a method is there


class Findings(NamedTuple):
    """A study, the simulation of the same world (if there was one), and the command."""

    study: Study
    curves: Curves | None
    command: str


def blocks(found: Findings) -> list[Block]:
    """The result in parts, for a screen."""
    study, curves = found.study, found.curves
    parts = [_data(study), _limits(study), _judgements(study)]
    parts += [_predictions(study)] if study.predictions else []
    parts += [_deviations(found, curves)] if curves is not None else []
    return [block for part in parts for block in ("", *part)][1:]


def _data(study: Study) -> list[Block]:
    world = study.world
    data, task = world.moments, world.task
    off = f"(an entry is off by about {100 / np.sqrt(data.windows):.1f} %)"  # one standard error
    how = "exact (Gaussian inputs, closed form)" if data.analytic else f"sampled {off}"
    lines: list[Block] = [
        f"World {world.experiment.world}: the clients, features and windows of that run;"
        " averaged over data and cohorts.",
        f"R_k of {len(data.clients)} of {task.clients} clients, D = {task.dim}: {how};"
        f" targets from {data.windows} windows per client.",
    ]
    if study.unknown:
        lines.append(f"No theory for {', '.join(study.unknown)}: only PSO-Fed and Online-Fed.")
    return lines


def _limits(study: Study) -> list[Block]:
    b = study.bounds
    rows = [
        ["limits of the step", "mu", "what it means"],
        ["2 / max|z|^2", f"{b.sure:.3f}", f"below, no sample enlarges an error ({b.seen} seen)"],
        ["mean-square, alone", f"{b.alone:.3f}", "of a client that learns alone, as with M << D"],
        ["mean-square, M = D", f"{b.averaged:.3f}", "of the server, which averages a cohort"],
        ["eq. (14)", f"{b.mean:.3f}", "the paper's bound: of the mean only"],
    ]
    words = (
        f"Safe up to {b.sure:.3g}, if the mean error does not grow; doubtful up to {b.alone:.3g}"
        f" (M = D, or exchanges that are frequent: {b.averaged:.3g}); unsafe above."
    )
    return [Grid(rows, left=(0, 2), title="Limits of the step"), words]


def _judgements(study: Study) -> list[Block]:
    radii = any(j.radius is not None for j in study.judgements)
    head = ["method", "step", "verdict"]
    rows = [[*head, "mean error: radius", "time constant", "by eq. (13)"] if radii else head]
    for j in study.judgements:
        speed = [*_speed(j), _rounds(j.paper)] if radii else []
        rows.append([j.title, f"{j.step:g}", j.verdict, *speed])
    lines: list[Block] = [Grid(rows, least=(5, 3), where=WHERE, title="Steps")]
    for j in study.judgements:
        if j.step >= j.limit:
            above = f"is above its mean-square limit {j.limit:.3f}: the error grows without bound"
            lines.append(f"{j.title}: step {j.step:g} {above}.")
        if j.radius is not None and j.radius.value > 1 and not j.radius.endless:
            grows = f"by a factor of {j.radius.value:.4g} in {j.radius.period} rounds"
            lines.append(f"{j.title}: even the mean error grows, {grows}.")
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
    value = "1" if j.radius.endless else f"{j.radius.value:.{digits}g}"
    return [f"{value} in {j.radius.period}", _rounds(j.radius)]


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


def _predictions(study: Study) -> list[Block]:
    experiment, notes = study.world.experiment, []
    points = sorted({*table_rounds(experiment), experiment.rounds})
    rows = [["predicted MSE in dB", *(f"n={n}" for n in points), "bias at the end", "within 1 dB"]]
    for p in study.predictions:
        at = {int(n): float(v) for n, v in zip(p.rounds, p.mse_db, strict=True)}
        # Only rounding is left of the bias where f is linear.
        bias = f"{to_db(p.bias[-1]):.2f}" if p.bias[-1] > ROUNDING * p.bias[0] else "none"
        ends = ["-", "-"] if p.lost is not None else [bias, f"n={arrival(p)}"]
        rows.append([p.title, *(estimate(at[n]) for n in points), *ends])
        if p.lost is not None:
            times = f"{DIVERGED:g} times the initial one"
            notes.append(f"{p.title} diverges: at n = {p.lost} its MSE is {times}.")
    notes.append(f"Errors are on {experiment.judged}.")
    followed = study.world.chains is not None
    how = GIVEN_INPUTS if followed else OF_ALL
    notes.append(f"Recursion of docs/theory.md: {how}.")
    notes += [f"NOTE: {study.world.caveat}."] if study.world.caveat else []
    inner = range(1, len(points))
    least = (*inner[1::2], *inner[::2], len(points) + 1)
    return [Grid(rows, least=least, where=WHERE, title="Predictions"), *notes]


def arrival(p: Prediction) -> int:
    """The first evaluated round from which the MSE stays within 1 dB of its end."""
    outside = np.flatnonzero(p.mse_db > p.mse_db[-1] + WITHIN)
    return int(p.rounds[outside[-1] + 1]) if len(outside) else int(p.rounds[0])


def _deviations(found: Findings, curves: Curves) -> list[Block]:
    rows = [["theory - simulation, dB", "largest, n >= 50", "at", "rms", "last fifth", "error"]]
    for title, gap in _gaps(found).items():
        with np.errstate(invalid="ignore"):
            error = np.nanmedian(curves.stderr_db[curves.titles.index(title)][1:])
        late = gap["late_db"]
        rows.append([
            title, f"{gap['largest_db']:+.2f}", f"n={gap['at']}", f"{gap['rms_db']:.2f}",
            "-" if late is None else f"{late:+.2f}", f"{error:.2f}",
        ])  # fmt: skip
    short = f"Too short for a comparison: {curves.rounds[-1]} rounds, and it begins at n = 50."
    table = Grid(rows, least=(3, 2), where=WHERE, title="Theory and simulation")
    known: list[Block] = [table, f"error: the simulation's, of {curves.runs} runs."]
    lines: list[Block] = [*known] if len(rows) > 1 else [short]
    for p in found.study.predictions:
        j = curves.titles.index(p.title)
        if p.lost is not None:
            lost = ~(curves.mse[j] <= DIVERGED * curves.mse[j, 0])
            when = f"at n = {curves.rounds[lost.argmax()]}" if lost.any() else "not yet"
            lines.append(f"{p.title} diverges in theory at n = {p.lost}, simulated {when}.")
    return lines


def to_table(found: Findings) -> dict[str, Any]:
    """The result for scripts: what theory.json holds."""
    study, curves = found.study, found.curves
    experiment = study.world.experiment
    table: dict[str, Any] = {
        "targets": experiment.judged,
        "bounds": vars(study.bounds),
        "correlations": "analytic" if study.world.moments.analytic else "sampled",
        "independent_data": experiment.stream.independent,
        "methods": [_method(study, j) for j in study.judgements],
    }
    if curves is not None:
        table["runs"] = curves.runs
        table["deviations"] = _gaps(found)
    return files.summary(found.command, written(experiment.to_table), table)


def _gaps(found: Findings) -> dict[str, Any]:
    """How far the theory is from the simulation, by method; nothing without one."""
    curves = found.curves
    if curves is None:
        return {}
    return deviations(found.study.predictions, curves.titles, curves.mse_db, curves.rounds)


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
                "mse_db": at, "end_db": float(p.mse_db[-1]), "lost_at": p.lost, "caveat": p.caveat
            }  # fmt: skip
    return entry


def render(found: Findings) -> dict[str, bytes]:
    """Every file of a result by name."""
    texts = {
        "theory.json": files.json_text(to_table(found)),
        "theory.csv": files.csv_text(_rows(found)),
        "theory.txt": joined(blocks(found)) + "\n",
    }
    curves = over_simulation(found)
    made = page.of_experiment(
        found.study.world.experiment, found.command,
        None if found.curves is None else found.curves.runs,
        "What theory predicts" if found.curves is None else "Theory over simulation",
        answer(found), parts=[block for block in blocks(found) if block], curves=curves,
    )  # fmt: skip
    return page.render(made, texts, {"theory": Sheet([curves])})


def answer(found: Findings) -> str:
    """Whether the steps are safe, and how far theory is from simulation: in one sentence."""
    verdicts: dict[str, list[str]] = {}
    for j in found.study.judgements:
        verdicts.setdefault(j.verdict, []).append(j.title)
    if len(verdicts) == 1:
        words = f"The step of every method is {next(iter(verdicts))}"
    else:
        words = "Steps: " + "; ".join(f"{v} for {', '.join(m)}" for v, m in verdicts.items())
    gaps = [gap["rms_db"] for gap in _gaps(found).values() if np.isfinite(gap["rms_db"])]
    within = f"; theory is within {max(gaps):.2f} dB (rms) of the simulation" if gaps else ""
    return f"{words}{within}."


def over_simulation(found: Findings) -> Chart:
    """Predicted curves as lines; the simulation as points with error bars."""
    study, curves, series = found.study, found.curves, []
    for i, p in enumerate(study.predictions):
        series.append(Curve(p.title, p.rounds, p.mse_db, style=i))
        if curves is not None:
            j = curves.titles.index(p.title)
            # Shifted from curve to curve, so that points do not hide one another.
            wanted = np.geomspace(1, max(p.rounds[-1], 2), POINTS) * (1 + 0.1 * (i % COLOURS) / 7)
            at = np.unique(np.searchsorted(curves.rounds[:-1], wanted)).astype(int)
            at = at[np.isfinite(curves.mse_db[j][at])]
            values = curves.mse_db[j][at], curves.stderr_db[j][at]
            series.append(Curve(f"{p.title}, simulated", curves.rounds[at], *values, style=i,
                                 points=True))  # fmt: skip
    notes = [f"NOTE: {study.world.caveat}."] if study.world.caveat else []
    if curves is not None:
        notes.insert(0, f"Lines: theory. Points: simulated, {curves.runs} runs, ±1 standard error.")
    title = f"World {study.world.experiment.world}: theory"
    return Chart(title if curves is None else f"{title} over {curves.runs} runs", "round n",
                 f"test MSE (dB), {study.world.experiment.judged}", series, log=True,
                 top=page.top(np.array([p.mse_db for p in study.predictions])), file="theory.csv",
                 note=" ".join(notes))  # fmt: skip


def _rows(found: Findings) -> Iterator[dict[str, Any]]:
    """What theory.csv holds."""
    curves = found.curves
    for p in found.study.predictions:
        columns = {"round": p.rounds, "mse": p.mse, "mse_db": p.mse_db, "bias_db": to_db(p.bias)}
        if curves is not None:
            j = curves.titles.index(p.title)
            columns |= {
                "simulated_db": curves.mse_db[j],
                "simulated_stderr_db": curves.stderr_db[j],
            }
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield {"method": p.title, **dict(zip(columns, row, strict=True))}
