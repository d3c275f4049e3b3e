"""Newcomers as a table, files and a figure: what the shared model is worth on their first day."""

from __future__ import annotations

import csv
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from psofed.fit.newcomers import MODELS, Arrival, Newcomers
from psofed.report.files import can_draw, cell
from psofed.report.grid import Block, Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = ("newcomers.csv", "newcomers.png", "newcomers.pdf")
EDGES = (0, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 10**9)  # labels known
EARLY = 30  # labels: the first part in the printed table
TITLES = {
    "shared": "shared model of the others",
    "own": "own model, from zero",
    "own_best": "own model, best step in hindsight",
    "started": "shared as a start, then own",
}


def render(found: Newcomers) -> dict[str, bytes]:
    """The files by name."""
    rows = [row for arrival in found.arrivals for row in bins(arrival)]
    buffer = StringIO()
    writer = csv.DictWriter(buffer, ("client", "labels_from", "labels_to", "samples", *MODELS),
                            lineterminator="\n")  # fmt: skip
    writer.writeheader()
    for row in rows:
        writer.writerow({key: cell(value) for key, value in row.items()})
    files = {"newcomers.csv": buffer.getvalue().encode()}
    if can_draw() and found.arrivals:
        from psofed.report.figures import both

        files |= both(figure(found), "newcomers")
    return files


def bins(arrival: Arrival) -> list[dict[str, Any]]:
    """Errors by the number of labels that the newcomer had when it predicted."""
    rows = []
    for first, stop in pairwise(EDGES):
        count = int(((arrival.labels >= first) & (arrival.labels < stop)).sum())
        if count:
            last = min(stop - 1, int(arrival.labels[-1]))
            errors = {model: arrival.mean(model, first, stop) for model in MODELS}
            rows.append({"client": arrival.client, "labels_from": first, "labels_to": last,
                         "samples": count, **errors})  # fmt: skip
    return rows


def summary(found: Newcomers) -> dict[str, Any]:
    """What `summary.json` holds about them."""
    entries = [
        {
            "client": a.client, "arrival_round": a.round, "samples": len(a.labels),
            "labels": int(a.labels[-1]), "width": a.plan.width,
            "step": a.plan.step, "best_step": a.best_step,
            "errors": {model: a.mean(model) for model in MODELS},
            "catches_up_after": {model: a.caught_up(model) for model in MODELS[1:]},
            "by_labels": bins(a),
        }
        for a in found.arrivals
    ]  # fmt: skip
    return {"newcomers": {"clients": entries, "without_samples": found.absent}}


def blocks(found: Newcomers) -> list[Block]:
    """The newcomers as a table."""
    head = ["newcomer: error / variance", f"shared <{EARLY}", f"own <{EARLY}", "shared", "own",
            "own*", "started", "own catches up", "own* catches up"]  # fmt: skip
    rows = [head]
    for a in found.arrivals:
        early = [_show(a.mean(model, 0, EARLY)) for model in ("shared", "own")]
        whole = [_show(a.mean(model)) for model in MODELS]
        rows.append([a.client, *early, *whole, *(_after(a, m) for m in ("own", "own_best"))])
    table = Grid(rows, least=(6, 8, 5, 1, 2), where="newcomers.csv")
    lines: list[Block] = [table] if found.arrivals else []
    lines += [
        f"<{EARLY}: while fewer labels were known; else all samples. own*: with the step that is"
        " best for it in hindsight. Catches up: where a change from the shared to the own model"
        " would have been best.",
    ]
    lines += [f"no labelled row after its arrival: {name}" for name in found.absent]
    return lines


def _after(arrival: Arrival, model: str) -> str:
    labels = arrival.caught_up(model)
    return f"{labels:,} labels" if labels is not None else f"never in {arrival.labels[-1]:,}"


def _show(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.3f}" if value < 1000 else "diverged"


def figure(found: Newcomers) -> Figure:
    """Errors against the number of labels, and when the own model catches up."""
    from matplotlib.figure import Figure

    from psofed.report.figures import finish

    some = found.arrivals[:40]
    drawn = Figure(figsize=(10, max(4.8, 1.9 + 0.28 * len(some))), layout="constrained", dpi=150)
    left, right = drawn.subplots(1, 2, width_ratios=(3, 2))
    _by_labels(left, found)
    left.set_xlabel("labels of the newcomer that were known")
    left.set_ylabel("error / variance")
    _catching_up(right, some)
    late = f", labels {found.label_delay} ticks late" if found.label_delay else ""
    finish(left, f"Mean of {len(found.arrivals)} newcomers{late}", below=2)
    return drawn


def _by_labels(axes: Any, found: Newcomers) -> None:
    """The mean over newcomers in each bin; bins that not all of them reach are left out."""
    tables = [{row["labels_from"]: row for row in bins(a)} for a in found.arrivals]
    common = [e for e in EDGES if all(e in table for table in tables)]
    styles = {
        "shared": ("#000000", "-", "s"), "own": ("#D55E00", (0, (4, 1.2, 1, 1.2)), "x"),
        "own_best": ("#E69F00", (0, (1.2, 1)), "^"), "started": ("#0072B2", (0, (6, 1.5)), "o"),
    }  # fmt: skip
    heights = []
    for model, (colour, dashes, marker) in styles.items():
        means = [np.mean([table[e][model] for table in tables]) for e in common]
        heights += means
        axes.plot(range(len(common)), means, marker=marker, color=colour, linestyle=dashes,
                  label=" " + TITLES[model], linewidth=1.6, markersize=5)  # fmt: skip
    last = max(int(table[common[-1]]["labels_to"]) for table in tables)
    ends = [*(e - 1 for e in common[1:]), last]
    names = [f"{a:,}\nto {b:,}" for a, b in zip(common, ends, strict=True)]
    axes.set_xticks(range(len(common)), names, fontsize=8)
    good = [h for h in heights if np.isfinite(h)]
    axes.set_ylim(0, 1.08 * min(max(good, default=1.0), 5 * float(np.median(good or [1.0]))))


def _catching_up(axes: Any, some: list[Arrival]) -> None:
    """A bar for each newcomer: to the label at which its own model catches up, or to the end."""
    places = np.arange(len(some))
    most = max(int(a.labels[-1]) for a in some) or 1
    for place, a in zip(places, some, strict=True):
        labels = a.caught_up("own")
        # A model that never catches up has an empty bar as long as the data.
        width = int(a.labels[-1]) if labels is None else labels
        look = {"color": "none", "edgecolor": "0.45"} if labels is None else {"color": "0.45"}
        axes.barh(place, width, height=0.6, **look)
        axes.annotate(_after(a, "own"), (width, place), xytext=(3, 0), va="center", fontsize=7.5,
                      textcoords="offset points")  # fmt: skip
    axes.set_xlim(0, 1.35 * most)
    axes.set_yticks(places, [a.client for a in some], fontsize=8, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("labels until it catches up; empty: never")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("When the own model catches up", fontsize=10, loc="left")
