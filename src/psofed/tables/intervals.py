"""Intervals of a method over a table: radii that clients learn from late labels, what they keep.

Every prediction comes with the radii of that moment. When its label arrives, d rounds later, the
client sees whether it was inside and adapts its radii (core/conformal.py). Nothing is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from psofed.core import conformal
from psofed.core.conformal import LEVELS
from psofed.core.native import Array
from psofed.tables.plan import Span

PARTS = ("all", "last", "1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
NUMBERS = 2_000_000  # of the counts of errors by size
SIZES = np.log((1e-6, 1e4))  # of the errors that are counted by size, in units of the spread


def parts(n: Array, span: Span) -> list[Array]:
    """Which rounds are in each part: all, the judged part, and its quarters."""
    judged = (n >= span.frozen) & (n < span.stop)
    quarter = (n - span.frozen) * 4 // max(span.stop - span.frozen, 1)
    return [np.full(len(n), True), judged, *(judged & (quarter == q) for q in range(4))]


@dataclass(frozen=True, eq=False)
class Intervals:
    """What was promised and kept. Axes: part, client, level; counts have no level.

    Widths are of the whole interval, in scaled units.
    """

    count: Array  # [P, K]
    hits: Array  # [P, K, J]
    widths: Array  # [P, K, J], sums
    best: Array  # [K, J]: width of the best constant radius of the last part, in hindsight
    radii: Array  # [K, J]: for a model that is not changed any more, as a saved one
    kept: Array  # [4, J]: the share of labels inside these radii, in each quarter of the last part

    def coverage(self, part: str, level: float) -> Array:
        """The share of labels inside [K], NaN for clients that have none."""
        return self._mean(self.hits, part, level)

    def width(self, part: str, level: float) -> Array:
        """The mean width [K]."""
        return self._mean(self.widths, part, level)

    def constant(self, level: float) -> Array:
        """The width of the radius that would have been right in the last part [K]."""
        return np.asarray(self.best[:, conformal.which(level)])

    def _mean(self, sums: Array, part: str, level: float) -> Array:
        p, j = PARTS.index(part), conformal.which(level)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums[p, :, j] / self.count[p])

    def together(self, values: Array, part: str = "last") -> float:
        """The mean over all labels of a value per client."""
        count = self.count[PARTS.index(part)]
        known = count > 0
        return float(np.average(values[known], weights=count[known])) if known.any() else np.nan

    def summary(self, part: str, level: float, unit: float) -> dict[str, Any]:
        """One part of the rounds: all clients together, and those that differ most."""
        coverage, width = (f(part, level) for f in (self.coverage, self.width))
        known = coverage[~np.isnan(coverage)]
        return {
            "part": part,
            "coverage": self.together(coverage, part),
            "lowest_client": float(known.min()) if len(known) else float("nan"),
            "highest_client": float(known.max()) if len(known) else float("nan"),
            "width": self.together(width, part) * unit,
            "by_client": coverage.tolist(),
        }


class Promises:
    """The radii of every client as the rounds go by, and what they have kept so far."""

    def __init__(self, clients: int, delay: int, span: Span) -> None:
        self.delay, self.span = delay, span
        self.theta, self.labels = conformal.start(clients), np.zeros(clients)
        self.late = np.full((delay, clients), np.nan)  # log |e| whose labels are on their way
        self.promised = np.zeros((delay, *self.theta.shape), np.float32)
        self.count = np.zeros((len(PARTS), clients))
        self.hits, self.widths = (
            np.zeros((len(PARTS), *self.theta.shape), np.float32) for _ in "hw"
        )
        cells = int(np.clip(NUMBERS // clients, 32, 1024))
        # Errors of the last part by size: of the models as they learn, and of frozen ones, in each
        # of its quarters.
        self.sizes = np.zeros((clients, cells), np.int32)
        self.frozen = np.zeros((4, clients, cells), np.int32)

    def block(self, first: int, errors: Array) -> None:
        """Errors [B, K] of rounds first.., NaN where there is no label."""
        logs = conformal.logs(errors)
        promised = self._follow(logs)
        known = ~np.isnan(logs)
        hit = logs[..., None] <= promised
        width = np.where(known[..., None], 2 * np.exp(promised), 0)
        where = parts(first + np.arange(len(logs)), self.span)
        for p, part in enumerate(where):
            if part.any():
                self.count[p] += known[part].sum(axis=0)
                self.hits[p] += hit[part].sum(axis=0)
                self.widths[p] += width[part].sum(axis=0)
        _sort(self.sizes, logs[where[1]])

    def _follow(self, logs: Array) -> Array:
        """Promise, then learn from the label that arrives; round by round. What was promised."""
        errors = np.concatenate([self.late, logs])
        promised = np.concatenate([self.promised, np.empty((*logs.shape, len(LEVELS)), np.float32)])
        arrives = ~np.isnan(errors).all(axis=1)
        for i in range(len(logs)):
            promised[self.delay + i] = conformal.issued(self.theta)
            if arrives[i]:
                conformal.adapt(self.theta, self.labels, errors[i], promised[i], self.delay)
        self.late, self.promised = errors[len(logs) :], promised[len(logs) :]
        return promised[self.delay :]

    def judged(self, first: int, errors: Array) -> None:
        """Errors [B, K] of models that were frozen when the judged part began."""
        logs = conformal.logs(errors)
        where = parts(first + np.arange(len(logs)), self.span)[2:]
        for sizes, quarter in zip(self.frozen, where, strict=True):
            _sort(sizes, logs[quarter])

    def _radii(self) -> Array:
        """Radii for a model that is not changed any more: those that its frozen twin needed.

        Split conformal: the (N + 1) p / N quantile of the N errors that a frozen model had. A
        client without any gets the largest of the others; without a judged part, the last ones.
        """
        found = _quantiles(self.frozen.sum(axis=0), fair=True)
        if np.isnan(found).all():
            return conformal.radius(self.theta)
        return np.where(np.isnan(found), np.nanmax(found, axis=0, keepdims=True), found)

    def result(self) -> Intervals:
        """All of it."""
        best, radii = 2 * _quantiles(self.sizes), self._radii()
        kept = _inside(self.frozen, radii)
        return Intervals(self.count, self.hits, self.widths, best, radii, kept)


def _sort(sizes: Array, logs: Array) -> None:
    """Count errors by size, of each client: memory does not grow with the table."""
    low, high = SIZES
    cells = sizes.shape[-1]
    known = ~np.isnan(logs)
    k = np.nonzero(known)[1]
    where = ((logs[known] - low) / (high - low) * cells).clip(0, cells - 1).astype(int)
    np.add.at(sizes, (k, where), 1)


def _inside(sizes: Array, radii: Array) -> Array:
    """The share of errors [Q, K, cells] that radii [K, J] hold, of all clients [Q, J]."""
    low, high = SIZES
    cells = sizes.shape[-1]
    place = ((np.log(radii) - low) / (high - low) * cells).clip(0, cells - 1).astype(int)
    upto = np.take_along_axis(sizes.cumsum(axis=-1), place[None], axis=-1).sum(axis=1)
    total = sizes.sum(axis=(1, 2))[:, None]
    return np.asarray(np.where(total > 0, upto / np.maximum(total, 1), np.nan))


def _quantiles(sizes: Array, fair: bool = False) -> Array:
    """The size that a share of errors does not exceed [K, J]; `fair`: the next error neither."""
    low, high = SIZES
    cells = sizes.shape[-1]
    upto = sizes.cumsum(axis=-1)
    total = upto[..., -1:]
    found = np.full((*sizes.shape[:-1], len(LEVELS)), np.nan)
    for j, level in enumerate(LEVELS):
        wanted = np.minimum(level * (total + fair), total)
        cell = (upto < wanted).sum(axis=-1, keepdims=True).clip(max=cells - 1)
        inside = np.maximum(np.take_along_axis(sizes, cell, -1), 1)
        rest = wanted - np.take_along_axis(upto, cell, -1) + inside
        place = cell + rest / inside  # in cells, as if errors were spread evenly in one
        found[..., j] = np.exp(low + place[..., 0] * (high - low) / cells)
    return np.where(total > 0, found, np.nan)
