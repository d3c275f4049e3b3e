"""Many methods in one picture: over rounds, over bytes, and bytes to each target."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from psofed.compare.comparing import Comparison
from psofed.compare.target import bytes_to_target
from psofed.report import comparison as words
from psofed.report.figures import Picture, finish, style

Array = NDArray[Any]
MARKERS = "osD^vPX*<>ph"
STRONG = 6  # methods in colour; the others are grey, because nobody tells twenty lines apart
FAINT = "#b8b8b8"
NAMED = ("onlinefed", "psofed", "fedavg")  # what everything is compared with


def over_rounds(c: Comparison) -> Figure:
    """Test MSE against the round."""
    figure, axes = _axes("round n", c)
    for j, place in _lines(c):
        _line(axes, c, j, place, c.curves.rounds, c.curves.mse_db[j])
    axes.set_xlim(0, c.curves.rounds[-1])
    _cut(axes, c)
    return _finished(figure, axes, c)


def over_bytes(c: Comparison) -> Figure:
    """Test MSE against the bytes sent so far."""
    figure, axes = _axes(f"bytes, {words.TOTALS[c.total]}", c)
    for j, place in _lines(c):
        spent = words.bytes_axis(c, j)
        if spent[-1] > 0:
            seen = spent > 0
            _line(axes, c, j, place, spent[seen], c.curves.mse_db[j][seen])
    axes.set_xscale("log")
    _cut(axes, c)
    return _finished(figure, axes, c)


def frontier(c: Comparison, targets: Array) -> Figure:
    """Bytes to reach a target, against the target."""
    figure, axes = _axes("target MSE (dB)", c)
    for j, place in _lines(c):
        needed = np.array([bytes_to_target(c.curves, j, t, c.total).bytes for t in targets])
        needed[~np.isfinite(needed) | (needed <= 0)] = np.nan
        if np.isfinite(needed).any():
            _line(axes, c, j, place, targets, needed)
    axes.set_yscale("log")
    axes.set_ylabel(f"bytes, {words.TOTALS[c.total]}")
    axes.invert_xaxis()
    return _finished(figure, axes, c)


def highlighted(c: Comparison) -> list[int]:
    """Six methods that are told apart: Online-Fed, PSO-Fed and FedAvg as they are, and the best."""
    found: dict[tuple[str, bool], int] = {}
    for name in NAMED:
        mine = [j for j in c.ranking() if _kind(c, j) == (name, False)]
        found |= {_kind(c, j): j for j in mine[:1]}
    # The best of either table in turn: those that need the fewest bytes are often much alike.
    for both in zip_longest(c.order("error"), c.order("bytes")):
        for j in both:
            if j is not None and len(found) < STRONG and c.entries[j].options.role != "control":
                found.setdefault(_kind(c, j), j)
    return list(found.values())


def _kind(c: Comparison, j: int) -> tuple[str, bool]:
    return c.entries[j].options.name, c.entries[j].gifted


def _lines(c: Comparison) -> list[tuple[int, int | None]]:
    """All methods, those in grey first, so that they lie below the others."""
    strong = highlighted(c)
    grey = [(j, None) for j in reversed(c.ranking()) if j not in strong]
    return [*grey, *((j, strong.index(j)) for j in strong)]


def _axes(label: str, c: Comparison) -> tuple[Figure, Any]:
    figure = Picture(figsize=(9.6, 5.4), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    axes.set_xlabel(label)
    axes.set_ylabel(f"test MSE (dB), {c.curves.experiment.judged}")
    return figure, axes


def _line(axes: Any, c: Comparison, j: int, place: int | None, x: Array, y: Array) -> None:
    if place is None:
        known = axes.get_legend_handles_labels()[1]
        count = len(c.entries) - len(highlighted(c))
        label = f" {count} others" if count > 1 else " " + c.curves.titles[j]
        shown = label if label not in known else None
        axes.plot(x, y, color=FAINT, linewidth=0.9, label=shown)
        return
    colour, dashes = style(place)
    every = max(len(x) // 9, 1)
    axes.plot(
        x, y, color=colour, linestyle=dashes, linewidth=1.8, label=" " + c.curves.titles[j],
        marker=MARKERS[place], markersize=4.5, markevery=(place * every // STRONG, every),
        markerfacecolor="white", markeredgewidth=1.0,
    )  # fmt: skip


def _cut(axes: Any, c: Comparison) -> None:
    """Cut off errors above that of no model: one method that diverges would hide the rest."""
    finite = c.curves.mse_db[np.isfinite(c.curves.mse_db)]
    axes.set_ylim(finite.min() - 0.5, c.curves.mse_db[0, 0] + 2)


def _finished(figure: Figure, axes: Any, c: Comparison) -> Figure:
    shown = f"{100 * c.budget:g} % of Online-Fed's traffic, mean of {c.curves.runs} runs"
    finish(axes, shown)
    return figure
