"""Learning curves as figures, readable in grey and by colour-blind people. Needs matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from psofed.curves import Curves
from psofed.errors import InputError
from psofed.report.summaries import FLOORS

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
SHOWN = 760  # pixels of a picture in a notebook
INSIDE = 10  # curves whose names fit into the axes; with more curves the legend is outside


def style(i: int) -> tuple[str, Any]:
    """Colour and dashes of the i-th curve: of 49, no two have both in common, as in a report.

    >>> len({style(i) for i in range(49)})
    49
    """
    turn, colour = divmod(i, len(STYLES))
    return STYLES[colour][0], STYLES[(colour + 3 * turn) % len(STYLES)][1]


class Picture(Figure):
    """A figure that a notebook shows by itself, once, and that keeps its settings to the end."""

    settings: Any = None  # of matplotlib, for all that is drawn late, and for files

    def draw(self, renderer: Any) -> None:
        with rc_context(self.settings):
            super().draw(renderer)

    def savefig(self, *args: Any, **options: Any) -> None:
        with rc_context(self.settings):
            super().savefig(*args, **options)

    def _repr_png_(self) -> bytes:
        """For notebooks, as wide as a page there; no `%matplotlib inline` is needed."""
        return to_bytes(self, "png", min(self.dpi, SHOWN / self.get_size_inches()[0]))


def learning_curves(curves: Curves, which: Sequence[int] | None = None, title: str = "") -> Figure:
    """Test MSE in dB against the round, with a band of one standard error, and the floors."""
    figure = Picture(figsize=(7.2, 4.6), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    draw_curves(axes, curves, range(len(curves.titles)) if which is None else which)
    finish(axes, f"{title} ({runs_of(curves)})" if title else runs_of(curves))
    return figure


def draw_curves(
    axes: Any, curves: Curves, which: Sequence[int], line: float = 1.6, small: float = 8
) -> None:
    """The curves, their bands, the floors and the names of the axes."""
    for i, j in enumerate(which):
        colour, dashes = style(i)
        mean, error = curves.mse_db[j], np.nan_to_num(curves.stderr_db[j])
        axes.fill_between(
            curves.rounds, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0
        )
        axes.plot(
            curves.rounds, mean, color=colour, linestyle=dashes, label=" " + curves.titles[j],
            linewidth=line,
        )  # fmt: skip
    _draw_floors(axes, curves, small)
    axes.set_xlabel("round n")
    axes.set_ylabel(f"test MSE (dB), {curves.experiment.judged}")
    axes.set_xlim(curves.rounds[0], curves.rounds[-1])


def runs_of(curves: Curves) -> str:
    """What the lines and bands are."""
    return "1 run" if curves.runs == 1 else f"mean of {curves.runs} runs, band: 1 standard error"


def finish(axes: Any, title: str, below: int = 0) -> None:
    """What all figures share: a faint grid, a title on the left, a legend.

    The legend is where there is room, or below the figure in `below` columns.
    """
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10, loc="left", y=1)  # with no y it is searched each time
    curves = len(axes.get_legend_handles_labels()[0])
    if not curves:
        return
    if below:
        legend = axes.get_figure().legend(
            loc="outside lower center", ncols=below, frameon=False, fontsize=9, handlelength=3.2
        )
    elif curves <= INSIDE:
        legend = axes.legend(frameon=False, fontsize=9, handlelength=3.2)
    else:
        figure = axes.get_figure()
        figure.set_size_inches(10, max(5, 0.2 * curves))
        legend = figure.legend(
            loc="outside right upper", frameon=False, fontsize=8, handlelength=3.4
        )
    for text in legend.get_texts():
        text.set_parse_math(False)  # a label is plain text, not a formula


def _draw_floors(axes: Any, curves: Curves, small: float) -> None:
    for name, floor in curves.floors.items():
        axes.axhline(floor.value, color="0.45", linewidth=0.9, linestyle=(0, (1, 1.5)))
        axes.annotate(
            f"{FLOORS[name]} {floor.value:.1f} dB",
            (0.99, floor.value),
            xycoords=("axes fraction", "data"),
            xytext=(0, -3),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=small,
            color="0.35",
        )


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


def both(figure: Figure, name: str) -> dict[str, bytes]:
    """The picture as two files. Its layout is found once: each format would search it twice."""
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)
    return {f"{name}.{suffix}": to_bytes(figure, suffix) for suffix in ("png", "pdf")}


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
