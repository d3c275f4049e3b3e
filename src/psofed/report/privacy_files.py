"""The files of an audit: its table, a figure, and how it was made."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import ceil, isfinite, log10
from typing import Any

from psofed.audit.auditing import MEANING, Audit
from psofed.audit.judging import WITHIN, MethodAudit
from psofed.provenance import versions, written
from psofed.report import files
from psofed.report.grid import Block, Grid


def render(found: Audit, command: str) -> dict[str, bytes]:
    """Every file of the result by name."""
    made = written(found.experiment.to_table)
    out = made.sources | {
        "experiment.toml": made.toml.encode(),
        "privacy.json": (json.dumps(to_table(found, command), indent=2) + "\n").encode(),
        "privacy.txt": ("\n".join(map(str, blocks(found))) + "\n").encode(),
    }
    if not files.can_draw():
        return out
    from psofed.report.figures import both
    from psofed.report.privacy_figure import bars

    return out | both(bars(found), "privacy")


def to_table(found: Audit, command: str) -> dict[str, Any]:
    """The result for scripts; of several methods, the first numbers are those of the worst."""
    made = written(found.experiment.to_table)
    worst = max(found.private or found.methods, key=lambda each: (each.read, each.inputs))
    keys = ("read", "inputs", "error", "unknowns", "equations", "gauge")
    table: dict[str, Any] = {key: entry(worst)[key] for key in keys}
    table |= {
        "worst": worst.title,
        "methods": [entry(each) for each in found.methods],
        "with_privacy": [entry(each) for each in found.private],
        "price": None if found.price is None else asdict(found.price),
        "within": WITHIN,
        "meaning": MEANING,
        "command": command,
        "versions": versions(),
        "seed": found.experiment.seed,
        "wire": found.wire,
        "rounds": found.rounds,
        "clients_attacked": found.clients,
        "experiment": made.table,
    }
    if made.plugins:
        table["plugins"] = made.plugins
    plain: dict[str, Any] = files.plain(table)
    return plain


def entry(each: MethodAudit) -> dict[str, Any]:
    """One method as plain values."""
    return asdict(each) | {"gauge": each.gauge, "margin": each.margin}


def blocks(found: Audit) -> list[Block]:
    """For people: a table, the columns that were read, and what the words mean."""
    rows = [["method", "read", "x read", "error", "guess", "equations", "unknowns", "of samples",
             "up, B", "gauge"]]  # fmt: skip
    for title, each in _lines(found):
        rows.append([title, *_cells(each)])
    out: list[Block] = [Grid(rows, (0, 9), (4, 3, 8, 7), "privacy.json")]
    out += [f"{each.title}: {each.note}." for _, each in _lines(found) if each.note]
    for title, each in _lines(found):
        if each.columns and each.inputs:
            out += ["", _columns(title, each)]
    out += _price(found)
    return [*out, "", legend(found), MEANING]


def _lines(found: Audit) -> list[tuple[str, MethodAudit]]:
    if not found.private:
        return [(each.title, each) for each in found.methods]
    pairs = zip(found.methods, found.private, strict=True)
    both = ((("", a), ("with [privacy] ", b)) for a, b in pairs)
    return [(f"{words}{each.title}", each) for pair in both for words, each in pair]


def _cells(each: MethodAudit) -> list[str]:
    if not each.attack:
        gauge = "not attacked" if each.samples else "no messages"
        return ["-"] * 6 + [str(each.samples or "-"), f"{each.bytes_up:.0f}", gauge]
    error = f"< {10.0 ** ceil(log10(max(each.error, 1e-15))):.0e}" if isfinite(each.error) else "-"
    shares = (f"{100 * share:.1f} %" for share in (each.read, each.inputs))
    counts = f"{each.equations:.1f}", f"{each.unknowns:.1f}"
    chance, samples = f"{100 * each.chance:.1f} %", f"{each.samples}"
    return [*shares, error, chance, *counts, samples, f"{each.bytes_up:.0f}", each.gauge]


def _price(found: Audit) -> list[Block]:
    """What [privacy] costs: decibels and bytes."""
    if found.price is None:
        return []
    price, lines = found.price, []
    pairs = zip(found.methods, found.private, price.without, price.private, strict=True)
    for plain, private, before, after in pairs:
        bytes_more = private.bytes_up - plain.bytes_up
        lines.append(
            f"{plain.title}: [privacy] costs {after - before:+.2f} dB ({after:.2f} instead of"
            f" {before:.2f} after {price.rounds:,} rounds, {price.runs} runs) and"
            f" {bytes_more:+.0f} B up in a round."
        )
    return ["", *lines]


def _columns(title: str, each: MethodAudit) -> Grid:
    rows = [[f"{title}: column", "off by", "spread", "read", "true"]]
    for column in each.columns:
        off = f"{column.error:.2g}" if isfinite(column.error) else "-"
        shown = (", ".join(f"{v:.4g}" for v in values) for values in (column.read, column.true))
        rows.append([column.name, off, f"{column.spread:.3g}", *shown])
    return Grid(rows, least=(2,), where="privacy.json")


def legend(found: Audit) -> str:
    """What the columns are."""
    who = f"{found.clients} clients" if found.clients > 1 else "1 client"
    return (
        f"read: share of the samples of {who} whose inputs and y a curious server computes to"
        f" {WITHIN:g} standard deviations (x read: the inputs alone; error: their median error;"
        " guess: the share if it guesses the mean). By the counting rule all can be read where a"
        " contact brings at least as many equations as unknowns. up: bytes in a round, of all."
    )
