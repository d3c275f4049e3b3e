"""A sweep for readers: its table, every curve, and the error at the end against a setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import hypot
from typing import Any

import numpy as np

from psofed.compare.addresses import Axis, variants
from psofed.compare.sweeping import SweepResult
from psofed.errors import InputError, nearest
from psofed.federation.plugins.known import written
from psofed.report import files, page, runs
from psofed.report.charts import COLOURS, Chart, Curve, Sheet
from psofed.report.files import Block, Grid, with_error
from psofed.report.page import Page

WIDE = 10.0  # a ratio of the largest to the smallest value above which the axis is logarithmic


def render(result: SweepResult, command: str) -> dict[str, bytes]:
    """Every file of the result by name."""
    texts = {
        "sweep.csv": files.csv_text(result.rows()),
        "sweep.json": files.json_text(to_table(result, command)),
        "curves.csv": files.csv_text(_curves(result)),
    }
    return page.render(_page(result, command), texts, {"sweep": sheet(result)})


def to_table(result: SweepResult, command: str) -> dict[str, Any]:
    """The result for scripts: what sweep.json holds."""
    base = result.plan.base
    entries = [_entry(row) for row in result.rows()]
    return files.summary(command, written(base.to_table), {
        "runs": min(curves.runs for curves in result.curves),
        "rounds": base.rounds,
        "targets": judged(result),
        "settings": {axis.place.key: list(axis.values) for axis in result.plan.axes},
        "methods": entries,
        "answer": sentence(entries),
        "threat": threat(result),
    })  # fmt: skip


def _page(result: SweepResult, command: str) -> Page:
    table, chart = to_table(result, command), _learning(result)
    ends = [row for curves in result.curves for row in runs.ends(curves)]
    return page.of_experiment(
        result.plan.base, command, table["runs"],
        f"A sweep of {', '.join(table['settings'])}: {len(ends)} curves", table["answer"],
        judged(result), threat(result), curves=chart,
        ends=[[s.label, *rest] for s, (_, *rest) in zip(chart.series, ends, strict=True)],
        parts=[along(result), grid(result)],
    )  # fmt: skip


def _learning(result: SweepResult) -> Chart:
    """Every curve of every point; the best few first, as twenty at once are not readable."""
    charts = [runs.learning(c, titles=result.titles(i)) for i, c in enumerate(result.curves)]
    series = [s for chart in charts for s in chart.series]
    tops = [chart.top for chart in charts if chart.top is not None]
    steady = [row["steady_db"] for row in result.rows()]
    ranked = np.argsort(np.nan_to_num(steady, nan=np.inf)).tolist()
    best = [(f"The best {COLOURS}", sorted(ranked[:COLOURS]))]
    return replace(
        charts[0], series=[replace(s, style=i) for i, s in enumerate(series)],
        groups=best if len(series) > COLOURS + 2 else (), top=max(tops, default=None),
        y=f"test MSE (dB), {judged(result)}",
    )  # fmt: skip


def judged(result: SweepResult) -> str:
    """The targets of the test; where they are swept, the names of the points tell them."""
    found = {curves.experiment.judged for curves in result.curves}
    return found.pop() if len(found) == 1 else "targets as named"


def threat(result: SweepResult) -> str:
    """Malicious clients and the defence; where these are swept, the names of the points tell."""
    found = {experiment.threat for _, experiment in result.plan.parts}
    return found.pop() if len(found) == 1 else ""


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if value is not None}
    steady = {"value": kept.pop("steady_db"), "stderr": kept.pop("stderr_db", None)}
    return kept | {"steady_db": steady}


def _curves(result: SweepResult) -> Iterator[dict[str, Any]]:
    """The curves of all parts: with their settings, in the columns of the first."""
    for i, curves in enumerate(result.curves):
        names = dict(zip(curves.titles, result.titles(i), strict=True))
        settings, _ = result.plan.parts[i]
        for row in curves.rows():
            yield row | {"method": names[row["method"]]} | settings


def blocks(result: SweepResult) -> list[Block]:
    """The table for a screen, and the best point in a sentence."""
    best = sentence([_entry(row) for row in result.rows()])
    steady = f"Steady: test MSE of the last fifth of the rounds, {judged(result)}."
    said = threat(result)
    return [grid(result), "", best, steady, *([f"{said[:1].upper()}{said[1:]}."] if said else [])]


def grid(result: SweepResult) -> Grid:
    """All points."""
    keys = [a.place.field if a.place.own else a.place.key for a in result.plan.axes]
    rows: list[list[str]] = [["method", *keys, "steady, dB", "kB up and down"]]
    for row in result.rows():
        cells = ["-" if row[key] is None else str(row[key]) for key in keys]
        steady = with_error(row["steady_db"], row["stderr_db"])
        rows.append([row["method"], *cells, steady, f"{row['kilobytes']:,.4g}"])
    note = (
        f"Test MSE in dB on {judged(result)}, mean of the last fifth of the rounds ±1 standard"
        " error. All points are on the same draws."
    )
    return Grid(rows, least=(len(keys) + 2,), where="sweep.csv", title="All points", note=note)


def sentence(entries: Sequence[dict[str, Any]]) -> str:
    """Which point ends lowest, and whether that can be told from the errors."""
    ends = [e for e in entries if e["steady_db"]["value"] is not None]
    ends = [e for e in ends if abs(e["steady_db"]["value"]) < float("inf")]
    if not ends:
        return "All points have diverged."
    ranked = sorted(ends, key=lambda e: e["steady_db"]["value"])
    best, low = ranked[0], ranked[0]["steady_db"]
    error = low["stderr"]
    if error is None or not abs(error) < float("inf"):
        return f"{best['method']} ends lowest, at {low['value']:.2f} dB, in a single run."
    others = [e["steady_db"] for e in ranked[1:]]
    near = sum(o["value"] - low["value"] <= 2 * hypot(error, o["stderr"]) for o in others)
    more = f"; {near} more within two standard errors of it" if near else ""
    return f"{best['method']} ends lowest, at {low['value']:.2f} ±{error:.2f} dB{more}."


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


def sheet(result: SweepResult, x: str | None = None) -> Sheet:
    """The steady MSE against a setting, on paper."""
    chart = along(result, x)
    return Sheet([chart], title=chart.note)


def along(result: SweepResult, x: str | None = None) -> Chart:
    """The steady MSE with its standard error: a line for each method and other setting."""
    axis = chosen(result, x)
    places, wide = _places(axis), _is_wide(axis)
    series = [_series(line, i, places) for i, line in enumerate(lines(result, axis))]
    runs = result.curves[0].runs
    note = f"Mean of {runs} runs; the band is one standard error." if runs > 1 else "One run."
    ticks = [(place, axis.shown(value)) for value, place in places.items()]
    return Chart(f"The end against {axis.place.key}", axis.place.key,
                 f"steady test MSE (dB), {judged(result)}", series, note=note,
                 log=wide if _numeric(axis) else None,
                 ticks=ticks if wide or not _numeric(axis) else ())  # fmt: skip


def _places(axis: Axis) -> dict[Any, float]:
    return {value: value if _numeric(axis) else i for i, value in enumerate(axis.values)}


def _is_wide(axis: Axis) -> bool:
    values = axis.values
    return _numeric(axis) and min(values) > 0 and max(values) > WIDE * min(values)


def _series(line: SweepLine, i: int, places: dict[Any, float]) -> Curve:
    """Its points in order; a method that the setting does not change is the same everywhere."""
    if line.x == [None]:
        ends = sorted({min(places.values()), max(places.values())})
        return Curve(line.titles[0], ends, line.mse_db * len(ends), style=i)
    order = sorted(range(len(line.x)), key=lambda k: places[line.x[k]])
    x, y, error = (np.array(v, float)[order] for v in
                   ([places[v] for v in line.x], line.mse_db, line.stderr_db))  # fmt: skip
    return Curve(line.label, x, y, error if np.isfinite(error).any() else None, style=i)


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
