"""The report's section on a run: the answer, the table, the claims."""

from __future__ import annotations

from math import hypot
from typing import Any

from psofed.report import section
from psofed.report.claims import caution
from psofed.report.results import Result
from psofed.report.section import COLOURS, MINUS, number, pair, percent
from psofed.report.summaries import FLOORS
from psofed.report.thinning import Curve
from psofed.sample_checks.contract import in_words

LIKELY = 2.0  # standard errors within which two ends are called the same
SCHEMES = {"coordinated": "(a) Coordinated", "uncoordinated": "(b) Uncoordinated"}


def build(source: Result) -> dict[str, Any]:
    """The section of a run, except for its curves, which are `curves`."""
    table = source.table("summary.json")
    with source.reading("summary.json"):
        experiment = table["experiment"]
        found = section.curves(source, table)
        groups = _groups(experiment, found)
        return {
            "kind": "run",
            "title": _title(table),
            "answer": answer(table),
            "experiment": table["experiment"],
            "targets": section.targets(table),
            "facts": section.facts(experiment, table["runs"]),
            "curves": _styled(found, groups),
            "groups": groups,
            "levels": [
                _level(name, floor)
                for name, floor in table["floors_db"].items()
                if floor["value"] is not None
            ],
            "top": section.top(found),
            "tables": [_table(table)],
            "ends": section.ends(found, _steady(table)),
            "claims": [_claim(claim) for claim in table.get("claims", [])],
            "notes": _notes(table),
            "traffic": section.traffic(found),
            **section.origin(source, table),
        }


def _notes(table: dict[str, Any]) -> list[str]:
    """What to keep in mind about the paper's claims, and what a check made of the samples."""
    notes = caution(table["rounds"], section.targets(table)) if "claims" in table else []
    hidden = (entry for entry in table["methods"] if "privacy" in entry)
    notes += [f"{e['method']}: {e['privacy']['words']}." for e in hidden]
    known = (entry for entry in table["methods"] if "samples" in entry)
    return [*notes, *(f"{e['method']}: {in_words(e['samples'])}, in all runs." for e in known)]


def _steady(table: dict[str, Any]) -> dict[str, str]:
    return {entry["method"]: pair(entry["mse_db"]["steady"]) for entry in table["methods"]}


def _title(table: dict[str, Any]) -> str:
    count = len(table["methods"])
    if "claims" in table:
        return "The paper's figures, reproduced"
    return f"Learning curves of {count} methods" if count > 1 else "A learning curve"


def _level(name: str, floor: dict[str, Any]) -> dict[str, Any]:
    value = f"{number(floor['value'], 1)} dB"
    words = {"label": f"{FLOORS.get(name, name)}, {value}", "short": f"{name} {value}"}
    return {**words, "value": round(floor["value"], 3)}


def base(table: dict[str, Any]) -> int | None:
    """What the differences are to: Online-Fed if it is there, else the first of many."""
    methods = table["experiment"]["methods"]
    known = [j for j, m in enumerate(methods) if m["name"] == "onlinefed" and "policy" not in m]
    known.sort(key=lambda j: "features" in methods[j] or "learner" in methods[j])
    return known[0] if known else 0 if len(methods) > 1 else None


def answer(table: dict[str, Any]) -> str:
    """Which method ends lowest, by how much, and at which cost: in one sentence."""
    entries = table["methods"]
    ends = [entry for entry in entries if entry["mse_db"]["steady"]["value"] is not None]
    after = f"after {table['rounds']:,} rounds"
    if not ends:
        return f"All methods have diverged {after}."
    ranked = sorted(ends, key=lambda entry: entry["mse_db"]["steady"]["value"])
    best, steady = ranked[0], pair(ranked[0]["mse_db"]["steady"])
    which = base(table)
    if which is None:
        return f"{best['method']} is at {steady} dB {after}."
    other = entries[which]
    alike = [e["method"] for e in ranked[1:] if _same(best, e)]
    near = f" ({alike[0]}{' and others' * (len(alike) > 1)} within error of it)" if alike else ""
    words = f"{best['method']} ends lowest{near}, at {steady} dB {after}"
    if best is other:
        return f"{words}; no other method does better."
    share = best.get("traffic_share")
    cost = "" if share is None else f", with {percent(share)} of its traffic"
    return f"{words}: {_gap(best['difference_db']['steady'], other['method'])}{cost}."


def _gap(gap: dict[str, Any], other: str) -> str:
    """How far below another method, as far as the paired error can tell."""
    value, error = gap["value"], gap["stderr"]
    if value is None:
        return f"{other} has diverged"
    if error is not None and abs(value) <= LIKELY * error:
        return f"within error of {other}"
    return f"{number(abs(value))} dB below {other}"


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two ends differ by less than their errors."""
    a, b = one["mse_db"]["steady"], other["mse_db"]["steady"]
    if a["stderr"] is None or b["stderr"] is None:
        return False
    return bool(b["value"] - a["value"] <= LIKELY * hypot(a["stderr"], b["stderr"]))


def _table(table: dict[str, Any]) -> dict[str, Any]:
    entries, which = table["methods"], base(table)
    points = list(entries[0]["mse_db"])
    head = ["method", *(f"n = {int(p):,}" if p.isdigit() else p for p in points)]
    if which is not None:
        head += [f"steady {MINUS} {entries[which]['method']}", "traffic"]
    rows = []
    for entry in entries:
        cells = [number(entry["mse_db"][p]["value"]) for p in points]
        row = [entry["method"], *cells[:-1], pair(entry["mse_db"][points[-1]])]
        if which is not None:
            row.append(pair(entry["difference_db"]["steady"], "+"))
            row.append(percent(entry.get("traffic_share")))
        rows.append(row)
    note = (
        f"Test MSE in dB on {section.targets(table)}, mean of the runs ±1 standard error; steady:"
        " the mean over the last fifth of the rounds. Differences are paired: all methods saw the"
        " same data."
    )
    return {"title": "Test error", "head": head, "rows": rows, "note": note}


def _claim(claim: dict[str, Any]) -> dict[str, Any]:
    findings = [
        [section.minus(f["says"]), section.minus(f["measured"]), f["holds"]]
        for f in claim["findings"]
    ]
    title = str(claim["title"])
    return {
        "title": f"{claim['number']}. {title[:1].upper()}{title[1:]}",
        "verdict": claim["verdict"],
        "findings": findings,
    }


def _groups(experiment: dict[str, Any], found: list[Curve]) -> list[dict[str, Any]]:
    """The paper's two figures: one for each scheme, where both have several curves."""
    schemes = [str(method.get("scheme", "")) for method in experiment["methods"]]
    if len(schemes) != len(found) or min(map(schemes.count, SCHEMES)) < 2:
        return []
    return [
        {"name": name, "rows": [j for j, s in enumerate(schemes) if s not in SCHEMES or s == key]}
        for key, name in SCHEMES.items()
    ]


def _styled(found: list[Curve], groups: list[dict[str, Any]]) -> list[Curve]:
    """Curves of several groups: what stands at the same place has one colour, and dashes differ."""
    styles = list(range(len(found)))
    for g, group in enumerate(groups):
        if len(group["rows"]) <= COLOURS:
            own = [j for j in group["rows"] if g == 0 or j not in groups[0]["rows"]]
            for j in own:
                styles[j] = group["rows"].index(j) + COLOURS * g
    return [
        Curve(c.label, c.x, c.y, c.error, c.bytes, style)
        for c, style in zip(found, styles, strict=True)
    ]
