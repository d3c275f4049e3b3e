"""A table of sensors as the clients' streams, with the scaling that its warm-up has frozen.

Round n is tick n, as in a fit: a client's sample is the one whose label becomes known then, that of
tick n - d, or none. No client learns in the warm-up, which has set the scaling. The last part is
never learned from; models are judged on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from psofed.core.native import Array
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import schema
from psofed.streams.contract import Origin, Samples, StreamOptions
from psofed.streams.data.columns import Columns, columns_of
from psofed.streams.data.live import Live
from psofed.streams.data.recipe import Pair, Recipe
from psofed.streams.data.rounds import sampled
from psofed.streams.data.textfile import UNKNOWN, Form, form_of

Series = tuple[Array, Array]  # x [count, L] and y [count] of one client


@dataclass(frozen=True)
class TableStream(StreamOptions):
    """Where the table is, who its clients are, and how a row becomes a sample."""

    name: ClassVar[str] = "table"
    measured: ClassVar[bool] = True
    gaps: ClassVar[bool] = True
    columns: Columns  # what the columns mean, as in a plan
    scaling: Mapping[str, Pair]  # centre and spread of each number
    clients: tuple[str, ...]  # by number
    file: str = ""  # a file or a folder; a deployed device needs none
    label_delay: int = 0  # ticks until a label is known
    first: int = 0  # ticks: the rows before it were the warm-up
    frozen: int = 10**9  # ticks: the rows from it on are for judging
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # seen, by column
    tick: float = 1.0  # length of a round
    start: float = 0.0  # the time of the first tick
    calendar: bool = False  # whether times are dates
    time_format: str = ""  # in which dates are written, as in strptime; empty: ISO 8601
    tick_unit: str = ""  # of the tick; empty: seconds, or unknown if times are numbers
    form: Form = UNKNOWN  # how the file is written, where that is not to be found out

    def __post_init__(self) -> None:
        if not self.clients or len(set(self.clients)) < len(self.clients):
            raise InputError("clients", f"is {list(self.clients)}", "name each client once")
        if not 0 <= self.first < self.frozen:
            found = f"are {self.first} and {self.frozen}"
            raise InputError("first and frozen", found, "use ticks, the first one below the other")
        self.columns.check_delay(self.label_delay)
        _ = self.recipe

    @cached_property
    def recipe(self) -> Recipe:
        """How a row becomes x and y."""
        return Recipe(self.columns, self.scaling, self.categories, self.tick, self.start,
                      self.calendar, self.time_format, self.tick_unit)  # fmt: skip

    @property
    def taps(self) -> int:
        """L."""
        return self.recipe.taps

    @classmethod
    def readers(cls) -> Mapping[str, schema.Reader]:
        """Those of the tables [stream.columns] and [stream.form]."""
        return {"columns": columns_of, "form": form_of}

    def origins(self) -> list[Origin]:
        """Columns, with their lags."""
        return self.recipe.origins

    def clients_named(self) -> tuple[str, ...]:
        """By number."""
        return self.clients

    def to_table(self) -> dict[str, Any]:
        """As plain values: what stands under [stream]."""
        names = ("file", "clients", "label_delay", "first", "frozen")
        plain = {name: getattr(self, name) for name in names}
        form = {"form": self.form.to_table()} if self.form.to_table() else {}
        return plain | {"clients": list(self.clients)} | self.recipe.to_table() | form

    def live(self, k: int, ahead: float = float("inf")) -> Live:
        """Turns the rows of client k into samples as they arrive; who joined later has no name."""
        return Live(self.recipe, self.clients[k] if k < len(self.clients) else None, ahead)

    def restore(self, y: float) -> float:
        """A prediction in the units of the target."""
        return float(self.recipe.restore(np.asarray(y)))

    def recorded(self, file: str | Path, k: int | None = None) -> Series:
        """All samples with a label in a file: of client k, or of all clients."""
        recipe = self.recipe.of_one(file, self.form)
        parts = _read(recipe, file, self.form)
        named = recipe.columns.client is not None or recipe.columns.wide is not None
        alone = not named and not Path(file).is_dir()  # a file of one client, whatever its name
        later = k is not None and k >= len(self.clients)  # joined after the table was made
        if later and len(parts) > 1:
            several = f"has {len(parts)} clients, but client {k} has no name in the table"
            raise InputError("", several, "give a file with its own rows only", str(file))
        wanted = list(parts) if alone or later or k is None else [self.clients[k]]
        found = [(parts[name].x, parts[name].y) for name in wanted if name in parts]
        if not sum(len(y) for _, y in found):
            who = "" if k is None or later else f" of {self.clients[k]!r}"
            raise InputError("", f"has no row{who} with a label", "give others", str(file))
        x, y = (np.concatenate(both) for both in zip(*found, strict=True))
        return x, y

    def presence(self) -> tuple[Array, Array, Array]:
        """A client is there from its first row to its last label."""
        rows, d = self._rows, self.label_delay
        busy = np.zeros(self.frozen + 1, bool)
        for n, _, _ in self._learned:
            busy[n] = True
        first = np.maximum([r.first + d for r in rows], self.first)
        return first, np.array([r.last + d + 1 for r in rows]), busy

    def check_rounds(self, rounds: int) -> None:
        """A tick is a round: warm-up, then learning, which ends where the last part begins."""
        if rounds != self.frozen:
            found = (
                f"is {rounds}, but a round is a tick and the last part begins with {self.frozen}"
            )
            raise InputError("rounds", found, f"use {self.frozen}, or change stream.frozen too")

    @cached_property
    def _rows(self) -> list[LabelledRows]:
        """Of each client, its rows with a label."""
        if not self.file:
            raise InputError("stream.file", "is missing", "name the table, or give --stream")
        parts = _read(self.recipe, self.file, self.form)
        for name in self.clients:
            if name not in parts:
                known = ", ".join(list(parts)[:5])
                found = f"has no client {name!r}"
                raise InputError("", found, f"its clients are {known}, ...", self.file)
        return [parts[name] for name in self.clients]

    @cached_property
    def _learned(self) -> list[tuple[Array, Array, Array]]:
        """Of each client, what is learned from: rounds, x and y."""
        learned = []
        for rows in self._rows:
            n = rows.ticks + self.label_delay
            a, b = np.searchsorted(n, [self.first, self.frozen])
            learned.append((n[a:b], rows.x[a:b], rows.y[a:b]))
        if not any(len(n) for n, _, _ in learned):
            found = "has no row with a label between warm-up and last part"
            right = f"lower stream.first ({self.first}), or give more rows"
            raise InputError("", found, right, self.file)
        return learned

    @cached_property
    def _judged(self) -> list[Series]:
        """Of each client, the samples on which models are judged: x and y."""
        starts = [np.searchsorted(rows.ticks, self.frozen) for rows in self._rows]
        judged = [(rows.x[b:], rows.y[b:]) for rows, b in zip(self._rows, starts, strict=True)]
        if not any(len(y) for _, y in judged):
            found = "has no labels in its last part, on which models are judged"
            raise InputError("", found, f"lower stream.frozen ({self.frozen})", self.file)
        return judged

    def samples(
        self, seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any = np.float64,
        memory: Any = None,
    ) -> Samples:  # fmt: skip
        """The samples of rounds first..stop-1; they are the same in every run."""
        x = np.zeros((len(clients), stop - first, self.taps), dtype)
        y = np.full((len(clients), stop - first), np.nan, dtype)
        for row, k in enumerate(clients):
            n, inputs, targets = self._learned[k]
            a, b = np.searchsorted(n, [first, stop])
            x[row, n[a:b] - first], y[row, n[a:b] - first] = inputs[a:b], targets[a:b]
        # There is no memory, but callers cut it to clients, so it has a row for each.
        return Samples(x, y, np.zeros_like(y), np.empty((len(clients), 0), dtype))

    def snapshot(self, seeds: Seeds, purpose: str, clients: int | Array, count: int) -> Samples:
        """Samples evenly spread over clients and time: of the last part if they are for testing."""
        learned = [(x, y) for _, x, y in self._learned]
        parts = self._judged if purpose == "test" else learned
        if isinstance(clients, int):
            some = min(clients, count)
            clients = np.arange(some) * clients // some
        known = [k for k in clients if len(parts[k][1])]
        known = known or [k for k, part in enumerate(parts) if len(part[1])]
        each = -(-count // len(known))
        x, y = np.empty((count, self.taps)), np.empty(count)
        for j in range(count):
            series = parts[known[j % len(known)]]
            turn, size = j // len(known), len(series[1])
            i = turn * size // each if each <= size else turn % size
            x[j], y[j] = series[0][i], series[1][i]
        return Samples(x, y, np.zeros(count))


Options = TableStream


class LabelledRows(NamedTuple):
    """The rows of a client that have a label, and the ticks of its first and its last row."""

    ticks: Array
    x: Array
    y: Array
    first: int
    last: int


def _read(recipe: Recipe, file: str | Path, form: Form) -> dict[str, LabelledRows]:
    """By client."""
    rounds = sampled(recipe, file, labelled=True, dtype=np.float64, form=form)
    nothing = np.empty(0, int), np.empty((0, recipe.taps)), np.empty(0)
    found: list[list[tuple[Array, Array, Array]]] = [[nothing] for _ in rounds.table.clients]
    for block in rounds.blocks():
        known = block.has & ~np.isnan(block.y)
        for k, parts in enumerate(found):
            i = np.flatnonzero(known[:, k])
            parts.append((block.first + i, block.x[i, k], block.y[i, k]))
    rows = {}
    for k, name in enumerate(rounds.table.clients):
        ticks, x, y = map(np.concatenate, zip(*found[k], strict=True))
        rows[name] = LabelledRows(ticks, x, y, int(rounds.first[k]), int(rounds.last[k]))
    return rows
