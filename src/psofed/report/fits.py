"""The result of a fit as tables, files and pictures."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from psofed.provenance import versions
from psofed.report.files import can_draw, cell, plain
from psofed.report.html import with_report
from psofed.report.tables import align
from psofed.tables import model as models
from psofed.tables.fit import Fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = ("model.psofed", "plan.toml", "scores.csv", "clients.csv", "summary.json",
         "scores.png", "scores.pdf", "clients.png", "clients.pdf")  # fmt: skip
MARGIN = 0.02  # relative: less is called the same


def render(fit: Fit, command: str) -> dict[str, bytes]:
    """Every file of a fit by name."""
    files = {
        "model.psofed": models.of(fit).to_bytes(),
        "plan.toml": fit.plan.to_toml().encode(),
        "scores.csv": _csv(score_rows(fit)).encode(),
        "clients.csv": _csv(client_rows(fit)).encode(),
        "summary.json": (json.dumps(summary(fit, command), indent=2) + "\n").encode(),
    }
    files = with_report(files)
    if can_draw():
        from psofed.report.figures import to_bytes

        for name, figure in (("scores", score_figure(fit)), ("clients", client_figure(fit))):
            files |= {f"{name}.{suffix}": to_bytes(figure, suffix) for suffix in ("png", "pdf")}
    return files


def score_rows(fit: Fit) -> list[dict[str, Any]]:
    """One entry per contender: errors over the target's variance, and bytes."""
    scores = fit.scores
    unit = float(fit.encoder.scale[-1]) * float(np.sqrt(max(scores.truths["frozen"].variance, 0.0)))
    rows: list[dict[str, Any]] = []
    for j, score in enumerate(scores.scores):
        frozen = scores.error(j, "frozen")
        rows.append({
            "method": score.title,
            "prequential": scores.error(j, "prequential"),
            "frozen": frozen,
            "frozen_rmse": float(np.sqrt(frozen)) * unit if frozen >= 0 else float("nan"),
            "prequential_own": scores.error(j, "prequential", "own"),
            "frozen_own": scores.error(j, "frozen", "own"),
            "up_bytes": score.up, "down_bytes": score.down, "largest_message": score.largest,
            "bytes_per_device_and_day": scores.per_day(j), "setup_bytes_per_device": score.setup,
        })  # fmt: skip
    return rows


def client_rows(fit: Fit) -> list[dict[str, Any]]:
    """One entry per client: frozen errors of the shared, its own and a model learned alone."""
    scores = fit.scores
    alone = _alone(fit)
    columns = {
        "shared": scores.by_client(0, "frozen", "global"),
        "own": scores.by_client(0, "frozen", "own"),
        "alone": np.full(len(scores.clients), np.nan) if alone is None
        else scores.by_client(alone, "frozen", "own"),
    }  # fmt: skip
    rows = []
    for k, name in enumerate(scores.clients):
        errors = {key: float(values[k]) for key, values in columns.items()}
        count = int(scores.truths["frozen"].count[k])
        rows.append({"client": name, "samples": count, **errors, "sharing": verdict(errors)})
    return rows


def _alone(fit: Fit) -> int | None:
    titles = [score.title for score in fit.scores.scores]
    return titles.index("Local only") if "Local only" in titles else None


def verdict(errors: dict[str, float]) -> str:
    """Whether the better of shared and own model beats a model that was learned alone."""
    known = [e for e in (errors["shared"], errors["own"]) if np.isfinite(e)]
    if not known or not np.isfinite(errors["alone"]):
        return "unknown"
    best, alone = min(known), errors["alone"]
    if abs(best - alone) <= MARGIN * alone:
        return "same"
    return "gains" if best < alone else "loses"


def summary(fit: Fit, command: str) -> dict[str, Any]:
    """What `summary.json` holds."""
    table = fit.table
    return plain({
        "command": command, "versions": versions(), "plan": fit.plan.to_table(),
        "rows": table.rows, "clients": len(table.clients), "rounds": table.rounds,
        "tick": table.tick, "inputs": fit.encoder.names,
        "dropped": {**table.drops.counts, **dropped_later(fit)},
        "first_round": fit.span.first, "frozen_round": fit.span.frozen,
        "scores": score_rows(fit), "by_client": client_rows(fit), "notes": fit.notes,
    })  # fmt: skip


