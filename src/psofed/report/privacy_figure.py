"""An audit as a figure: what was read of each method, beside the counting rule. For grey, too."""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.audit.auditing import Audit
from psofed.audit.judging import MethodAudit
from psofed.report.figures import Picture

KINDS = (("x and y", "read", "0.25", ""), ("x", "inputs", "0.78", "////"))
LEAST = 1e-2  # the axis of equations over unknowns begins here


def bars(found: Audit) -> Picture:
    """Two panels: shares of samples that were read, and equations over unknowns."""
    lines = _lines(found)
    picture = Picture(figsize=(8.0, 1.5 + 0.42 * len(lines)), layout="constrained", dpi=150)
    left, right = picture.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    places = np.arange(len(lines))[::-1]
    for i, (label, name, shade, hatch) in enumerate(KINDS):
        values = [100 * getattr(each, name) for _, each in lines]
        left.barh(
            places + 0.2 - 0.4 * i, values, 0.38, color=shade, hatch=hatch, edgecolor="0.2",
            linewidth=0.6, label=label,
        )  # fmt: skip
    for place, (_, each) in zip(places, lines, strict=True):
        words = each.gauge if each.attack else "not attacked" if each.samples else "no messages"
        left.text(103, place, words, va="center", fontsize=8)
    left.set_yticks(places, [title for title, _ in lines], fontsize=8, parse_math=False)
    left.set_xlim(0, 145)
    left.set_xticks([0, 25, 50, 75, 100])
    left.set_xlabel("samples read (%)", fontsize=9)
    _rule(right, places, [each for _, each in lines])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.set_axisbelow(True)
        axes.grid(axis="x", color="0.9")
    who = f"{found.clients} client{'s' if found.clients > 1 else ''} attacked"
    title = f"What a curious server reads: {found.rounds} rounds, {who}"
    picture.suptitle(title, fontsize=10, parse_math=False)
    picture.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False,
        fontsize=8,
    )  # fmt: skip
    return picture


def _rule(axes: Any, places: Any, audits: list[MethodAudit]) -> None:
    margins = [max(each.margin, LEAST) if each.unknowns else np.nan for each in audits]
    axes.axvline(1, color="0.2", linewidth=1.0, linestyle=(0, (4, 2)))
    axes.plot(margins, places, "o", color="0.1", markerfacecolor="white", markersize=5)
    axes.set_xscale("log")
    axes.set_xlim(LEAST, max(np.nanmax([*margins, 10]) * 2, 20))
    axes.set_xlabel("equations / unknowns in a contact", fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.text(1.15, places[0] + 0.55, "enough to read all", fontsize=8, va="center")


def _lines(found: Audit) -> list[tuple[str, MethodAudit]]:
    lines = []
    for i, each in enumerate(found.methods):
        lines.append((each.title, each))
        if found.private:
            lines.append(("with [privacy]", found.private[i]))
    return lines
