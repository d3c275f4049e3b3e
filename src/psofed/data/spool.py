"""Rows of many clients on disk, sorted per client: memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from tempfile import TemporaryFile
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROWS = 1024  # of one client, written at once
BUFFERED = 8_000_000  # numbers of all clients that wait to be written
SORTED = 2_000_000  # numbers of one client that are sorted at once
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
        self.file: Any = TemporaryFile()  # noqa: SIM115  closed with the spool
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

    def sort(self, k: int, keep: Callable[[Array], Array]) -> None:
        """Put the rows of client k in the order of column 0; rows that are equal there stay so.

        External: runs that fit into memory are sorted and merged. `keep` picks from what is merged,
        in order, the rows to keep.
        """
        runs = Spool(self.width)
        count = 0
        for part in _joined(self.read(k), max(SORTED // self.width, ROWS)):
            part = part[np.argsort(part[:, 0], kind="stable")]
            for i in range(0, len(part), ROWS):  # the blocks in which it is read again
                runs.add(count, part[i : i + ROWS])
            count += 1
            del part  # before the next one is put together
        for chains in (self.first, self.last):
            chains.pop(k, None)
        for rows in _merged([runs.read(i) for i in range(count)]):
            self.add(k, keep(rows))
        runs.close()

    def close(self) -> None:
        """Close the file, which frees its disk space."""
        self.file.close()


def _joined(blocks: Iterable[Array], rows: int) -> Iterator[Array]:
    """Blocks put together until they have so many rows."""
    held: list[Array] = []
    for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= rows:
            held = [np.concatenate(held)]
            yield held.pop()  # nothing here keeps it any longer than its user
    if held:
        held = [np.concatenate(held)]
        yield held.pop()


def _merged(runs: list[Iterator[Array]]) -> Iterator[Array]:
    """Sorted runs as one. Of rows with the same time, that of the earlier run comes first."""
    heads = [(next(run), run) for run in runs]
    while heads:
        # No run has anything up to here that is not in memory, but for further equal times.
        bound = min(head[-1, 0] for head, _ in heads)
        cuts = [int(np.searchsorted(head[:, 0], bound, side="right")) for head, _ in heads]
        rows = np.concatenate([head[:cut] for (head, _), cut in zip(heads, cuts, strict=True)])
        yield rows[np.argsort(rows[:, 0], kind="stable")]
        left = [(head[cut:], run) for (head, run), cut in zip(heads, cuts, strict=True)]
        heads = [pair for head, run in left if len((pair := _filled(head, run))[0])]


def _filled(head: Array, run: Iterator[Array]) -> tuple[Array, Iterator[Array]]:
    return (head if len(head) else next(run, head)), run
