"""Curves for a page: no more marks than can be seen, in short numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
POINTS = 36_000  # of all curves of a page together; the paper's seven have 35,007
FEWEST = 300  # marks that a curve keeps in any case
MILLI = 1000  # values are kept to thousandths
TENTHS = 10  # means of bytes are kept to tenths


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve of a page, with the bytes sent before each of its marks."""

    label: str
    x: Array
    y: Array  # dB; not a number where there is none
    error: Array | None = None  # one standard error
    bytes: tuple[Array, ...] = ()  # up, down, multicast down: all before the mark
    style: int = 0
    points: bool = False

    def at(self, marks: Array) -> Curve:
        """The same curve at some of its marks."""
        error = None if self.error is None else self.error[marks]
        sent = tuple(total[marks] for total in self.bytes)
        return Curve(self.label, self.x[marks], self.y[marks], error, sent, self.style, self.points)


def marks(x: Array, curves: Array, most: int) -> Array:
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


def pack(curves: Sequence[Curve], most: int = POINTS) -> dict[str, Any]:
    """Curves for the page, and how many of their marks it has if not all."""
    lines = [curve for curve in curves if not curve.points]
    x = lines[0].x if lines else np.zeros(0)
    shared = all(len(c.x) == len(x) and (c.x == x).all() for c in lines)
    allowed = max(most // max(len(lines), 1), FEWEST)
    kept = marks(x, np.array([c.y for c in lines]), allowed) if shared and lines else np.arange(0)
    packed, shown, all_of_them = [], 0, 0
    for curve in curves:
        own = shared and not curve.points
        thin = kept if own else marks(curve.x, curve.y[None], allowed)
        packed.append(_packed(curve.at(thin), alone=not own))
        shown, all_of_them = max(shown, len(thin)), max(all_of_them, len(curve.x))
    thinned = [shown, all_of_them] if shown < all_of_them else None
    return {"x": steps(x[kept], 1) if shared else None, "series": packed, "thinned": thinned}


def _packed(curve: Curve, alone: bool) -> dict[str, Any]:
    table: dict[str, Any] = {"label": curve.label, "style": curve.style, "y": steps(curve.y)}
    if alone:
        table["x"] = steps(curve.x, 1)
    if curve.error is not None and np.isfinite(curve.error).any():
        table["error"] = steps(curve.error)
    if curve.bytes:
        sent = [bends(curve.x, total) for total in curve.bytes]
        # Downloads often have as many bytes as uploads: then they are stored once.
        table["bytes"] = [each if each not in sent[:i] else sent.index(each)
                          for i, each in enumerate(sent)]  # fmt: skip
    if curve.points:
        table["points"] = True
    return table


def steps(values: Array, scale: int = MILLI) -> list[int | None]:
    """Thousandths from each value to the next, which are short; null where there is no value.

    >>> steps(np.array([-1.5, -1.498, np.nan, -1.6]))
    [-1500, 2, None, -102]
    """
    out: list[int | None] = []
    last = 0
    for value in np.asarray(values, dtype=float).tolist():
        if not abs(value) < np.inf:
            out.append(None)
            continue
        now = round(value * scale)
        out.append(now - last)
        last = now
    return out


def bends(x: Array, total: Array) -> list[list[int | None]]:
    """A sum that mostly grows evenly: the marks at which its slope changes, and tenths there.

    Both as steps from one to the next.

    >>> bends(np.array([0, 1, 2, 4]), np.array([0.0, 8.0, 16.0, 32.0]))
    [[0, 3], [0, 320]]
    """
    if len(x) < 2:
        return [steps(np.arange(len(x)), 1), steps(total, TENTHS)]
    slope = np.diff(total) / np.diff(x)
    turns = 1 + np.flatnonzero(~np.isclose(slope[1:], slope[:-1], rtol=1e-9, atol=1e-9))
    at = np.array([0, *turns.tolist(), len(x) - 1])
    return [steps(at, 1), steps(total[at], TENTHS)]
