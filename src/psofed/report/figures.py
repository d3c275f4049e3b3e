"""Curves and charts as figures, readable in grey and by colour-blind people. Needs matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser

from psofed.errors import InputError
from psofed.report.charts import FLOORS, Chart, Curve, Dots, Heat, Sheet

if TYPE_CHECKING:
    from psofed.curves import Curves

# Okabe and Ito's colours, ordered by lightness, each with a line style of its own.
STYLES = [
    ("#000000", "-"),
    ("#0072B2", (0, (6, 1.5))),
    ("#D55E00", (0, (4, 1.2, 1, 1.2))),
    ("#009E73", (0, (1.2, 1))),
    ("#CC79A7", (0, (8, 2))),
    ("#56B4E9", (0, (4, 1, 1, 1, 1, 1))),
    ("#E69F00", (0, (2, 2))),
]
MARKERS = "osD^vPX*<>ph"
FAINT = "#b8b8b8"  # curves of no group: nobody tells twenty lines apart
THIN = {"color": "0.45", "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
SMALL: dict[str, Any] = {"textcoords": "offset points", "va": "top", "fontsize": 8, "color": "0.35",
                         "parse_math": False}  # fmt: skip
LEAST = (5.6, 3.6)  # inches
BROAD = 45  # letters of a name that leaves no room for another next to it
SHOWN = 760  # pixels of a picture in a notebook
ROOM = 0.15  # of the height, so that the name of the lowest level is inside axes of any style
INSIDE = 10  # curves whose names fit into the axes; with more curves the legend is outside


def style(i: int) -> tuple[str, Any]:
    """Colour and dashes of the i-th curve: of 49, no two have both in common, as in a report."""
    turn, colour = divmod(i, len(STYLES))
    return STYLES[colour][0], STYLES[(colour + 3 * turn) % len(STYLES)][1]


class Picture(Figure):
    """A figure that a notebook shows by itself, once."""

    def _repr_png_(self) -> bytes:
        """For notebooks, as wide as a page there; no `%matplotlib inline` is needed."""
        return to_bytes(self, "png", min(self.dpi, SHOWN / self.get_size_inches()[0]))


def learning_curves(curves: Curves, which: Sequence[int] | None = None, title: str = "") -> Figure:
    """Test MSE in dB against the round, with a band of one standard error, and the floors."""
    figure = Picture(figsize=(7.2, 4.6), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    _draw_curves(axes, curves, range(len(curves.titles)) if which is None else which)
    what = "1 run" if curves.runs == 1 else f"mean of {curves.runs} runs, band: 1 standard error"
    _finish(axes, f"{title} ({what})" if title else what)
    return figure


def drawn_in(axes: Any, curves: Curves) -> Any:
    """The curves in axes of the user's, as matplotlib is set, with the legend below them."""
    if not isinstance(axes, Axes):
        found = f"is of type {type(axes).__name__}"
        raise InputError("ax", found, "give one axes of matplotlib, such as axes[0, 1] of many")
    small = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    axes.set_ymargin(ROOM)
    _draw_curves(axes, curves, range(len(curves.titles)), rcParams["lines.linewidth"], small)
    broad = small * (6 + 0.5 * max(map(len, curves.titles)))  # points that a name needs
    columns = int(axes.bbox.width * 72 / axes.figure.dpi / broad)
    _legend_below(axes, frameon=False, handlelength=3.2, ncols=max(columns, 1))
    return axes


def with_formulas(axes: Any) -> None:
    """The labels of its legend, or of its figure's, as formulas where they have any."""
    legend = axes.get_legend() or axes.get_figure().legends[0]
    for text in legend.get_texts():
        try:
            MathTextParser("path").parse(text.get_text())
        except ValueError as error:
            found = f"is {text.get_text().strip()!r}: {str(error).splitlines()[-1]}"
            raise InputError("label", found, "correct its formula") from None
        text.set_parse_math(True)


def _draw_curves(
    axes: Any, curves: Curves, which: Sequence[int], line: float = 1.6, small: float = 8
) -> None:
    """The curves, their bands, the floors and the names of the axes."""
    for i, j in enumerate(which):
        colour, dashes = style(i)
        mean, error = curves.mse_db[j], np.nan_to_num(curves.stderr_db[j])
        _draw_band(axes, curves.rounds, mean, error, colour)
        axes.plot(
            curves.rounds, mean, color=colour, linestyle=dashes, label=" " + curves.titles[j],
            linewidth=line,
        )  # fmt: skip
    for name, floor in curves.floors.items():
        words = f"{FLOORS[name]} {floor.value:.1f} dB"
        _draw_level(axes, words, floor.value, (0.99, "right"), small)
    axes.set_xlabel("round n")
    axes.set_ylabel(f"test MSE (dB), {curves.experiment.judged}")
    axes.set_xlim(curves.rounds[0], curves.rounds[-1])


def _draw_band(axes: Any, x: Any, y: Any, error: Any, colour: str) -> None:
    axes.fill_between(x, y - error, y + error, color=colour, alpha=0.25, linewidth=0)


