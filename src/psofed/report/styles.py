"""Curves for papers and slides: the right size, embedded fonts, a legend beside the curves.

Needs matplotlib, and LaTeX where texts are to be set by it.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes

from psofed.curves import Curves
from psofed.errors import InputError, nearest
from psofed.report.figures import Picture, draw_curves, learning_curves

# Type 42 keeps characters as text, and embeds the fonts: what publishers ask for.
EMBEDDED = {"pdf.fonttype": 42, "ps.fonttype": 42}
TIMES = {"font.family": "STIXGeneral", "mathtext.fontset": "stix"}  # comes with matplotlib
SANS = {"font.family": "DejaVu Sans"}


@dataclass(frozen=True)
class Look:
    """A style: inches of the figure without its legend, points of text and lines."""

    width: float
    height: float
    text: float
    line: float
    fonts: dict[str, str]
    dpi: int = 300
    fixed: bool = False  # whether the height is that of the figure with its legend

    @property
    def small(self) -> float:
        """Points of the small text."""
        return self.text - 1 if self.text < 12 else 0.8 * self.text

    def settings(self, latex: bool) -> Any:
        """What matplotlib is told."""
        small = self.small
        sizes = {
            "font.size": self.text, "axes.labelsize": self.text, "axes.titlesize": self.text,
            "xtick.labelsize": small, "ytick.labelsize": small, "legend.fontsize": small,
            "axes.linewidth": self.line / 2, "xtick.major.width": self.line / 2,
            "ytick.major.width": self.line / 2,
        }  # fmt: skip
        tex = {"text.usetex": True, "font.family": "serif"} if latex else {}
        return EMBEDDED | self.fonts | sizes | tex


LOOKS = {
    "ieee-column": Look(3.5, 2.4, 8, 1.1, TIMES),
    "ieee-page": Look(7.16, 3.2, 9, 1.3, TIMES),
    "slides": Look(12.8, 7.2, 20, 3.0, SANS, dpi=150, fixed=True),
}
HALF = 0.5  # of axes: the most that a legend inside them takes
PLAIN = Look(7.2, 4.6, 10, 1.6, SANS, dpi=150)


def drawn(curves: Curves, ax: Any, style: str | None, latex: bool) -> Any:
    """The figure of the curves, or `ax` with them."""
    if style is not None and style not in LOOKS:
        raise InputError("style", f"is {style!r}", nearest(str(style), list(LOOKS)))
    if ax is not None and not isinstance(ax, Axes):
        found = f"is of type {type(ax).__name__}"
        raise InputError("ax", found, "give one axes of matplotlib, such as axes[0, 1] of many")
    if latex:
        _check_latex()
    if style is None and ax is None and not latex:
        return learning_curves(curves)
    look = PLAIN if style is None else LOOKS[style]
    with rc_context(look.settings(latex)):
        if ax is not None:
            _draw(ax, curves, look, latex)
            where = _beside(ax, curves, look)
            _make_room(ax, curves, look)
            _plain(ax.legend(frameon=False, handlelength=3.2, **where), latex)
            return ax
        return _figure(curves, look, latex)


def _figure(curves: Curves, look: Look, latex: bool) -> Picture:
    figure = Picture(figsize=(look.width, look.height), layout="constrained", dpi=look.dpi)
    figure.settings = look.settings(latex)
    axes = figure.add_subplot()
    _draw(axes, curves, look, latex)
    columns = _columns(curves, look)
    if not look.fixed:
        rows = -(-len(curves.titles) // columns)
        figure.set_size_inches(look.width, look.height + rows * 1.35 * look.text / 72)
    legend = figure.legend(
        loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2
    )
    _plain(legend, latex)
    if look.fixed:  # the legend has made the axes lower
        figure.draw_without_rendering()
        _make_room(axes, curves, look)
    return figure


def _draw(axes: Any, curves: Curves, look: Look, latex: bool) -> None:
    draw_curves(axes, curves, range(len(curves.titles)), look.line, look.small)
    _make_room(axes, curves, look)
    axes.set_xlabel("round $n$" if latex else "round n")
    axes.grid(color="0.9", linewidth=look.line / 2)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if latex:
        for line in axes.get_lines():
            if line.get_label() and not line.get_label().startswith("_"):
                line.set_label(escaped(line.get_label()))


def _make_room(axes: Any, curves: Curves, look: Look) -> None:
    """Below the lowest level, whose name stands under it."""
    low, high = axes.get_ylim()
    lowest = min((floor.value for floor in curves.floors.values()), default=high)
    needed = (high - low) * 2 * look.small / _points(axes)
    axes.set_ylim(min(low, lowest - needed), high)


def _beside(axes: Any, curves: Curves, look: Look) -> dict[str, Any]:
    """Where the legend covers no curve: above all of them, or below the axes if that needs half."""
    low, high = axes.get_ylim()
    share = (1.45 * len(curves.titles) + 1) * look.small / _points(axes)
    if share > HALF:
        label = 4.5 * look.text / _points(axes)  # the numbers and the name of the x axis
        return {"loc": "upper center", "bbox_to_anchor": (0.5, -label), "ncols": 2}
    axes.set_ylim(low, low + (high - low) / (1 - share))
    return {"loc": "upper right"}


def _points(axes: Any) -> float:
    """The height of axes, in points."""
    return float(axes.get_window_extent().height * 72 / axes.get_figure().dpi)


def _plain(legend: Any, latex: bool) -> None:
    """A label is plain text, not a formula."""
    for text in legend.get_texts():
        text.set_parse_math(latex)


def _columns(curves: Curves, look: Look) -> int:
    """As many columns as the names leave room for."""
    letter = 0.43 if look.fonts is TIMES else 0.6  # of the size of the text
    longest = 6.5 + letter * max(len(title) for title in curves.titles)  # with its line
    room = look.width * 72 / (look.small * longest)
    return max(1, min(int(room), len(curves.titles), 4))


def escaped(text: str) -> str:
    r"""A text as LaTeX prints it.

    >>> escaped("50 % of M_k")
    '50 \\% of M\\_k'
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(r"[\\~^#$%&_{}]", lambda m: special.get(m[0], "\\" + m[0]), text)


def _check_latex() -> None:
    missing = [name for name in ("latex", "dvipng") if shutil.which(name) is None]
    if missing:
        found = f"is true, but {' and '.join(missing)} cannot be found"
        raise InputError("latex", found, "install TeX Live with dvipng, or leave it out")
