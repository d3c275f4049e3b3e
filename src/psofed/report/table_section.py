"""The report's sections on tables of sensors: a fit with its scores, and advice."""

from __future__ import annotations

from collections import Counter
from typing import Any

from psofed.report import portrait_section
from psofed.report.results import Result
from psofed.report.section import NONE, number

CLIENTS = 100  # that a page lists; clients.csv has all
VERDICTS = {"gains": "helps", "loses": "harms", "same": "changes little for"}


def build_fit(source: Result) -> dict[str, Any]:
    """The section of a fit."""
    table = source.table("summary.json")
    with source.reading("summary.json"):
        return {
            "kind": "fit",
            "title": f"A shared model of “{table['plan']['columns']['target']}”",
            "answer": _answer(table),
            "facts": _facts(table),
            "parts": [
                *portrait_section.curves(table), _scores(table), *_clients(table),
                *portrait_section.parts(table),
            ],
            **_plain(source, table),
        }  # fmt: skip


def _facts(table: dict[str, Any]) -> str:
    parts = [
        f"{table['rows']:,} rows of {table['clients']:,} clients",
        f"{table['rounds']:,} rounds",
        f"learned from round {table['first_round']:,}, frozen at {table['frozen_round']:,}",
    ]
    return " · ".join(parts)


def _answer(table: dict[str, Any]) -> str:
    """The error, who does better, and who gains from sharing."""
    own, *others = table["scores"]
    words = (
        f"{own['method']} leaves {_error(own['frozen'])} of the variance on data not seen before"
    )
    known = [row for row in others if row["frozen"] is not None]
    best = min(known, key=lambda row: row["frozen"], default=own)
    if own["frozen"] is not None and best["frozen"] < own["frozen"]:
        words += f"; {best['method']} does better, with {_error(best['frozen'])}"
    counts = Counter(row["sharing"] for row in table["by_client"])
    parts = [f"{word} {counts[key]}" for key, word in VERDICTS.items() if counts[key]]
    if parts:
        words += f"; sharing {', '.join(parts)} of {len(table['by_client'])} clients"
    return f"{words}."


def _error(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.3f}" if value < 1000 else "diverged"


def _scores(table: dict[str, Any]) -> dict[str, Any]:
    head = ["method", "prequential", "frozen", "own preq.", "own frozen", "B/device/day"]
    keys = ("prequential", "frozen", "prequential_own", "frozen_own")
    rows = [
        [row["method"], *(_error(row[key]) for key in keys),
         f"{row['bytes_per_device_and_day']:,.0f}" if row["bytes_per_device_and_day"] else NONE]
        for row in table["scores"]
    ]  # fmt: skip
    note = (
        "Squared errors over the variance of the target. Prequential: each sample is predicted"
        " before its label is known; frozen: at the end, by a model that is not changed. Own: by"
        " each client's own model."
    )
    return {"title": "Scores", "head": head, "rows": rows, "note": note}


def _clients(table: dict[str, Any]) -> list[dict[str, Any]]:
    clients = table["by_client"]
    if not clients:
        return []
    head = ["client", "samples", "shared", "own", "alone", "sharing"]
    rows = [
        [str(row["client"]), f"{row['samples']:,}",
         *(_error(row[key]) for key in ("shared", "own", "alone")), row["sharing"]]
        for row in clients[:CLIENTS]
    ]  # fmt: skip
    more = len(clients) - len(rows)
    note = f"And {more:,} more in clients.csv." if more else ""
    return [{"title": "Who gains from sharing", "head": head, "rows": rows, "note": note}]


def build_advice(source: Result) -> dict[str, Any]:
    """The section of an advice."""
    table = source.table("advice.json")
    with source.reading("advice.json"):
        answer, *words = (str(word) for word in table["words"])
        made = _plain(source, table)
        return {
            "kind": "advice",
            "title": f"Advice on learning “{table['plan']['columns']['target']}” together",
            "answer": answer,
            "facts": f"{table['rounds']:,} rounds · D = {table['plan']['dim']:,} parameters",
            "charts": _costs(table),
            "tables": [*_sharing(table), _settings(table)],
            **made,
            "notes": [*words, *made["notes"]],
        }


