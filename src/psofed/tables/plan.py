"""A plan: columns, delay, features and methods of a fit; the experiment that it becomes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from psofed.errors import InputError
from psofed.federation import forms, plugins, schema
from psofed.federation.contract import METHOD
from psofed.federation.feature_table import Features
from psofed.federation.options import Options
from psofed.federation.schema import inside
from psofed.methods import onlinefed, psofed
from psofed.stages.checks import contract as checks
from psofed.stages.checks import range as ranges
from psofed.stages.checks.contract import SampleCheck
from psofed.stages.mix import MixOptions
from psofed.streams import table as streams
from psofed.streams.data.columns import Columns, columns_of
from psofed.streams.data.rounds import Rounds
from psofed.streams.data.textfile import UNKNOWN, Form, form_of

if TYPE_CHECKING:
    from psofed.experiment import Experiment

RUNS = 10  # of `psofed run`: seeds of features, masks and cohorts on the same data
RUN_HEAD = """\
# Written by `psofed advise`. One file for
#   psofed run FILE                                      simulate it on the table
#   psofed deploy serve FILE --state server --broker mqtts://HOST      the server of the devices
#   psofed deploy client FILE --id NAME --state NAME --broker mqtts://HOST --stream -
# Devices read rows as they come and need neither the table nor `stream.file`.

