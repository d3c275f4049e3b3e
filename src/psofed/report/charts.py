"""Charts as values, which a page draws on the screen and `figures` on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from psofed.core.native import Array

FLOORS = {"ridge": "ridge regression on 200 D samples", "noise": "noise variance"}
COLOURS = 7  # those of charts.js; a style beyond them is one of them with another dash
MARKS = 14_000  # of all curves of a chart together
FEWEST = 300  # marks that a curve keeps in any case


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve, or points: y with its error over x, and the bytes that were sent before each x."""

    label: str
    x: Any
    y: Any  # not a number where there is none
    error: Any = None  # one standard error
    sent: tuple[Array, ...] = ()  # up, down, multicast down
    style: int = 0
    points: bool = False
    stress: float = 0.0  # of points: hollow ones are -1, large ones 1

    def data(self, kept: Array) -> dict[str, Any]:
        """At some of its marks, rounded, for the page; bytes that grow evenly are one number."""
        x, y = np.asarray(self.x, float)[kept], np.asarray(self.y, float)[kept]
        table = {"label": self.label, "style": self.style, "x": _cells(x, 7), "y": _cells(y)}
        if self.error is not None:
            table["error"] = _cells(np.asarray(self.error, float)[kept])
        if self.sent:
            table["sent"] = [_rate(x, total[kept]) for total in self.sent]
        return table | ({"points": True, "stress": self.stress} if self.points else {})


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves over one axis, with levels across and marks along it; a switch for each group."""

    title: str
    x: str
    y: str
    series: Sequence[Curve]
    levels: Sequence[tuple[str, float, str]] = ()  # name, value and short name
    marks: Sequence[tuple[str, float]] = ()
    groups: Sequence[tuple[str, Sequence[int]]] = ()  # the first is shown first
    log: bool | None = False  # of the x axis at first; None: it is never
    ticks: Sequence[tuple[float, str]] = ()  # of the x axis, where it is not one of numbers
    bottom: float | None = None
    top: float | None = None  # what is above is cut off
    digits: int = 2
    bytes: str = ""  # "x", if that is an axis of bytes
    total: str = ""  # curves over "up", "unicast" or "multicast" bytes at first, not over rounds
    file: str = ""  # which has all of the marks
    note: str = ""

    def data(self) -> dict[str, Any]:
        """Plain values, with as many marks as a screen can show."""
        most = max(MARKS // max(len(self.series), 1), FEWEST)
        kept = _shared_marks(self.series, most)
        whole = max((len(s.x) for s in self.series), default=0)
        shown = max(map(len, kept), default=0)
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {
            "thinned": [shown, whole] if shown < whole else None,
            "series": [s.data(marks) for s, marks in zip(self.series, kept, strict=True)],
        }


@dataclass(frozen=True, eq=False)
class Dots:
    """Values in rows, each with its name: for paper, as a page has a table of them."""

    title: str
    x: str
    names: Sequence[str]
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True, eq=False)
class Heat:
    """Values over two settings, as colours and numbers: for paper."""

    title: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Array  # [row, column]


@dataclass(frozen=True, eq=False)
class Sheet:
    """A figure for paper: charts and dots next to and below one another."""

    panels: Sequence[Chart | Dots | Heat]
    columns: int = 1
    title: str = ""
    size: tuple[float, float] | None = None  # inches of a panel
    alike: bool = False  # whether panels share their vertical axis


def _shared_marks(series: Sequence[Curve], most: int) -> list[Array]:
    """Curves over the same x keep the same marks, so that they can be read at one of them."""
    found: dict[bytes, list[Curve]] = {}
    for s in series:
        found.setdefault(np.asarray(s.x, float).tobytes(), []).append(s)
    kept = {key: thinned(np.asarray(some[0].x), np.array([s.y for s in some], float), most)
            for key, some in found.items()}  # fmt: skip
    return [kept[np.asarray(s.x, float).tobytes()] for s in series]


def thinned(x: Array, curves: Array, most: int) -> Array:
    """Which marks to keep so that the drawn lines look the same.

    A grid, even in x and even in log x, with both ends; and between two marks of the grid the one
    at which some curve is furthest from the straight line, so that no spike is lost.
    """
    if len(x) <= most:
        return np.arange(len(x))
    part, last = most // 4, len(x) - 1  # two grids, and as much again between their marks
    grid = np.union1d(np.linspace(0, last, part), np.geomspace(1, last, part)).astype(int)
    grid = np.unique([0, *grid.tolist(), last])
    finite = np.where(np.isfinite(curves), curves, 0.0)
    line = np.array([np.interp(x, x[grid], curve[grid]) for curve in finite])
    astray = np.abs(finite - line).max(axis=0)
    furthest = [a + int(astray[a:b].argmax()) for a, b in pairwise(grid.tolist())]
    return np.union1d(grid, furthest)


def _cells(values: Array, digits: int = 3) -> list[float | None]:
    """JSON has no NaN or infinity: they become null."""
    return [round(v, digits) if abs(v) < np.inf else None for v in values.tolist()]


def _rate(x: Array, total: Array) -> Any:
    rate = float(total[-1] / x[-1]) if x[-1] else 0.0
    return rate if np.allclose(total, rate * x, 1e-9, 1e-6) else _cells(total, 1)
