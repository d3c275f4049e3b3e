"""Scaling without a look at later data: given ranges, or statistics of a warm-up, then frozen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.data.encoder import Encoder
from psofed.data.reading import Table
from psofed.errors import InputError

Array = NDArray[Any]
FARTHEST = 10  # quartile ranges from the median: what is beyond cannot be


def learn(table: Table, stop: int, limited: bool = False) -> Encoder:
    """The encoder from rounds 0..stop-1: mean and spread of the numbers, known categories.

    If it is `limited`, numbers far outside their usual range are missing, then and later.
    """
    c = len(table.numeric)
    limits = _limits(table, stop) if limited else None
    count, mean, square = np.zeros(1 + c), np.zeros(1 + c), np.zeros(1 + c)
    seen: list[set[int]] = [set() for _ in table.categories]
    for block in _rows(table, stop):
        if limits is not None:
            values = block[:, 1 : 2 + c]
            block[:, 1 : 2 + c] = np.where((values < limits[0]) | (values > limits[1]), np.nan,
                                           values)  # fmt: skip
        count, mean, square = merge((count, mean, square), moments(block[:, 1 : 2 + c]))
        for j, codes in enumerate(seen):
            column = block[:, 2 + c + j]
            codes.update(np.unique(column[~np.isnan(column)]).astype(int).tolist())
    names = (table.columns.target, *table.numeric)
    scales = [_scale(table, n, *s) for n, s in zip(names, zip(count, mean, square, strict=True),
                                                   strict=True)]  # fmt: skip
    target, *rest = scales
    centre, scale = (np.array(v, np.float64) for v in zip(*rest, target, strict=True))
    categories, places = _categories(table, seen)
    found = Encoder(table.columns, table.numeric, categories, places, centre, scale)
    # Of the target, then of the numbers, here; there the target is the last.
    return found if limits is None else replace(found, limits=np.roll(limits, -1, axis=1))


def _limits(table: Table, stop: int) -> Array:
    """[low or high, column], of the target and the numbers: ranges that were given, or median and
    quartiles of the warm-up, which a few wrong values do not move.
    """
    names = (table.columns.target, *table.numeric)
    rows = [block[:, 1 : 1 + len(names)] for block in _rows(table, stop)]
    values = np.concatenate([np.empty((0, len(names))), *rows])
    found = np.full((2, len(names)), [[-np.inf], [np.inf]])
    for j, name in enumerate(names):
        known = values[~np.isnan(values[:, j]), j]
        if name in table.columns.ranges:
            found[:, j] = table.columns.ranges[name]
        elif len(known):
            low, middle, high = np.quantile(known, (0.25, 0.5, 0.75))
            if low < high:  # else most values are the same, and all others would be beyond
                found[:, j] = middle + FARTHEST * (high - low) * np.array([-1, 1])
    return found


def shared_bytes(encoder: Encoder) -> int:
    """The largest number of bytes that a client sends and gets, once, for the common scaling.

    Up: count, mean and sum of squares of each number whose range is not given, and the texts of its
    categories. Down: centre and scale, and the texts of all. Numbers in 8 bytes, texts in UTF-8.
    """
    names = (*encoder.numeric, encoder.columns.target)
    numbers = sum(name not in encoder.columns.ranges for name in names)
    texts = sum(len(t.encode()) + 1 for values in encoder.categories.values() for t in values)
    return 8 * (3 + 2) * numbers + 2 * texts


def _rows(table: Table, stop: int) -> Iterator[Array]:
    for k in range(len(table.clients)):
        for block, _ in table.read(k):
            here = block[table.ticks(block[:, 0]) < stop]
            if len(here):
                yield here
            if len(here) < len(block):
                break


def moments(values: Array) -> tuple[Array, Array, Array]:
    """Count, mean and sum of squared deviations of each column, without the missing ones."""
    known = ~np.isnan(values)
    count = known.sum(axis=0).astype(np.float64)
    mean = np.where(known, values, 0).sum(axis=0) / np.maximum(count, 1)
    square = np.where(known, np.square(np.where(known, values, 0) - mean), 0).sum(axis=0)
    return count, mean, square


def merge(a: Any, b: Any) -> tuple[Array, Array, Array]:
    """The moments of two sets from those of each (Chan, Golub and LeVeque)."""
    count = a[0] + b[0]
    delta, share = b[1] - a[1], b[0] / np.maximum(count, 1)
    return count, a[1] + delta * share, a[2] + b[2] + delta**2 * a[0] * share


def _scale(table: Table, name: str, count: float, mean: float, square: float) -> tuple[Any, Any]:
    """(centre, scale): of the given range, as if uniform in it, or of the warm-up."""
    if name in table.columns.ranges:
        low, high = table.columns.ranges[name]
        return (low + high) / 2, (high - low) / np.sqrt(12)
    if not count:
        where, found = table.first_value.get(name, ""), "has its first value after the warm-up"
        right = "give its range, or a longer warm-up"
        if not where:
            where, found = table.latest, "has no value from the first row to this one"
            target = name == table.columns.target
            right = "models learn from labels" if target else "leave the column out"
        raise InputError(f"column {name!r}", found, right, where)
    spread = float(np.sqrt(square / count))
    # A column that is constant in the warm-up has no scale of its own.
    return mean, spread if spread > 1e-12 * max(abs(mean), 1e-12) else max(abs(mean), 1.0)


def _categories(table: Table, seen: list[set[int]]) -> tuple[dict[str, Any], dict[str, Array]]:
    categories, places = {}, {}
    for (name, codes), known in zip(table.categories.items(), seen, strict=True):
        texts = list(codes.known)
        values = tuple(sorted(texts[i] for i in known))
        categories[name] = values
        places[name] = positions(texts, values)
    return categories, places


def positions(texts: list[str], values: tuple[str, ...]) -> Array:
    """The position of each text of a table among the known values; -1 if it is not one."""
    known = {value: i for i, value in enumerate(values)}
    return np.array([known.get(text, -1) for text in texts] + [-1])  # the last one is for -1
