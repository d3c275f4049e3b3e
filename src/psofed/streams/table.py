"""A table of sensors as the clients' streams, with the scaling that its warm-up has frozen.

Sample n of client k is its n-th row with a label after the warm-up; who has fewer than there are
rounds begins again with the first. The last part is never learned from: models are judged on it.
Labels that come late shift all samples alike, so rounds count from the first label on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.rows import columns as roles
from psofed.rows import recipe as recipes
from psofed.rows.columns import Columns
from psofed.rows.live import Live
from psofed.rows.recipe import Pair, Recipe
from psofed.streams.contract import Samples

Array = NDArray[Any]
Series = tuple[Array, Array]  # x [count, L] and y [count] of one client


@dataclass(frozen=True)
class Options:
    """Where the table is, who its clients are, and how a row becomes a sample."""

    name: ClassVar[str] = "table"
    independent: ClassVar[bool] = False
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
        ours = (self.columns, self.scaling, self.categories, self.tick, self.start, self.calendar)
        return Recipe(*ours)

    @property
    def taps(self) -> int:
        """L."""
        return self.recipe.encoder.taps

    @property
    def count(self) -> int:
        """K."""
        return len(self.clients)

    def to_table(self) -> dict[str, Any]:
        """As plain values: what stands under [stream]."""
        names = ("file", "clients", "label_delay", "first", "frozen")
        plain = {name: getattr(self, name) for name in names}
        return plain | {"clients": list(self.clients)} | self.recipe.to_table()

    def live(self, k: int) -> Live:
        """Turns the rows of client k into samples, as they come."""
        return Live(self.recipe, self.clients[k])

    def restore(self, y: float) -> float:
        """A prediction in the units of the target."""
        return float(self.recipe.encoder.restore(np.asarray(y)))

    def recorded(self, file: str | Path, k: int | None = None) -> Series:
        """All samples with a label in a file: of client k, or of everybody."""
        recipe = self.recipe.of_one(file)
        parts = _read(recipe, file)
        named = recipe.columns.client is not None or recipe.columns.wide is not None
        alone = not named and not Path(file).is_dir()  # a file of one client, whatever its name
        wanted = list(parts) if alone or k is None else [self.clients[k]]
        found = [parts[name][1:] for name in wanted if name in parts]
        if not sum(len(y) for _, y in found):
            who = "" if k is None else f" of {self.clients[k]!r}"
            raise InputError("", f"has no row{who} with a label", "give others", str(file))
        x, y = (np.concatenate(both) for both in zip(*found, strict=True))
        return x, y

    @cached_property
    def _parts(self) -> tuple[list[Series], list[Series]]:
        """Of each client, what is learned from and what is judged by."""
        if not self.file:
            raise InputError("stream.file", "is missing", "name the table, or give --stream")
        parts = _read(self.recipe, self.file)
        learned, judged = [], []
        for name in self.clients:
            if name not in parts:
                known = ", ".join(list(parts)[:5])
                found = f"has no client {name!r}"
                raise InputError("", found, f"its clients are {known}, ...", self.file)
            ticks, x, y = parts[name]
            a, b = np.searchsorted(ticks, [self.first, self.frozen])
            learned.append((x[a:b], y[a:b]))
            judged.append((x[b:], y[b:]))
            if a == b:
                found = f"has no row of {name!r} with a label between warm-up and last part"
                raise InputError("", found, "leave it out of stream.clients", self.file)
        if not any(len(y) for _, y in judged):
            found = "has no labels in its last part, which models are judged by"
            raise InputError("", found, f"lower stream.frozen ({self.frozen})", self.file)
        return learned, judged

    def samples(
        self, seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any = np.float64,
        memory: Any = None,
    ) -> Samples:  # fmt: skip
        """The samples of rounds first..stop-1; they are the same in every run."""
        learned, n = self._parts[0], np.arange(first, stop)
        x = np.empty((len(clients), len(n), self.taps), dtype)
        y = np.empty((len(clients), len(n)), dtype)
        for row, k in enumerate(clients):
            series = learned[k]
            here = n % len(series[1])
            x[row], y[row] = series[0][here], series[1][here]
        # The memory is nothing, but is cut to clients by those who hand it back.
        return Samples(x, y, np.zeros_like(y), np.empty((len(clients), 0), dtype))

    def snapshot(self, seeds: Seeds, purpose: str, clients: int | Array, count: int) -> Samples:
        """Samples evenly spread over clients and time: of the last part if they are to test."""
        parts = self._parts[1] if purpose == "test" else self._parts[0]
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


def _read(recipe: Recipe, file: str | Path) -> dict[str, tuple[Array, Array, Array]]:
    """By client: ticks, x and y of the rows that have a label."""
    rounds = recipe.rounds(file, labelled=True, dtype=np.float64)
    nothing = np.empty(0, int), np.empty((0, recipe.encoder.taps)), np.empty(0)
    found: list[list[tuple[Array, Array, Array]]] = [[nothing] for _ in rounds.table.clients]
    for block in rounds.blocks():
        known = block.has & ~np.isnan(block.y)
        for k, parts in enumerate(found):
            i = np.flatnonzero(known[:, k])
            parts.append((block.first + i, block.x[i, k], block.y[i, k]))
    series = [tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in found]
    return dict(zip(rounds.table.clients, series, strict=True))  # type: ignore[arg-type]


READERS = recipes.READERS | {"clients": roles.texts}
