"""Rule 17: who joins, leaves and returns, and the server's state that is put back.

Each function changes a server whose round n is open, and says from which round on what holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import numpy as np

from psofed.core.fleet import Change
from psofed.methods.client_rows import cleared, moved, row_axes
from psofed.methods.contract import State
from psofed.methods.defending import defended
from psofed.protocol.checked_record import reading, taken
from psofed.protocol.seats import EXCLUDED, REMOVED
from psofed.protocol.server import Server


def check(server: Server, act: str, clients: Iterable[int]) -> None:
    """Refuse what cannot be done with all of these, before anything is done with one of them."""
    trial = deepcopy(server.seats)
    for k in clients:
        if act == "add":
            trial.add(k, 0)
        elif act == "readmit":
            trial.readmit(k, next_begin(server), _block(server))
        else:
            trial.leave(k, REMOVED if act == "remove" else EXCLUDED, server.n)


def add(server: Server, clients: Iterable[int]) -> list[Change]:
    """New members, from the next round on that begins a block."""
    since, rows = next_begin(server), []
    free = server.seats.vacate(_block(server), server.ledger.dropped)
    changes = []
    for k in clients:
        rows.append(server.seats.add(k, since))
        changes.append(Change(since, add=(k,)))
    new = {*free, *rows}
    _reseat(server, new, new)
    return changes


def readmit(server: Server, clients: Iterable[int]) -> list[Change]:
    """Those who were excluded are members again, and begin anew."""
    since, rows, changes = next_begin(server), [], []
    for k in clients:
        rows.append(server.seats.readmit(k, since, _block(server)))
        changes.append(Change(since, readmit=(k,)))
    _reseat(server, rows)
    return changes


def exclude(server: Server, clients: Iterable[int]) -> list[Change]:
    """Members who are not asked any more until they are readmitted."""
    return [_leave(server, k, EXCLUDED) for k in clients]


def remove(server: Server, clients: Iterable[int]) -> list[Change]:
    """Members who are not asked any more, for good."""
    return [_leave(server, k, REMOVED) for k in clients]


def _leave(server: Server, k: int, status: int) -> Change:
    """At once, unless its answer of the open round is there: the others need not wait for it."""
    at = server.n if k not in server.cohort or k in server.missing else server.n + 1
    server.seats.leave(k, status, at)
    if server.seats.changes == 1:
        seat(server)
    server.redraw()
    row = server.seats.row(k)
    at = int(server.seats.left[row]) if row is not None else at
    return Change(at, exclude=(k,)) if status == EXCLUDED else Change(at, remove=(k,))


def put_back(server: Server, state: State, n: int, keep: bool) -> Change:
    """The server's state becomes that before round n; the open round is void."""
    begin, void = next_begin(server), server.n
    axes = row_axes(server.method.server(), _larger(server).server())
    with reading("the snapshot"):
        same = {
            name: taken(state, name, array.dtype, array.shape, -np.inf, np.inf).copy()
            for name, array in server.state.items()
            if name not in axes
        }
    server.state = {name: same.get(name, array) for name, array in server.state.items()}
    if not keep:
        begin_all(server)
    server.skip(begin)
    return Change(begin, restore=n, void=void, keep=keep)


def begin_all(server: Server) -> None:
    """All members begin anew at their next contact."""
    server.seats.begun[:] = False
    server.seats.changes += 1
    _reseat(server, range(len(server.seats)))


def has_rows(server: Server) -> bool:
    """Whether the method remembers something of each client."""
    return bool(row_axes(server.method.server(), _larger(server).server()))


def next_begin(server: Server) -> int:
    """The next round in which a cohort begins."""
    return begin_after(server, server.n)


def begin_after(server: Server, n: int) -> int:
    """The first round after round n in which a cohort begins."""
    n += 1
    while not server.method.begins(n):
        n += 1
    return n


def _block(server: Server) -> int:
    """The round in which the cohort of the open one began."""
    n = server.n
    while not server.method.begins(n):
        n -= 1
    return n


def seat(server: Server) -> None:
    """Draw cohorts from the seats from now on: from those who are members, and awake."""
    _reseat(server, ())


def _larger(server: Server) -> Any:
    assert server.seated is not None
    return server.seated(server.seats, 1)


def _reseat(server: Server, begin: Iterable[int], new: Iterable[int] = ()) -> None:
    """Arrays for all seats; of who begins anew the method knows nothing, of who is new nobody."""
    assert server.seated is not None
    method, larger = server.seated(server.seats, 0), _larger(server)
    fresh = method.server()
    axes = row_axes(fresh, larger.server())
    server.state = cleared(moved(server.state, fresh), fresh, axes, begin)
    guard, more = defended(method), defended(larger)
    if server.guard is not None and guard is not None and more is not None:
        start = guard.state
        guard.state = cleared(
            moved(server.guard.state, start), start, row_axes(start, more.state), new
        )
    server.guard = guard
    server.use(method)
    server.ledger.seat(len(server.seats), new)
