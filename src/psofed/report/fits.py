"""A fit for readers: how good the model is next to simple ones, for whom, and how it errs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from psofed.core import conformal
from psofed.core.conformal import LEVELS
from psofed.federation.plugins import written
from psofed.report import files
from psofed.report.charts import Chart, Curve, Dots, Sheet
from psofed.report.files import Block, Grid, ratio
from psofed.report.page import Page
from psofed.report.page import render as render_page
from psofed.streams.data.table import ColumnReport
from psofed.tables.fitting import Fit
from psofed.tables.intervals import PARTS, Intervals
from psofed.tables.scores import SHOWN

# What a client could have instead of its model, by the title of the contender.
INSTEAD = {"Ridge regression with older labels, alone": "ridge", "Ridge regression, alone": "ridge",
           "Line with older labels, alone": "line", "Line, alone": "line",
           "Last value": "last"}  # fmt: skip
NAMES = ("ridge", "line", "last")
WORDS = {"mean": "the mean", "last": "the last value", "line": "a straight line alone",
         "ridge": "a ridge regression alone"}  # fmt: skip
CLIENTS = 100  # that a page lists; clients.csv has all
DRAWN = 40  # that a figure has room for
MARGIN = 0.02  # relative: less is called the same


def render(fit: Fit, command: str) -> dict[str, bytes]:
    """Every file of a fit by name."""
    table = summary(fit, command)
    texts = {
        "scores.csv": files.csv_text(fit.scores.rows(fit.unit)),
        "clients.csv": files.csv_text(client_rows(fit)),
        "summary.json": files.json_text(table),
    }
    found = render_page(page(fit, table), texts, {"portrait": sheet(fit, table)})
    return found if fit.refused else found | {"model.psofed": fit.model.to_bytes()}


def summary(fit: Fit, command: str) -> dict[str, Any]:
    """What `summary.json` holds."""
    table = fit.table
    checked = {score.title: score.checked for score in fit.scores.scores if score.checked}
    return files.summary(command, written(fit.plan.to_table), {
        "rows": table.rows, "clients": len(table.clients), "rounds": table.rounds,
        "tick": table.ticks.length, "tick_unit": table.ticks.unit,
        "inputs": fit.recipe.names,
        "columns": [_column(fit, finding) for finding in table.findings], "read_as": table.notes,
        "dropped": {**table.drops.counts, **fit.later.counts},
        "first_round": fit.span.first, "frozen_round": fit.span.frozen,
        "scores": fit.scores.rows(fit.unit), "by_client": client_rows(fit),
        "intervals": interval_table(fit), "notes": fit.notes,
        "curves": fit.scores.curves(), "worst": fit.scores.worst,
    } | ({"checked": checked} if checked else {}), "plan")  # fmt: skip


def client_rows(fit: Fit) -> list[dict[str, Any]]:
    """One entry per client: frozen errors of its model, and of what it could have instead."""
    scores = fit.scores
    errors = {"model": scores.by_client(0, "frozen", "global")}
    errors |= {name: scores.by_client(j, "frozen", "global") for name, j in instead(fit).items()}
    sure, learned = {}, scores.intervals
    if learned is not None:
        sure["coverage_90"] = learned.coverage("last", SHOWN)
        sure["width_90"] = learned.width("last", SHOWN) * fit.unit
    rows: list[dict[str, Any]] = []
    for k, name in enumerate(scores.clients):
        mine, kept = ({key: float(v[k]) for key, v in some.items()} for some in (errors, sure))
        count = int(scores.truths["frozen"].count[k])
        rows.append({"client": name, "samples": count, **mine, "better": better(mine)} | kept)
    return rows


def instead(fit: Fit) -> dict[str, int]:
    """The contenders that a client could have instead; with older labels, where these come."""
    found: dict[str, int] = {}
    for j, score in enumerate(fit.scores.scores):
        if score.title in INSTEAD:
            found.setdefault(INSTEAD[score.title], j)  # those with older labels come first
    return found


def better(errors: dict[str, float]) -> str:
    """What would have been better for a client than its model; empty if nothing was."""
    others = {name: e for name, e in errors.items() if name != "model" and np.isfinite(e)}
    best = min(others, key=lambda name: others[name], default="")
    return best if best and others[best] < (1 - MARGIN) * errors["model"] else ""


def interval_table(fit: Fit) -> dict[str, Any]:
    """What was promised and what was kept, by model and level; widths in the target's units."""
    learned = fit.scores.intervals
    if learned is None:
        return {}
    table: dict[str, Any] = {"method": fit.scores.scores[0].title, "parts": list(PARTS)}
    table["levels"] = [
        {"level": level,
         "constant_width": learned.together(learned.constant(level)) * fit.unit,
         "by_part": [learned.summary(part, level, fit.unit) for part in PARTS]}
        for level in LEVELS
    ]  # fmt: skip
    return table


