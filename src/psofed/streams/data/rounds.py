"""Rounds over time: in each tick, a client has one sample or none; what is lost on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.streams.data import reading
from psofed.streams.data.reading import NO_CLIENT, NO_TIME, REPEATED, SAME_TIME
from psofed.streams.data.recipe import FARTHEST, FEW, Past, Recipe
from psofed.streams.data.table import Drops, Table
from psofed.streams.data.textfile import UNKNOWN, Form

MOST_ROUNDS = 256  # in a block
NUMBERS = 4_000_000  # of inputs in a block
MOST = 0.1  # of the rows that may be lost
DOUBTFUL = 0.03  # of the labels may be wrong; more are how they are
FEWEST = 10  # rows with which a client cannot be judged
CROWDED = "in the tick of an earlier row"
WORDS = ("sensor", "station", "device", "client", "node", "site", "id", "name")
LOUD = "WARNING: "
GO_ON = "--set allow_loss=true goes on without them"


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
    """The samples of a table, block by block, as a recipe says.

    Numbers beyond the `limits` [low or high, target and numbers] are missing if the rounds are
    `limited`; labels beyond are counted. What is counted is of the last pass.
    """

    def __init__(
        self, table: Table, recipe: Recipe, start: float | None = None, dtype: Any = np.float32,
        limits: Array | None = None, limited: bool = False,
    ) -> None:  # fmt: skip
        self.table, self.recipe, self.dtype = table, recipe, dtype
        self.limits, self.limited = limits, limited
        self.ticks = table.ticks if start is None else replace(table.ticks, start=start)
        self.positions = [
            _positions(codes.known, recipe.hot[name]) for name, codes in table.categories.items()
        ]
        self._forget()
        self.first = self.ticks(table.begin)
        self.last = self.ticks(table.end)

    def _forget(self) -> None:
        self.drops, self.samples = Drops(), 0
        self.taken = 0  # rows
        # Of the target and the numbers: values beyond the limits, and those that are clipped.
        self.beyond, self.clipped = np.zeros((2, 1 + len(self.table.numeric)), int)
        self.strange = dict.fromkeys(
            self.table.categories, 0
        )  # texts that the warm-up did not have
        self.unlabelled = 0  # samples that are predicted, but not learned
        self.far = self.recipe.limits  # the widest limit of any client

    def possible(self, rows: Array) -> Array:
        """Rows in which what is beyond the limits is missing, and texts are positions."""
        c = len(self.table.numeric)
        values, (least, most) = rows[:, 1 : 2 + c], self.recipe.reach[:, 0]
        self.taken += len(rows)
        if self.limits is not None:
            low, high = self.limits
            wrong = (values < low) | (values > high)
            values[wrong & self.limited] = np.nan
            self.beyond += wrong.sum(axis=0)
        self.clipped[0] += np.count_nonzero((values[:, 0] < least) | (values[:, 0] > most))
        texts = zip(self.strange, rows[:, 2 + c :].T, self.positions, strict=True)
        for name, column, known in texts:
            there = ~np.isnan(column)
            column[there] = known[column[there].astype(int)]
            self.strange[name] += int((column == -1).sum())
        return rows

    def saw(self, past: Past) -> None:
        """Count what was clipped of a client's last rows."""
        self.clipped[1:] += past.cut.sum(axis=0)
        self.far = np.maximum(self.far, past.far)

    @property
    def widened(self) -> Recipe:
        """The recipe, with limits that hold all that clients were given without a jump."""
        far = zip(self.recipe.numeric, self.far.tolist(), strict=True)
        return replace(self.recipe, far={n: limit for n, limit in far if limit > FARTHEST})

    def notes(self) -> list[str]:
        """Values that were not taken as they are, by column; a line for each reason."""
        names, lines = (self.table.columns.target, *self.table.numeric), []
        beyond = [f"{n:,} of {name!r}" for name, n in zip(names, self.beyond, strict=True) if n]
        far = "far outside the usual range"
        if beyond and self.limited:
            lines.append(f"taken as missing, being {far}: {', '.join(beyond)}")
        elif 0 < self.beyond[0] <= DOUBTFUL * self.taken:
            lines.append(f"{LOUD}{beyond[0]} are {far}, and learned: if they are wrong, give"
                         " --set check=outliers")  # fmt: skip
        for name, count, (low, high) in zip(names, self.clipped, self.recipe.reach.T, strict=True):
            if count:
                lines.append(
                    f"{self._share(count)} of {name!r} are outside {low:.4g} to {high:.4g},"
                    f" {FARTHEST:g} spreads of the warm-up, and clipped: is it the same unit?"
                    f" --set ranges.{name}=LOW,HIGH scales it otherwise"
                )
        for name, count in self.strange.items():
            if count:
                used, there = len(self.recipe.hot[name]), len(self.table.categories[name].known)
                lines.append(
                    f"{self._share(count)} of {name!r} count for nothing: the warm-up had {used:,}"
                    f" texts, and the table has {there:,}"
                )
        return lines

    def _share(self, count: int) -> str:
        loud = LOUD if count > FEW * self.taken else ""
        return f"{loud}{count:,} values in {self.taken:,} rows"

    @property
    def clients(self) -> int:
        """K."""
        return len(self.table.clients)

    @property
    def size(self) -> int:
        """Rounds in a block: fewer if there are many clients, so that memory stays bounded."""
        numbers = self.clients * self.recipe.taps
        return int(np.clip(NUMBERS // numbers, 1, MOST_ROUNDS))

    def blocks(self, stop: int | None = None, linger: int = 0) -> Iterator[Block]:
        """All rounds in order, to `stop`. Long gaps are left out, once labels have arrived.

        A block without a sample is given only within `linger` rounds of the last sample.
        """
        self._forget()
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
        x = np.zeros((*shape, self.recipe.taps), self.dtype)
        y, time = np.full(shape, np.nan, self.dtype), np.full(shape, np.nan)
        has, row = np.zeros(shape, bool), np.full(shape, -1, np.int64)
        for k, stream in enumerate(streams):
            for ticks, times, inputs, targets, rows in stream.take(first + size):
                here = ticks - first
                x[here, k], y[here, k], time[here, k], has[here, k] = inputs, targets, times, True
                row[here, k] = rows
                self.samples += len(ticks)
                self.unlabelled += int(np.isnan(targets).sum())
        return Block(first, x, y, has, time, row)


def sampled(
    recipe: Recipe, source: Any, labelled: bool, dtype: Any = np.float32, form: Form = UNKNOWN
) -> Rounds:
    """The samples of another table with the same columns; that of the clients may be absent."""
    columns = replace(recipe.columns, tick=recipe.tick, tick_unit=recipe.tick_unit or None)
    table = reading.read(
        source, columns, labelled, recipe.numeric, form=form, hint=recipe.time_format
    )
    if table.ticks.dates != recipe.calendar:
        was = "dates" if recipe.calendar else "numbers"
        raise InputError("time", f"is not in {was}, as it was in the fit", "use the same form")
    return Rounds(table, recipe, recipe.start, dtype)


def _positions(texts: Iterable[str], values: tuple[str, ...]) -> Array:
    """The position of each text of a table among the known values; -1 if it is not one."""
    known = {value: i for i, value in enumerate(values)}
    return np.array([known.get(text, -1) for text in texts])


class _Stream:
    """The samples of one client, in order: ticks, times, x, y and numbers of the rows."""

    def __init__(self, rounds: Rounds, k: int) -> None:
        self.rounds, self.past = rounds, Past()
        self.parts = rounds.table.read(k)
        self.last_tick = -(2**62)
        self.ready = self._more()

    @property
    def next_tick(self) -> int:
        """The tick of the next sample."""
        return int(self.ready[0][0]) if self.ready else 2**62

    def _more(self) -> tuple[Array, ...]:
        """The next rows from disk, encoded; nothing if there are none."""
        drops, recipe = self.rounds.drops, self.rounds.recipe
        for rows, places in self.parts:
            ticks = self.rounds.ticks(rows[:, 0])
            fresh = np.diff(ticks, prepend=self.last_tick) > 0
            self.last_tick = int(ticks[-1])
            drops.add(CROWDED, int((~fresh).sum()))
            ticks, rows, places = ticks[fresh], rows[fresh], places[fresh]
            if not len(ticks):
                continue
            x, lost = recipe.encode(self.past, ticks, self.rounds.possible(rows))
            self.rounds.saw(self.past)
            for reason, left in lost.items():
                drops.add(reason, int(left.sum()))
            good = ~np.any(list(lost.values()), axis=0)
            if good.any():
                y = recipe.target(rows[good, 1])
                return ticks[good], rows[good, 0], x[good], y, places[good]
        return ()

    def take(self, stop: int) -> Iterator[tuple[Array, ...]]:
        """Those before tick `stop`, in parts."""
        while self.next_tick < stop:
            part = self.ready
            cut = int(np.searchsorted(part[0], stop))
            self.ready = tuple(v[cut:] for v in part) if cut < len(part[0]) else self._more()
            yield tuple(v[:cut] for v in part)


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


def check(table: Table, allowed: bool) -> None:
    """Refuse a table of which too many rows, or too many clients, would be lost."""
    if allowed:
        return
    drops = deepcopy(table.drops)
    drops.add(CROWDED, crowded(table))
    check_share(table, drops, allowed)
    few = int((table.counts < FEWEST).sum())
    if 2 * few >= len(table.clients) > 1:
        found = f"has {few:,} of {len(table.clients):,} clients with fewer than {FEWEST} rows"
        right = f"is {_client(table)} the column of the client? --set allow_loss=true goes on"
        raise InputError("", found, right, table.latest)


def check_share(table: Table, drops: Drops, allowed: bool) -> None:
    """Refuse to lose more than a tenth of the rows."""
    if allowed or drops.total <= MOST * table.rows:
        return
    reason, _ = drops.counts.most_common(1)[0]
    if _one_client(table) and drops.counts[SAME_TIME]:  # whatever else, this comes first
        reason = SAME_TIME
    found = f"loses {drops.total:,} of {table.rows:,} rows: {', '.join(drops.lines())}"
    cause = _cause(table, reason)
    raise InputError("", found, f"{cause}; {GO_ON}" if cause else GO_ON, table.latest)


def crowded(table: Table) -> int:
    """Rows of a client that fall into the same tick as an earlier one."""
    count = 0
    for k in range(len(table.clients)):
        last = -(2**62)
        for rows, _ in table.read(k):
            ticks = table.ticks(rows[:, 0])
            count += int((np.diff(ticks, prepend=last) <= 0).sum())
            last = int(ticks[-1])
    return count


def _cause(table: Table, reason: str) -> str:
    columns = table.columns
    if reason in (SAME_TIME, REPEATED):
        if _one_client(table):
            near = suggestion(table)
            return f"no --client: did you mean {near!r}?" if near else "no --client was given"
        return f"is {_client(table)} the column of the client?"
    if reason == NO_CLIENT:
        return f"column {columns.client!r} of the client is empty there"
    if reason == NO_TIME:
        return f"column {','.join(columns.time)!r} of the time is empty there"
    if reason == CROWDED:
        much = f"a round of {table.ticks} is longer than their interval"
        return f"{much}: give a shorter --set tick=.."
    return ""


def _one_client(table: Table) -> bool:
    columns = table.columns
    return columns.client is None and columns.wide is None and len(table.clients) == 1


def _client(table: Table) -> str:
    return repr(table.columns.client) if table.columns.client is not None else "the file's name"


def suggestion(table: Table) -> str:
    """The column that may name the client: a text with few values, or one that is called so."""
    texts = [name for name, codes in table.categories.items() if len(codes.known) > 1]
    left = [finding.name for finding in table.findings if finding.role in ("number", "left out")]
    named = [n for n in (*texts, *left) if any(word in n.lower() for word in WORDS)]
    return (named or texts or [""])[0]
