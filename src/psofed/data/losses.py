"""No row is lost in silence: a table that would lose many is refused, with the likely cause."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from psofed.data.reading import NO_CLIENT, NO_TIME, REPEATED, SAME_TIME, Drops, Table
from psofed.errors import InputError

MOST = 0.1  # of the rows
FEW = 10  # rows with which a client cannot be judged
CROWDED = "in the tick of an earlier row"
WORDS = ("sensor", "station", "device", "client", "node", "site", "id", "name")
GO_ON = "--allow-loss goes on without them"


def check(table: Table, allowed: bool) -> None:
    """Refuse a table of which too many rows, or too many clients, would be lost."""
    if allowed:
        return
    drops = Drops(table.drops.counts.copy(), dict(table.drops.first))
    drops.add(CROWDED, crowded(table))
    check_share(table, drops, allowed)
    few = int((table.counts < FEW).sum())
    if 2 * few >= len(table.clients) > 1:
        found = f"has {few:,} of {len(table.clients):,} clients with fewer than {FEW} rows"
        right = f"is {_client(table)} the column of the client? --allow-loss goes on"
        raise InputError("", found, right, table.latest)


def check_share(table: Table, drops: Drops, allowed: bool) -> None:
    """Refuse to lose more than a tenth of the rows."""
    if allowed or drops.total <= MOST * table.rows:
        return
    reason, _ = drops.counts.most_common(1)[0]
    if _one_client(table) and drops.counts[SAME_TIME]:  # whatever else, this comes first
        reason = SAME_TIME
    found = f"loses {drops.total:,} of {table.rows:,} rows: {', '.join(drops.lines())}"
    cause = _cause(table, reason)
    raise InputError("", found, f"{cause}; {GO_ON}" if cause else GO_ON, table.latest)


def crowded(table: Table) -> int:
    """Rows of a client that fall into the same tick as an earlier one."""
    count = 0
    for k in range(len(table.clients)):
        last = -(2**62)
        for rows, _ in table.read(k):
            ticks = table.ticks(rows[:, 0])
            count += int((np.diff(ticks, prepend=last) <= 0).sum())
            last = int(ticks[-1])
    return count


def _cause(table: Table, reason: str) -> str:
    columns = table.columns
    if reason in (SAME_TIME, REPEATED):
        if _one_client(table):
            near = suggestion(table)
            return f"no --client: did you mean {near}?" if near else "no --client was given"
        return f"is {_client(table)} the column of the client?"
    if reason == NO_CLIENT:
        return f"column {columns.client!r} of the client is empty there"
    if reason == NO_TIME:
        return f"column {','.join(columns.time)!r} of the time is empty there"
    if reason == CROWDED:
        return f"a round of {table.tick:g} is longer than their interval: give a shorter --tick"
    return ""


def _one_client(table: Table) -> bool:
    columns = table.columns
    return columns.client is None and columns.wide is None and len(table.clients) == 1


def _client(table: Table) -> str:
    return repr(table.columns.client) if table.columns.client is not None else "the file's name"


def suggestion(table: Table) -> str:
    """The column that may name the client: as many values as there are rows of the same time."""
    rows = max(table.rows / max(int(table.counts.sum()), 1), 2)
    counts: dict[str, int] = {n: len(codes.known) for n, codes in table.categories.items()}
    for finding in table.findings:
        if finding.role in ("number", "left out") and _few_whole(finding):
            counts[finding.name] = int(finding.high - finding.low) + 1  # type: ignore[operator]
    fitting = {name: count for name, count in counts.items() if 2 <= count <= 100_000}
    if not fitting:
        return ""
    named = [n for n in fitting if any(word in n.lower() for word in WORDS)] or list(fitting)
    best = min(named, key=lambda name: abs(log(fitting[name] / rows)))
    return f"{best!r}, {fitting[best]} values"


def _few_whole(finding: Any) -> bool:
    low, high = finding.low, finding.high
    if low is None or high is None or low != int(low) or high != int(high):
        return False
    return bool(1 <= high - low < 100_000)
