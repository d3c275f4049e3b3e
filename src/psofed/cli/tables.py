"""What `fit`, `predict` and `advise` share: the options that say what a table's columns mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.progress import EVERY, say

if TYPE_CHECKING:
    from psofed.report.files import Folder
    from psofed.rows.table import Table
    from psofed.tables.plan import Plan

EXAMPLE: dict[str, Any] = {"label_delay": 6, "warmup": 0.2}


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that reads a table."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_PATH = click.Path(path_type=Path)
_OPTIONS: list[Any] = [
    click.option("--client", metavar="COL", help="Who measured. [default: one file per client]"),
    click.option("--time", "time_", metavar="COL,..", help="When; year,month,day,... if several."),
    click.option("--target", metavar="COL", help="What the model has to tell."),
    click.option("--inputs", metavar="COL,..", help="From what. [default: all other columns]"),
    click.option("--drop", metavar="COL,..", help="Columns that are no inputs."),
    click.option("--categorical", metavar="COL,..", help="Inputs whose numbers are only names."),
    click.option("--wide", metavar="SEP", help="Columns are named CLIENT<SEP>QUANTITY."),
    click.option("--missing", multiple=True, metavar="COL=RULE",
                 help="hold, skip or indicator; *=RULE for all columns. [default: *=hold]"),
    click.option("--marker", multiple=True, metavar="TEXT", help='Also means "missing": -999.'),
    click.option("--range", "range_", multiple=True, metavar="COL=LOW:HIGH",
                 help="Scale by a known range, not by the warm-up."),
    click.option("--lags", metavar="[COL:]N,..",
                 help="Also the inputs so many ticks ago: all, or one column's."),
    click.option("--target-lags", metavar="N,..", help="Also the target so many ticks ago."),
    click.option("--calendar", metavar="NAME,..", help="hour, weekday, yearday as waves."),
    click.option("--tick", type=float, help="Length of a round. [default: the fastest client's]"),
    click.option("--label-delay", type=click.IntRange(min=0), metavar="N",
                 help="Ticks until a label is known. [default: 0]"),
    click.option("--warmup", type=float, help="Share of rounds that only scales and tunes. [0.1]"),
    click.option("--frozen", type=float, help="Last share of rounds, for frozen models. [0.25]"),
    click.option("--cohort", type=click.IntRange(min=1), help="Clients per round. [default: 4]"),
    click.option("--dim", type=click.IntRange(min=1), help="D, the features. [default: 200]"),
    click.option("--width", type=float, help="Kernel width. [default: tuned on the warm-up]"),
    click.option("--step", type=float, help="mu. [default: tuned on the warm-up]"),
    click.option("--wire", type=click.Choice(["float16", "float32", "float64"]),
                 help="How numbers travel. [default: float32]"),
    click.option("--seed", type=click.IntRange(min=0), help="Of features, masks and cohorts. [0]"),
    click.option("--plan", "plan_file", type=_PATH, help="A TOML file with all of this."),
    click.option("--example", is_flag=True, help="Use the synthetic table in the package."),
    click.option("--out", type=_PATH, help="Folder for the results."),
    click.option("--force", is_flag=True, help="Write into a folder that is not empty."),
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON."),
]  # fmt: skip
_NUMBERS = ("label_delay", "warmup", "frozen", "cohort", "dim", "width", "step", "seed", "wire")


@dataclass(frozen=True)
class Asked:
    """A table and a plan, as the command line gives them."""

    source: Path
    plan: Plan
    example: bool = False

    @property
    def name(self) -> str:
        """Of the folder of its results."""
        return "example" if self.example else self.source.name.split(".")[0]


def asked(table: Path | None, methods: tuple[str, ...], wishes: dict[str, Any]) -> Asked:
    """The table and the plan; options win over the plan's file, and that over the defaults."""
    from psofed.rows.columns import parse
    from psofed.tables import example
    from psofed.tables import plan as plans

    if wishes["example"] == (table is not None):
        raise click.UsageError("Give a TABLE, or --example.")
    values: dict[str, Any] = {k: wishes[k] for k in _NUMBERS if wishes[k] is not None}
    if methods:
        values["methods"] = tuple(plans.method_from_text(text) for text in methods)
    columns = _columns(wishes)
    if wishes["example"]:
        columns = example.COLUMNS.to_table() | columns
        return Asked(example.path(), plans.Plan(parse(columns), **EXAMPLE | values), example=True)
    if wishes["plan_file"] is not None:
        return Asked(table, _changed(plans.read(wishes["plan_file"]), columns, values))  # type: ignore[arg-type]
    for name in ("time", "target"):
        if name not in columns:
            raise click.UsageError(f"Missing option '--{name}' (or --plan, or --example).")
    return Asked(table, plans.Plan(parse(columns), **values))  # type: ignore[arg-type]


