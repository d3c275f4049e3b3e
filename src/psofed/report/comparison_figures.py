"""Many methods in one picture: over rounds, over bytes, and bytes to each target."""

from __future__ import annotations

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
WIDTH = {True: 2.0, False: 1.0}
NAMED = ("onlinefed", "psofed", "fedavg")  # drawn strongly: what everything is compared with


def over_rounds(c: Comparison) -> Figure:
    """Test MSE against the round."""
    figure, axes = _axes("round n", c)
    for i, j in enumerate(c.order()):
        _line(axes, c, i, j, c.curves.rounds, c.curves.mse_db[j])
    axes.set_xlim(0, c.curves.rounds[-1])
    _cut(axes, c)
    return _finished(figure, axes, c)


def over_bytes(c: Comparison) -> Figure:
    """Test MSE against the bytes sent so far."""
    figure, axes = _axes(f"bytes, {words.TOTALS[c.total]}", c)
    for i, j in enumerate(c.order()):
        spent = words.bytes_axis(c, j)
        if spent[-1] > 0:
            seen = spent > 0
            _line(axes, c, i, j, spent[seen], c.curves.mse_db[j][seen])
    axes.set_xscale("log")
    _cut(axes, c)
    return _finished(figure, axes, c)


def frontier(c: Comparison, targets: Array) -> Figure:
    """Bytes to reach a target, against the target."""
    figure, axes = _axes("target MSE (dB)", c)
    for i, j in enumerate(c.order()):
        needed = np.array([bytes_to_target(c.curves, j, t, c.total).bytes for t in targets])
        needed[~np.isfinite(needed) | (needed <= 0)] = np.nan
        if np.isfinite(needed).any():
            _line(axes, c, i, j, targets, needed)
    axes.set_yscale("log")
    axes.set_ylabel(f"bytes, {words.TOTALS[c.total]}")
    axes.invert_xaxis()
    return _finished(figure, axes, c)


def _axes(label: str, c: Comparison) -> tuple[Figure, Any]:
    figure = Picture(figsize=(9.6, 5.4), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    axes.set_xlabel(label)
    axes.set_ylabel("test MSE (dB)")
    return figure, axes


def _line(axes: Any, c: Comparison, i: int, j: int, x: Array, y: Array) -> None:
    colour, dashes = style(i)
    strong = c.entries[j].options.name in NAMED
    every = max(len(x) // 9, 1)
    axes.plot(
        x, y, color=colour, linestyle=dashes, linewidth=WIDTH[strong],
        label=" " + c.curves.titles[j], marker=MARKERS[i % len(MARKERS)], markersize=3.5,
        markevery=(i * every // 21, every), markerfacecolor="white", markeredgewidth=0.8,
    )  # fmt: skip


def _cut(axes: Any, c: Comparison) -> None:
    """Cut off errors above that of no model: one method that diverges would hide the rest."""
    finite = c.curves.mse_db[np.isfinite(c.curves.mse_db)]
    axes.set_ylim(finite.min() - 0.5, c.curves.mse_db[0, 0] + 2)


def _finished(figure: Figure, axes: Any, c: Comparison) -> Figure:
    shown = f"{100 * c.budget:g} % of Online-Fed's traffic, mean of {c.curves.runs} runs"
    finish(axes, shown)
    return figure
