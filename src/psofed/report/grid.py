"""Tables of text: whole in files, and within the width of a terminal on a screen."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

GAP = "  "
ROOM = 20  # columns that a cell of words needs at least, to be wrapped


@dataclass(frozen=True)
class Grid:
    """Rows of cells, the heading first, that know which columns may be left out on a screen."""

    rows: list[list[str]]
    left: tuple[int, ...] = (0,)  # columns to the left; the others are to the right
    least: tuple[int, ...] = ()  # columns that may be left out, the least important first
    where: str = ""  # the file that holds them all

    def __str__(self) -> str:
        """The whole table, as wide as it is.

        >>> print(Grid([["method", "dB"], ["Online-Fed", "-11.9"], ["PSO-Fed", "-9"]]))
        method         dB
        -----------------
        Online-Fed  -11.9
        PSO-Fed        -9
        """
        return _aligned(self.rows, self.left)

    def within(self, width: int) -> str:
        """No line is wider, as far as words allow: words wrap, columns are left out or stacked.

        >>> grid = Grid([["method", "bytes", "dB"], ["Online-Fed", "800", "-11.9"]], least=(1,),
        ...             where="all.csv")
        >>> print(grid.within(19))
        method         dB
        -----------------
        Online-Fed  -11.9
        Not shown: bytes; see all.csv.
        """
        kept = list(range(len(self.rows[0])))
        for column in (None, *self.least):
            if column is not None:
                kept.remove(column)
            text = self._of(kept, width)
            if _width(text) <= width:
                return "\n".join([text, *self._note(kept)])
        return self._stacked()

    def _of(self, kept: list[int], width: int) -> str:
        """Some of the columns; the last one is wrapped if it is one of words."""
        rows = [[row[i] for i in kept] for row in self.rows]
        left = tuple(place for place, column in enumerate(kept) if column in self.left)
        used = sum(max(map(len, column)) + len(GAP) for column in zip(*rows, strict=True))
        room = width - used + max(len(row[-1]) for row in rows) + len(GAP)
        if len(kept) - 1 in left[1:] and room >= ROOM:
            rows = [line for row in rows for line in _split(row, room)]
        return _aligned(rows, left)

    def _note(self, kept: list[int]) -> list[str]:
        missing = [head for i, head in enumerate(self.rows[0]) if i not in kept]
        if not missing:
            return []
        see = f"; see {self.where}" if self.where else ""
        return [f"Not shown: {'; '.join(missing)}{see}."]

    def _stacked(self) -> str:
        """Every row as lines of their own: where not even the important columns fit."""
        head, *rows = self.rows
        size = max(map(len, head[1:]), default=0)
        lines = [f"{head[0]}:"] if head[0] else []
        for first, *rest in rows:
            lines.append(first)
            cells = zip(head[1:], rest, strict=True)
            lines += [f"{GAP}{name.ljust(size)}{GAP}{cell}".rstrip() for name, cell in cells]
        return "\n".join(lines)


def _split(row: list[str], room: int) -> list[list[str]]:
    """The row with its last cell on as many lines as it needs."""
    first, *more = textwrap.wrap(row[-1], room) or [""]
    return [[*row[:-1], first], *([*[""] * (len(row) - 1), line] for line in more)]


def _aligned(rows: list[list[str]], left: tuple[int, ...]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = enumerate(zip(row, widths, strict=True))
        cells = [c.ljust(width) if i in left else c.rjust(width) for i, (c, width) in padded]
        lines.append(GAP.join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def _width(text: str) -> int:
    return max(map(len, text.splitlines()))


Block = str | Grid


def joined(blocks: list[Block]) -> str:
    """All of it as text, with whole tables."""
    return "\n".join(map(str, blocks))
