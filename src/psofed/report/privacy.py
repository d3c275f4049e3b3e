"""An audit for readers: which samples an honest-but-curious server reads, method by method."""

from __future__ import annotations

from dataclasses import asdict
from math import ceil, isfinite, isnan, log10
from typing import Any

from psofed.federation.plugins import written
from psofed.privacy.attack import MethodAudit
from psofed.privacy.audit import MEANING, WITHIN, Audit
from psofed.report import files, page
from psofed.report.files import Block, Grid, joined


def render(found: Audit, command: str) -> dict[str, bytes]:
    """Every file of the result by name."""
    texts = {
        "privacy.json": files.json_text(to_table(found, command)),
        "privacy.txt": joined(blocks(found)) + "\n",
    }
    shown = page.of_experiment(
        found.experiment, command, None, "What an honest-but-curious server reads", answer(found),
        "", f"{found.rounds} rounds played", parts=[block for block in blocks(found) if block],
    )  # fmt: skip
    return page.render(shown, texts, {})


def answer(found: Audit) -> str:
    """The worst case in a sentence."""
    worst = _worst(found)
    own = " even with [privacy]" if found.private else ""
    if not worst.attack:
        return f"Nothing was read{own}: no method was attacked."
    return (
        f"{worst.title} reveals most{own}: an honest-but-curious server reads"
        f" {100 * worst.read:.1f} % of the samples, and the inputs alone of"
        f" {100 * worst.inputs:.1f} %."
    )


def _worst(found: Audit) -> MethodAudit:
    return max(found.private or found.methods, key=lambda each: (each.read, each.inputs))


def to_table(found: Audit, command: str) -> dict[str, Any]:
    """The result for scripts; of several methods, the first numbers are those of the worst."""
    worst = _worst(found)
    keys = ("read", "inputs", "error", "unknowns", "equations", "gauge")
    table: dict[str, Any] = {key: entry(worst)[key] for key in keys}
    table |= {
        "worst": worst.title,
        "methods": [entry(each) for each in found.methods],
        "with_privacy": [entry(each) for each in found.private],
        "within": WITHIN,
        "meaning": MEANING,
        "seed": found.experiment.seed,
        "wire": found.wire,
        "rounds": found.rounds,
        "clients_attacked": found.clients,
    }
    return files.summary(command, written(found.experiment.to_table), table)


def entry(each: MethodAudit) -> dict[str, Any]:
    """One method as plain values."""
    return asdict(each) | {"gauge": each.gauge, "margin": each.margin}


def blocks(found: Audit) -> list[Block]:
    """For people: a table, the columns that were read, and what the words mean."""
    rows = [["method", "read", "x read", "determined", "error", "guess", "equations", "unknowns",
             "of samples", "up, B", "gauge"]]  # fmt: skip
    for title, each in _lines(found):
        rows.append([title, *_cells(each)])
    out: list[Block] = [Grid(rows, (0, 10), (5, 4, 9, 8), "privacy.json", "What is read")]
    out += [f"{each.title}: {each.note}." for _, each in _lines(found) if each.note]
    out += [f"{title}: {each.count.in_words()}." for title, each in _lines(found)
            if each.count and each.count.members > 1]  # fmt: skip
    for title, each in _lines(found):
        if each.columns and each.inputs:
            out += ["", _columns(title, each)]
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
        return ["-"] * 7 + [str(each.samples or "-"), f"{each.bytes_up:.0f}", gauge]
    # Smaller ones are rounding, which differs from one processor to the next.
    error = f"< {10.0 ** ceil(log10(max(each.error, 1e-4))):.0e}" if isfinite(each.error) else "-"
    shares = (f"{100 * share:.1f} %" for share in (each.read, each.inputs))
    counts = f"{each.equations:.1f}", f"{each.unknowns:.1f}"
    chance, samples = f"{100 * each.chance:.1f} %", f"{each.samples}"
    sure = "-" if isnan(each.determined) else f"{100 * each.determined:.1f} %"
    return [*shares, sure, error, chance, *counts, samples, f"{each.bytes_up:.0f}", each.gauge]


def _columns(title: str, each: MethodAudit) -> Grid:
    rows = [[f"{title}: column", "off by", "spread", "read", "true"]]
    for column in each.columns:
        off = f"{column.error:.2g}" if isfinite(column.error) else "-"
        shown = (", ".join(f"{v:.4g}" for v in values) for values in (column.read, column.true))
        rows.append([column.name, off, f"{column.spread:.3g}", *shown])
    return Grid(rows, least=(2,), where="privacy.json", title=f"Columns: {title}")


def legend(found: Audit) -> str:
    """What the columns are."""
    who = f"{found.clients} clients" if found.clients > 1 else "1 client"
    return (
        f"read: share of the samples of {who} whose inputs and y an honest-but-curious server"
        f" computes to {WITHIN:g} standard deviations (x read: the inputs alone; error: their"
        " median error; guess: the share if it guesses the mean). determined: the share whose"
        " inputs follow from the equations of the first rounds jointly, found or not. up: bytes in"
        " a round, of all."
    )
