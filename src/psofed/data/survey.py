"""What each column of a table is taken for and why: said before anything is learned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psofed.data.cells import Batch
from psofed.data.columns import Columns

if TYPE_CHECKING:
    from psofed.data.reading import Table

Array = NDArray[Any]
MANY = 0.5  # of the rows: a text with so many values tells rows apart, and nothing else
FEWEST = 20  # rows and values below which no such guess is made
OUT = "left out"


@dataclass(frozen=True)
class ColumnReport:
    """A column: its role, why, and what its values are like.

    Roles: client, time, target, number, category, calendar, left out.
    """

    name: str
    role: str
    why: str = ""
    missing: float | None = None  # share of the rows
    low: float | None = None
    high: float | None = None
    values: int | None = None  # different texts

    def to_table(self) -> dict[str, Any]:
        """As plain values, without what is not known."""
        return {key: value for key, value in self.__dict__.items() if value not in (None, "")}


class Tally:
    """Counts and ranges of the columns, while they are read."""

    def __init__(self, names: tuple[str, ...], batch: Batch) -> None:
        self.names, self.all, self.unnamed = names, list(batch.cells), batch.unnamed
        self.rows = 0
        self.known = np.zeros(len(names), np.int64)
        self.low, self.high = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        self.whole = np.ones(len(names), bool)  # whether all are whole numbers

    def add(self, values: Array) -> None:
        """More rows of these columns."""
        here = ~np.isnan(values)
        self.rows += len(values)
        self.known += here.sum(axis=0)
        self.low = np.minimum(self.low, np.where(here, values, np.inf).min(axis=0, initial=np.inf))
        self.high = np.maximum(
            self.high, np.where(here, values, -np.inf).max(axis=0, initial=-np.inf)
        )
        self.whole &= (~here | (values == np.rint(values))).all(axis=0)

    def finding(self, name: str, role: str, why: str, values: int | None = None) -> ColumnReport:
        """What is known of a column that was read."""
        j = self.names.index(name)
        missing = 1 - float(self.known[j]) / max(self.rows, 1)
        if values is not None or not self.known[j]:
            return ColumnReport(name, role, why, missing, values=values)
        return ColumnReport(name, role, why, missing, float(self.low[j]), float(self.high[j]))


def judge(table: Table, tally: Tally, given: Columns, fixed: bool) -> None:
    """Leave out columns that cannot help, unless they were named; note what each column is.

    With `fixed` inputs (those of a saved model) nothing is left out.
    """
    free = not fixed and not given.inputs
    why = {name: _useless(table, tally, name) for name in table.columns.inputs} if free else {}
    named = {*given.categorical, *given.lags_of, *given.ranges, *given.missing}
    out = {name: reason for name, reason in why.items() if reason and name not in named}
    table.findings = _findings(table, tally, given, out)
    order = (*table.numeric, *table.categories)
    table.picked = [0, 1, *(2 + j for j, name in enumerate(order) if name not in out)]
    table.numeric = tuple(name for name in table.numeric if name not in out)
    table.categories = {n: codes for n, codes in table.categories.items() if n not in out}
    kept = tuple(name for name in table.columns.inputs if name not in out)
    table.columns = replace(table.columns, inputs=kept)


def _useless(table: Table, tally: Tally, name: str) -> str:
    """Why a column that nobody named is no input; empty if it is one."""
    if name in tally.unnamed:
        return "the file gives it no name"
    j = tally.names.index(name)
    if not tally.known[j]:
        return "it has no value"
    if name in table.categories:
        return _useless_text(table, name, int(tally.known[j]))
    if tally.low[j] == tally.high[j] and tally.known[j] == tally.rows:
        return f"it is always {tally.low[j]:g}"
    if tally.whole[j] and tally.known[j] == tally.rows and _is_running(table, name):
        return "a running number: it grows from row to row"
    return ""


def _useless_text(table: Table, name: str, known: int) -> str:
    codes = table.categories[name]
    count = len(codes.known)
    if codes.full:
        return f"it has more than {codes.most:,} different texts"
    if count > FEWEST and count > MANY * known:
        return f"it has {count:,} different texts in {known:,} rows"
    if count == 1 and known == int(table.counts.sum()):
        return f"it is always {next(iter(codes.known))!r}"
    if count == len(table.clients) > 1 and _names_clients(table, name):
        return "it is another name of the client"
    return ""


def _is_running(table: Table, name: str) -> bool:
    """Whether a column grows with every row of every client."""
    j = 2 + table.numeric.index(name)
    if int(table.counts.max()) < FEWEST:
        return False
    for k in range(len(table.clients)):
        last = -np.inf
        for rows, _ in table.read(k):
            if not (rows[0, j] > last and (np.diff(rows[:, j]) > 0).all()):
                return False
            last = rows[-1, j]
    return True


def _names_clients(table: Table, name: str) -> bool:
    """Whether each client has one text, and each text one client."""
    j = 2 + [*table.numeric, *table.categories].index(name)
    seen = set()
    for k in range(len(table.clients)):
        own: set[float] = set()
        for rows, _ in table.read(k):
            own.update(np.unique(rows[:, j]).tolist())
            if len(own) > 1:
                return False
        seen |= own
    return len(seen) == len(table.clients)


def _findings(
    table: Table, tally: Tally, given: Columns, out: dict[str, str]
) -> list[ColumnReport]:
    """In the order of the file, then what is made from them."""
    found = []
    for name in tally.all:
        if name == given.client:
            found.append(ColumnReport(name, "client", values=len(table.clients)))
        elif name in given.time:
            form = table.time_format or ("dates" if table.calendar else "numbers")
            found.append(ColumnReport(name, "time", form))
        elif name == given.target:
            found.append(tally.finding(name, "target", ""))
        elif name in tally.names:
            texts = len(table.categories[name].known) if name in table.categories else None
            role = OUT if name in out else "number" if texts is None else "category"
            why = out.get(name) or _lags(given, name, role)
            found.append(tally.finding(name, role, why, texts))
        else:
            why = "named in --drop" if name in given.drop else "not among the named inputs"
            found.append(ColumnReport(name, OUT, why))
    found += [
        ColumnReport(name, "calendar", "sine and cosine of the time") for name in given.calendar
    ]
    if given.target_lags:
        lags = ", ".join(map(str, given.target_lags))
        found.append(ColumnReport(given.target, "lag", f"the target {lags} ticks ago"))
    return found


def _lags(given: Columns, name: str, role: str) -> str:
    lags = given.lags_for(name) if role == "number" else ()
    return f"also {', '.join(map(str, lags))} ticks ago" if lags else ""


def lines(findings: list[ColumnReport]) -> list[list[str]]:
    """The report as rows of a table: column, role, missing, range, why."""
    rows = [["column", "taken as", "missing", "range", "why"]]
    for f in findings:
        gone = "" if f.missing is None else f"{100 * f.missing:.1f} %"
        span = "" if f.low is None or f.high is None else f"{f.low:g} to {f.high:g}"
        if f.values is not None:
            span = f"{f.values:,} {'value' if f.values == 1 else 'values'}"
        rows.append([f.name, f.role, gone, span, f.why])
    return rows
