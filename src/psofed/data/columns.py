"""What the columns of a table mean: client, time, target and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from psofed import schema
from psofed.errors import InputError

RULES = ("hold", "skip", "indicator")
CALENDAR = {"hour": 86400.0, "weekday": 7 * 86400.0, "yearday": 365.2425 * 86400.0}
MOST_LAG = 100_000
MOST_LAGS = 1000


@dataclass(frozen=True)
class Columns:
    """The [columns] table of a plan. Inputs that are not named are all other columns.

    >>> Columns(target="o3", time=("t",), client="station").rule("temp")
    'hold'
    """

    target: str  # the column to predict
    time: tuple[str, ...]  # the column of the time, or several: year, month, day, ...
    client: str | None = None  # the column that names the client; not set: one file per client
    wide: str | None = None  # separates client and quantity in the names of a wide table's columns
    inputs: tuple[str, ...] = ()  # the input columns; not set: all other columns
    drop: tuple[str, ...] = ()  # columns to leave out of the inputs
    categorical: tuple[str, ...] = ()  # inputs whose numbers are names of categories
    missing: Mapping[str, str] = field(default_factory=dict)  # rule by column; "*" is all others
    markers: tuple[str, ...] = ()  # further texts that mean "missing", such as -999
    lags: tuple[int, ...] = ()  # older values as inputs, in ticks, for all numeric inputs
    lags_of: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # further lags of a column
    target_lags: tuple[int, ...] = ()  # older values of the target as inputs, in ticks
    calendar: tuple[str, ...] = ()  # hour, weekday, yearday as inputs: sine and cosine
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # known, for scaling
    tick: float | None = None  # length of a round; not set: the fastest client's usual interval

    def __post_init__(self) -> None:
        schema.positive(self, "tick")
        if not self.time:
            raise InputError("time", "is empty", "name the column of the time")
        self._check_roles()
        for name in self.calendar:
            if name not in CALENDAR:
                raise InputError("calendar", f"has {name!r}", f"use {', '.join(CALENDAR)}")
        for name, rule in self.missing.items():
            if rule not in RULES:
                raise InputError(f"missing.{name}", f"is {rule!r}", f"use {', '.join(RULES)}")
        given = {"lags": self.lags, "target_lags": self.target_lags}
        given |= {f"lags_of.{name}": lags for name, lags in self.lags_of.items()}
        for key, lags in given.items():
            if any(not 1 <= lag <= MOST_LAG for lag in lags) or len(lags) > MOST_LAGS:
                raise InputError(key, f"is {list(lags)}", f"use ticks from 1 to {MOST_LAG}")
        for name, (low, high) in self.ranges.items():
            if not (low < high and isfinite(low) and isfinite(high)):
                right = "use two numbers, the lower first"
                raise InputError(f"ranges.{name}", f"is {low} to {high}", right)

    def _check_roles(self) -> None:
        """No column has two roles: a target among the inputs would leak."""
        if self.wide == "":
            raise InputError("wide", "is empty", "give the separator, such as .")
        if self.client and self.wide:
            raise InputError("client", "is given, but a wide table names clients in its header",
                             "give one of client and wide")  # fmt: skip
        taken = [self.target, *self.time, *([self.client] if self.client else [])]
        for i, name in enumerate(taken):
            if name in taken[:i]:
                raise InputError("columns", f"use {name!r} twice", "give each one role")
        for name in self.inputs:
            if name == self.target:
                right = "leave it out, or use target_lags for its past"
                raise InputError("inputs", f"has the target {name!r}", right)
            if name == self.client or self.inputs.count(name) > 1:
                raise InputError("inputs", f"has {name!r}", "name each input once; not the client")

    def lags_for(self, column: str) -> tuple[int, ...]:
        """The lags of a numeric input: those of all, then its own.

        >>> Columns("y", ("t",), lags=(1,), lags_of={"a": (1, 3)}).lags_for("a")
        (1, 3)
        """
        return tuple(dict.fromkeys((*self.lags, *self.lags_of.get(column, ()))))

    @property
    def longest_lag(self) -> int:
        """How many ticks a client has to remember."""
        own = (lag for lags in self.lags_of.values() for lag in lags)
        return max((*self.lags, *own, *self.target_lags), default=0)

    def check_delay(self, label_delay: int) -> None:
        """Refuse a delay that is too long, and lags of labels that are not known yet."""
        if not 0 <= label_delay <= MOST_LAG:
            raise InputError("label_delay", f"is {label_delay}", f"use 0 to {MOST_LAG} ticks")
        for lag in self.target_lags:
            if lag < max(label_delay, 1):
                found = f"has {lag}, but labels come {label_delay} ticks late"
                right = f"use lags of {max(label_delay, 1)} or more"
                raise InputError("columns.target_lags", found, right)

    def rule(self, column: str) -> str:
        """What happens where a value of this column is missing."""
        return self.missing.get(column, self.missing.get("*", "hold"))

    def to_table(self) -> dict[str, Any]:
        """As plain values: what a plan and a saved model hold."""
        table = {name: _plain(value) for name, value in self.__dict__.items()}
        return {name: value for name, value in table.items() if value not in (None, [], {})}


def parse(table: Any) -> Columns:
    """Columns from plain values, as `to_table` makes them; every mistake is an InputError."""
    nested = dict.fromkeys(("inputs", "drop", "categorical", "markers", "calendar"), texts)
    nested |= {"time": texts, "lags": numbers, "target_lags": numbers}  # type: ignore[dict-item]
    nested |= {"missing": _rules, "ranges": pairs, "lags_of": _lags}  # type: ignore[dict-item]
    table = dict(schema.convert("columns", table, dict))
    for key in ("target", "time"):
        if key not in table:
            raise InputError(key, "is missing", "name the column")
    columns: Columns = schema.build(Columns, table, nested)
    return columns


def texts(key: str, value: Any) -> tuple[str, ...]:
    """A list of texts; one text is a list of one."""
    entries = [value] if isinstance(value, str) else schema.convert(key, value, list)
    return tuple(schema.convert(key, entry, str) for entry in entries)


def numbers(key: str, value: Any) -> tuple[int, ...]:
    """A list of whole numbers."""
    return tuple(schema.convert(key, entry, int) for entry in schema.convert(key, value, list))


def _rules(key: str, value: Any) -> dict[str, str]:
    table = schema.convert(key, value, dict)
    return {name: schema.convert(f"{key}.{name}", rule, str) for name, rule in table.items()}


def _lags(key: str, value: Any) -> dict[str, tuple[int, ...]]:
    table = schema.convert(key, value, dict)
    return {name: numbers(f"{key}.{name}", lags) for name, lags in table.items()}


def pairs(key: str, value: Any) -> dict[str, tuple[float, float]]:
    """A table of two numbers each."""
    table = schema.convert(key, value, dict)
    pair = tuple[float, float]
    return {name: schema.convert(f"{key}.{name}", both, pair) for name, both in table.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


Kind = Literal["number", "category"]
