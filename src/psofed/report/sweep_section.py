"""The report's section on a sweep: every point, and its curve."""

from __future__ import annotations

from typing import Any

from psofed.report import section
from psofed.report.results import Result
from psofed.report.section import COLOURS, NONE, pair
from psofed.report.thinning import Curve


def build(source: Result) -> dict[str, Any]:
    """The section of a sweep."""
    table = source.table("sweep.json")
    with source.reading("sweep.json"):
        entries = table["methods"]
        found = section.curves(source, table)
        keys = ", ".join(table["settings"])
        return {
            "kind": "sweep",
            "title": f"A sweep of {keys}: {len(entries)} curves",
            "answer": section.minus(str(table["answer"])),
            "experiment": table["experiment"],
            "targets": section.targets(table),
            "facts": section.facts(table["experiment"], table["runs"]),
            "curves": [Curve(c.label, c.x, c.y, c.error, c.bytes, i) for i, c in enumerate(found)],
            "groups": _groups(entries),
            "levels": [],
            "top": section.top(found),
            "tables": [_table(table)],
            "ends": section.ends(found, {e["method"]: pair(e["steady_db"]) for e in entries}),
            "traffic": section.traffic(found),
            **section.origin(source, table),
        }


def _groups(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best few first: twenty curves at once are not readable."""
    if len(entries) <= COLOURS + 2:
        return []
    ends = [e["steady_db"]["value"] for e in entries]
    ranked = sorted(range(len(ends)), key=lambda j: float("inf") if ends[j] is None else ends[j])
    return [{"name": f"The best {COLOURS}", "rows": sorted(ranked[:COLOURS])}]


def _table(table: dict[str, Any]) -> dict[str, Any]:
    keys = [key.removeprefix("methods.") for key in table["settings"]]
    rows = [
        [entry["method"], *(str(entry.get(key, NONE)) for key in keys), pair(entry["steady_db"]),
         f"{entry['kilobytes']:,.4g}"]
        for entry in table["methods"]
    ]  # fmt: skip
    note = (
        f"Test MSE in dB on {section.targets(table)}, mean of the last fifth of the rounds ±1"
        " standard error. All points are on the same draws."
    )
    head = ["method", *keys, "steady, dB", "kB up and down"]
    return {"title": "All points", "head": head, "rows": rows, "note": note}