"""


@dataclass(frozen=True)
class Span:
    """Learning and scoring begin with round `first`; models are frozen, and judged, at `frozen`.

    With `choice`, they are also frozen there and judged until `frozen`: to choose by.
    """

    first: int
    frozen: int
    stop: int
    choice: int | None = None

    @property
    def parts(self) -> dict[str, tuple[int, int]]:
        """The rounds in which models are judged that were frozen when the part began."""
        last = {"frozen": (self.frozen, self.stop)}
        return last if self.choice is None else {"choice": (self.choice, self.frozen)} | last

    @property
    def freezes(self) -> dict[str, tuple[int, int]]:
        """These parts, and quarters of that for choosing, whose models say whom to trust."""
        ends = np.linspace(self.choice or self.frozen, self.frozen, 5).astype(int).tolist()
        pairs = enumerate(pairwise(ends))
        return self.parts | {f"quarter {i}": (a, b) for i, (a, b) in pairs if a < b}

    def overlap(self, first: int, count: int) -> list[str]:
        """To which of `freezes` some of the rounds first.. belong, or which have begun by then."""
        return [p for p, (a, b) in self.freezes.items() if first < b and a < first + count]

    def cuts(self, first: int, count: int, more: Iterable[int] = ()) -> Iterable[tuple[int, int]]:
        """Rounds first.. in pieces, such that no part, and none of `more`, begins within one."""
        begins = (*(begin for begin, _ in self.freezes.values()), *more)
        inside = {begin for begin in begins if first < begin < first + count}
        return pairwise(sorted({first, first + count, *inside}))


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
    use: Literal["frozen", "live"] = "frozen"  # predict without labels, or while they keep coming
    season: int | None = None  # ticks after which labels are alike; not set: a day, week or year
    compare: bool = False  # whether full sharing, learning alone and raw samples are judged, too
    force: bool = False  # whether a model that is worse than the mean is saved anyway
    allow_loss: bool = False  # whether to go on if more than a tenth of the rows is lost
    methods: tuple[Options, ...] = ()  # not set: PSO-Fed with a fifth of the entries

    def __post_init__(self) -> None:
        named = schema.choice("psofed.sample_checks", "check", self.check)
        object.__setattr__(self, "check", named)
        schema.check(self, skip=("columns", "methods", "form", "check"))
        schema.positive(self, "step", "cohort", "width", "dim", "season")
        schema.at_most(self, {"dim": 100_000})
        narrow = self.width is not None and not 1e-6 <= self.width <= 1e6
        schema.require(self, "width", not narrow, "use 1e-6 to 1e6")
        if not self.methods:
            object.__setattr__(self, "methods", (psofed.Options(max(self.dim // 5, 1)),))
        self.columns.check_delay(self.label_delay)
        schema.require(self, "seed", 0 <= self.seed < 2**63, "use a whole number, 0 or more")
        for name, most in (("warmup", 0.5), ("frozen", 0.9)):
            if not 0 <= getattr(self, name) <= most:
                found = f"is {getattr(self, name)}"
                raise InputError(name, found, f"use a share of the rounds, 0 to {most}")
        self._check_methods()
        if self.check is not None:
            checks.check(self.check)
        if self.limited and self.check.ends != (-np.inf, np.inf):  # type: ignore[union-attr]
            found = "is given, but the range of the target is that of the warm-up"
            raise InputError("check.low", found, "leave it out, or give one in columns.ranges")

    @property
    def limited(self) -> bool:
        """Whether numbers far outside their usual range are missing."""
        return isinstance(self.check, ranges.Options)

    def _check_methods(self) -> None:
        for i, options in enumerate(self.methods):
            with inside(f"methods[{i}]."):
                if not plugins.is_ours(type(options)):
                    forms.check(METHOD, options)
                if options.apart:
                    what = "learner" if options.features is None else "features"
                    found = "is given, but all models of a table share one"
                    raise InputError(what, found, "leave it out")
                schema.check(options, skip=("policy",))
                schema.positive(options, "step")
                options.check_wire()
                options.check_server()
                options.check(self.dim, 10**9)
                if options.gapless:
                    found = (
                        f"is {options.name!r}, which needs a sample of every client in each round"
                    )
                    raise InputError("name", found, "use another method")
                if options.policy is not None:
                    raise InputError("policy", "is given", "leave it out: tables have no policies")

    def experiment(
        self, rounds: Rounds, span: Span, source: str | Path | None, mix: MixOptions | None = None
    ) -> Experiment:
        """For `run`, `serve` and `client`, on the table; round n is the fit's: tick n.

        The plan's method comes first; full sharing follows for comparison.
        """
        from psofed.experiment import Experiment

        recipe, names = rounds.recipe, rounds.table.clients
        stream = streams.Options(
            recipe.columns, recipe.scaling, tuple(names),
            "" if source is None else str(Path(source).resolve()), self.label_delay, span.first,
            span.frozen, recipe.categories, recipe.tick, recipe.start, recipe.calendar,
            recipe.time_format, recipe.tick_unit, self.form,
        )  # fmt: skip
        full, check, limits = onlinefed.Options(), self.check, rounds.limits
        if limits is not None and isinstance(check, ranges.Options):  # in the units of the models
            ends = recipe.target(limits[:, 0]).tolist()
            low, high = (end if isfinite(end) else None for end in ends)
            check = dataclasses.replace(check, low=low, high=high)
        others = () if any(o.name == full.name for o in self.methods) else (full,)
        return Experiment(
            clients=len(names), rounds=span.frozen, runs=RUNS, seed=self.seed,
            cohort=min(self.cohort, len(names)), step=self.step or 0.2, stream=stream,
            features=Features(dim=self.dim, width=self.width or 1.0), check=check,
            mix=mix, methods=(*self.methods, *others),
        )  # fmt: skip

    def to_table(self) -> dict[str, Any]:
        """As plain values: what `read` reads."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        table = {key: value for key, value in plain.items() if value is not None}
        table["columns"], form = self.columns.to_table(), self.form.to_table()
        for key, value in (("form", form), ("allow_loss", self.allow_loss), ("force", self.force)):
            table.pop(key)
            table |= {key: value} if value else {}
        if self.check is not None:
            table["check"] = schema.table(self.check)
        table["methods"] = [schema.table(options) for options in self.methods]
        # TOML needs plain values before tables.
        last = [k for k in ("form", "columns", "check") if k in table]
        return {k: table[k] for k in table if k not in last} | {k: table[k] for k in last}


def read(path: str | Path, missing: dict[str, Any] | None = None) -> Plan:
    """The plan in a TOML file; every mistake in it is an InputError that names it."""
    table = schema.read_toml(path, "a plan, as `psofed advise` writes it", "correct that line")
    with inside(where=str(path)), plugins.relative_to(Path(path).parent):
        return parse((missing or {}) | table)


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
        "methods": schema.each(schema.reader("psofed.methods")),
    }
    return schema.build(Plan, table, nested)


def run_table(made: Experiment, wire: str) -> dict[str, Any]:
    """The experiment, and how it is deployed."""
    deploy = {"run": "p", "clock": "live", "wire": wire, "method": 0}
    return made.to_table() | {"deploy": deploy}
