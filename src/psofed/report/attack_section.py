"""The report's section on attacks: a table of losses and a chart for each method."""

from __future__ import annotations

from typing import Any

from psofed.report import section
from psofed.report.results import Result
from psofed.report.section import NONE, number


def build(source: Result) -> dict[str, Any]:
    """The section of a study of attacks. It has no learning curves."""
    table = source.table("attack.json")
    with source.reading("attack.json"):
        methods = list(dict.fromkeys(p["method"] for p in table["points"] if p["attack"] != "none"))
        count = len(table["attacks"])
        return {
            "kind": "attack",
            "title": f"{count} attacks" if count > 1 else "An attack",
            "answer": section.minus(" ".join(table["answer"])),
            "experiment": table["experiment"],
            "targets": section.targets(table),
            "facts": section.facts(table["experiment"], table["runs"]),
            "curves": [], "groups": [], "levels": [], "top": None, "ends": [],
            "tables": [_table(table, method) for method in methods],
            "notes": [f"Left out: {each['what']}, {each['why']}." for each in table["left_out"]],
            **section.origin(source, table),
        }  # fmt: skip


def _table(table: dict[str, Any], method: str) -> dict[str, Any]:
    shares = table["shares"][1:]
    known = {
        (p["attack"], p["share"], p["defence"]): p["loss_db"]
        for p in table["points"]
        if p["method"] == method
    }
    defences = ["none", *(each["title"] for each in table["defences"])]
    rows = []
    for attack in table["attacks"]:
        for defence in defences:
            found = [known.get((attack["title"], share, defence)) for share in shares]
            if any(found):
                rows.append([attack["title"], defence, *map(_cell, found)])
    for defence in defences[1:]:
        price = known.get(("none", 0.0, defence))
        if price is not None:
            rows.insert(0, ["nobody is malicious", defence, *[_cell(price)] * len(shares)])
    note = (
        f"What is lost to the clean federation without defence, in dB: test MSE on"
        f" {section.targets(table)}, mean of the last fifth of the rounds, with 95 % intervals of"
        " paired differences. All are on the same draws, with the same malicious clients."
    )
    head = ["attack", "defence", *(f"{100 * share:.3g} %" for share in shares)]
    return {"title": method, "head": head, "rows": rows, "note": note}


def _cell(lost: dict[str, Any] | None) -> str:
    if lost is None:
        return NONE
    if lost["low"] is None or lost["high"] is None:
        return number(lost["value"], sign="+")
    half = (lost["high"] - lost["low"]) / 2
    return f"{number(lost['value'], sign='+')} ±{half:.2f}"
