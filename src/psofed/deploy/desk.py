"""Desk: what operators ask of a server, through files in its state folder.

A wish is a file `wish.ID`, its outcome a file `done.ID`, both JSON. Who may write into the folder
may wish; nothing of it goes over a network. If no server runs, it is fulfilled on the record.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

from psofed import records
from psofed.core.fleet import ACTS, Change
from psofed.deploy import muster
from psofed.errors import InputError
from psofed.protocol import deployment as plans
from psofed.protocol import store
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.deployment import PLAN
from psofed.protocol.snapshots import STATE
from psofed.protocol.store import InUseError, StateFolder

WISH, DONE = "wish.", "done."
PACE = 0.25  # seconds between two looks
AGAIN = 1.0  # seconds between two looks whether there is a server at all
PATIENCE = 60.0  # seconds that a command waits for the server
OLD = 3600.0  # seconds after which an outcome that nobody reads is thrown away
SMALL = 2_000_000  # bytes of a wish
MOST = 100_000  # clients that are added at once
JUMP = 100_000  # numbers that may be skipped: they are never used again
LEAP = 1_000  # starts by which a server is ahead of the one from which it was copied

Tables = list[dict[str, Any]]


@dataclass
class Desk:
    """The server's side: fulfil what is wished, between two messages."""

    coordinator: Coordinator
    folder: Path
    _next: float = 0.0

    def look(self, tell: Callable[[str], None]) -> set[int] | None:
        """Fulfil what is there; the clients that it concerns, None if nothing has changed."""
        if monotonic() < self._next:
            return None
        self._next = monotonic() + PACE
        changed: set[int] | None = None
        for path in sorted(self.folder.glob(f"{WISH}*")):
            data = _small(path)
            try:
                path.unlink()  # first: after a crash nothing is done twice
            except OSError:  # it was withdrawn, or is no file
                continue
            outcome = self._fulfil(data)
            for line in outcome.get("lines", ()):
                tell(line)
            if "error" not in outcome:
                named = (one.get(act, ()) for one in outcome["changes"] for act in ACTS)
                changed = (changed or set()).union(*named)
            with suppress(OSError):
                done = path.with_name(DONE + path.name[len(WISH) :])
                records.write(done, json.dumps(outcome).encode())
            self._clean_up()
        return changed

    def _clean_up(self) -> None:
        """Outcomes whose commands were interrupted."""
        for path in self.folder.glob(f"{DONE}*"):
            with suppress(OSError):
                if path.stat().st_mtime < time() - OLD:
                    path.unlink()

    def _fulfil(self, data: bytes) -> dict[str, Any]:
        try:
            changes = fulfil(self.coordinator, json.loads(data))
        except InputError as error:
            return {"error": [error.field, error.found, error.right]}
        except OSError as error:
            found = f"cannot be done: {store.in_words(error)}"
            return {"error": ["the wish", found, "nothing was changed; try again later"]}
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return {
                "error": ["the wish", "cannot be read", "use `psofed fleet` as the server's user"]
            }
        return {"changes": [change.to_table() for change in changes], "lines": in_words(changes)}


def _small(path: Path) -> bytes:
    """What a file has that anybody may have put there; nothing if it is none, or too large."""
    try:
        with os.fdopen(store.private(path, os.O_RDONLY), "rb") as file:
            data = file.read(SMALL + 1)
    except OSError:
        return b""
    return data if len(data) <= SMALL else b""


def fulfil(coordinator: Coordinator, wish: dict[str, Any]) -> list[Change]:
    """Do what is wished, durably."""
    if "restore" in wish:
        n, without = int(wish["restore"]), [int(k) for k in wish.get("without", ())]
        return [coordinator.put_back(n, bool(wish.get("keep", False)), without)]
    act = wish["act"]
    if act not in ACTS:
        raise InputError("the wish", f"is {act!r}", f"use {', '.join(ACTS)}")
    clients = sorted({int(k) for k in wish.get("clients", ())})  # each once, the next number first
    if act == "add" and "count" in wish:
        first = coordinator.server.seats.next
        clients = list(range(first, first + min(int(wish["count"]), MOST)))
    free = coordinator.server.seats.next
    if act == "add" and max(clients, default=0) > free + JUMP:  # a slip would use up all numbers
        found = f"{max(clients)} is far from {free}, the next free number"
        raise InputError("client", found, f"use {free} to {free + JUMP}")
    return coordinator.change(act, clients)


