"""`psofed fit` and `psofed advise`: a model from a table, and what suits it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from psofed.cli import printing
from psofed.cli.printing import finish, results, say
from psofed.cli.verbs import FILE, Command, common, fields
from psofed.federation import texts
from psofed.federation.progress import EVERY, counting

if TYPE_CHECKING:
    from psofed.streams.data.table import Table
    from psofed.tables.plan import Plan

EXAMPLE: dict[str, Any] = {"label_delay": 6, "warmup": 0.2}
FORM = ", ".join(texts.comments("streams.data.textfile", "Form"))
ROLES = ("client", "time", "target", "inputs")
PLAN = click.option("--plan", "plan_file", type=FILE, metavar="FILE",
                    help="TOML file with such settings; options override it.")  # fmt: skip


def set_option(names: str) -> Callable[[Command], Command]:
    """--set for a table."""
    return click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE",
        help=f"A setting by its name, as a plan has it; may be repeated: {names}.",
    )  # fmt: skip


def _names(*more: str) -> str:
    plan = [
        *texts.comments("tables.plan", "Plan"),
        *texts.comments("streams.data.columns", "Columns"),
    ]
    left_out = ("columns", "form", "methods", "target", "time", "client")
    return ", ".join([name for name in (*more, *plan) if name not in left_out]) + f", {FORM}"


@click.command()
@click.argument("table", type=FILE, required=False)
@fields("streams.data.columns.Columns", *ROLES)
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="NAME[:KEY=VALUE,..]",
    help="Method with its options, e.g. psofed:shared=20; may be repeated."
    " [default: psofed with M = D/5]",
)
@click.option("--use", type=click.Choice(["frozen", "live"]),
              help="What the model is for: predictions without labels, or while labels keep coming."
              " [default: frozen]")  # fmt: skip
@set_option(_names())
@PLAN
@common("example", "out", "json")
def fit(table: Path | None, **options: Any) -> None:
    """Learn a model from TABLE (CSV, .csv.gz, .parquet, or a folder with a file per client).

    Each client mixes what it has of a federated method with what it can learn alone. Every sample
    is predicted before its label is learned, and a label is learned only when it is known. Writes
    the model, scores and figures; --use says what the model is for. For comparison it also scores
    the method by itself, a straight line, a ridge regression and the last value.
    """
    from psofed.errors import InputError
    from psofed.report import fits
    from psofed.tables import fitting

    asked = Asked.of(table, options)
    with results(asked.out, f"{asked.name}-fit") as folder:
        done = fitting.fit(asked.read(), asked.plan, counting)
        folder.write(fits.render(done, command()))
    out = folder.path
    blocks = fits.blocks(done)
    plan, taps = done.plan, done.recipe.taps
    inputs = f"width {plan.width:g}, step {plan.step:g}, {taps} input{'s' * (taps > 1)}"
    learned = f"learned from round {done.span.first}, frozen at {done.span.frozen}"
    blocks += [f"\nD = {plan.dim}, {inputs}; {learned}", *done.notes]
    if not done.refused:
        model = out / "model.psofed"
        blocks += [f"results in {out}; use the model with: psofed predict {model} TABLE"]
    finish(folder, asked.as_json, fits.summary(done, command()), *blocks)
    if done.refused:
        right = f"--set force=true saves it; {out} has the scores"
        raise InputError("model", done.refused, right)


@click.command()
@click.argument("table", type=FILE, required=False)
@fields("streams.data.columns.Columns", "client", "time", "target")
@click.option("--link", metavar="NAME",
              help="Type of link, which limits messages: lorawan-dr0 .. lorawan-dr5, nb-iot, ble,"
              " satellite or ethernet. [default: no limits]")  # fmt: skip
@set_option(_names("payload", "bytes_per_day", "target_error", "within"))
@common("example", "out", "json")
def advise(table: Path | None, link: str | None, **options: Any) -> None:
    """Say whether to federate for TABLE, and with which setting: the cheapest of the good ones.

    Tunes D, kernel width and step on the warm-up and runs many settings of method, M and E on the
    same data, each mixed with what a device can learn alone. Not to share is a candidate, too.
    Recommends the cheapest that is nearly as good as the best of all, and says what sharing gains,
    for which clients, and how sure that is. A candidate is chosen by its error before the last part
    of the rounds; all errors are those of the last part. Writes the advice, a figure, plan.toml
    (for `psofed fit --plan`) and, if it says to federate, run.toml (for `psofed run`,
    `deploy serve` and `deploy client`).
    """
    from psofed.report import advice as words
    from psofed.tables import advice as advising

    asked = Asked.of(table, options, advising.Limits)
    limits = asked.limits if link is None else asked.limits.of_link(link)
    with results(asked.out, f"{asked.name}-advice") as folder:
        search_dim = "dim" not in asked.given["plan"]
        read = asked.read()
        advice = advising.advise(read, asked.plan, limits, counting, search_dim, asked.source)
        folder.write(words.render(advice, command()))
    out = folder.path
    end = [f"\nresults in {out}; continue with: psofed fit TABLE --plan {out / 'plan.toml'}"]
    if advice.experiment is not None:
        end += [
            f"or with {out / 'run.toml'}: psofed run, psofed deploy serve, psofed deploy client"
        ]
    blocks = [*words.blocks(advice), *advice.notes, *end]
    finish(folder, asked.as_json, words.summary(advice, command()), *blocks)


@dataclass(frozen=True)
class Asked:
    """A table, a plan and a folder, as the command line gives them."""

    source: Path
    plan: Plan
    given: dict[str, dict[str, Any]]  # what options say, by table of the plan
    limits: Any  # of the link, if they can be given
    example: bool
    out: Path | None
    as_json: bool

    @classmethod
    def of(cls, table: Path | None, options: dict[str, Any], limits: Any = None) -> Asked:
        """What is asked; options override the plan's file, and that the defaults."""
        from psofed.errors import InputError
        from psofed.streams.data.columns import Columns
        from psofed.streams.data.textfile import Form
        from psofed.tables import example
        from psofed.tables.plan import Plan

        rest = {key: options.pop(key) for key in ("example", "out", "as_json")}
        file, methods = options.pop("plan_file", None), options.pop("methods", ())
        if rest["example"] == (table is not None):
            raise click.UsageError("Give a TABLE, or --example.")
        classes = {"plan": Plan, "columns": Columns, "form": Form}
        classes |= {"limits": limits} if limits else {}
        settings = typed(options)
        check = partial(texts.named, "psofed.sample_checks", "--set check")
        given = texts.assigned(classes, settings, {"check": check})
        if methods:
            read = (texts.named("psofed.methods", "--method", text) for text in methods)
            given["plan"]["methods"] = tuple(read)
        for name in ("time", "target"):
            if not (rest["example"] or file or name in given["columns"]):
                raise click.UsageError(f"Missing option '--{name}' (or --plan, or --example).")
        try:
            plan = _plan(file, rest["example"], given)
            made = limits(**given["limits"]) if limits else None
        except InputError as error:
            raise blamed(error, settings) from None
        return cls(example.PATH if table is None else table, plan, given, made, **rest)

    @property
    def name(self) -> str:
        """What results are called after."""
        return "example" if self.example else self.source.name.split(".")[0]

    def read(self) -> Table:
        """The table, read with progress lines."""
        from psofed.report.files import Grid
        from psofed.streams.data import reading

        if self.example:
            say("The table of the example is synthetic, not measured.")
        plan = self.plan
        table = reading.read(self.source, plan.columns, on_rows=_reading(), form=plan.form)
        clients = "1 client" if len(table.clients) == 1 else f"{len(table.clients)} clients"
        rounds = f"{table.rounds:,} rounds of {table.ticks}"
        say(f"Read {table.rows:,} rows of {clients}: {rounds}.")
        for line in table.notes:
            say(line[:1].upper() + line[1:] + ".")
        columns = Grid(table.report, left=(0, 1, 4), least=(3, 2))
        printing.show(columns, stderr=True)
        return table


def _plan(file: Path | None, example: bool, given: dict[str, dict[str, Any]]) -> Plan:
    from psofed.streams.data.columns import parse
    from psofed.streams.data.textfile import form_of
    from psofed.tables import example as examples
    from psofed.tables import plan as plans

    known: dict[str, Any] = {}
    columns, form = given["columns"], given["form"]
    if file is not None:
        before = plans.read(file)
        known = dict(vars(before))
        columns = before.columns.to_table() | columns
        form = before.form.to_table() | form
    elif example:
        known, columns = EXAMPLE, examples.COLUMNS.to_table() | columns
    known = known | given["plan"]
    return plans.Plan(**known | {"columns": parse(columns), "form": form_of("form", form)})


def typed(options: dict[str, Any]) -> list[texts.Assignment]:
    """What was given, by options of its own and with --set."""
    own = {key: text for key, text in options.items() if key != "settings" and text is not None}
    flags = [texts.Assignment(k, text, f"--{k.replace('_', '-')}") for k, text in own.items()]
    return flags + texts.settings(options["settings"])


def blamed(error: Any, settings: list[texts.Assignment]) -> Any:
    """The error, with the name that was typed for the key that it is about."""
    for setting in settings:
        error = error if error.where else setting.blame(error)
    return error


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