def _changed(plan: Plan, columns: dict[str, Any], values: dict[str, Any]) -> Plan:
    from psofed.rows.columns import parse

    return replace(plan, columns=parse(plan.columns.to_table() | columns), **values)


def _columns(wishes: dict[str, Any]) -> dict[str, Any]:
    """The [columns] table that the options describe."""
    table: dict[str, Any] = {k: wishes[k] for k in ("client", "target", "wide", "tick")}
    for name, key in (("time_", "time"), ("inputs",) * 2, ("drop",) * 2, ("categorical",) * 2,
                      ("calendar",) * 2):  # fmt: skip
        table[key] = _split(wishes[name])
    table["lags"], table["lags_of"] = _lags(wishes["lags"])
    lags = _split(wishes["target_lags"]) or ()
    table["target_lags"] = [_number("--target-lags", text, int) for text in lags]
    table["markers"] = list(wishes["marker"])
    table["missing"] = dict(_pair("--missing", text) for text in wishes["missing"])
    ranges = (_pair("--range", text) for text in wishes["range_"])
    table["ranges"] = {
        name: [_number("--range", v, float) for v in both.split(":")] for name, both in ranges
    }
    return {key: value for key, value in table.items() if value not in (None, [], {})}


def _lags(text: str | None) -> tuple[list[int], dict[str, list[int]]]:
    """Lags of all inputs, and those of one column: "1,2,temp:24"."""
    common: list[int] = []
    own: dict[str, list[int]] = {}
    for part in _split(text) or ():
        name, _, lag = part.rpartition(":")
        (own.setdefault(name, []) if name else common).append(_number("--lags", lag, int))
    return common, own


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _pair(option: str, text: str) -> tuple[str, str]:
    from psofed.errors import InputError

    name, found, value = text.rpartition("=")
    if not found:
        raise InputError(option, f"is {text!r}", "use COLUMN=VALUE")
    return name, value


def _number(option: str, text: str, kind: Any) -> Any:
    from psofed.errors import InputError

    try:
        return kind(text)
    except ValueError:
        raise InputError(option, f"has {text!r}", "use numbers") from None


@contextmanager
def results(wanted: Asked, verb: str, wishes: dict[str, Any]) -> Iterator[Folder]:
    """The folder for results: opened before the work begins, given back if it fails."""
    from psofed.report import files

    default = files.default_folder(Path("results") / f"{wanted.name}-{verb}", False)
    folder = files.Folder(wishes["out"] or default, wishes["force"])
    try:
        yield folder
    except BaseException:
        folder.discard()
        raise


def command() -> str:
    """What was typed."""
    return "psofed " + " ".join(sys.argv[1:])


def _reading() -> Callable[[int], None]:
    """A line now and then: how long a file is, is known only at its end."""
    last = monotonic()

    def show(rows: int) -> None:
        nonlocal last
        if monotonic() - last >= EVERY:
            last = monotonic()
            say(f"reading: {rows:,} rows")

    return show


def read(wanted: Asked) -> Table:
    """The table, with progress; what was dropped is said at once."""
    from psofed.rows import table as tables

    if wanted.example:
        say("The table of the example is synthetic: made up, not measured.")
    table = tables.read(wanted.source, wanted.plan.columns, on_rows=_reading())
    clients = "1 client" if len(table.clients) == 1 else f"{len(table.clients)} clients"
    say(f"Read {table.rows:,} rows of {clients}: {table.rounds:,} rounds of {table.tick:g}"
        f"{' s' if table.calendar else ''}.")  # fmt: skip
    return table