def _finish(axes: Any, title: str) -> None:
    """A faint grid, a title on the left, and a legend where there is room."""
    _frame(axes)
    axes.set_title(title, fontsize=10, loc="left", y=1)  # with no y it is searched each time
    curves = len(axes.get_legend_handles_labels()[0])
    if not curves:
        return
    if curves <= INSIDE:
        legend = axes.legend(frameon=False, fontsize=9, handlelength=3.2)
    else:
        figure = axes.get_figure()
        figure.set_size_inches(10, max(5, 0.2 * curves))
        legend = figure.legend(
            loc="outside right upper", frameon=False, fontsize=8, handlelength=3.4
        )
    _plain(legend)


def _draw_level(
    axes: Any, name: str, value: float, place: tuple[float, str], small: float = 8
) -> None:
    axes.axhline(value, **THIN)
    at, side = place
    look = SMALL | {"fontsize": small, "ha": side}
    axes.annotate(name, (at, value), (0, -3), ("axes fraction", "data"), **look)


def drawn(sheet: Sheet, path: str | PathLike[str] | None) -> Picture:
    """The figure of a sheet, saved if a path is given."""
    picture = draw(sheet)
    if path is not None:
        save(picture, path)
    return picture


def draw(sheet: Sheet) -> Picture:
    """The panels of a sheet; if all have the same legend, it stands below them."""
    panels = sheet.panels
    rows, columns = -(-len(panels) // sheet.columns), min(len(panels), sheet.columns)
    wide, high = sheet.size or (7.2, 4.6 + 0.09 * max(_length(panel) for panel in panels))
    size = max(wide * columns, LEAST[0]), max(high * rows, LEAST[1])
    picture = Picture(figsize=size, layout="constrained", dpi=150)
    places = picture.subplots(rows, columns, squeeze=False, sharey=sheet.alike).ravel()
    for axes, panel in zip(places, panels, strict=False):
        _draw_panel(axes, panel)
        axes.tick_params(labelsize=8)
        axes.set_title(panel.title, fontsize=9, loc="left", parse_math=False)
    for axes, panel in zip(places, panels, strict=False):
        if isinstance(panel, Chart):  # when all have been drawn, as they may share an axis
            low, high = axes.get_ylim()
            low = low if panel.bottom is None else panel.bottom
            axes.set_ylim(low, high if panel.top is None else min(high, panel.top))
        if sheet.alike and not axes.get_subplotspec().is_first_col():
            axes.set_ylabel("")
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    if sheet.title:
        picture.suptitle(sheet.title, fontsize=10, parse_math=False)
    some = places[: len(panels)]
    labels = [axes.get_legend_handles_labels()[1] for axes in some]
    if all(each == labels[0] for each in labels):
        handles = some[0].get_legend_handles_labels()
        _plain(picture.legend(*handles, loc="outside lower center", **_look(labels[0])))
        return picture
    for axes, each in zip(some, labels, strict=True):
        if len(each) > 1:
            _legend_below(axes, **_look(each))
    return picture


def _legend_below(axes: Any, **look: Any) -> None:
    _plain(axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=4.5, **look))


def _look(labels: Sequence[str]) -> dict[str, Any]:
    """A legend in two columns, or in one if names are long."""
    short = max(map(len, labels), default=0) < BROAD
    return {"frameon": False, "fontsize": 8, "handlelength": 3.2, "ncols": 2 if short else 1}


def _length(panel: Chart | Dots | Heat) -> int:
    if isinstance(panel, Heat):
        return 0
    return 2 * len(panel.names) if isinstance(panel, Dots) else len(panel.series)


def _draw_panel(axes: Any, panel: Chart | Dots | Heat) -> None:
    if isinstance(panel, Heat):
        draw_heat(axes, panel)
        return
    draw_dots(axes, panel) if isinstance(panel, Dots) else draw_chart(axes, panel)
    _frame(axes)


def draw_heat(axes: Any, panel: Heat) -> None:
    """A cell for each pair of settings: the lower the error, the darker; with its number."""
    shown = np.where(np.isfinite(panel.values), panel.values, np.nan)
    image = axes.imshow(shown, cmap="cividis", aspect="auto", origin="lower")
    for (i, j), value in np.ndenumerate(panel.values):
        light = np.isfinite(value) and image.norm(value) > 0.5
        axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8,
                  color="black" if light or not np.isfinite(value) else "white")  # fmt: skip
    axes.set_xticks(range(len(panel.columns)), panel.columns)
    axes.set_yticks(range(len(panel.rows)), panel.rows)
    axes.set_xlabel(panel.x, fontsize=9, parse_math=False)
    axes.set_ylabel(panel.y, fontsize=9, parse_math=False)


def _frame(axes: Any) -> None:
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _plain(legend: Any) -> None:
    for text in legend.get_texts():
        text.set_parse_math(False)  # a label is plain text, not a formula


