"""Rounds over time: in each tick, a client has one sample or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.data.encoder import NO_PAST, SKIPPED, Encoder, Past
from psofed.data.losses import CROWDED
from psofed.data.reading import Drops, Table

Array = NDArray[Any]
MOST_ROUNDS = 256  # in a block
NUMBERS = 4_000_000  # of inputs in a block


@dataclass(frozen=True, eq=False)
class Block:
    """Rounds first.. of all clients: x [B, K, L], y [B, K] (NaN: no label), who has a sample."""

    first: int
    x: Array
    y: Array
    has: Array
    time: Array
    row: Array  # numbers of the rows in the table


class Rounds:
    """The samples of a table, block by block, through an encoder."""

    def __init__(
        self, table: Table, encoder: Encoder, origin: float | None = None, dtype: Any = np.float32
    ) -> None:
        self.table, self.encoder, self.dtype = table, encoder, dtype
        self.origin = table.start if origin is None else origin
        self.drops = Drops()  # of the last pass
        self.samples = self.unlabelled = 0
        self.beyond = np.zeros(len(encoder.centre), int)  # values beyond the limits, by column
        self.first = table.ticks(table.begin, self.origin)
        self.last = table.ticks(table.end, self.origin)

    @property
    def clients(self) -> int:
        """K."""
        return len(self.table.clients)

    @property
    def size(self) -> int:
        """Rounds in a block: fewer if there are many clients, so that memory stays bounded."""
        numbers = self.clients * max(self.encoder.taps, 1)
        return int(np.clip(NUMBERS // numbers, 1, MOST_ROUNDS))

    def blocks(self, stop: int | None = None, linger: int = 0) -> Iterator[Block]:
        """All rounds in order, to `stop`. Long gaps are left out, once labels have arrived.

        A block without a sample is given only within `linger` rounds of the last sample.
        """
        self.drops, self.samples, self.unlabelled = Drops(), 0, 0
        self.beyond[:] = 0
        streams = [_Stream(self, k) for k in range(self.clients)]
        end = int(self.last.max()) + 1 if stop is None else min(stop, int(self.last.max()) + 1)
        first, quiet = int(self.first.min()), linger
        while first < end:
            silent = min(s.next_tick for s in streams) - first
            if silent >= self.size and quiet >= linger:
                first += silent // self.size * self.size
                continue
            block = self._block(streams, first, min(self.size, end - first))
            quiet = 0 if block.has.any() else quiet + self.size
            yield block
            first += self.size

    def _block(self, streams: list[_Stream], first: int, size: int) -> Block:
        shape = size, self.clients
        x = np.zeros((*shape, self.encoder.taps), self.dtype)
        y, time = np.full(shape, np.nan, self.dtype), np.full(shape, np.nan)
        has, row = np.zeros(shape, bool), np.full(shape, -1, np.int64)
        for k, stream in enumerate(streams):
            ticks, times, inputs, targets, rows = stream.take(first + size)
            here = ticks - first
            x[here, k], y[here, k], time[here, k], has[here, k] = inputs, targets, times, True
            row[here, k] = rows
            self.samples += len(ticks)
            self.unlabelled += int(np.isnan(targets).sum())
        return Block(first, x, y, has, time, row)


class _Stream:
    """The samples of one client, in order."""

    def __init__(self, rounds: Rounds, k: int) -> None:
        self.rounds, self.past = rounds, Past()
        self.parts = rounds.table.read(k)
        self.width = rounds.encoder.taps
        self.last_tick = -(2**62)
        self.ready: list[tuple[Array, ...]] = []
        self._more()

    @property
    def next_tick(self) -> int:
        """The tick of the next sample."""
        return int(self.ready[0][0][0]) if self.ready else 2**62

    def _more(self) -> bool:
        """Encode the next rows from disk; False if there are none."""
        for rows, places in self.parts:
            table, drops = self.rounds.table, self.rounds.drops
            ticks = table.ticks(rows[:, 0], self.rounds.origin)
            fresh = np.diff(ticks, prepend=self.last_tick) > 0
            self.last_tick = int(ticks[-1])
            drops.add(CROWDED, int((~fresh).sum()))
            ticks, rows, places = ticks[fresh], rows[fresh], places[fresh]
            if not len(ticks):
                continue
            rows, beyond = self.rounds.encoder.possible(rows)
            self.rounds.beyond += beyond
            x, skip, short = self.rounds.encoder.encode(self.past, ticks, rows)
            drops.add(SKIPPED, int(skip.sum()))
            drops.add(NO_PAST, int(short.sum()))
            good = ~(skip | short)
            if good.any():
                y = self.rounds.encoder.target(rows[good, 1])
                self.ready.append((ticks[good], rows[good, 0], x[good], y, places[good]))
                return True
        return False

    def take(self, stop: int) -> tuple[Array, ...]:
        """Those before tick `stop`: ticks, times, x, y and numbers of the rows."""
        while self.ready and self.ready[-1][0][-1] < stop and self._more():
            pass
        taken = []
        while self.ready and self.ready[0][0][0] < stop:
            part = self.ready.pop(0)
            cut = int(np.searchsorted(part[0], stop))
            taken.append(tuple(v[:cut] for v in part))
            if cut < len(part[0]):
                self.ready.insert(0, tuple(v[cut:] for v in part))
                break
        if not self.ready:
            self._more()
        if not taken:
            nothing = np.empty(0)
            none = nothing.astype(np.int64)
            return none, nothing, np.empty((0, self.width)), nothing, none
        return tuple(np.concatenate(v) for v in zip(*taken, strict=True))


class Delay:
    """Samples as they become known: x and y of round n - d, in round n."""

    def __init__(self, delay: int, clients: int, taps: int, dtype: Any = np.float32) -> None:
        self.delay = delay
        self.x = np.zeros((delay, clients, taps), dtype)
        self.y = np.full((delay, clients), np.nan, dtype)

    def __call__(self, block: Block) -> tuple[Array, Array]:
        """The x and y whose labels arrive in the rounds of this block; NaN where none does.

        Rounds may be left out between two blocks if all labels have arrived before.
        """
        if not self.delay:
            return block.x, block.y
        size = len(block.y)
        x, y = np.concatenate([self.x, block.x]), np.concatenate([self.y, block.y])
        self.x, self.y = x[size:], y[size:]
        return x[:size], y[:size]
