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

from psofed.cli import printing
from psofed.cli.progress import EVERY, say

if TYPE_CHECKING:
    from psofed.data.form import Form
    from psofed.data.reading import Table
    from psofed.fit.plan import Plan
    from psofed.report.files import ResultFolder

EXAMPLE: dict[str, Any] = {"label_delay": 6, "warmup": 0.2}


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that learns from a table."""
    return _with(_OPTIONS, command)


def form_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how a table is written."""
    return _with(FORM, command)


def _with(some: list[Any], command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(some):
        command = option(command)
    return command


_PATH = click.Path(path_type=Path)
FORM: list[Any] = [
    click.option("--sep", metavar="CHAR", help="Sign between cells, e.g. ; [default: found out]"),
    click.option("--decimal", type=click.Choice([".", ","]),
                 help="Decimal sign. [default: found out]"),
    click.option("--encoding", metavar="NAME",
                 help="Encoding of text files, e.g. utf-16 or latin-1. [default: found out]"),
    click.option("--time-format", metavar="FORMAT",
                 help="Form of dates, e.g. '%d.%m.%Y %H:%M'; or s, ms, us, ns since 1970."
                 " [default: found out]"),
    click.option("--day-first/--month-first", default=None,
                 help="Whether 01/02/2024 is in February. [default: found out]"),
    click.option("--sheet", metavar="NAME", help="Sheet of an Excel file. [default: the first]"),
    click.option("--allow-large", is_flag=True,
                 help="Read files without limits on line length, columns and unpacked size."),
]  # fmt: skip
_OPTIONS: list[Any] = [
    click.option("--client", metavar="COL",
                 help="Column that names the client. [default: one file per client]"),
    click.option("--time", "time_", metavar="COL,..",
                 help="Column of the time, or several: year,month,day,..."),
    click.option("--target", metavar="COL", help="Column to predict."),
    click.option("--inputs", metavar="COL,..", help="Input columns. [default: all other columns]"),
    click.option("--drop", metavar="COL,..", help="Columns to leave out of the inputs."),
    click.option("--categorical", metavar="COL,..",
                 help="Inputs whose numbers are names of categories."),
    click.option("--wide", metavar="SEP",
                 help="Separator in a wide table, whose columns are named CLIENT<SEP>QUANTITY."),
    click.option("--missing", multiple=True, metavar="COL=RULE",
                 help="What to do with a missing value: hold (use the last one), skip (no sample)"
                 " or indicator (the mean, and an input that says so). *=RULE for all columns."
                 " [default: *=hold]"),
    click.option("--marker", multiple=True, metavar="TEXT",
                 help="A text or number that also means a missing value, e.g. -999."),
    *FORM,
    click.option("--allow-loss", is_flag=True, default=None,
                 help="Go on if more than a tenth of the rows is lost."),
    click.option("--range", "range_", multiple=True, metavar="COL=LOW:HIGH",
                 help="Scale a column by a known range instead of the warm-up."),
    click.option("--lags", metavar="[COL:]N,..",
                 help="Add older values as inputs: those of N ticks ago, of all numeric inputs or"
                 " of one column."),
    click.option("--target-lags", metavar="N,..",
                 help="Add older values of the target as inputs: those of N ticks ago."),
    click.option("--calendar", metavar="NAME,..",
                 help="Add hour, weekday or yearday as inputs (sine and cosine)."),
    click.option("--tick", type=float,
                 help="Length of a round, in seconds if times are dates."
                 " [default: the usual interval of the fastest client]"),
    click.option("--label-delay", type=click.IntRange(min=0), metavar="N",
                 help="Ticks until a label is known. [default: 0]"),
    click.option("--warmup", type=float,
                 help="Share of the rounds, the first ones, used for scaling and tuning only."
                 " [default: 0.1]"),
    click.option("--frozen", type=float,
                 help="Share of the rounds, the last ones, on which frozen models are judged."
                 " [default: 0.25]"),
    click.option("--cohort", type=click.IntRange(min=1), metavar="N",
                 help="Clients per round. [default: 4]"),
    click.option("--dim", type=click.IntRange(min=1), metavar="D",
                 help="Number of features. [default: 200]"),
    click.option("--width", type=float, help="Kernel width. [default: tuned on the warm-up]"),
    click.option("--step", type=float, help="Step size mu. [default: tuned on the warm-up]"),
    click.option("--wire", type=click.Choice(["float16", "float32", "float64"]),
                 help="Number format in messages. [default: float32]"),
    click.option("--seed", type=click.IntRange(min=0), metavar="N",
                 help="Seed of features, masks and cohorts. [default: 0]"),
    click.option("--check", metavar="NAME[:KEY=VALUE,..]",
                 help="Refuse samples that cannot be, e.g. outliers or outliers:factor=10; numbers"
                 " far outside the range of the warm-up are then missing. [default: none]"),
    click.option("--plan", "plan_file", type=_PATH,
                 help="TOML file with these settings; options override it."),
    click.option("--example", is_flag=True, help="Use the synthetic table in the package."),
    click.option("--out", type=_PATH,
                 help="Folder for the results. [default: a new folder in results/]"),
    click.option("--force", is_flag=True, help="Write into a folder that is not empty."),
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON."),
]  # fmt: skip
_NUMBERS = (
    "label_delay",
    "warmup",
    "frozen",
    "cohort",
    "dim",
    "width",
    "step",
    "seed",
    "wire",
    "allow_loss",
)


@dataclass(frozen=True)
class Asked:
    """A table and a plan, as the command line gives them."""

    source: Path
    plan: Plan
    example: bool = False

    @property
    def name(self) -> str:
        """The name of the folder of its results."""
        return "example" if self.example else self.source.name.split(".")[0]


def asked(table: Path | None, methods: tuple[str, ...], wishes: dict[str, Any]) -> Asked:
    """The table and the plan; options override the plan's file, and that the defaults."""
    from psofed.data.columns import parse
    from psofed.fit import example
    from psofed.fit import plan as plans

    if wishes["example"] == (table is not None):
        raise click.UsageError("Give a TABLE, or --example.")
    values: dict[str, Any] = {k: wishes[k] for k in _NUMBERS if wishes[k] is not None}
    if methods:
        values["methods"] = tuple(plans.method_from_text(text) for text in methods)
    if wishes["check"] is not None:
        values["check"] = plans.check_from_text(wishes["check"])
    columns = _columns(wishes)
    given = form(wishes)
    if given.to_table():
        values["form"] = given
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
    from psofed.data.columns import parse

    return replace(plan, columns=parse(plan.columns.to_table() | columns), **values)


def form(wishes: dict[str, Any]) -> Form:
    """How the file is written, as far as the options tell."""
    from psofed.data.form import Form

    sep = {"\\t": "\t", "tab": "\t"}.get(wishes["sep"], wishes["sep"])
    keys = ("decimal", "encoding", "time_format", "day_first", "sheet")
    return Form(sep, **{key: wishes[key] for key in keys}, large=wishes["allow_large"])


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
def results(wanted: Asked, verb: str, wishes: dict[str, Any]) -> Iterator[ResultFolder]:
    """The folder for results: opened before the work begins, removed again if it fails."""
    from psofed.report import files

    default = files.default_folder(Path("results") / f"{wanted.name}-{verb}", False)
    folder = files.ResultFolder(wishes["out"] or default, wishes["force"])
    try:
        yield folder
    except BaseException:
        folder.discard()
        raise


def command() -> str:
    """The command line as it was typed."""
    return "psofed " + " ".join(sys.argv[1:])


def _reading() -> Callable[[int], None]:
    """A line every few seconds; the number of rows is not known before the end of the file."""
    last = monotonic()

    def show(rows: int) -> None:
        nonlocal last
        if monotonic() - last >= EVERY:
            last = monotonic()
            say(f"reading: {rows:,} rows")

    return show


def read(wanted: Asked) -> Table:
    """The table, read with progress lines."""
    from psofed.data import reading as tables

    if wanted.example:
        say("The table of the example is synthetic, not measured.")
    from psofed.data import survey
    from psofed.report.grid import Grid

    plan = wanted.plan
    table = tables.read(wanted.source, plan.columns, on_rows=_reading(), form=plan.form)
    clients = "1 client" if len(table.clients) == 1 else f"{len(table.clients)} clients"
    say(f"Read {table.rows:,} rows of {clients}: {table.rounds:,} rounds of {table.tick:g}"
        f"{' s' if table.calendar else ''}.")  # fmt: skip
    for line in table.said:
        say(line[:1].upper() + line[1:] + ".")
    columns = Grid(survey.lines(table.findings), left=(0, 1, 4), least=(3, 2))
    printing.show(columns, beside=True)
    return table
