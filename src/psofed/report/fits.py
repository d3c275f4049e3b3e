"""The result of a fit as tables, files and figures."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from psofed.data.survey import ColumnReport
from psofed.fit import model as models
from psofed.fit.outcome import Fit
from psofed.fit.rows import client_rows, interval_line, interval_table, score_rows
from psofed.provenance import versions, written
from psofed.report.files import can_draw, cell, plain
from psofed.report.grid import Block, Grid, joined
from psofed.report.html import with_report
from psofed.report.portrait_figure import portrait_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = ("model.psofed", "plan.toml", "scores.csv", "clients.csv", "summary.json",
         "scores.png", "scores.pdf", "clients.png", "clients.pdf",
         "portrait.png", "portrait.pdf")  # fmt: skip


def render(fit: Fit, command: str, more: dict[str, Any] | None = None) -> dict[str, bytes]:
    """Every file of a fit by name; `more` goes into the summary."""
    made = written(fit.plan.to_table)
    files = made.sources | {
        "model.psofed": models.of(fit).to_bytes(),
        "plan.toml": made.toml.encode(),
        "scores.csv": _csv(score_rows(fit)).encode(),
        "clients.csv": _csv(client_rows(fit)).encode(),
        "summary.json": (
            json.dumps(summary(fit, command) | plain(more or {}), indent=2) + "\n"
        ).encode(),
    }
    files = with_report(files)
    if can_draw():
        from psofed.report.figures import both

        figures = {"scores": score_figure(fit), "clients": client_figure(fit)}
        if fit.portrait:
            figures["portrait"] = portrait_figure(summary(fit, command))
        for name, figure in figures.items():
            files |= both(figure, name)
    return files


def summary(fit: Fit, command: str) -> dict[str, Any]:
    """What `summary.json` holds."""
    table, made = fit.table, written(fit.plan.to_table)
    checked = {score.title: score.checked for score in fit.scores.scores if score.checked}
    return plain({
        "command": command, "versions": versions(), "plan": made.table,
        "rows": table.rows, "clients": len(table.clients), "rounds": table.rounds,
        "tick": table.tick, "inputs": fit.encoder.names,
        "columns": [_column(fit, finding) for finding in table.findings], "read_as": table.said,
        "dropped": {**table.drops.counts, **dropped_later(fit)},
        "first_round": fit.span.first, "frozen_round": fit.span.frozen,
        "scores": score_rows(fit), "by_client": client_rows(fit),
        "intervals": interval_table(fit), "notes": fit.notes, "portrait": fit.portrait,
    } | ({"checked": checked} if checked else {})
      | ({"plugins": made.plugins} if made.plugins else {}))  # fmt: skip


def _column(fit: Fit, finding: ColumnReport) -> dict[str, Any]:
    """What a column was taken for, and how it was scaled."""
    scaling = fit.recipe.scaling.get(finding.name)
    known = dict(zip(("centre", "scale"), scaling, strict=True)) if scaling else {}
    return finding.to_table() | known


def dropped_later(fit: Fit) -> dict[str, int]:
    """Rows that were read, but gave no sample."""
    return dict(fit.later.counts)


def text(fit: Fit) -> str:
    """The scores as text."""
    return joined(blocks(fit))


def blocks(fit: Fit) -> list[Block]:
    """The scores as a table; RMSE and MAE are frozen ones, in the units of the target."""
    head = ["error / variance", "prequential", "frozen", "own preq.", "own frozen", "RMSE", "MAE",
            "B/device/day", "longest B"]  # fmt: skip
    rows = [head]
    for row in score_rows(fit):
        keys = ("prequential", "frozen", "prequential_own", "frozen_own")
        cells = [_show(row[key]) for key in keys]
        cells += [_units(row[key]) for key in ("frozen_rmse", "frozen_mae")]
        longest = str(row["largest_message"]) if row["largest_message"] else "-"
        cost = row["bytes_per_device_and_day"]
        rows.append([row["method"], *cells, f"{cost:,.0f}" if cost else "-", longest])
    line = interval_line(fit)
    table = Grid(rows, least=(8, 6, 4, 3, 7, 5), where="scores.csv")
    return [table, *([f"\n{line[:1].upper()}{line[1:]}."] if line else [])]


def client_blocks(fit: Fit, most: int = 30) -> list[Block]:
    """Who gains and who loses, as a table."""
    rows = [["frozen error / variance", "samples", "shared", "own", "alone", "sharing"]]
    entries = client_rows(fit)
    for row in entries[:most]:
        errors = [_show(row[key]) for key in ("shared", "own", "alone")]
        rows.append([row["client"], str(row["samples"]), *errors, row["sharing"]])
    more = [f"... and {len(entries) - most} more in clients.csv"] if len(entries) > most else []
    return [Grid(rows, least=(1, 3), where="clients.csv"), *more]


def _show(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.3f}" if value < 1000 else "diverged"


def _units(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4g}"


def _csv(rows: list[dict[str, Any]]) -> str:
    buffer = StringIO()
    writer = csv.DictWriter(buffer, rows[0], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: cell(value) for key, value in row.items()})
    return buffer.getvalue()


def score_figure(fit: Fit) -> Figure:
    """Prequential error over time, and the frozen error against the cost."""
    from matplotlib.figure import Figure

    from psofed.report.figures import finish, style

    figure = Figure(figsize=(10, 4.8), layout="constrained", dpi=150)
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    scores = fit.scores
    for j, score in enumerate(scores.scores):
        colour, dashes = style(j)
        left.plot(scores.marks, scores.curve(j), color=colour, linestyle=dashes,
                  label=" " + score.title, linewidth=1.4)  # fmt: skip
    left.axvline(fit.span.frozen, color="0.6", linewidth=0.8)
    left.set_xlabel("round n; the line: where models are frozen")
    left.set_ylabel("prequential error / variance")
    # In the first bin the models have not learned anything yet.
    heights = [np.nanmax(scores.curve(j)[1:], initial=0.0) for j in range(len(scores.scores))]
    left.set_ylim(bottom=0, top=1.1 * _ceiling(heights, most=2))
    finish(left, f"{fit.table.columns.target}, labels {fit.plan.label_delay} ticks late", below=3)
    titles = [score.title for score in scores.scores]
    frozen = [scores.error(j, "frozen") for j in range(len(titles))]
    top = _ceiling(frozen, most=5)
    bars = right.barh(range(len(titles)), np.clip(np.nan_to_num(frozen), 0, top), height=0.6,
                      color=[style(j)[0] for j in range(len(titles))])  # fmt: skip
    right.bar_label(bars, [_show(error) for error in frozen], padding=3, fontsize=8)
    right.set_xlim(0, 1.15 * top)
    right.set_yticks(range(len(titles)), titles, fontsize=8, parse_math=False)
    right.invert_yaxis()
    right.set_xlabel("frozen error / variance")
    right.spines[["top", "right"]].set_visible(False)
    return figure


def _ceiling(errors: Any, most: float) -> float:
    """An upper limit of the axis that shows the good ones: a multiple of the median.

    >>> _ceiling([0.3, 0.4, 1e9, float("nan")], most=2)
    0.8
    """
    known = [error for error in errors if np.isfinite(error)]
    return float(min(max(known), most * np.median(known))) or 1.0 if known else 1.0


def client_figure(fit: Fit) -> Figure:
    """Who gains and who loses: frozen errors of each client, shared, own and alone."""
    from matplotlib.figure import Figure

    from psofed.report.figures import finish

    rows = [row for row in client_rows(fit) if row["samples"]][:40]
    figure = Figure(figsize=(8, 1.7 + 0.28 * max(len(rows), 4)), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    places = np.arange(len(rows))
    # The ring is open and larger: where it covers the square, both can be seen.
    styles = {
        "alone": ("#000000", "x", 5),
        "shared": ("#D55E00", "s", 4),
        "own": ("#0072B2", "o", 9),
    }
    for key, (colour, marker, size) in styles.items():
        values = [min(row[key], 10.0) for row in rows]
        axes.plot(values, places, marker, color=colour, label=f" {key}", markersize=size,
                  markerfacecolor="none" if marker == "o" else colour)  # fmt: skip
    axes.set_yticks(places, [f"{r['client']} ({r['sharing']})" for r in rows], fontsize=8,
                    parse_math=False)  # fmt: skip
    axes.invert_yaxis()
    axes.set_xlabel("frozen error / variance of all")
    finish(axes, f"{fit.scores.scores[0].title} and learning alone", below=3)
    return figure
