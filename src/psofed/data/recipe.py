"""How a row becomes the inputs of a model, frozen: columns, scaling, categories and the tick.

It is learned once, on a warm-up; a saved model holds it, and so does the file of a deployment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from psofed import schema
from psofed.data import columns as roles
from psofed.data import reading as tables
from psofed.data.columns import Columns
from psofed.data.encoder import Encoder
from psofed.data.form import UNKNOWN, Form
from psofed.data.reading import Table
from psofed.data.rounds import Rounds
from psofed.data.sources import RowSource
from psofed.data.times import ISO
from psofed.data.warmup import positions
from psofed.errors import InputError

Pair = tuple[float, float]


@dataclass(frozen=True)
class Recipe:
    """scaling: column to (centre, scale), the target's too; x = (value - centre) / scale.

    >>> recipe = Recipe(Columns("y", ("t",), inputs=("a",)), {"a": (0, 1), "y": (5, 2)})
    >>> recipe.encoder.names, float(recipe.encoder.restore(1.0))
    (['a'], 7.0)
    """

    columns: Columns  # with all inputs named
    scaling: Mapping[str, Pair]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tick: float = 1.0  # of time: the length of a round
    start: float = 0.0  # the time of round 0
    calendar: bool = False  # whether time is in seconds since 1970
    time_format: str = ""  # in which dates were written, as in strptime

    def __post_init__(self) -> None:
        schema.positive(self, "tick")
        for name in (*self.columns.inputs, self.columns.target):
            known = (name in self.scaling) + (name in self.categories)
            if known != 1:
                found = "is scaled and a category" if known else "has no scaling and no categories"
                raise InputError(f"column {name!r}", found, "give it one of them")
        for name, (centre, scale) in self.scaling.items():
            if not (isfinite(centre) and isfinite(scale) and scale > 0):
                right = "use the centre and a scale above 0"
                raise InputError(f"scaling.{name}", f"is [{centre}, {scale}]", right)
        if not self.encoder.taps:
            raise InputError("columns.inputs", "is empty", "name the inputs")

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder of texts by their position among the known ones."""
        numeric = tuple(n for n in self.columns.inputs if n in self.scaling)
        ours = {n: tuple(v) for n, v in self.categories.items() if n in self.columns.inputs}
        pairs = [self.scaling[n] for n in (*numeric, self.columns.target) if n in self.scaling]
        centre, scale = np.array(pairs, np.float64).reshape(-1, 2).T
        codes = {name: positions(list(values), values) for name, values in ours.items()}
        return Encoder(self.columns, numeric, ours, codes, centre, scale)

    def rounds(
        self, source: Any, labelled: bool, dtype: Any = np.float32, form: Form = UNKNOWN
    ) -> Rounds:
        """The samples of a table with the same columns; that of the clients may be absent."""
        e = self.encoder
        kinds = dict.fromkeys(e.numeric, "number") | dict.fromkeys(e.categories, "category")
        columns = replace(self.columns, tick=self.tick)
        table = tables.read(
            source, columns, labelled=labelled, kinds=kinds, form=form, hint=self.time_format
        )
        if table.calendar != self.calendar:
            was = "dates" if self.calendar else "numbers"
            raise InputError("time", f"is not in {was}, as it was in the fit", "use the same form")
        codes = {n: positions(list(table.categories[n].known), v) for n, v in e.categories.items()}
        return Rounds(table, replace(e, columns=columns, codes=codes), self.start, dtype)

    def of_one(self, source: Any, form: Form = UNKNOWN) -> Recipe:
        """For a table of one client, which may lack the column of the client."""
        client = self.columns.client
        if client is None or client in RowSource(source, self.columns, form).header():
            return self
        return replace(self, columns=replace(self.columns, client=None))

    def to_table(self) -> dict[str, Any]:
        """As plain values, which `parse` reads."""
        table: dict[str, Any] = {"tick": self.tick, "start": self.start, "calendar": self.calendar}
        table |= {"time_format": self.time_format} if self.time_format else {}
        table["columns"] = self.columns.to_table()
        table["scaling"] = {name: [float(v) for v in pair] for name, pair in self.scaling.items()}
        table["categories"] = {name: list(values) for name, values in self.categories.items()}
        return table


def of(table: Table, encoder: Encoder) -> Recipe:
    """The recipe of a table and its warm-up."""
    names = (*encoder.numeric, encoder.columns.target)
    pairs = zip(encoder.centre.tolist(), encoder.scale.tolist(), strict=True)
    scaling = dict(zip(names, pairs, strict=True))
    columns = _needed(replace(encoder.columns, inputs=table.columns.inputs))
    start, tick = table.start, table.tick
    form = table.time_format if table.time_format != ISO else ""
    return Recipe(columns, scaling, encoder.categories, tick, start, table.calendar, form)


def _needed(columns: Columns) -> Columns:
    """Without settings that are applied by now: a later table need not have unused columns."""
    missing = {n: rule for n, rule in columns.missing.items() if n == "*" or n in columns.inputs}
    return replace(columns, drop=(), ranges={}, categorical=(), tick=None, missing=missing)


def columns_of(key: str, value: Any) -> Columns:
    """The table [columns] of a file; a mistake in it is named with its place."""
    try:
        return roles.parse(value)
    except InputError as error:
        raise error.inside("" if error.field == key else key + ".") from None


def _categories(key: str, value: Any) -> dict[str, tuple[str, ...]]:
    table = schema.convert(key, value, dict)
    return {name: roles.texts(f"{key}.{name}", texts) for name, texts in table.items()}


READERS = {"columns": columns_of, "scaling": roles.pairs, "categories": _categories}


def parse(table: Any) -> Recipe:
    """A recipe from plain values; every mistake is an InputError."""
    table = schema.convert("recipe", table, dict)
    recipe: Recipe = schema.build(Recipe, table, READERS)
    return recipe
