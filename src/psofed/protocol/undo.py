"""Undo: what the disk does not take, or what cannot be done as a whole, has not happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

from psofed.errors import InputError
from psofed.protocol.server import Server


@contextmanager
def undone(server: Server) -> Iterator[None]:
    """If something fails in here, the server is again as it was before."""
    seats, ledger, guard = server.seats, server.ledger, server.guard
    same = {"method", "seated", "_who", "guard", "seats", "ledger"}  # replaced as a whole, or below
    before = {name: v if name in same else deepcopy(v) for name, v in vars(server).items()}
    inside = deepcopy((vars(seats), vars(ledger), {} if guard is None else guard.state))
    try:
        yield
    except (OSError, InputError):
        vars(server).update(before)
        vars(seats).update(inside[0])  # the same object: a link has it
        vars(ledger).update(inside[1])
        if guard is not None:
            guard.state = inside[2]
        raise
