"""A plan: columns, delay, features and methods of a fit. TOML in, validated once."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from psofed import contracts, plugins, schema, validation
from psofed.data.columns import Columns
from psofed.data.form import UNKNOWN, Form
from psofed.data.form import parse as form_of
from psofed.data.recipe import columns_of
from psofed.errors import InputError
from psofed.experiment import Features
from psofed.methods import psofed
from psofed.methods.contract import Options
from psofed.sample_checks import range as ranges
from psofed.sample_checks.contract import SampleCheck


@dataclass(frozen=True)
class Plan:
    """Everything that decides a fit besides the table.

    >>> Plan(Columns(target="y", time=("t",)), warmup=0.0).label_delay
    0
    """

    columns: Columns  # what the columns mean
    label_delay: int = 0  # ticks until a label is known
    warmup: float = 0.1  # share of the rounds, the first ones, used for scaling and tuning only
    frozen: float = 0.25  # share of the rounds, the last ones, on which frozen models are judged
    cohort: int = 4  # clients that take part in a round
    seed: int = 0  # seed of features, masks and cohorts
    step: float | None = None  # step size mu; not set: tuned on the warm-up
    wire: Literal["float16", "float32", "float64"] = "float32"  # number format in messages
    dim: int = 200  # D, the number of features
    width: float | None = None  # width of the kernel; not set: tuned on the warm-up
    form: Form = UNKNOWN  # how the file is written, where that is not to be found out
    check: SampleCheck | None = None  # what clients do not learn from; not set: they do from all
    allow_loss: bool = False  # whether to go on if more than a tenth of the rows is lost
    methods: tuple[Options, ...] = ()  # not set: PSO-Fed with a fifth of the entries

    def __post_init__(self) -> None:
        schema.check(self, skip=("columns", "methods", "form", "check"))
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
        validation.sample_check(self.check)
        if self.limited and self.check.ends != (-np.inf, np.inf):  # type: ignore[union-attr]
            found = "is given, but the range of the target is that of the warm-up"
            raise InputError("check.low", found, "leave it out, or give one in columns.ranges")

    @property
    def limited(self) -> bool:
        """Whether numbers far outside their usual range are missing."""
        return isinstance(self.check, ranges.Options)

    def _check_methods(self) -> None:
        for i, options in enumerate(self.methods):
            try:
                contracts.check(contracts.METHOD, options)
                if options.apart:
                    what = "learner" if options.features is None else "features"
                    found = "is given, but all models of a table share one"
                    raise InputError(what, found, "leave it out")
                schema.check(options, skip=("policy",))
                schema.positive(options, "step")
                options.check_wire()
                options.check(self.dim, 10**9)
                if options.gapless:
                    found = (
                        f"is {options.name!r}, which needs a sample of every client in each round"
                    )
                    raise InputError("name", found, "use another method")
                if options.policy is not None:
                    raise InputError("policy", "is given", "leave it out: tables have no policies")
            except InputError as error:
                raise error.inside(f"methods[{i}].") from None

    def to_table(self) -> dict[str, Any]:
        """As plain values: what `to_toml` writes and `read` reads."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        table = {key: value for key, value in plain.items() if value is not None}
        table["columns"], form = self.columns.to_table(), self.form.to_table()
        for key, value in (("form", form), ("allow_loss", self.allow_loss)):
            table.pop(key)
            table |= {key: value} if value else {}
        if self.check is not None:
            table["check"] = schema.table(self.check)
        table["methods"] = [schema.table(options) for options in self.methods]
        # TOML needs plain values before tables.
        last = [k for k in ("form", "columns", "check") if k in table]
        return {k: table[k] for k in table if k not in last} | {k: table[k] for k in last}

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
        raise InputError("", f"is not TOML: {error}", "correct that line", str(path)) from None
    try:
        with plugins.relative_to(Path(path).parent):
            return parse((missing or {}) | table)
    except InputError as error:
        raise error.inside(where=str(path)) from None


def parse(table: dict[str, Any]) -> Plan:
    """A plan from plain values, as `to_table` makes them."""
    if "columns" not in table:
        raise InputError("columns", "is missing", "name client, time and target in [columns]")
    if "learner" in table:
        found = "is given, but a fit learns by LMS on random features"
        raise InputError("learner", found, "leave it out; `run`, `serve` and `compare` know it")
    nested = {
        "columns": columns_of,
        "form": form_of,
        "check": schema.reader("psofed.sample_checks"),
        "methods": schema.list_reader("psofed.methods"),
    }
    plan: Plan = schema.build(Plan, table, nested)
    return plan


def method_from_text(text: str) -> Options:
    """The options in a text such as "psofed:shared=5,scheme=coordinated".

    >>> method_from_text("psofed:shared=5").title()
    'PSO-Fed M=5 uncoordinated'
    """
    options: Options = schema.reader("psofed.methods")("--method", _table_from(text))
    return options


def check_from_text(text: str) -> SampleCheck:
    """The sample check in a text such as "outliers:factor=10"."""
    check: SampleCheck = schema.reader("psofed.sample_checks")("--check", _table_from(text))
    return check


def _table_from(text: str) -> dict[str, Any]:
    name, _, rest = text.partition(":")
    values = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    return {"name": name} | {k.strip(): value_of(v) for k, v in values.items()}


def value_of(text: str) -> Any:
    """A value in a text, as TOML reads it, or the text itself."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except ValueError:
        return text.strip()
