"""How a frozen model errs, where and when, on one sheet; from the numbers in summary.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 16  # clients and columns that a panel has room for
# Shape and lightness tell seasons apart without colour.
SEASONS = {"Dec-Feb": ("#0072B2", "o"), "Mar-May": ("#009E73", "s"), "Jun-Aug": ("#D55E00", "^"),
           "Sep-Nov": ("#E69F00", "D")}  # fmt: skip
WRAP = 24  # letters of a name


def portrait_figure(table: dict[str, Any]) -> Figure:
    """Up to six panels, those for which there are numbers."""
    from matplotlib.figure import Figure

    portrait = table["portrait"]
    drawers = [_pairs, _importance]
    drawers += [_seasons, _hours] if portrait.get("seasons") else []
    drawers += [_unused] if portrait["unused"]["counts"] else []
    drawers += [_coverage] if _level(table) else []
    rows = -(-len(drawers) // 2)
    figure = Figure(figsize=(10.5, 4.3 * rows), layout="constrained", dpi=130)
    panels = figure.subplots(rows, 2, squeeze=False).ravel()
    for axes, draw in zip(panels, drawers, strict=False):
        draw(axes, table, portrait)
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(drawers) :]:
        axes.set_visible(False)
    figure.suptitle(f"{portrait['method']}, frozen", fontsize=11, parse_math=False)
    return figure


def _title(axes: Any, text: str) -> None:
    axes.set_title(text, fontsize=10, loc="left", parse_math=False)


def _pairs(axes: Any, table: dict[str, Any], portrait: dict[str, Any]) -> None:
    actual, predicted = (np.array(v, dtype=float) for v in portrait["pairs"])
    target = table["plan"]["columns"]["target"]
    axes.plot(actual, predicted, "o", markersize=3, markerfacecolor="none", alpha=0.55,
              markeredgecolor="#0072B2", markeredgewidth=0.7)  # fmt: skip
    if np.isfinite(actual).any():
        ends = np.nanmin(actual), np.nanmax(actual)
        axes.plot(ends, ends, color="black", linewidth=1.2)
    axes.set_xlabel(f"actual {target}", parse_math=False)
    axes.set_ylabel(f"predicted {target}", parse_math=False)
    _title(axes, f"Predicted against actual: {len(actual):,} samples; the line: exact")


def _importance(axes: Any, table: dict[str, Any], portrait: dict[str, Any]) -> None:
    found = portrait["importance"]
    rows = [r for r in found.get("columns", ()) if r["rise"] is not None][:MOST]
    places = range(len(rows))
    axes.barh(places, [r["rise"] for r in rows], height=0.6, color="#0072B2")
    axes.set_yticks(places, [_cut(r["column"]) for r in rows], fontsize=8, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("rise of the error / variance")
    _title(axes, "Importance: one column shuffled in time within clients")


def _seasons(axes: Any, table: dict[str, Any], portrait: dict[str, Any]) -> None:
    found = portrait["seasons"]
    rows = sorted(found["by_client"], key=lambda row: -(row["all"] or 0.0))[:MOST]
    for s, name in enumerate(found["names"]):
        colour, marker = SEASONS.get(name, ("#000000", "x"))
        values = [np.nan if row["seasons"][s] is None else row["seasons"][s] for row in rows]
        axes.plot(values, range(len(rows)), marker, color=colour, markersize=5, label=f" {name}",
                  markerfacecolor="none" if s % 2 else colour)  # fmt: skip
    axes.set_yticks(
        range(len(rows)), [_cut(r["client"]) for r in rows], fontsize=8, parse_math=False
    )
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("frozen error / variance of all")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.14),
                columnspacing=1.0, handletextpad=0.1)  # fmt: skip
    _title(axes, "Error by client and season" + _first(found["by_client"], rows))


def _hours(axes: Any, table: dict[str, Any], portrait: dict[str, Any]) -> None:
    errors = np.array(portrait["hours"]["error"], dtype=float)
    worst = np.argsort(-np.nan_to_num(errors, nan=-1.0))[:3]
    colours = ["#D55E00" if h in worst else "#9CC3DD" for h in range(24)]
    bars = axes.bar(range(24), np.nan_to_num(errors), color=colours, edgecolor="0.3", linewidth=0.5)
    for h in worst:
        bars[h].set_hatch("//")
    axes.set_xticks(range(0, 24, 3))
    axes.set_xlabel("hour of the day, UTC; hatched: the worst three")
    axes.set_ylabel("frozen error / variance")
    _title(axes, "Error by hour of the day")


def _unused(axes: Any, table: dict[str, Any], portrait: dict[str, Any]) -> None:
    from psofed.report.figures import style

    found = portrait["unused"]
    for j, (reason, counts) in enumerate(found["counts"].items()):
        colour, dashes = style(j)
        axes.plot(found["rounds"], counts, color=colour, linestyle=dashes, label=f" {reason}")
    axes.axvline(table["frozen_round"], color="0.6", linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"round n, from {found['edges'][0]}; the line: frozen")
    axes.set_ylabel(f"rows, in each of {len(found['rounds'])} parts")
    axes.legend(frameon=False, fontsize=8)
    _title(axes, "Rows that were not used")


def _level(table: dict[str, Any]) -> dict[str, Any] | None:
    """The intervals of 90 % of the shared model, if the fit has any."""
    found = (table.get("intervals") or {}).get("shared", ())
    return next((entry for entry in found if entry["level"] == 0.9), None)


def _coverage(axes: Any, table: dict[str, Any], portrait: dict[str, Any]) -> None:
    entry = _level(table)
    assert entry is not None
    inside = np.array(entry["over_time"]["coverage"], dtype=float)
    axes.plot(entry["over_time"]["round"], inside, color="#0072B2")
    axes.axhline(0.9, color="black", linestyle=":", linewidth=1.2)
    axes.axvline(table["frozen_round"], color="0.6", linewidth=0.8)
    axes.set_ylim(min(0.7, np.nanmin(inside, initial=0.9)), 1.0)
    axes.set_xlabel("round n; the line: frozen")
    axes.set_ylabel("labels inside")
    _title(axes, "Labels inside their interval of 90 %")


def _first(every: list[Any], shown: list[Any]) -> str:
    return "" if len(every) == len(shown) else f": the worst {len(shown)} of {len(every)}"


def _cut(name: Any) -> str:
    text = str(name)
    return text if len(text) <= WRAP else f"{text[: WRAP - 1]}\N{HORIZONTAL ELLIPSIS}"
