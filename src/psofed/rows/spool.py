"""Rows of many clients, each client's in order, on disk: memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROWS = 1024  # of one client, written at once
BUFFERED = 8_000_000  # numbers of all clients that wait to be written
HEAD = 2  # numbers before a block: its rows, and where this client's next block begins


class Spool:
    """A chain of blocks per client in one temporary file.

    >>> spool = Spool(width=2)
    >>> spool.add(0, np.array([[1.0, 2.0]]))
    >>> [block.tolist() for block in spool.read(0)]
    [[[1.0, 2.0]]]
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.file: Any = TemporaryFile()  # noqa: SIM115  it lives as long as we do
        finalize(self, self.file.close)
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.waiting: dict[int, list[Array]] = {}
        self.held: dict[int, int] = {}
        self.total = self.end = 0

    def add(self, k: int, rows: Array) -> None:
        """More rows [count, width] of client k."""
        self.waiting.setdefault(k, []).append(rows)
        self.held[k] = self.held.get(k, 0) + len(rows)
        self.total += rows.size
        if self.held[k] >= ROWS:
            self._flush(k)
        elif self.total > BUFFERED:
            for each in list(self.waiting):
                self._flush(each)

    def _flush(self, k: int) -> None:
        rows = np.concatenate(self.waiting.pop(k))
        self.held[k] = 0
        self.total -= rows.size
        start = self.end
        self.file.seek(start)
        self.file.write(np.array([len(rows), -1], np.int64).tobytes())
        self.file.write(np.ascontiguousarray(rows, np.float64).tobytes())
        self.end = self.file.tell()
        if k in self.last:
            self.file.seek(self.last[k] + 8)
            self.file.write(np.int64(start).tobytes())
        self.first.setdefault(k, start)
        self.last[k] = start

    def read(self, k: int) -> Iterator[Array]:
        """All rows of client k, block by block. Several readers may take turns."""
        if self.waiting.get(k):
            self._flush(k)
        place = self.first.get(k, -1)
        while place >= 0:
            self.file.seek(place)
            count, place = np.frombuffer(self.file.read(8 * HEAD), np.int64).tolist()
            data = self.file.read(8 * count * self.width)
            yield np.frombuffer(data, np.float64).reshape(count, self.width)

    def close(self) -> None:
        """Give the disk back."""
        self.file.close()
