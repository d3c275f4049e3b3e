"""A plan: columns, delay, features and methods of a fit. TOML in, validated once."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from psofed import named, schema
from psofed.errors import InputError
from psofed.experiment import Features
from psofed.methods import psofed
from psofed.methods.contract import Options
from psofed.rows.columns import Columns
from psofed.rows.recipe import columns_of


@dataclass(frozen=True)
class Plan:
    """Everything that decides a fit besides the table.

    >>> Plan(Columns(target="y", time=("t",)), warmup=0.0).label_delay
    0
    """

    columns: Columns  # what the columns mean
    label_delay: int = 0  # ticks until a label is known
    warmup: float = 0.1  # share of the rounds that only scales and tunes
    frozen: float = 0.25  # share of the rounds, the last ones, on which frozen models are judged
    cohort: int = 4  # clients that take part in a round
    seed: int = 0  # of features, masks and cohorts
    step: float | None = None  # not set: tuned on the warm-up
    wire: Literal["float16", "float32", "float64"] = "float32"  # how numbers travel
    dim: int = 200  # D
    width: float | None = None  # not set: tuned on the warm-up
    methods: tuple[Options, ...] = ()  # not set: PSO-Fed with a fifth of the entries

    def __post_init__(self) -> None:
        schema.check(self, skip=("columns", "methods"))
        schema.positive(self, "step", "cohort", "width", "dim")
        Features(dim=self.dim, width=self.width or 1.0)
        if not self.methods:
            object.__setattr__(self, "methods", (psofed.Options(max(self.dim // 5, 1)),))
        self.columns.check_delay(self.label_delay)
        if not 0 <= self.seed < 2**63:
            raise InputError("seed", f"is {self.seed}", "use a whole number from 0 on")
        for name, most in (("warmup", 0.5), ("frozen", 0.9)):
            if not 0 <= getattr(self, name) <= most:
                found = f"is {getattr(self, name)}"
                raise InputError(name, found, f"use a share of the rounds, 0 to {most}")
        self._check_methods()

    def _check_methods(self) -> None:
        for i, options in enumerate(self.methods):
            try:
                schema.check(options, skip=("policy",))
                schema.positive(options, "step")
                options.check(self.dim, 10**9)
                if options.policy is not None:
                    raise InputError("policy", "is given", "leave it out: tables have no policies")
            except InputError as error:
                raise error.inside(f"methods[{i}].") from None

    def to_table(self) -> dict[str, Any]:
        """As plain values: what `to_toml` writes and `read` reads."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        table = {key: value for key, value in plain.items() if value is not None}
        table["columns"] = self.columns.to_table()
        table["methods"] = [_method(options) for options in self.methods]
        # TOML wants plain values before tables.
        return {k: table[k] for k in table if k != "columns"} | {"columns": table["columns"]}

    def to_toml(self) -> str:
        """The plan as TOML."""
        import tomli_w

        return tomli_w.dumps(self.to_table())


def read(path: str | Path, missing: dict[str, Any] | None = None) -> Plan:
    """The plan in a TOML file; every mistake in it is an InputError that names it."""
    text = schema.read_text(path, "a plan, as `psofed advise` writes it")
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("", f"is not TOML: {error}", "mend that line", str(path)) from None
    try:
        return parse((missing or {}) | table)
    except InputError as error:
        raise error.inside(where=str(path)) from None


def parse(table: dict[str, Any]) -> Plan:
    """A plan from plain values, as `to_table` makes them."""
    if "columns" not in table:
        raise InputError("columns", "is missing", "name client, time and target in [columns]")
    nested = {"columns": columns_of, "methods": _methods}
    plan: Plan = schema.build(Plan, table, nested)
    return plan


def _methods(key: str, value: Any) -> tuple[Options, ...]:
    entries = schema.convert(key, value, list)
    return tuple(method(entry, f"{key}[{i}]") for i, entry in enumerate(entries))


def method(entry: Any, key: str = "method") -> Options:
    """The options of a method from a table with its name."""
    values = dict(schema.convert(key, entry, dict))
    try:
        name = values.pop("name", None)
        options: Options = schema.build(named.load("psofed.methods", name).Options, values)
        return options
    except InputError as error:
        raise error.inside(key + ".") from None


def method_from_text(text: str) -> Options:
    """The options in a text such as "psofed:shared=5,scheme=coordinated".

    >>> method_from_text("psofed:shared=5").title()
    'PSO-Fed M=5 uncoordinated'
    """
    name, _, rest = text.partition(":")
    values = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    return method({"name": name} | {k.strip(): _value(v) for k, v in values.items()}, "--method")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except ValueError:
        return text.strip()


def _method(options: Options) -> dict[str, Any]:
    values = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    return {"name": options.name, **{k: v for k, v in values.items() if v is not None}}
