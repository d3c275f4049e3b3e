"""What a caller of an exported model gives: held values, lags and calendar, by loops over rows.

Written without the product's encoder, so that both can be compared.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

NAN = float("nan")


@dataclass(frozen=True)
class Asked:
    """Of each row of a table: who, when, and the inputs by name; NaN and "" where missing."""

    keys: list[tuple[str, float]] = field(default_factory=list)
    numbers: list[dict[str, float]] = field(default_factory=list)
    texts: list[dict[str, str]] = field(default_factory=list)


def asked(path: Path, rules: dict[str, str], lags: dict[str, list[int]]) -> Asked:
    """The rows of a table of the example's columns, hourly; `rules` has one for each number."""
    found, history, held = Asked(), {}, {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            who = row["station"]
            time = datetime.fromisoformat(row["time"]).replace(tzinfo=UTC).timestamp()
            now = {name: float(row[name]) if row[name] else NAN for name in (*rules, "pollutant")}
            for name in (*rules, "wind_from"):
                text = row["wind_from"] if name == "wind_from" else ""
                value = text or now.get(name, NAN)
                if value != value and rules.get(name, "hold") == "hold":
                    value = held.get((who, name), "" if name == "wind_from" else NAN)
                held[who, name] = value
                if name in rules:
                    now[name] = value
            past = history.setdefault(who, [])
            past.append((time, dict(now)))
            values = {name: now[name] for name in rules}
            for name, ticks in lags.items():
                for lag in ticks:
                    values[f"{name}[-{lag}]"] = _before(past, time - 3600 * lag, name)
            angle = 2 * math.pi * (time % 86400) / 86400
            values |= {"sin hour": math.sin(angle), "cos hour": math.cos(angle)}
            found.keys.append((who, time))
            found.numbers.append(values)
            found.texts.append({"wind_from": held[who, "wind_from"]})
    return found


def _before(past: list[tuple[float, dict[str, float]]], time: float, name: str) -> float:
    """The value in the last row at or before a time; of the label, the last that is known."""
    rows = [values[name] for when, values in past if when <= time]
    if name == "pollutant":
        rows = [value for value in rows if value == value]
    return rows[-1] if rows else NAN
