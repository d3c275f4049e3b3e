"""A fit for readers: scores, who gains from sharing, and how the frozen model errs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from psofed.federation.plugins.known import written
from psofed.report import files
from psofed.report.charts import Chart, Curve, Dots, Sheet
from psofed.report.files import Block, Grid, joined, ratio
from psofed.report.page import Page
from psofed.report.page import render as render_page
from psofed.streams.data.table import ColumnReport
from psofed.tables.outcome import Fit, client_rows, interval_line, interval_table, score_rows

FILES = ("model.psofed", "plan.toml", "scores.csv", "clients.csv", "summary.json", "portrait.png",
         "portrait.pdf")  # fmt: skip
VERDICTS = {"gains": "helps", "loses": "harms", "same": "changes little for"}
CLIENTS = 100  # that a page lists; clients.csv has all
DRAWN = 40  # that a figure has room for


def render(fit: Fit, command: str) -> dict[str, bytes]:
    """Every file of a fit by name."""
    table = summary(fit, command)
    texts = {
        "scores.csv": files.csv_text(score_rows(fit)),
        "clients.csv": files.csv_text(client_rows(fit)),
        "summary.json": files.json_text(table),
    }
    found = render_page(page(fit, table), texts, {"portrait": sheet(fit, table)})
    return found | {"model.psofed": fit.model.to_bytes()}


def summary(fit: Fit, command: str) -> dict[str, Any]:
    """What `summary.json` holds."""
    table = fit.table
    checked = {score.title: score.checked for score in fit.scores.scores if score.checked}
    return files.summary(command, written(fit.plan.to_table), {
        "rows": table.rows, "clients": len(table.clients), "rounds": table.rounds,
        "tick": table.tick, "inputs": fit.recipe.names,
        "columns": [_column(fit, finding) for finding in table.findings], "read_as": table.said,
        "dropped": {**table.drops.counts, **fit.later.counts},
        "first_round": fit.span.first, "frozen_round": fit.span.frozen,
        "scores": score_rows(fit), "by_client": client_rows(fit),
        "intervals": interval_table(fit), "notes": fit.notes, "portrait": fit.portrait,
    } | ({"checked": checked} if checked else {}), "plan")  # fmt: skip


def _column(fit: Fit, finding: ColumnReport) -> dict[str, Any]:
    """What a column was taken for, and how it was scaled."""
    scaling = fit.recipe.scaling.get(finding.name)
    known = dict(zip(("centre", "scale"), scaling, strict=True)) if scaling else {}
    return finding.to_table() | known


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
        cells = [ratio(row[key]) for key in keys]
        cells += [_value(row[key]) for key in ("frozen_rmse", "frozen_mae")]
        longest = str(row["largest_message"]) if row["largest_message"] else "-"
        cost = row["bytes_per_device_and_day"]
        rows.append([row["method"], *cells, f"{cost:,.0f}" if cost else "-", longest])
    note = (
        "Squared errors over the variance of the target. Prequential: each sample is predicted"
        " before its label is known; frozen: at the end, by a model that is not changed. Own: by"
        " each client's own model."
    )
    line = interval_line(fit)
    table = Grid(rows, least=(8, 6, 4, 3, 7, 5), where="scores.csv", title="Scores", note=note)
    return [table, *([f"\n{line[:1].upper()}{line[1:]}."] if line else [])]


def client_blocks(fit: Fit, most: int = 30) -> list[Block]:
    """Who gains and who loses, as a table."""
    rows = [["frozen error / variance", "samples", "shared", "own", "alone", "sharing"]]
    entries = client_rows(fit)
    for row in entries[:most]:
        errors = [ratio(row[key]) for key in ("shared", "own", "alone")]
        rows.append([row["client"], str(row["samples"]), *errors, row["sharing"]])
    more = [f"... and {len(entries) - most} more in clients.csv"] if len(entries) > most else []
    table = Grid(rows, least=(1, 3), where="clients.csv", title="Who gains from sharing")
    return [table, *more]


def _value(value: float | None) -> str:
    return "-" if value is None or np.isnan(value) else f"{value:.4g}"


def page(fit: Fit, table: dict[str, Any]) -> Page:
    """The page of a fit: it is judged first, then shown as it learns and as it errs."""
    facts = [
        f"{table['rows']:,} rows of {table['clients']:,} clients",
        f"{table['rounds']:,} rounds",
        f"learned from round {table['first_round']:,}, frozen at {table['frozen_round']:,}",
    ]
    portrait = table["portrait"]
    notes = [f"{note[:1].upper()}{note[1:]}" for note in table["notes"]]
    errs: list[Any] = [
        *_pairs(table),
        *_seasons(table),
        *_hours(portrait),
        *_worst(table),
        *_unused(table),
    ]
    return Page(
        f"A shared model of “{fit.table.columns.target}”", answer(table), " · ".join(facts),
        table["command"], written(fit.plan.to_table), plan=True,
        parts=[
            *notes, *_learning(table), *blocks(fit), *client_blocks(fit, CLIENTS),
            *(errs if portrait else []), *_intervals(table), _columns(table),
        ],
    )  # fmt: skip


def answer(table: dict[str, Any]) -> str:
    """The error, who does better, and who gains from sharing."""
    own, *others = table["scores"]
    words = f"{own['method']} leaves {ratio(own['frozen'])} of the variance on data not seen before"
    known = [row for row in others if row["frozen"] is not None]
    best = min(known, key=lambda row: row["frozen"], default=own)
    if own["frozen"] is not None and best["frozen"] < own["frozen"]:
        words += f"; {best['method']} does better, with {ratio(best['frozen'])}"
    counts = Counter(row["sharing"] for row in table["by_client"])
    parts = [f"{word} {counts[key]}" for key, word in VERDICTS.items() if counts[key]]
    if parts:
        words += f"; sharing {', '.join(parts)} of {len(table['by_client'])} clients"
    return f"{words}."


def sheet(fit: Fit, table: dict[str, Any]) -> Sheet:
    """How it learns and errs: the charts of the page, and a row for each client."""
    portrait = table["portrait"]
    panels: list[Any] = _learning(table)
    if portrait:
        panels += [*_pairs(table), *_hours(portrait), *_unused(table)]
    panels += [part for part in _intervals(table) if isinstance(part, Chart)]
    rows = [row for row in client_rows(fit) if row["samples"]][:DRAWN]
    names = [f"{row['client']} ({row['sharing']})" for row in rows]
    values = {key: [min(row[key], 10.0) for row in rows] for key in ("alone", "shared", "own")}
    panels.append(Dots("Who gains from sharing", "frozen error / variance", names, values))
    return Sheet(panels, 2, fit.scores.scores[0].title, (5.6, 4.6))


def _ceiling(values: list[float], most: float = 2.0) -> float:
    """An upper limit of the axis that shows the good ones: a multiple of the median.

    >>> _ceiling([0.3, 0.4, 1e9])
    0.8
    """
    known = [value for value in values if np.isfinite(value)]
    return float(min(max(known), most * np.median(known))) or 1.0 if known else 1.0


def _floats(values: list[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]


def _learning(table: dict[str, Any]) -> list[Chart]:
    """The prequential error over time, of all contenders."""
    found = (table["portrait"] or {}).get("curves")
    if not found:
        return []
    methods = {name: _floats(y) for name, y in found["methods"].items()}
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
    return [Chart("How the error falls", "round n", "prequential error / variance", series,
                  marks=[("frozen", table["frozen_round"])], bottom=0, top=top, digits=3, note=note,
                  log=None)]  # fmt: skip


def _pairs(table: dict[str, Any]) -> list[Chart]:
    portrait, target = table["portrait"], table["plan"]["columns"]["target"]
    both = zip(*portrait["pairs"], strict=True)
    pairs = sorted((a, p) for a, p in both if None not in (a, p))
    if not pairs:
        return []
    ends = [pairs[0][0], pairs[-1][0]]
    note = (
        f"{len(pairs):,} samples of the frozen part, of all clients, drawn at random;"
        f" {portrait['method']}."
    )
    samples = Curve("samples", _apart([a for a, _ in pairs]), [p for _, p in pairs], style=1,
                     points=True, stress=-1)  # fmt: skip
    return [Chart("Predicted against actual", f"actual {target}", f"predicted {target}",
                  [samples, Curve("exact", ends, ends)] if ends[0] < ends[1] else [samples],
                  log=None, digits=3, note=note)]  # fmt: skip


def _apart(values: list[float]) -> list[float]:
    """Sorted values, of which equal ones are moved by next to nothing: a chart has each x once.

    >>> _apart([0.0, 1.0, 1.0])[1:]
    [1.0, 1.0000001]
    """
    x = np.array(values)
    ranks = np.arange(len(x)) - np.searchsorted(x, x)
    return [float(v) for v in x + ranks * 1e-7 * ((x[-1] - x[0]) or 1.0)]


def _seasons(table: dict[str, Any]) -> list[Grid]:
    found = table["portrait"].get("seasons")
    if not found or not found["by_client"]:
        return []
    rows = sorted(found["by_client"], key=lambda row: -(row["all"] or 0.0))
    cells = [[str(row["client"]), ratio(row["all"]), *map(ratio, row["seasons"])] for row in rows]
    every = ["all clients", ratio(table["scores"][0]["frozen"]), *map(ratio, found["all"])]
    note = (
        "Frozen error of the shared model over the variance of all, the largest first; quarters of"
        " the year, as far as the frozen part has them."
    )
    return [Grid([["client", "all", *found["names"]], every, *cells], note=note, bars=True,
                 title="Error by client and season")]  # fmt: skip


def _hours(portrait: dict[str, Any]) -> list[Chart]:
    found = portrait.get("hours")
    known = [(h, e) for h, e in enumerate(found["error"]) if e is not None] if found else []
    if len(known) < 3:
        return []
    worst = sorted(known, key=lambda pair: -pair[1])[:3]
    names = ", ".join(f"{h}:00 ({e:.3f})" for h, e in worst)
    series = Curve(portrait["method"], [h for h, _ in known], [e for _, e in known], style=1)
    return [Chart("Error by hour of the day", "hour, UTC", "frozen error / variance", [series],
                  log=None, bottom=0, digits=3, note=f"The worst hours: {names}.")]  # fmt: skip


def _worst(table: dict[str, Any]) -> list[Grid]:
    target, found = table["plan"]["columns"]["target"], table["portrait"]["worst"]
    rows = [["client", "time", f"predicted {target}", f"actual {target}", "of all squared error"]]
    rows += [
        [str(row["client"]), row["time"], _value(row["predicted"]), _value(row["actual"]),
         "-" if row["share"] is None else f"{100 * row['share']:.2g} %"]
        for row in found
    ]  # fmt: skip
    title = f"The {len(found)} worst moments of the frozen part"
    return [Grid(rows, title=title)] if found else []


def _unused(table: dict[str, Any]) -> list[Chart]:
    found = table["portrait"]["unused"]
    dated = {reason: sum(counts) for reason, counts in found["counts"].items()}
    others = {r: c for r, c in table["dropped"].items() if r not in dated}
    rest = ", ".join(f"{count:,} {reason}" for reason, count in others.items())
    ends = f"{found['edges'][0]} to {found['edges'][-1]}"
    note = f"Rows in each of {len(found['rounds'])} equal parts of the time, {ends}."
    note += f" Without a known time here: {rest}." if rest else ""
    series = [
        Curve(f"{reason} ({dated[reason]:,})", found["rounds"], counts, style=j)
        for j, (reason, counts) in enumerate(found["counts"].items())
    ]
    return [Chart("Rows that were not used", "round n", "rows", series, log=None, bottom=0,
                  digits=0, note=note)] if series else []  # fmt: skip


def _intervals(table: dict[str, Any]) -> list[Grid | Chart]:
    """Coverage of the prediction intervals, if the fit has any."""
    found = table["intervals"] or {}
    entry = next((e for e in found.get("shared", ()) if e["level"] == 0.9), None)
    if entry is None:
        return []
    keys = ("coverage", "lowest_client", "highest_client")
    rows = [["part", "inside", "lowest client", "highest client", "mean width"]]
    rows += [[part["part"], *(ratio(part[key]) for key in keys), _value(part["width"])]
             for part in entry["by_part"]]  # fmt: skip
    time = entry["over_time"]
    inside = Curve(found["method"], time["round"], _floats(time["coverage"]), style=1)
    note = "Shared model; an interval of 90 % should hold nine of ten labels in every part."
    return [
        Grid(rows, title="Prediction intervals of 90 %", note=note), *_coverage(table, entry),
        Chart("Labels inside their interval", "round n", "share inside", [inside], log=None,
              levels=[("promised", 0.9, "")], marks=[("frozen", table["frozen_round"])], digits=3),
    ]  # fmt: skip


def _coverage(table: dict[str, Any], entry: dict[str, Any]) -> list[Grid]:
    """The share of labels inside, by client and part."""
    names = [row["client"] for row in table["by_client"]]
    some = [part for part in entry["by_part"] if len(part["by_client"]) == len(names)]
    if not some:
        return []
    columns = [map(ratio, part["by_client"]) for part in some]
    rows = [[str(name), *values] for name, *values in zip(names, *columns, strict=True)][:CLIENTS]
    rows.insert(0, ["all clients", *(ratio(part["coverage"]) for part in some)])
    head = ["client", *(part["part"] for part in some)]
    return [Grid([head, *rows], bars=True, title="Labels inside, by client and part")]


def _columns(table: dict[str, Any]) -> Grid:
    """What each column was taken for."""
    rows = [["column", "taken for", "why", "missing", "low", "high", "centre", "scale", "values"]]
    rows += [
        [str(row["name"]), str(row["role"]), str(row.get("why", "")), _share(row.get("missing")),
         *(_text(row.get(key)) for key in ("low", "high", "centre", "scale", "values"))]
        for row in table["columns"]
    ]  # fmt: skip
    note = "A number enters as (value - centre) / scale, fixed by the warm-up or a given range."
    return Grid(rows, title="What each column was taken for", note=note)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.3g} %"


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
