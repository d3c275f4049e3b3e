"""The pictures of a fit's page: how the model learns, how its frozen form errs, where and when."""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.report.section import MINUS, NONE, number

MOST = 20  # columns that are shown by their importance
CLIENTS = 100  # that a table lists


def ceiling(values: list[float], most: float = 2.0) -> float:
    """An upper limit of the axis that shows the good ones: a multiple of the median.

    >>> ceiling([0.3, 0.4, 1e9])
    0.8
    """
    known = [value for value in values if np.isfinite(value)]
    return float(min(max(known), most * np.median(known))) or 1.0 if known else 1.0


def curves(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The prequential error over time, of all contenders."""
    found = (table.get("portrait") or {}).get("curves")
    if not found:
        return []
    methods = found["methods"]
    # In the first bin the models have not learned anything yet.
    heights = [max((v for v in y[1:] if v is not None), default=0.0) for y in methods.values()]
    series = [
        {"label": name, "style": j, "x": found["round"], "y": y}
        for j, (name, y) in enumerate(methods.items())
    ]
    top = 1.1 * ceiling(heights)
    note = (
        "Each sample is predicted before its label is known, and learned when it is; means of"
        f" {len(found['round'])} equal parts of the rounds."
    )
    over = [name for name, high in zip(methods, heights, strict=True) if high > top]
    note += f" Cut off above {top:.2g}: {', '.join(over)}." if over else ""
    return [{
        "title": "How the error falls", "xLabel": "round n",
        "yLabel": "prequential error / variance", "series": series, "bottom": 0, "top": top,
        "digits": 3, "note": note,
        "marks": [{"label": "frozen", "value": table["frozen_round"]}],
    }]  # fmt: skip


def parts(table: dict[str, Any]) -> list[dict[str, Any]]:
    """All other pictures and tables for which the summary has the numbers."""
    portrait = table.get("portrait") or {}
    target = str(table["plan"]["columns"]["target"])
    found: list[dict[str, Any]] = []
    if portrait:
        found += [*_pairs(portrait, target), *_seasons(table, portrait), *_hours(portrait)]
        found += [*_worst(portrait, target), *_importance(portrait), *_unused(table, portrait)]
    return [*found, *_intervals(table), *_columns(table)]


def _pairs(portrait: dict[str, Any], target: str) -> list[dict[str, Any]]:
    actual, predicted = portrait["pairs"]
    pairs = sorted((a, p) for a, p in zip(actual, predicted, strict=True) if None not in (a, p))
    if not pairs:
        return []
    ends = [pairs[0][0], pairs[-1][0]]
    note = (
        f"{len(pairs):,} samples of the frozen part, of all clients, drawn at random;"
        f" {portrait['method']}."
    )
    return [{
        "title": "Predicted against actual", "xLabel": f"actual {target}",
        "yLabel": f"predicted {target}", "digits": 3, "note": note,
        "series": [
            {"label": "samples", "style": 1, "points": True, "size": 4,
             "x": _apart([a for a, _ in pairs]), "y": [p for _, p in pairs]},
            {"label": "exact", "style": 0, "x": ends, "y": ends},
        ],
    }]  # fmt: skip


def _apart(values: list[float]) -> list[float]:
    """Sorted values, of which equal ones are moved by next to nothing: a chart has each x once.

    >>> _apart([0.0, 1.0, 1.0])[1:]
    [1.0, 1.0000001]
    """
    x = np.array(values)
    ranks = np.arange(len(x)) - np.searchsorted(x, x)
    return [float(v) for v in x + ranks * 1e-7 * ((x[-1] - x[0]) or 1.0)]


def _seasons(table: dict[str, Any], portrait: dict[str, Any]) -> list[dict[str, Any]]:
    found = portrait.get("seasons")
    if not found or not found["by_client"]:
        return []
    rows = [[row["client"], row["all"], *row["seasons"]] for row in found["by_client"]]
    rows.sort(key=lambda row: -(row[1] or 0.0))
    rows.insert(0, ["all clients", table["scores"][0]["frozen"], *found["all"]])
    note = (
        "Frozen error of the shared model over the variance of all, the largest first; quarters of"
        " the year, as far as the frozen part has them."
    )
    head = ["client", "all", *found["names"]]
    return [{"title": "Error by client and season", "head": head, "amounts": rows, "digits": 3,
             "note": note}]  # fmt: skip


def _hours(portrait: dict[str, Any]) -> list[dict[str, Any]]:
    found = portrait.get("hours")
    known = [(h, e) for h, e in enumerate(found["error"]) if e is not None] if found else []
    if len(known) < 3:
        return []
    worst = sorted(known, key=lambda pair: -pair[1])[:3]
    names = ", ".join(f"{h}:00 ({e:.3f})" for h, e in worst)
    return [{
        "title": "Error by hour of the day", "xLabel": "hour, UTC", "digits": 3, "bottom": 0,
        "yLabel": "frozen error / variance", "note": f"The worst hours: {names}.",
        "series": [{"label": portrait["method"], "style": 1,
                    "x": [h for h, _ in known], "y": [e for _, e in known]}],
    }]  # fmt: skip


def _worst(portrait: dict[str, Any], target: str) -> list[dict[str, Any]]:
    rows = [
        [row["client"], row["time"], *(_value(row[key]) for key in ("predicted", "actual")),
         NONE if row["share"] is None else f"{100 * row['share']:.2g} %"]
        for row in portrait["worst"]
    ]  # fmt: skip
    head = ["client", "time", f"predicted {target}", f"actual {target}", "of all squared error"]
    title = f"The {len(rows)} worst moments of the frozen part"
    note = "A number enters as (value - centre) / scale, fixed by the warm-up or a given range."
    return [{"title": title, "head": head, "rows": rows, "note": note}] if rows else []


def _value(value: float | None) -> str:
    return NONE if value is None else f"{value:.4g}".replace("-", MINUS)


def _importance(portrait: dict[str, Any]) -> list[dict[str, Any]]:
    found = portrait.get("importance")
    if not found:
        return []
    rows = [[row["column"], row["rise"]] for row in found["columns"][:MOST]]
    more = len(found["columns"]) - len(rows)
    note = (
        "By permutation: the rise of the frozen error over the variance when one column is shuffled"
        " in time within each client, with all inputs that come from it (lags, categories,"
        f" calendar). {found['samples']:,} samples of {found['clients']:,} clients, whose error is"
        f" {number(found['error'], 3)}; mean of {found['repeats']} shuffles. Columns that say the"
        " same share their importance."
    )
    note += f" And {more} more in summary.json." if more else ""
    return [{"title": "Which columns the model rests on", "head": ["column", "rise of the error"],
             "amounts": rows, "digits": 3, "note": note}]  # fmt: skip


def _unused(table: dict[str, Any], portrait: dict[str, Any]) -> list[dict[str, Any]]:
    found = portrait["unused"]
    dated = {reason: sum(counts) for reason, counts in found["counts"].items()}
    others = {r: c for r, c in table.get("dropped", {}).items() if r not in dated}
    rest = ", ".join(f"{count:,} {reason}" for reason, count in others.items())
    ends = f"{found['edges'][0]} to {found['edges'][-1]}"
    note = f"Rows in each of {len(found['rounds'])} equal parts of the time, {ends}."
    note += f" Without a known time here: {rest}." if rest else ""
    if not dated:
        return []
    series = [
        {"label": f"{reason} ({dated[reason]:,})", "style": j, "x": found["rounds"], "y": counts}
        for j, (reason, counts) in enumerate(found["counts"].items())
    ]
    return [{"title": "Rows that were not used", "xLabel": "round n", "yLabel": "rows",
             "series": series, "digits": 0, "bottom": 0, "note": note}]  # fmt: skip


def _intervals(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Coverage of the prediction intervals, if the fit has any."""
    found = table.get("intervals") or {}
    entry = next((e for e in found.get("shared", ()) if e["level"] == 0.9), None)
    if entry is None:
        return []
    rows = [
        [part["part"], *(number(part[key], 3) if part[key] is not None else NONE
                         for key in ("coverage", "lowest_client", "highest_client")),
         _value(part["width"])]
        for part in entry["by_part"]
    ]  # fmt: skip
    head = ["part", "inside", "lowest client", "highest client", "mean width"]
    time = entry["over_time"]
    note = "Shared model; an interval of 90 % should hold nine of ten labels in every part."
    return [
        {"title": "Prediction intervals of 90 %", "head": head, "rows": rows, "note": note},
        *_coverage(table, entry),
        {"title": "Labels inside their interval", "xLabel": "round n", "yLabel": "share inside",
         "digits": 3, "levels": [{"label": "promised", "value": 0.9}], "note": "",
         "marks": [{"label": "frozen", "value": table["frozen_round"]}],
         "series": [{"label": found["method"], "style": 1, "x": time["round"],
                     "y": time["coverage"]}]},
    ]  # fmt: skip


def _coverage(table: dict[str, Any], entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The share of labels inside, by client and part."""
    names = [row["client"] for row in table["by_client"]]
    some = [part for part in entry["by_part"] if len(part["by_client"]) == len(names)]
    if not some:
        return []
    columns = [part["by_client"] for part in some]
    rows = [[str(name), *values] for name, *values in zip(names, *columns, strict=True)][:CLIENTS]
    rows.insert(0, ["all clients", *(part["coverage"] for part in some)])
    head = ["client", *(part["part"] for part in some)]
    return [{"title": "Labels inside, by client and part", "head": head, "amounts": rows, "most": 1,
             "digits": 3, "note": ""}]  # fmt: skip


def _columns(table: dict[str, Any]) -> list[dict[str, Any]]:
    """What each column was taken for, if the reader says so."""
    rows = [
        [str(row["name"]), str(row["role"]), str(row.get("why", "")), _share(row.get("missing")),
         *(_text(row.get(key)) for key in ("low", "high", "centre", "scale", "values"))]
        for row in table.get("columns", ())
    ]  # fmt: skip
    head = ["column", "taken for", "why", "missing", "low", "high", "centre", "scale", "values"]
    title = "What each column was taken for"
    return [{"title": title, "head": head, "rows": rows, "note": ""}] if rows else []


def _share(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.3g} %"


def _text(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}".replace("-", MINUS)
