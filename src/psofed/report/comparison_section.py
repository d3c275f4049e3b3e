"""The report's section on a comparison: the ranking, bytes to a target, and what was left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.compare.target import LIKELY
from psofed.report import section
from psofed.report.results import Result
from psofed.report.section import COLOURS, NONE, number, pair, percent
from psofed.report.thinning import Curve

TITLES = {"error": "Lowest error at this traffic", "bytes": "Fewest bytes to the target"}
TOTALS = {"up": "up", "unicast": "up and down", "multicast": "up and multicast down"}


def build(source: Result) -> dict[str, Any]:
    """The section of a comparison; its methods in the order of their rank."""
    table = source.table("comparison.json")
    with source.reading("comparison.json"):
        ranks = [str(entry["method"]) for entry in table["methods"]]
        found = sorted(section.curves(source, table), key=lambda curve: ranks.index(curve.label))
        found = [Curve(c.label, c.x, c.y, c.error, c.bytes, i) for i, c in enumerate(found)]
        return {
            "kind": "comparison",
            "title": f"{len(ranks)} methods at {percent(table['budget'])} of Online-Fed's traffic",
            "answer": section.minus(str(table["answer"])),
            "experiment": table["experiment"],
            "facts": section.facts(table["experiment"], table["runs"]),
            "curves": found,
            "groups": _groups(table["methods"]),
            "levels": [_target(table["target_db"])],
            "top": section.top(found),
            "axis": "bytes",
            "total": table["total"],
            "charts": _frontier(source, table),
            "tables": [_table(table, aim) for aim in TITLES],
            "notes": [f"Left out: {e['method']}, {e['why']}." for e in table["left_out"]],
            "ends": section.ends(found, _steady(table)),
            "traffic": section.traffic(found),
            "texts": [{"title": "As text", "text": source.text("comparison.txt")}],
            **section.origin(source, table),
        }


def _steady(table: dict[str, Any]) -> dict[str, str]:
    return {entry["method"]: pair(entry["steady_db"]) for entry in table["methods"]}


def _groups(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best few first, with Online-Fed: twenty curves at once are not readable."""
    if len(entries) <= COLOURS + 2:
        return []
    best = [j for j, entry in enumerate(entries) if not entry["control"]][: COLOURS - 1]
    online = [j for j, entry in enumerate(entries) if entry["name"] == "onlinefed"][:1]
    rows = sorted({*best, *online})
    beside = " and Online-Fed" if len(rows) > len(best) else ""
    return [{"name": f"The best {len(best)}{beside}", "rows": rows}]


def _target(value: float) -> dict[str, Any]:
    return {"label": f"target {number(value, 1)} dB", "value": value}


def _kb(value: float | None) -> str:
    return "not reached" if value is None else f"{value / 1000:,.4g}"


def _table(table: dict[str, Any], aim: str) -> dict[str, Any]:
    head = ["method", "step", "traffic", "longest, B", "peak, B", "steady, dB", "95 %"]
    head += [f"kB to {number(table['target_db'], 1)} dB", "95 %", "at n"]
    entries = [entry for entry in table["methods"] if aim in entry["tables"]]
    if aim == "error":
        entries = sorted(entries, key=lambda entry: _end(entry))
    rows = []
    for entry in entries:
        to, steady = entry["bytes_to_target"], entry["steady_db"]
        control = " (control)" if entry["control"] else ""
        rows.append([
            entry["method"] + control + " *" * bool(entry["at_the_end"]),
            NONE if entry["step"] is None else f"{entry['step']:.3g}",
            percent(entry["traffic_share"]), f"{entry['longest_message']:,}",
            f"{entry['peak_round']:,}", *_interval(steady), _kb(to["bytes"]),
            NONE if to["bytes"] is None else f"{_kb(to['low'])} to {_kb(to['high'])}",
            NONE if to["round"] is None else f"{to['round']:,}",
        ])  # fmt: skip
    note = (
        f"Traffic: share of Online-Fed's bytes, {TOTALS[table['total']]}. Bytes to the target:"
        f" {TOTALS[table['total']]}, at the first round from which the mean stays there for 100"
        " rounds. Longest: largest message; peak: largest round. Controls are not federated"
        " learning; they are shown for comparison. Ranges are 95 % intervals."
        " * An option stands at the end of what was tried."
    )
    return {"title": TITLES[aim], "head": head, "rows": rows, "note": note}


def _end(entry: dict[str, Any]) -> float:
    value = entry["steady_db"]["value"]
    return np.inf if value is None else float(value)


def _interval(steady: dict[str, Any]) -> tuple[str, str]:
    value, error = steady["value"], steady["stderr"]
    if value is None or error is None:
        return number(value, 2), NONE
    low, high = value - LIKELY * error, value + LIKELY * error
    return number(value, 2), f"{number(low, 2)} to {number(high, 2)}"


def _frontier(source: Result, table: dict[str, Any]) -> list[dict[str, Any]]:
    """Bytes to each target: a chart of its own."""
    if "frontier.csv" not in source.files:
        return []
    wanted = ("target_db", "bytes")
    text = source.text("frontier.csv").splitlines()
    tables = source.columns("frontier.csv", wanted) if len(text) > 1 else {}
    series = []
    ranks = [str(entry["method"]) for entry in table["methods"]]
    for style, label in enumerate(ranks):
        if label not in tables:
            continue
        x, y = (tables[label][name][::-1] for name in wanted)
        y = np.where(np.isfinite(y) & (y > 0), y, np.nan)
        if np.isfinite(y).any():
            cells = [None if np.isnan(v) else round(v) for v in y.tolist()]
            series.append({"label": label, "style": style, "x": x.tolist(), "y": cells})
    if not series:
        return []
    return [{
        "title": "What a target costs", "xLabel": "target MSE (dB): harder to the left",
        "yLabel": f"bytes, {TOTALS[table['total']]}", "yLog": True, "bytesY": True,
        "series": series,
        "best": [ranks[j] for group in _groups(table["methods"]) for j in group["rows"]] or None,
    }]  # fmt: skip
