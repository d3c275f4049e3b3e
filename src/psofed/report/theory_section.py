"""The report's section on theory: predicted and simulated curves, and limits of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.report import section
from psofed.report.results import Result
from psofed.report.section import COLOURS, MINUS, NONE, number
from psofed.report.thinning import Curve

Array = NDArray[Any]
POINTS = 26  # of a simulated curve, even in log n
AXES = {"step": "step μ", "shared": "shared entries M"}


def build(source: Result) -> dict[str, Any]:
    """The section of a study of theory."""
    table = source.table("theory.json")
    with source.reading("theory.json"):
        found = _curves(source, table)
        return {
            "kind": "theory",
            "title": "Theory over simulation" if "runs" in table else "What theory predicts",
            "answer": answer(table),
            "experiment": table["experiment"],
            "targets": section.targets(table),
            "facts": section.facts(table["experiment"], table.get("runs")),
            "curves": found,
            "groups": [],
            "levels": [],
            "top": section.top(found),
            "log": True,
            "notes": _notes(table),
            "ends": section.ends(found, {m[0]: m[-1] for m in _steps(table)["rows"]}),
            "charts": [_sweep(table, sweep) for sweep in table["sweeps"]],
            "tables": [_steps(table), *_deviations(table)],
            "texts": [{"title": "In full, as text", "text": source.text("theory.txt")}],
            **section.origin(source, table),
        }


def answer(table: dict[str, Any]) -> str:
    """Whether the steps are safe, and how far theory is from simulation: in one sentence."""
    verdicts: dict[str, list[str]] = {}
    for entry in table["methods"]:
        verdicts.setdefault(str(entry["verdict"]), []).append(str(entry["method"]))
    if len(verdicts) == 1:
        words = f"The step of every method is {next(iter(verdicts))}"
    else:
        words = "Steps: " + "; ".join(f"{v} for {', '.join(m)}" for v, m in verdicts.items())
    gaps = {m: gap for m, gap in table.get("deviations", {}).items() if gap["rms_db"] is not None}
    if not gaps:
        return f"{words}."
    worst = max(gaps, key=lambda method: gaps[method]["rms_db"])
    return f"{words}; theory is within {gaps[worst]['rms_db']:.2f} dB (rms) of the simulation."


def _notes(table: dict[str, Any]) -> list[str]:
    notes = ["Lines: theory, with the error of its own estimates."]
    if "runs" in table:
        notes = [f"Lines: theory. Points: simulated, {table['runs']} runs, ±1 standard error."]
    if not table["independent_data"]:
        notes.append(
            "The samples of this stream are not independent over time, as the theory assumes: it"
            " is too optimistic, mostly early on."
        )
    return notes


def _curves(source: Result, study: dict[str, Any]) -> list[Curve]:
    columns = ["round", "mse_db", "error_db"]
    simulated = ["simulated_db", "simulated_stderr_db"]
    head = source.text("theory.csv").split("\n", 1)[0].split(",")
    columns += simulated if set(simulated) <= set(head) else []
    tables = source.columns("theory.csv", columns)
    predicted = [entry for entry in study["methods"] if "predicted" in entry]
    section.check(source, "theory.csv", tables, study | {"methods": predicted})
    found: list[Curve] = []
    for style, (label, table) in enumerate(tables.items()):
        x = table["round"]
        found.append(Curve(label, x, table["mse_db"], table["error_db"], (), style))
        if len(columns) > 3:
            at = _shown(x, table["simulated_db"], style)
            value, error = (table[name] for name in simulated)
            points = Curve(f"{label}, simulated", x, value, error, (), style, points=True)
            found.append(points.at(at))
    return found


def _shown(x: Array, y: Array, style: int) -> Array:
    """Marks even in log n, shifted from curve to curve, so that points do not hide one another."""
    wanted = np.geomspace(1, max(x[-1], 2), POINTS) * (1 + 0.1 * (style % COLOURS) / COLOURS)
    at = np.unique(np.searchsorted(x[:-1], wanted)).astype(int)
    return at[np.isfinite(y[at])]


def _steps(table: dict[str, Any]) -> dict[str, Any]:
    bounds = {key: _limit(value) for key, value in table["bounds"].items()}
    rows = []
    for entry in table["methods"]:
        predicted = entry.get("predicted", {})
        end = number(predicted["end_db"]) if "end_db" in predicted else NONE
        rows.append([entry["method"], f"{entry['step']:g}", entry["verdict"],
                     _limit(entry["limit"], ".3f"), end])  # fmt: skip
    note = (
        f"Safe up to {bounds['sure']}, where no sample enlarges an error. The mean-square"
        f" error of a client that learns alone grows above {bounds['alone']}, that of a server"
        f" that averages above {bounds['averaged']}. The paper's bound, for the mean only, is"
        f" {bounds['mean']}."
    )
    head = ["method", "step", "verdict", "mean-square limit", "predicted end, dB"]
    return {"title": "Steps", "head": head, "rows": rows, "note": note}


def _deviations(table: dict[str, Any]) -> list[dict[str, Any]]:
    if not table.get("deviations"):
        return []
    rows = [
        [method, number(gap["largest_db"], sign="+"), f"{gap['at']:,}", number(gap["rms_db"]),
         NONE if gap["late_db"] is None else number(gap["late_db"], sign="+")]
        for method, gap in table["deviations"].items()
    ]  # fmt: skip
    head = [f"theory {MINUS} simulation, dB", "largest, n ≥ 50", "at n", "rms", "last fifth"]
    return [{"title": "Theory and simulation", "head": head, "rows": rows, "note": ""}]


def _sweep(table: dict[str, Any], sweep: dict[str, Any]) -> dict[str, Any]:
    """The MSE at the end against the step or M: lines are theory, points are simulated."""
    series: list[dict[str, Any]] = []
    rows = zip(sweep["lines"], sweep["mse_db"], sweep["simulated_db"],
               sweep["simulated_stderr_db"], strict=True)  # fmt: skip
    for style, (label, theory, simulated, error) in enumerate(rows):
        shared = {"style": style, "x": sweep["x"]}
        series.append({"label": label, "y": _rounded(theory), **shared})
        series.append({"label": f"{label}, simulated", "y": _rounded(simulated), "points": True,
                       "error": _rounded(error), **shared})  # fmt: skip
    at = "" if sweep["step"] is None else f" at step {sweep['step']:g}"
    marks = []
    if sweep["against"] == "step":
        marks = [
            {"label": f"{name} {table['bounds'][key]:.2f}", "value": table["bounds"][key]}
            for key, name in (("sure", "safe below"), ("alone", "unsafe (M < D) above"))
            if table["bounds"][key] is not None
        ]
    last = table["experiment"]["rounds"]
    return {
        "title": f"The end against {AXES[sweep['against']]}{at}", "xLabel": AXES[sweep["against"]],
        "yLabel": f"test MSE after {last:,} rounds (dB), {section.targets(table)}", "xLog": True,
        "series": series, "marks": marks, "top": _ceiling(sweep),
    }  # fmt: skip


def _limit(value: float | None, form: str = ".3g") -> str:
    """A step as text; with zero features any step is safe, and JSON has no infinity."""
    return "any step" if value is None else format(value, form)


def _rounded(values: list[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 3) for value in values]


def _ceiling(sweep: dict[str, Any]) -> float | None:
    """An upper limit of the axis, some dB above the best end: beyond it methods diverge."""
    values = [v for line in sweep["mse_db"] + sweep["simulated_db"] for v in line if v is not None]
    return round(min(values) + 15, 1) if values and max(values) > min(values) + 15 else None