def _costs(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Error against bytes: what fits the limits, what does not, and what is recommended."""
    best = (table["recommended"] or {}).get("method")
    kinds: dict[str, list[tuple[float, float]]] = {}
    for row in table["settings"]:
        cost, error = row["bytes_per_device_and_day"], row["error"]
        if not cost or error is None or error > 10:
            continue
        kind = best if row["method"] == best else "beyond the limits" if row["why_not"] else ""
        kinds.setdefault(str(kind or "within the limits"), []).append((cost, error))
    styles = {"within the limits": 1, "beyond the limits": 4}
    series = [
        {"label": name, "style": styles.get(name, 2), "points": True,
         "solid": name != "beyond the limits", "size": 7 if name in styles else 12,
         "x": [x for x, _ in sorted(found)], "y": [round(y, 4) for _, y in sorted(found)]}
        for name, found in sorted(kinds.items())
    ]  # fmt: skip
    silent = [row for row in table["settings"] if not row["bytes_per_device_and_day"]]
    levels = [
        {"label": f"{row['method']} {_error(row['error'])}"
         + (", recommended" if row["method"] == best else ""), "value": row["error"]}
        for row in silent
        if row["error"] is not None and row["error"] < 10
    ]  # fmt: skip
    if not series:
        return []
    return [{
        "title": "What an error costs", "xLabel": "bytes per device and day, up and down",
        "yLabel": "error / variance", "xLog": True, "bytesX": True, "series": series,
        "levels": levels, "digits": 3,
    }]  # fmt: skip


def _settings(table: dict[str, Any]) -> dict[str, Any]:
    best = (table["recommended"] or {}).get("method")
    head = ["candidate", "error", "chosen by", "B/device/day", "messages/day", "longest, B", "fits"]
    found = sorted(table["settings"], key=lambda row: row["bytes_per_device_and_day"])
    rows = [
        [row["method"], _error(row["error"]), _error(row.get("error_chosen_by")),
         f"{row['bytes_per_device_and_day']:,.0f}",
         f"{row['messages_per_device_and_day']:.1f}", f"{row['largest_message']:,}",
         row["why_not"] or ("recommended" if row["method"] == best else _fits(row))]
        for row in found
    ]  # fmt: skip
    note = (
        "Squared errors over the variance of the target, on the last rounds; a candidate is chosen"
        " by its error on earlier ones."
    )
    title = "Candidates, from cheap to expensive"
    return {"title": title, "head": head, "rows": rows, "note": note}


def _fits(row: dict[str, Any]) -> str:
    return "sends raw samples" if row.get("kind") == "raw" else "yes"


def _sharing(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Who gains from sharing, and how sure that is: from the surest loss to the surest gain."""
    found = table.get("evidence") or {}
    clients = sorted(
        found.get("by_client", ()), key=lambda row: (row["low"] is None, row["low"] or 0)
    )
    if not clients:
        return []
    head = ["client", "error falls by", "95 % interval", "sharing"]
    rows = [
        [str(row["client"]), f"{number(100 * row['gain'], 1, '+')} %",
         NONE if row["low"] is None
         else f"{number(100 * row['low'], 1, '+')} to {number(100 * row['high'], 1, '+')} %",
         row["sharing"]]
        for row in clients[:CLIENTS]
    ]  # fmt: skip
    more = len(clients) - len(rows)
    note = (
        f"{found['sharing']} instead of {found['instead_of']}, on the last rounds. Intervals are"
        " over blocks of time, for these models, each client by itself."
    )
    note += f" And {more:,} more in advice.json." if more else ""
    return [{"title": "Who gains from sharing", "head": head, "rows": rows, "note": note}]


def _plain(source: Result, table: dict[str, Any]) -> dict[str, Any]:
    """What every section has; there are no learning curves in the files of a table."""
    return {
        "experiment": table["plan"], "curves": [], "groups": [], "levels": [], "top": None,
        "ends": [], "notes": [f"{str(note)[:1].upper()}{str(note)[1:]}" for note in table["notes"]],
        "command": str(table["command"]), "toml": source.text("plan.toml"), "plan": True,
        "versions": [[str(k), str(v)] for k, v in table["versions"].items()],
    }  # fmt: skip