def dropped_later(fit: Fit) -> dict[str, int]:
    """Rows that were read, but make no sample."""
    return dict(fit.later.counts)


def text(fit: Fit) -> str:
    """The scores as aligned text."""
    head = ["error / variance", "prequential", "frozen", "own preq.", "own frozen", "B/device/day",
            "longest B"]  # fmt: skip
    rows = [head]
    for row in score_rows(fit):
        keys = ("prequential", "frozen", "prequential_own", "frozen_own")
        cells = [_show(row[key]) for key in keys]
        longest = str(row["largest_message"]) if row["largest_message"] else "-"
        cost = row["bytes_per_device_and_day"]
        rows.append([row["method"], *cells, f"{cost:,.0f}" if cost else "-", longest])
    return align(rows)


def client_text(fit: Fit, most: int = 30) -> str:
    """Who gains and who loses, as aligned text."""
    rows = [["frozen error / variance", "samples", "shared", "own", "alone", "sharing"]]
    entries = client_rows(fit)
    for row in entries[:most]:
        errors = [_show(row[key]) for key in ("shared", "own", "alone")]
        rows.append([row["client"], str(row["samples"]), *errors, row["sharing"]])
    more = f"\n... and {len(entries) - most} more in clients.csv" if len(entries) > most else ""
    return align(rows) + more


def _show(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.3f}" if value < 1000 else "diverged"


def _csv(rows: list[dict[str, Any]]) -> str:
    buffer = StringIO()
    writer = csv.DictWriter(buffer, rows[0], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: cell(value) for key, value in row.items()})
    return buffer.getvalue()


def score_figure(fit: Fit) -> Figure:
    """Prequential error over time, and the frozen error beside the cost."""
    from matplotlib.figure import Figure

    from psofed.report.figures import STYLES, finish

    figure = Figure(figsize=(10, 4.8), layout="constrained", dpi=150)
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    scores = fit.scores
    for j, score in enumerate(scores.scores):
        colour, dashes = STYLES[j % len(STYLES)]
        left.plot(scores.marks, scores.curve(j), color=colour, linestyle=dashes,
                  label=" " + score.title, linewidth=1.4)  # fmt: skip
    left.axvline(fit.span.frozen, color="0.6", linewidth=0.8)
    left.set_xlabel("round n; the line: where models are frozen")
    left.set_ylabel("prequential error / variance")
    # The first bin is of models that know nothing yet.
    heights = [np.nanmax(scores.curve(j)[1:], initial=0.0) for j in range(len(scores.scores))]
    left.set_ylim(bottom=0, top=1.1 * _ceiling(heights, most=2))
    finish(left, f"{fit.table.columns.target}, labels {fit.plan.label_delay} ticks late", below=3)
    titles = [score.title for score in scores.scores]
    frozen = [scores.error(j, "frozen") for j in range(len(titles))]
    top = _ceiling(frozen, most=5)
    bars = right.barh(range(len(titles)), np.clip(np.nan_to_num(frozen), 0, top), height=0.6,
                      color=[STYLES[j % len(STYLES)][0] for j in range(len(titles))])  # fmt: skip
    right.bar_label(bars, [_show(error) for error in frozen], padding=3, fontsize=8)
    right.set_xlim(0, 1.15 * top)
    right.set_yticks(range(len(titles)), titles, fontsize=8, parse_math=False)
    right.invert_yaxis()
    right.set_xlabel("frozen error / variance")
    right.spines[["top", "right"]].set_visible(False)
    return figure


def _ceiling(errors: Any, most: float) -> float:
    """A height that shows the good ones, whatever a bad one does: so many times the median.

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
    # The ring is open and larger: where it lies on the square, both are seen.
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
    finish(axes, f"{fit.scores.scores[0].title} beside learning alone", below=3)
    return figure
