"""What the sections of a report share: curves of a folder, facts, numbers as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from psofed.core.feature_table import SIZE
from psofed.errors import InputError
from psofed.report.results import Result
from psofed.report.thinning import Curve

NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
COLOURS = 7  # those of charts.js; a style beyond them is one of them with another dash
SENT = ("uplink_bytes", "downlink_bytes", "multicast_bytes")
CUT = 2.0  # dB above the start: what is worse than no model would hide the rest


def curves(source: Result, table: dict[str, Any]) -> list[Curve]:
    """The curves in curves.csv, in its order: those of all methods, to the last round."""
    wanted = ("round", "mse_db", "stderr_db", *SENT)
    tables = source.columns("curves.csv", wanted)
    check(source, "curves.csv", tables, table)
    return [
        Curve(
            label, table["round"], table["mse_db"], table["stderr_db"],
            tuple(np.cumsum(np.nan_to_num(table[name])) for name in SENT), style,
        )
        for style, (label, table) in enumerate(tables.items())
    ]  # fmt: skip


def check(
    source: Result, name: str, tables: dict[str, dict[str, Any]], table: dict[str, Any]
) -> None:
    """Refuse files in which curves are missing or end too soon: the file is incomplete."""
    last = int(table["experiment"]["rounds"])
    for entry in table["methods"]:
        found = tables.get(entry["method"])
        if found is None:
            fault = f"has no curve of {entry['method']!r}"
            raise InputError("", fault, "is the file complete?", source.where(name))
        if found["round"][-1] != last:
            fault = f"ends at round {found['round'][-1]:g} of {last} for {entry['method']!r}"
            raise InputError("", fault, "is the file complete?", source.where(name))


def traffic(found: Sequence[Curve]) -> list[dict[str, Any]]:
    """Mean bytes of a round for each method: up, down to each by itself, and down by multicast."""
    names = ("up", "down", "multicast")
    return [
        {"method": c.label}
        | {n: float(total[-1] / max(c.x[-1], 1)) for n, total in zip(names, c.bytes, strict=True)}
        for c in found
    ]


def top(found: Sequence[Curve]) -> float | None:
    """The dB above which curves are cut off, if any goes there."""
    start = [curve.y[0] for curve in found if np.isfinite(curve.y[0])]
    highest = [np.nanmax(np.where(np.isfinite(c.y), c.y, np.nan)) for c in found if len(start)]
    if not start or max(highest) <= max(start) + CUT:
        return None
    return round(max(start) + CUT, 1)


def ends(found: Sequence[Curve], steady: dict[str, str]) -> list[list[str]]:
    """Each method with its steady MSE, and the kilobytes that it took, up and down."""
    sent = {c.label: float(c.bytes[0][-1] + c.bytes[1][-1]) for c in found if c.bytes}
    return [
        [label, text, f"{sent[label] / 1000:,.4g}" if label in sent else NONE]
        for label, text in steady.items()
    ]


def number(value: float | None, digits: int = 2, sign: str = "") -> str:
    """A number with a real minus; what is none has diverged.

    >>> number(-1.5), number(0.5, 1, "+"), number(None)
    ('−1.50', '+0.5', 'diverged')
    """
    if value is None or not abs(value) < float("inf"):
        return "diverged"
    return format(value, f"{sign}.{digits}f").replace("-", MINUS)


def pair(estimate: dict[str, float | None], sign: str = "") -> str:
    """A value with its standard error."""
    error = estimate.get("stderr")
    text = number(estimate["value"], sign=sign)
    return text if error is None or text == "diverged" else f"{text} ±{error:.2f}"


def percent(share: float | None) -> str:
    """A share of Online-Fed's traffic."""
    return NONE if share is None else f"{100 * share:.3g} %"


def minus(text: str) -> str:
    """A text whose negative numbers have a real minus.

    >>> minus("PSO-Fed -0.5 dB, 1-2")
    'PSO-Fed −0.5 dB, 1-2'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", MINUS, text)


def facts(experiment: dict[str, Any], runs: int | None) -> str:
    """The experiment in a few numbers."""
    rounds = f"{experiment['rounds']:,} rounds"
    times = "" if runs is None else "1 run of " if runs == 1 else f"{runs:,} runs of "
    parts = [
        times + rounds,
        f"K = {experiment['clients']:,} clients, {experiment['cohort']:,} asked in a round",
        *_model(experiment),
        f"step {experiment['step']:g}",
        f"stream {experiment['stream']['name']}",
        f"seed {experiment['seed']}",
    ]
    return " · ".join(parts)


def _model(experiment: dict[str, Any]) -> list[str]:
    """D, and the learner if it is not the usual one; a learner of its own size only has a name."""
    found = []
    if "features" in experiment:
        table = experiment["features"]
        basis = table.get("basis", "none") != "none"
        entries = table.get("size") or min(SIZE, table["dim"]) if basis else table["dim"]
        found.append(f"D = {entries:,} parameters" + f" of {table['dim']:,} features" * basis)
    if "learner" in experiment:
        found.append(f"learner {experiment['learner']['name']}")
    return found


def targets(table: dict[str, Any]) -> str:
    """What the models of a result were tested on; older files do not say it in words.

    >>> targets({"experiment": {"stream": {"name": "paper"}, "targets": "noisy"}})
    'noisy targets'
    """
    experiment = table["experiment"]
    if "targets" in table:
        return str(table["targets"])
    if experiment["stream"]["name"] == "table":
        return "measured targets"
    return "noisy targets" if experiment.get("targets") == "noisy" else "noise-free targets"


def origin(source: Result, table: dict[str, Any]) -> dict[str, Any]:
    """How to make it again: the command, the versions, the experiment."""
    toml = source.text("experiment.toml")
    return {
        "command": str(table["command"]),
        "versions": [[str(k), str(v)] for k, v in table["versions"].items()],
        "toml": toml,
    }