def interval_line(fit: Fit) -> str:
    """One line about the intervals of the first method; empty if there is nothing to say."""
    learned = fit.scores.intervals
    if learned is None or not learned.count[PARTS.index("last")].any():
        return ""
    last, *quarters = (learned.summary(part, SHOWN, fit.unit) for part in PARTS[1:])
    known = [part for part in quarters if part["coverage"] == part["coverage"]]
    low, high = min(p["lowest_client"] for p in known), max(p["highest_client"] for p in known)
    best = learned.together(learned.constant(SHOWN)) * fit.unit
    return (
        f"Intervals of {SHOWN:g}, last part: {last['coverage']:.3f} of the labels are inside"
        f" ({last['lowest_client']:.3f} to {last['highest_client']:.3f} by client, {low:.3f} to"
        f" {high:.3f} in each of its quarters), mean width {last['width']:.4g} (best constant"
        f" {best:.4g}). {_saved(learned)}"
    )


def _saved(learned: Intervals) -> str:
    """What the constant radii of a saved model would have held."""
    kept = learned.kept[:, conformal.which(SHOWN)]
    if np.isnan(kept).any():
        return "Those of a saved model do not adapt."
    return (f"Those of a saved model do not adapt: as wide as all of that part needs, they would"
            f" have held {kept.min():.3f} to {kept.max():.3f} in its quarters.")  # fmt: skip


def _column(fit: Fit, finding: ColumnReport) -> dict[str, Any]:
    """What a column was taken for, and how it was scaled."""
    scaling = fit.recipe.scaling.get(finding.name)
    known = dict(zip(("centre", "scale"), scaling, strict=True)) if scaling else {}
    return finding.to_table() | known


def scores(fit: Fit) -> list[Block]:
    """The scores as a table; RMSE and MAE are frozen ones, in the units of the target."""
    head = ["error / variance", "prequential", "frozen", "own preq.", "own frozen", "RMSE", "MAE",
            "B/device/day", "longest B"]  # fmt: skip
    rows = [head]
    for row in fit.scores.rows(fit.unit):
        keys = ("prequential", "frozen", "prequential_own", "frozen_own")
        cells = [ratio(row[key]) for key in keys]
        cells += [_value(row[key]) for key in ("frozen_rmse", "frozen_mae")]
        longest = str(row["largest_message"]) if row["largest_message"] else "-"
        cost = row["bytes_per_device_and_day"]
        rows.append([row["method"], *cells, f"{cost:,.0f}" if cost > 0 else "-", longest])
    note = (
        "Squared errors over the variance of the target. Prequential: each sample is predicted"
        " before its label is known; frozen: at the end, by a model that is not changed. Own: by"
        " each client's own model."
    )
    line = interval_line(fit)
    table = Grid(rows, least=(8, 6, 4, 3, 7, 5), where="scores.csv", title="Scores", note=note)
    return [table, *([f"\n{line}"] if line else [])]


def blocks(fit: Fit) -> list[Block]:
    """All that a terminal shows: the answer first."""
    return [answer(fit), "", *scores(fit), "", *client_blocks(fit)]


def client_blocks(fit: Fit, most: int = 30) -> list[Block]:
    """The error of each client's model, and of what it could have instead."""
    keys = ("model", *NAMES)
    rows = [["frozen error / variance", "samples", *keys, "better"]]
    entries = client_rows(fit)
    for row in entries[:most]:
        errors = [ratio(row[key]) for key in keys]
        rows.append([row["client"], str(row["samples"]), *errors, row["better"] or "-"])
    more = [f"... and {len(entries) - most} more in clients.csv"] if len(entries) > most else []
    table = Grid(rows, least=(1, 3), where="clients.csv", title="The model of each client")
    return [table, *more]


def _value(value: float | None) -> str:
    if value is None or np.isnan(value):
        return "-"
    return f"{value:.4g}" if np.isfinite(value) else "diverged"


