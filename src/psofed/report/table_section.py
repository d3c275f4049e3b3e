"""The report's sections on tables of sensors: a fit with its scores, and advice."""

from __future__ import annotations

from collections import Counter
from typing import Any

from psofed.report.section import NONE
from psofed.report.sources import Source

CLIENTS = 100  # that a page lists; clients.csv has all
VERDICTS = {"gains": "helps", "loses": "harms", "same": "changes little for"}


def build_fit(source: Source) -> dict[str, Any]:
    """All that the page says about a fit."""
    table = source.table("summary.json")
    with source.reading("summary.json"):
        return {
            "kind": "fit",
            "title": f"A shared model of “{table['plan']['columns']['target']}”",
            "answer": _answer(table),
            "facts": _facts(table),
            "tables": [_scores(table), *_clients(table)],
            **_plain(source, table),
        }


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
        " before its label is known; frozen: at the end, by a model that learns no more. Own: by"
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


def build_advice(source: Source) -> dict[str, Any]:
    """All that the page says about an advice."""
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
            "tables": [_settings(table)],
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
        {"label": f"{row['method']} {_error(row['error'])}", "value": row["error"]}
        for row in silent
        if row["error"] is not None and row["error"] < 10
    ]
    if not series:
        return []
    return [{
        "title": "What an error costs", "xLabel": "bytes per device and day, up and down",
        "yLabel": "error / variance", "xLog": True, "bytesX": True, "series": series,
        "levels": levels, "digits": 3,
    }]  # fmt: skip


def _settings(table: dict[str, Any]) -> dict[str, Any]:
    best = (table["recommended"] or {}).get("method")
    head = ["setting", "error", "B/device/day", "messages/day", "longest, B", "fits"]
    found = sorted(table["settings"], key=lambda row: row["bytes_per_device_and_day"])
    rows = [
        [row["method"], _error(row["error"]), f"{row['bytes_per_device_and_day']:,.0f}",
         f"{row['messages_per_device_and_day']:.1f}", f"{row['largest_message']:,}",
         row["why_not"] or ("recommended" if row["method"] == best else "yes")]
        for row in found
    ]  # fmt: skip
    return {"title": "Settings, from cheap to dear", "head": head, "rows": rows, "note": ""}


def _plain(source: Source, table: dict[str, Any]) -> dict[str, Any]:
    """What every section has; there are no learning curves in the files of a table."""
    return {
        "experiment": table["plan"], "curves": [], "groups": [], "levels": [], "top": None,
        "ends": [], "notes": [f"{str(note)[:1].upper()}{str(note)[1:]}" for note in table["notes"]],
        "command": str(table["command"]), "toml": source.text("plan.toml"), "plan": True,
        "versions": [[str(k), str(v)] for k, v in table["versions"].items()],
    }  # fmt: skip
