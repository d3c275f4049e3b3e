"""A sweep as a figure: where methods end, against a setting. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from psofed.compare.addresses import Axis, variants
from psofed.compare.sweeping import SweepResult
from psofed.errors import InputError, nearest
from psofed.report.figures import Picture, finish, style
from psofed.report.sweep_files import judged

MARKERS = "osD^vPX*<>ph"
BROAD = 45  # letters of a label that leaves no room for another beside it
WIDE = 10.0  # a ratio of the largest to the smallest value above which the axis is logarithmic


@dataclass
class SweepLine:
    """A method, or a method at the values of the other settings: a point for each x."""

    titles: list[str] = field(default_factory=list)
    x: list[Any] = field(default_factory=list)
    mse_db: list[float] = field(default_factory=list)
    stderr_db: list[float] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What the titles of its points have in common.

        >>> SweepLine(["PSO-Fed M=1 coordinated, step 1", "PSO-Fed M=5 coordinated, step 1"]).label
        'PSO-Fed coordinated, step 1'
        >>> SweepLine(["PSO-Fed M=1 uncoordinated, D 8", "PSO-Fed M=1 uncoordinated, D 9"]).label
        'PSO-Fed M=1 uncoordinated'
        """
        words = [title.split(" ") for title in self.titles]
        if len({len(each) for each in words}) > 1:
            return self.titles[0]
        same: list[str] = []
        for column in zip(*words, strict=True):
            if len(set(column)) == 1:
                same.append(column[0])
                continue
            if any(word.endswith(",") for word in same):  # the name of the value goes with it
                while not same[-1].endswith(","):
                    same.pop()
        return " ".join(same).rstrip(",")


def figure(result: SweepResult, x: str | None = None) -> Picture:
    """The steady MSE with its standard error: a line for each method and other setting."""
    axis = chosen(result, x)
    picture = Picture(figsize=(7.2, 4.6), layout="constrained", dpi=150)
    axes = picture.add_subplot()
    numbers = _numeric(axis)
    places = {value: value if numbers else i for i, value in enumerate(axis.values)}
    for i, line in enumerate(lines(result, axis)):
        _draw(axes, line, i, places)
    axes.set_xlabel(axis.place.key)
    axes.set_ylabel(f"steady test MSE (dB), {judged(result)}")
    if not numbers:
        axes.set_xticks(list(places.values()), [axis.shown(value) for value in places])
    elif min(axis.values) > 0 and max(axis.values) > WIDE * min(axis.values):
        axes.set_xscale("log")
        axes.set_xticks(list(axis.values), [f"{value:g}" for value in axis.values])
        axes.minorticks_off()
    runs = result.curves[0].runs
    found = axes.get_legend_handles_labels()[1]
    columns = 2 if max(map(len, found)) < BROAD else 1
    picture.set_size_inches(7.2, 4.3 + 0.2 * -(-len(found) // columns))
    title = f"mean of {runs} runs, bars: 1 standard error" if runs > 1 else "1 run"
    finish(axes, title, below=columns)
    return picture


def chosen(result: SweepResult, x: str | None) -> Axis:
    """The setting along the figure."""
    known = {axis.place.key: axis for axis in result.plan.axes}
    short = {axis.place.field: axis for axis in result.plan.axes}
    if x is not None:
        if x not in known and x not in short:
            raise InputError("x", f"is {x!r}, which was not swept", nearest(x, list(known)))
        return known[x] if x in known else short[x]
    numeric = [axis for axis in result.plan.axes if _numeric(axis) and len(axis.values) > 1]
    return numeric[0] if numeric else result.plan.axes[0]


def _numeric(axis: Axis) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in axis.values)


def lines(result: SweepResult, axis: Axis) -> list[SweepLine]:
    """The points of the table, sorted into lines; a method without the setting has one point."""
    found: dict[Any, SweepLine] = {}
    base = [i for i, _ in variants(result.plan.base, list(result.plan.axes))]
    for i, curves in enumerate(result.curves):
        settings, _ = result.plan.parts[i]
        others = tuple(v for key, v in settings.items() if key != axis.place.key)
        titles = result.titles(i)
        for j, options in enumerate(curves.options()):
            own = [a.place for a in result.plan.axes if a.place.own and a is not axis]
            identity = (base[j], others, *(options.get(place.field) for place in own))
            line = found.setdefault(identity, SweepLine())
            steady = curves.point(j, "steady")
            line.titles.append(titles[j])
            line.x.append(_at(axis, settings, options))
            line.mse_db.append(steady.value)
            line.stderr_db.append(steady.stderr)
    return list(found.values())


def _at(axis: Axis, settings: dict[str, Any], options: dict[str, Any]) -> Any:
    """Where a point stands; None for a method that the setting does not change."""
    if not axis.place.own:
        return settings[axis.place.key]
    value = options.get(axis.place.field)
    return value if value in axis.values else None


def _draw(axes: Any, line: SweepLine, i: int, places: dict[Any, Any]) -> None:
    colour, dashes = style(i)
    if line.x == [None]:  # the same everywhere
        axes.axhline(line.mse_db[0], color=colour, linestyle=dashes, linewidth=1.2,
                     label=" " + line.titles[0])  # fmt: skip
        return
    order: Sequence[int] = sorted(range(len(line.x)), key=lambda k: places[line.x[k]])
    x = [places[line.x[k]] for k in order]
    y = np.array([line.mse_db[k] for k in order])
    error = np.nan_to_num(np.array([line.stderr_db[k] for k in order]))
    y[~np.isfinite(y)] = np.nan  # diverged
    axes.errorbar(
        x, y, error, color=colour, linestyle=dashes, linewidth=1.4, label=" " + line.label,
        marker=MARKERS[i % len(MARKERS)], markersize=5, markerfacecolor="white", capsize=2,
    )  # fmt: skip