def page(fit: Fit, table: dict[str, Any]) -> Page:
    """The page of a fit: it is judged first, then shown as it learns and as it errs."""
    facts = [
        f"{table['rows']:,} rows of {table['clients']:,} clients",
        f"{table['rounds']:,} rounds",
        f"learned from round {table['first_round']:,}, frozen at {table['frozen_round']:,}",
    ]
    notes = [f"{note[:1].upper()}{note[1:]}" for note in table["notes"]]
    return Page(
        f"A model of “{fit.table.columns.target}”", answer(fit), " · ".join(facts),
        table["command"], written(fit.plan.to_table), plan=True,
        parts=[
            *notes, _learning(table), *scores(fit), *client_blocks(fit, CLIENTS),
            *_worst(table),
        ],
    )  # fmt: skip


def answer(fit: Fit) -> str:
    """The error next to what anybody could have had, and for whom something else was better."""
    scores, rows = fit.scores, client_rows(fit)
    errors = {"mean": 1.0} | {n: scores.error(j, "frozen") for n, j in instead(fit).items()}
    known = ", ".join(f"{WORDS[name]} {ratio(e)}" for name, e in sorted(errors.items()))
    how = "while labels keep coming" if fit.plan.use == "live" else "without further labels"
    counts = Counter(row["better"] for row in rows if (row["better"] and row["better"] != "last")
                     or (row["better"] == "last" and fit.plan.use == "live"))  # fmt: skip
    worse = sum(counts.values())
    who = f"no client of {len(rows)} would have been better off with one of them"
    if worse:
        most = WORDS[counts.most_common(1)[0][0]]
        who = f"{worse} of {len(rows)} clients would have been better off, most with {most}"
    return (f"{scores.scores[0].title} leaves {ratio(fit.error)} of the variance on data not seen"
            f" before, {how} ({known}); {who}.")  # fmt: skip


def sheet(fit: Fit, table: dict[str, Any]) -> Sheet:
    """How it learns and errs: the charts of the page, and a row for each client."""
    panels: list[Any] = [_learning(table)]
    rows = [row for row in client_rows(fit) if row["samples"]][:DRAWN]
    names = [row["client"] for row in rows]
    values = {key: [min(row[key], 10.0) for row in rows] for key in ("last", "ridge", "model")}
    panels.append(Dots("The model of each client", "frozen error / variance", names, values))
    return Sheet(panels, 2, fit.scores.scores[0].title, (5.6, 4.6))


def _ceiling(values: list[float]) -> float:
    """An upper limit of the axis that shows the good ones: twice the median.

    >>> _ceiling([0.3, 0.4, 1e9])
    0.8
    """
    known = [value for value in values if np.isfinite(value)]
    return float(min(max(known), 2 * np.median(known))) or 1.0 if known else 1.0


def _learning(table: dict[str, Any]) -> Chart:
    """The prequential error over time, of all contenders."""
    found = table["curves"]
    methods = {name: np.array(y, float) for name, y in found["methods"].items()}
    # In the first bin the models have not learned anything yet.
    heights = [np.nanmax(y[1:], initial=0.0) for y in methods.values()]
    series = [Curve(n, found["round"], y, style=j) for j, (n, y) in enumerate(methods.items())]
    top = 1.1 * _ceiling(heights)
    note = (
        "Each sample is predicted before its label is known, and learned when it is; means of"
        f" {len(found['round'])} equal parts of the rounds."
    )
    over = [name for name, high in zip(methods, heights, strict=True) if high > top]
    note += f" Cut off above {top:.2g}: {', '.join(over)}." if over else ""
    return Chart("How the error falls", "round n", "prequential error / variance", series,
                 marks=[("frozen", table["frozen_round"])], bottom=0, top=top, digits=3, note=note,
                 log=None)  # fmt: skip


def _worst(table: dict[str, Any]) -> list[Grid]:
    target, found = table["plan"]["columns"]["target"], table["worst"]
    if not found:
        return []
    rows = [["client", "time", f"predicted {target}", f"actual {target}", "of all squared error"]]
    rows += [
        [str(row["client"]), row["time"], _value(row["predicted"]), _value(row["actual"]),
         "-" if row["share"] is None else f"{100 * row['share']:.2g} %"]
        for row in found
    ]  # fmt: skip
    return [Grid(rows, title=f"The {len(found)} worst moments of the frozen part")]
