"""Where a table begins: what stands above its header, and a row of units below it."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

ABOVE = 50  # lines, at most, above a header
UNITS = 100  # rows below a row of units that are looked at
PLAIN = re.compile(r"[+-]?(\d[\d.,]*|[.,]\d+)([eE][+-]?\d+)?")
VALUE = re.compile(r"\d{4}|\d[-/.:]\d")  # as dates and long numbers have it, but no unit


def comments(lines: Sequence[str]) -> int:
    """Lines that are empty or begin with #, before anything else; not if one is the header."""
    count = 0
    while count < len(lines) and (not lines[count].strip() or lines[count].startswith("#")):
        count += 1
    return count


def is_header(row: Sequence[str]) -> bool:
    """Whether cells may be names: there are several, and no value is among them."""
    filled = [cell.strip() for cell in row if cell.strip()]
    return len(filled) > 1 and not any(PLAIN.fullmatch(c) or VALUE.search(c) for c in filled)


def above(rows: Sequence[Sequence[str]]) -> int:
    """Rows above the header, in a sheet: at most half filled, and a fuller row of names follows."""
    for i, row in enumerate(rows[:ABOVE]):
        filled = _filled(row)
        fuller = (is_header(r) and _filled(r) > filled for r in rows[i + 1 : ABOVE])
        if 2 * filled > len(row) or not any(fuller):
            return i
    return 0


def _filled(row: Sequence[str]) -> int:
    return sum(bool(cell.strip()) for cell in row)


def has_units(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row below the header has units: texts only, where numbers follow.

    A device that begins with OFF has other values, such as its time, in the same row.
    """
    if len(rows) < 3:
        return False
    first, below = [cell.strip() for cell in rows[0]], rows[1:UNITS]
    if any(PLAIN.fullmatch(cell) or VALUE.search(cell) for cell in first):
        return False
    columns = [[c.strip() for c in column] for column in zip(*below, strict=False)]
    numeric = [
        all(PLAIN.fullmatch(c) for c in column if c) and any(column)
        for column in columns[: len(first)]
    ]
    named = [bool(cell) for cell, number in zip(first, numeric, strict=False) if number]
    again = any(c and c in column for c, column in zip(first, columns, strict=False))
    return any(named) and not again and (sum(numeric) > 1 or len(first) > 1)


def parsed(lines: Sequence[str], sep: str) -> list[list[str]]:
    """The cells of lines; nothing if they are not CSV."""
    try:
        return list(csv.reader(lines, delimiter=sep))
    except csv.Error:
        return []