def draw_chart(axes: Any, chart: Chart) -> None:
    """The chart of a page: bands or bars of one error, levels across it, marks along it."""
    strong = set(chart.groups[0][1]) if chart.groups else set(range(len(chart.series)))
    dotted = any(s.points for s in chart.series)  # then lines have no marks of their own
    for i in sorted(range(len(chart.series)), key=lambda i: i in strong):
        _draw_series(axes, chart.series[i], i in strong, 0 if dotted else len(strong))
    seen = [level for level in chart.levels if chart.top is None or level[1] <= chart.top]
    for i, (name, value, _) in enumerate(seen):
        place = ((0.99, "right"), (0.01, "left"), (0.5, "center"))[i % 3]  # near ones apart
        _draw_level(axes, name, value, place)
    for name, value in chart.marks:
        axes.axvline(value, **THIN)
        axes.annotate(name, (value, 0.98), (-3, 0), ("data", "axes fraction"), ha="right",
                      rotation=90, **SMALL)  # fmt: skip
    if chart.log:
        axes.set_xscale("log")
        known = np.concatenate([np.asarray(s.x, float) for s in chart.series] or [np.ones(1)])
        axes.set_xlim(left=0.9 * known[known > 0].min(initial=1e9))
    if chart.ticks:
        axes.set_xticks(*zip(*chart.ticks, strict=True))
        axes.minorticks_off()
    axes.set_xlabel(chart.x, fontsize=9, parse_math=False)
    axes.set_ylabel(chart.y, fontsize=9, parse_math=False)


def _draw_series(axes: Any, series: Curve, strong: bool, many: int) -> None:
    colour, dashes = style(series.style)
    x, y = np.asarray(series.x, float), np.array(series.y, float)
    y[~np.isfinite(y)] = np.nan
    error = None if series.error is None else np.nan_to_num(np.asarray(series.error, float))
    look: dict[str, Any] = {"color": colour, "label": " " + series.label, "linewidth": 1.5}
    if not strong:
        known = axes.get_legend_handles_labels()[1]
        label = None if " others" in known else " others"
        axes.plot(x, y, color=FAINT, linewidth=0.9, label=label)
    elif series.points:
        hollow, size = series.stress < 0, 9 if series.stress > 0 else 4.5
        axes.errorbar(x, y, error, fmt=MARKERS[series.style % len(MARKERS)], capsize=2,
                      markersize=size, markerfacecolor="white" if hollow or error is not None
                      else colour, elinewidth=1, **look | {"linewidth": 1.0})  # fmt: skip
    else:
        if error is not None:
            _draw_band(axes, x, y, error, colour)
        if many:
            every = max(len(x) // 9, 1)
            look |= {"marker": MARKERS[series.style % len(MARKERS)], "markersize": 4,
                     "markerfacecolor": "white", "markeredgewidth": 0.9,
                     "markevery": (series.style * every // many % every, every)}  # fmt: skip
        axes.plot(x, y, linestyle=dashes, **look)


def draw_dots(axes: Any, panel: Dots) -> None:
    """Values as marks in the row of their name; rings are larger, so that none hides another."""
    places = np.arange(len(panel.names))
    for i, (label, values) in enumerate(panel.values.items()):
        axes.plot(np.array(values, float), places, "xso^"[i % 4], color=style(i)[0],
                  markersize=(5, 7, 10, 7)[i % 4], label=" " + label, markerfacecolor="none"
                  )  # fmt: skip
    axes.set_yticks(places, panel.names, fontsize=8, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(panel.x, fontsize=9)


def save(figure: Figure, path: Any) -> None:
    """The picture as a file of the kind that its name says; open files are taken too."""
    if isinstance(path, str | PathLike):
        kinds, kind = figure.canvas.get_supported_filetypes(), Path(path).suffix[1:].lower()
        if Path(path).is_dir():
            raise InputError("path", f"is {str(path)!r}, a folder", "name a file in it")
        if kind and kind not in kinds:
            raise InputError("path", f"is {str(path)!r}", "let it end with .png, .pdf or .svg")
    try:
        figure.savefig(path)
    except OSError as error:
        found = f"is {str(path)!r}, which cannot be written: {error.strerror}"
        raise InputError("path", found, "give one in a folder that exists") from None


def pictures(figure: Figure, name: str, kinds: Sequence[str]) -> dict[str, bytes]:
    """The picture as files. Its layout is found once: each format would search it again."""
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)
    return {f"{name}.{kind}": to_bytes(figure, kind) for kind in kinds}


def to_bytes(figure: Figure, suffix: str, dpi: float | None = None) -> bytes:
    """The picture as a file: "png" or "pdf". The same curves give the same bytes."""
    buffer = BytesIO()
    # No date inside, so that repeating a run repeats its files.
    metadata = {"CreationDate": None} if suffix == "pdf" else {"Software": "psofed"}
    with warnings.catch_warnings():
        # Do not warn that the search for a place of the legend was slow.
        warnings.filterwarnings("ignore", message="Creating legend with loc")
        figure.savefig(buffer, format=suffix, metadata=metadata, dpi=dpi or "figure")
    return buffer.getvalue()