def in_words(changes: list[Change]) -> list[str]:
    """For people, one line each.

    >>> in_words([Change(7, add=(3,))])
    ['client 3 is a member from round 7 on']
    """
    said = {
        "add": "is a member from round {n} on",
        "remove": "is removed from round {n} on; its number is not used again",
        "exclude": "is excluded from round {n} on",
        "readmit": "is a member again from round {n} on, and begins anew",
    }
    lines = []
    for change in changes:
        for act, text in said.items():
            when = text.format(n=change.round)
            lines += [f"client {k} {when}" for k in getattr(change, act)]
        if change.restore is not None:
            keep = "keep their models" if change.keep else "begin anew"
            n = change.round
            lines.append(f"the model of round {change.restore} is in service from round {n} on;"
                         f" clients {keep}")  # fmt: skip
    return lines


def ask(state: Path, wish: dict[str, Any], patience: float = PATIENCE) -> list[dict[str, Any]]:
    """The operator's side: the changes, as tables; by the server, or on the record of none."""
    muster.record(state)
    found = _alone(state, wish)
    return _wait(state, wish, patience) if found is None else found


def _alone(state: Path, wish: dict[str, Any], asked: Path | None = None) -> Tables | None:
    """Fulfil it without a server; None if there is one, or if it has done what was `asked`."""
    try:
        folder = StateFolder(state)
    except InUseError:
        return None
    try:
        if asked is not None and not _withdrawn(asked):
            return None
        with store.starting(folder):
            coordinator = Coordinator(plans.read(state / PLAN), folder)
            return [change.to_table() for change in fulfil(coordinator, wish)]
    finally:
        folder.close()


def _wait(state: Path, wish: dict[str, Any], patience: float) -> Tables:
    name = secrets.token_hex(8)
    path, done = state / f"{WISH}{name}", state / f"{DONE}{name}"
    try:
        records.write(path, json.dumps(wish).encode())
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(path), found, "run it as the server's user") from None
    end, look = monotonic() + patience, monotonic() + AGAIN
    while not done.exists():
        if monotonic() > end:
            found, right = f"does not answer within {patience:.0f} s", "is it stopped (SIGSTOP)?"
            sure = "nothing was changed" if _withdrawn(path) else "see `psofed fleet list`"
            raise InputError("the server", found, f"{sure}; {right}")
        if monotonic() > look:  # it may have been another command, or have ended
            look = monotonic() + AGAIN
            if (alone := _alone(state, wish, path)) is not None:
                return alone
        sleep(0.05)
    outcome = json.loads(done.read_bytes())
    done.unlink()
    if "error" in outcome:
        raise InputError(*outcome["error"])
    changes: Tables = outcome["changes"]
    return changes


def _withdrawn(path: Path) -> bool:
    """Take a wish back; False if a server has taken it, and may have done it."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def revive(state: Path) -> int:
    """Put an old copy of a server's folder into service; the round that it has."""
    muster.record(state)
    try:
        folder = StateFolder(state)
    except InUseError:
        right = "stop it, or give --round to go back while it runs"
        raise InputError(str(state), "is in use by a server", right) from None
    try:
        plan = plans.read(state / PLAN)
        for path in state.glob(f"{WISH}*"):  # of the server that was copied, and done by it
            path.unlink()
        with store.starting(folder):
            start = Coordinator(plan, folder).incarnation + LEAP
            coordinator = Coordinator(plan, folder, start=start)
            coordinator.revive()
        return coordinator.n
    finally:
        folder.close()


def snapshots(state: Path) -> list[int]:
    """The rounds to which the server can go back."""
    muster.record(state)
    try:
        return sorted(int(path.name[len(STATE) :]) for path in state.glob(f"{STATE}[0-9]*"))
    except OSError as error:
        raise InputError(str(state), f"cannot be read: {error.strerror}", "give another") from None
