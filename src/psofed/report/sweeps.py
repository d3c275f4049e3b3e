"""A sweep for readers: its table, every curve, and the error at the end against a setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from psofed.compare.addresses import Axis, variants
from psofed.compare.sweeping import SweepResult
from psofed.errors import InputError
from psofed.extras import estimate
from psofed.federation.plugins import written
from psofed.report import files, page, runs
from psofed.report.charts import COLOURS, Chart, Curve, Heat, Sheet
from psofed.report.files import Block, Grid

WIDE = 10.0  # a ratio of the largest to the smallest value above which the axis is logarithmic


def render(result: SweepResult, command: str) -> dict[str, bytes]:
    """Every file of the result by name."""
    table = to_table(result, command)
    texts = {
        "sweep.csv": files.csv_text(result.rows()),
        "sweep.json": files.json_text(table),
        "curves.csv": files.csv_text(_curves(result)),
    }
    made = page.of_experiment(
        result.plan.base, command, table["runs"],
        f"A sweep of {', '.join(table['settings'])}: {len(table['methods'])} curves",
        table["answer"], table["targets"], threat(result), curves=_learning(result),
        parts=[along(result), grid(result)],
    )  # fmt: skip
    return page.render(made, texts, {"sweep": sheet(result)})


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
    return [grid(result), "", best, steady, *files.sentences(threat(result))]


def grid(result: SweepResult) -> Grid:
    """All points."""
    axes = {axis.place.column: axis for axis in result.plan.axes}
    rows: list[list[str]] = [["method", *axes, "steady, dB", "kB up and down"]]
    for row in result.rows():
        cells = ["-" if row[key] is None else axis.shown(row[key]) for key, axis in axes.items()]
        steady = estimate(row["steady_db"], row["stderr_db"])
        rows.append([row["method"], *cells, steady, f"{row['kilobytes']:,.4g}"])
    note = (
        f"Test MSE in dB on {judged(result)}, mean of the last fifth of the rounds ±1 standard"
        " error. All points are on the same draws."
    )
    return Grid(rows, least=(len(axes) + 2,), where="sweep.csv", title="All points", note=note)


def sentence(entries: Sequence[dict[str, Any]]) -> str:
    """Which point ends lowest, and whether that can be told from the errors."""
    best, words = runs.lowest([(entry["method"], entry["steady_db"]) for entry in entries])
    return "All points have diverged." if best is None else f"{words}."


def sheet(result: SweepResult) -> Sheet:
    """The steady MSE against a setting, on paper."""
    chart = along(result)
    return Sheet([chart], title=chart.note)


def heat(result: SweepResult) -> Sheet:
    """The steady MSE over two settings: a panel for each method that has both."""
    axes = result.plan.axes
    if len(axes) != 2:
        found = f"are {', '.join(axis.place.key for axis in axes)}"
        raise InputError("settings", found, "a heat map needs two; sweep two of them")
    (across, wide), (down, high) = ((a.place.column, a.values) for a in axes)
    maps: dict[int, Any] = {}
    titles: dict[int, list[str]] = {}
    base = [i for i, _ in variants(result.plan.base, list(axes))]
    for n, row in enumerate(result.rows()):
        if row[across] in wide and row[down] in high:
            j = base[n % len(base)]
            values = maps.setdefault(j, np.full((len(high), len(wide)), np.nan))
            values[high.index(row[down]), wide.index(row[across])] = row["steady_db"]
            titles.setdefault(j, []).append(row["method"])
    columns, rows = ([axis.shown(value) for value in axis.values] for axis in axes)
    x, y = (axis.place.symbol for axis in axes)
    panels = [Heat(common(titles[j]), x, y, columns, rows, map_) for j, map_ in maps.items()]
    return Sheet(panels, title=f"steady test MSE (dB), {judged(result)}")


def along(result: SweepResult) -> Chart:
    """The steady MSE with its standard error: a line for each method and other setting."""
    axis = chosen(result)
    numeric = _numeric(axis)
    places = {value: value if numeric else i for i, value in enumerate(axis.values)}
    wide = numeric and min(axis.values) > 0 and max(axis.values) > WIDE * min(axis.values)
    found = enumerate(lines(result, axis))
    series = [_series(rows, axis.place.column, places, i) for i, rows in found]
    runs = result.curves[0].runs
    note = f"Mean of {runs} runs; the band is one standard error." if runs > 1 else "One run."
    ticks = [(place, axis.shown(value)) for value, place in places.items()]
    return Chart(f"The end against {axis.place.symbol}", axis.place.symbol,
                 f"steady test MSE (dB), {judged(result)}", series, note=note,
                 log=wide if numeric else None, ticks=ticks if wide or not numeric else ()
                 )  # fmt: skip


def _series(rows: Sequence[dict[str, Any]], column: str, places: dict[Any, float], i: int) -> Curve:
    """Points in order; a method that the setting does not change is the same everywhere."""
    [first, *_] = rows
    if first[column] not in places:
        ends = sorted({min(places.values()), max(places.values())})
        return Curve(first["method"], ends, [first["steady_db"]] * len(ends), style=i)
    points = sorted((places[row[column]], row["steady_db"], row["stderr_db"]) for row in rows)
    x, y, error = np.array(points, float).T
    return Curve(common([row["method"] for row in rows]), x, y,
                 error if np.isfinite(error).any() else None, style=i)  # fmt: skip


def common(titles: Sequence[str]) -> str:
    """What the titles of a line's points have in common.

    >>> common(["PSO-Fed M=1 coordinated, step 1", "PSO-Fed M=5 coordinated, step 1"])
    'PSO-Fed coordinated, step 1'
    >>> common(["PSO-Fed M=1 uncoordinated, D 8", "PSO-Fed M=1 uncoordinated, D 9"])
    'PSO-Fed M=1 uncoordinated'
    """
    names, *settings = zip(*(title.split(", ") for title in titles), strict=False)
    words = zip(*(name.split() for name in names), strict=False)
    name = " ".join(column[0] for column in words if len(set(column)) == 1)
    return ", ".join([name, *(each[0] for each in settings if len(set(each)) == 1)])


def chosen(result: SweepResult) -> Axis:
    """The setting along the figure: the first with numbers."""
    numeric = [axis for axis in result.plan.axes if _numeric(axis) and len(axis.values) > 1]
    return numeric[0] if numeric else result.plan.axes[0]


def _numeric(axis: Axis) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in axis.values)


def lines(result: SweepResult, axis: Axis) -> list[list[dict[str, Any]]]:
    """The rows of the table, sorted into lines; a method without the setting has one point."""
    found: dict[Any, list[dict[str, Any]]] = {}
    base = [i for i, _ in variants(result.plan.base, list(result.plan.axes))]
    others = [each.place.column for each in result.plan.axes if each is not axis]
    for n, row in enumerate(result.rows()):
        line = (base[n % len(base)], *(row[column] for column in others))
        found.setdefault(line, []).append(row)
    return list(found.values())
