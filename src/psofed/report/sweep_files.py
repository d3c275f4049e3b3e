"""The files of a sweep: its table, every curve, a figure and the report."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from math import hypot
from typing import Any

from psofed.compare.sweeping import SweepResult
from psofed.provenance import versions, written
from psofed.report import files, html
from psofed.report.grid import Block, Grid


def render(result: SweepResult, command: str) -> dict[str, bytes]:
    """Every file of the result by name."""
    made = written(result.plan.base.to_table)
    out = made.sources | {
        "experiment.toml": made.toml.encode(),
        "sweep.csv": _csv(result.rows()).encode(),
        "sweep.json": (json.dumps(to_table(result, command), indent=2) + "\n").encode(),
        "curves.csv": _csv(_curves(result)).encode(),
    }
    out = html.with_report(out)
    if not files.can_draw():
        return out
    from psofed.report.figures import both
    from psofed.report.sweep_figures import figure

    return out | both(figure(result), "sweep")


def to_table(result: SweepResult, command: str) -> dict[str, Any]:
    """The result for scripts: what sweep.json holds."""
    base = result.plan.base
    made, entries = written(base.to_table), [_entry(row) for row in result.rows()]
    table: dict[str, Any] = {
        "command": command,
        "versions": versions(),
        "runs": min(curves.runs for curves in result.curves),
        "rounds": base.rounds,
        "targets": judged(result),
        "experiment": made.table,
        "settings": {axis.place.key: list(axis.values) for axis in result.plan.axes},
        "methods": entries,
        "answer": sentence(entries),
    }
    if said := threat(result):
        table["threat"] = said
    if made.plugins:
        table["plugins"] = made.plugins
    plain: dict[str, Any] = files.plain(table)
    return plain


def judged(result: SweepResult) -> str:
    """The targets of the test; where they are swept, the names of the points tell them."""
    found = {curves.experiment.judged for curves in result.curves}
    return found.pop() if len(found) == 1 else "targets as named"


def threat(result: SweepResult) -> str:
    """Malicious clients and the defence; where these are swept, the names of the points tell."""
    found = {experiment.threat for _, experiment in result.plan.parts}
    return found.pop() if len(found) == 1 else ""


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if value is not None}
    steady = {"value": kept.pop("steady_db"), "stderr": kept.pop("stderr_db", None)}
    return kept | {"steady_db": steady}


def _curves(result: SweepResult) -> Iterator[dict[str, Any]]:
    """The curves of all parts: with their settings, in the columns of the first."""
    for i, curves in enumerate(result.curves):
        names = dict(zip(curves.titles, result.titles(i), strict=True))
        settings, _ = result.plan.parts[i]
        for row in curves.rows():
            yield row | {"method": names[row["method"]]} | settings


def _csv(rows: Iterable[dict[str, Any]]) -> str:
    buffer = StringIO()
    table = list(rows)
    keys = dict.fromkeys(key for row in table for key in row)
    writer = csv.DictWriter(buffer, keys, lineterminator="\n")
    writer.writeheader()
    for row in table:
        writer.writerow({key: files.cell(value) for key, value in row.items()})
    return buffer.getvalue()


def blocks(result: SweepResult) -> list[Block]:
    """The table for a screen, and the best point in a sentence."""
    keys = [a.place.field if a.place.own else a.place.key for a in result.plan.axes]
    rows: list[list[str]] = [["method", *keys, "steady, dB", "kB up and down"]]
    for row in result.rows():
        shown = f"{row['steady_db']:.2f}" if abs(row["steady_db"]) < float("inf") else "diverged"
        error = f" ±{row['stderr_db']:.2f}" if abs(row["stderr_db"]) < float("inf") else ""
        cells = ["-" if row[key] is None else str(row[key]) for key in keys]
        rows.append([row["method"], *cells, shown + error, f"{row['kilobytes']:,.4g}"])
    grid = Grid(rows, least=(len(keys) + 2,), where="sweep.csv")
    best = sentence([_entry(row) for row in result.rows()])
    steady = f"Steady: test MSE of the last fifth of the rounds, {judged(result)}."
    said = threat(result)
    return [grid, "", best, steady, *([f"{said[:1].upper()}{said[1:]}."] if said else [])]


def sentence(entries: Sequence[dict[str, Any]]) -> str:
    """Which point ends lowest, and whether that can be told from the errors."""
    ends = [e for e in entries if e["steady_db"]["value"] is not None]
    ends = [e for e in ends if abs(e["steady_db"]["value"]) < float("inf")]
    if not ends:
        return "All points have diverged."
    ranked = sorted(ends, key=lambda e: e["steady_db"]["value"])
    best, low = ranked[0], ranked[0]["steady_db"]
    error = low["stderr"]
    if error is None or not abs(error) < float("inf"):
        return f"{best['method']} ends lowest, at {low['value']:.2f} dB, in a single run."
    others = [e["steady_db"] for e in ranked[1:]]
    near = sum(o["value"] - low["value"] <= 2 * hypot(error, o["stderr"]) for o in others)
    more = f"; {near} more within two standard errors of it" if near else ""
    return f"{best['method']} ends lowest, at {low['value']:.2f} ±{error:.2f} dB{more}."
