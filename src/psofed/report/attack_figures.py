"""Attacks as a figure: a small panel for each, readable in grey. Needs matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.compare.attacking import AttackResult, Estimated, level
from psofed.report.figures import Picture, style

COLUMNS = 4
MARKERS = "os^Dv"
ROOM = 15.0  # dB above the clean level, or that of learning alone: worse errors stand at the edge
THIN = {"linewidth": 0.9, "color": "0.45"}


def panels(result: AttackResult, j: int) -> Picture:
    """Steady test MSE of method j against the share of malicious clients, an attack each."""
    attacks = [a for a in result.plan.attacks if any(len(p[0]) > 1 for p in _lines(result, j, a))]
    rows = -(-len(attacks) // COLUMNS)
    columns = min(len(attacks), COLUMNS)
    size = 1.2 + 2.1 * columns, 1.1 + 1.75 * rows
    picture = Picture(figsize=size, layout="constrained", dpi=150)
    axes = picture.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    low, top = _range(result, j)
    for i, panel in enumerate(axes.flat):
        if i >= len(attacks):
            panel.set_visible(False)
            continue
        _panel(panel, result, j, attacks[i], top)
        if i + columns >= len(attacks):  # the lowest of its column
            panel.tick_params(labelbottom=True)
            panel.set_xlabel("malicious (%)", fontsize=8)
    axes[0, 0].set_ylim(low, top)
    picture.supylabel("steady test MSE (dB)", fontsize=9)
    runs = f"mean of {result.runs} runs, {result.plan.base.judged}, bars: 95 %"
    title = f"{result.plan.base.titles[j]}: {runs}"
    picture.suptitle(title, fontsize=10, parse_math=False)
    found = axes[0, 0].get_legend_handles_labels()
    legend = picture.legend(
        *found, loc="outside lower center", ncols=min(len(found[0]), 4), frameon=False,
        fontsize=8, handlelength=3.2,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)
    return picture


def _levels(result: AttackResult, j: int) -> dict[str, float]:
    clean = result.errors(0, j)
    assert clean is not None
    found = {"clean": level(clean).value}
    alone = result.alone()
    return found if alone is None else found | {"learning alone": alone.value}


def _range(result: AttackResult, j: int) -> tuple[float, float]:
    """The y axis, which all panels share."""
    values = [v for v in _levels(result, j).values() if np.isfinite(v)]
    base, top = (min(values), max(values) + ROOM) if values else (0.0, ROOM)
    lines = (found for a in result.plan.attacks for _, found in _lines(result, j, a))
    points = [each for found in lines for each in found if np.isfinite(each.value)]
    lowest = [np.nan_to_num(each.low, nan=each.value) for each in points]
    highest = [np.nan_to_num(each.high, nan=each.value) for each in points]
    return min([base, *lowest]) - 0.5, min(top, max([*values, *highest]) + 1)


def _lines(result: AttackResult, j: int, attack: Any) -> list[tuple[list[float], list[Estimated]]]:
    """For each defence, None first: the shares, and the errors there."""
    lines = []
    for defence in result.plan.defences:
        x, found = [], []
        for share in (0.0, *result.plan.shares):
            part = result.place(attack, share, defence)
            errors = None if part is None else result.errors(part, j)
            if errors is not None:
                x.append(100 * share)
                found.append(level(errors))
        lines.append((x, found))
    return lines


def _panel(axes: Any, result: AttackResult, j: int, attack: Any, top: float) -> None:
    dashes = {"clean": "-", "learning alone": (0, (1, 1.5))}
    for name, value in _levels(result, j).items():
        if np.isfinite(value):
            axes.axhline(value, linestyle=dashes[name], label=name, **THIN)
    for i, (x, found) in enumerate(_lines(result, j, attack)):
        defence = result.plan.defences[i]
        colour, line = style(i + 1)
        y = np.array([each.value for each in found])
        half = np.array([each.high - each.value for each in found])
        beyond = ~(y <= top)  # diverged ones too
        axes.errorbar(
            x, np.where(beyond, top, y), np.where(beyond, 0.0, np.nan_to_num(half)),
            color=colour, linestyle=line, linewidth=1.3, marker=MARKERS[i % len(MARKERS)],
            markersize=4, markerfacecolor="white", capsize=2,
            label="without defence" if defence is None else f"with {defence.describe()}",
        )  # fmt: skip
        for place in np.array(x)[beyond]:
            axes.annotate(
                "", (place, 1.1), (place, 1.0), xycoords=("data", "axes fraction"),
                arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.0},
            )  # fmt: skip
    axes.set_title(attack.describe(), fontsize=8, loc="left", y=1.08, parse_math=False)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
