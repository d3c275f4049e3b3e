"""Columns of a CSV block without surprises, each as one text that is cut only where it must be."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from psofed import native


class TextColumn(Sequence[str]):
    """The cells of a column, joined by line breaks, which no cell has.

    >>> column = TextColumn("1.5\\nNA", 2)
    >>> column[1], list(column)
    ('NA', ['1.5', 'NA'])
    """

    def __init__(self, text: str, size: int) -> None:
        self.text, self.size = text, size

    @cached_property
    def cells(self) -> list[str]:
        """Each for itself."""
        return self.text.split("\n")

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: Any) -> Any:
        return self.cells[i]

    def __iter__(self) -> Iterator[str]:
        return iter(self.cells)


def columns(lines: list[str], sep: str, width: int) -> list[TextColumn] | None:
    """The columns of lines that have so many plain cells each; None: ask the csv module."""
    if not native.available() or not sep.isascii():
        return None
    text = "".join(lines).encode("utf-8", "surrogateescape")
    out, ends = np.empty(len(text) + 1, np.uint8), np.empty(width, np.int64)
    shape = len(lines), width
    fits = native.function("transpose")(
        np.frombuffer(text, np.uint8),
        len(text),
        ord(sep),
        *shape,
        csv.field_size_limit(),
        out,
        ends,
    )
    if not fits:
        return None
    starts = [0, *ends.tolist()]
    parts = [out[i : j - 1].tobytes() for i, j in zip(starts, ends.tolist(), strict=False)]
    return [TextColumn(part.decode("utf-8", "surrogateescape"), len(lines)) for part in parts]
