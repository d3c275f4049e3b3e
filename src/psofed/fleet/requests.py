"""Requests of operators to a server, through files in its state folder.

A request is a file `request.ID`, its outcome a file `reply.ID`, both JSON. Who may write into the
folder may ask; nothing of it goes over a network. If no server runs, the record is changed.
"""

from __future__ import annotations

import json
import os
import secrets
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from psofed.errors import InputError, written
from psofed.federation import records
from psofed.federation.membership import ACTS, Change
from psofed.federation.records import number, taken
from psofed.federation.schema import inside
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.protocol import store
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.history import LOG, STATE, changes
from psofed.fleet.protocol.members import VACANT, WORDS, MemberTable, Names
from psofed.fleet.protocol.server_state import Ledger
from psofed.fleet.protocol.store import InUseError, StateFolder, newest, reader

REQUEST, REPLY = "request.", "reply."
PACE = 0.25  # seconds between two looks
AGAIN = 1.0  # seconds between two looks whether there is a server at all
PATIENCE = 60.0  # seconds that a command waits for the server
SMALL = 2_000_000  # bytes of a request
MOST = 100_000  # clients that are added at once, or numbers that are skipped for ever
SERVE = "start the server with that file, `psofed deploy serve FILE`, and ask again"
LEAP = 1_000  # starts by which a server is ahead of the one from which it was copied


@dataclass
class Requests:
    """The server's side: do what is asked, between two messages."""

    coordinator: Coordinator
    folder: Path
    _next: float = 0.0

    def look(self, say: Callable[[str], None]) -> set[int] | None:
        """Do what is there; the clients that it concerns, None if nothing has changed."""
        if monotonic() < self._next:
            return None
        self._next = monotonic() + PACE
        changed: set[int] | None = None
        for path in sorted(self.folder.glob(f"{REQUEST}*")):
            data = _small(path)
            try:
                path.unlink()  # first: after a crash nothing is done twice
            except OSError:  # it was withdrawn, or is no file
                continue
            outcome: dict[str, Any]
            try:
                changes = perform(self.coordinator, json.loads(data))
                outcome = {"lines": in_words(changes, self.coordinator.names)}
                named = (k for change in changes for act in ACTS for k in getattr(change, act))
                changed = (changed or set()).union(named)
            except InputError as error:
                outcome = {"error": [error.field, error.found, error.right]}
            except OSError as error:
                found = f"cannot be done: {store.in_words(error)}"
                outcome = {"error": ["the request", found, "nothing was changed; try again later"]}
            except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
                right = "use `psofed deploy fleet` as the server's user"
                outcome = {"error": ["the request", "cannot be read", right]}
            for line in outcome.get("lines", ()):
                say(line)
            with suppress(OSError):
                done = path.with_name(REPLY + path.name[len(REQUEST) :])
                records.write(done, json.dumps(outcome).encode())
        return changed


def _small(path: Path) -> bytes:
    """What a file has that anybody may have put there; nothing if it is none, or too large."""
    try:
        with os.fdopen(store.private(path, os.O_RDONLY), "rb") as file:
            data = file.read(SMALL + 1)
    except OSError:
        return b""
    return data if len(data) <= SMALL else b""


def perform(coordinator: Coordinator, request: dict[str, Any]) -> list[Change]:
    """Do what is asked, durably."""
    if "restore" in request:
        return [coordinator.put_back(int(request["restore"]), bool(request.get("keep", False)))]
    act, free = request["act"], coordinator.server.table.next
    if act not in ACTS:
        raise InputError("the request", f"is {act!r}", f"use {', '.join(ACTS)}")
    names, numbers, new = coordinator.names.copy(), set[int](), free
    for who in request.get("clients", ()):
        numbers.add(names.number(str(who), new if act == "add" else None))
        new = max(free - 1, *numbers) + 1
    clients = sorted(numbers)  # each once, the lowest first
    if act != "add" and names.later != coordinator.names.later:
        raise InputError("client", "is given as NAME=K", "use that where one is added")
    if act == "add" and "count" in request:
        clients = list(range(free, free + min(int(request["count"]), MOST)))
    if act == "add" and max(clients, default=0) > free + MOST:  # a slip would use up all numbers
        found = f"{max(clients)} is far from {free}, the next free number"
        raise InputError("client", found, f"use {free} to {free + MOST}")
    return coordinator.change(act, clients, names)


def in_words(changes: list[Change], names: Names) -> list[str]:
    """For people, one line each; a client with a name has to learn its number."""
    said = {
        "add": "is a member from round {n} on",
        "remove": "is removed from round {n} on; its number is not used again",
        "exclude": "is excluded from round {n} on",
        "readmit": "is a member again from round {n} on, and starts over",
    }
    lines = []
    for change in changes:
        for act, text in said.items():
            when = text.format(n=change.round)
            for k in getattr(change, act):
                new = f"; its device: --id {names(k)}={k}" * (act == "add" and k in names.later)
                lines.append(f"client {names(k)} {when}{new}")
        if change.restore is not None:
            clients = "keep their models" if change.keep else "start over at their next contact"
            lines.append(f"the model of round {change.restore} is in service from round"
                         f" {change.round} on; clients {clients}")  # fmt: skip
    return lines


def ask(state: Path, request: dict[str, Any], patience: float = PATIENCE) -> list[str]:
    """The operator's side: what was done, in words; by the server, or on the record of none."""
    record(state)
    found = _alone(state, request)
    return _wait(state, request, patience) if found is None else found


def _alone(state: Path, request: dict[str, Any], asked: Path | None = None) -> list[str] | None:
    """Do it without a server; None if there is one, or if it has done what was `asked`."""
    try:
        folder = StateFolder(state)
    except InUseError:
        return None
    try:
        if asked is not None and not _withdrawn(asked):
            return None
        with store.starting(folder):
            coordinator = Coordinator(plans.kept(state, right=SERVE), folder)
            return in_words(perform(coordinator, request), coordinator.names)
    finally:
        folder.close()


def _wait(state: Path, request: dict[str, Any], patience: float) -> list[str]:
    name = secrets.token_hex(8)
    path, done = state / f"{REQUEST}{name}", state / f"{REPLY}{name}"
    with written(path, "run it as the server's user"):
        records.write(path, json.dumps(request).encode())
    end, look = monotonic() + patience, monotonic() + AGAIN
    while not done.exists():
        if monotonic() > end:
            found, right = f"does not answer within {patience:.0f} s", "is it stopped (SIGSTOP)?"
            sure = "nothing was changed" if _withdrawn(path) else "see `psofed deploy fleet list`"
            raise InputError("the server", found, f"{sure}; {right}")
        if monotonic() > look:  # it may have been another command, or have ended
            look = monotonic() + AGAIN
            if (alone := _alone(state, request, path)) is not None:
                return alone
        sleep(0.05)
    outcome = json.loads(done.read_bytes())
    done.unlink()
    if "error" in outcome:
        raise InputError(*outcome["error"])
    return outcome["lines"]


def _withdrawn(path: Path) -> bool:
    """Take a request back; False if a server has taken it, and may have done it."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def revive(state: Path, plan: Path | None = None) -> int:
    """Put an old copy of a server's folder into service; the round that it has.

    Its plan is in it, unless the user names one.
    """
    record(state)
    try:
        folder = StateFolder(state)
    except InUseError:
        right = "stop it, or give --round to go back while it runs"
        raise InputError(str(state), "is in use by a server", right) from None
    try:
        made = plans.kept(state, plan)
        for path in state.glob(f"{REQUEST}*"):  # of the server that was copied, and done by it
            path.unlink()
        with store.starting(folder):
            start = Coordinator(made, folder).incarnation + LEAP
            coordinator = Coordinator(made, folder, start=start)
            coordinator.revive()
        return coordinator.n
    finally:
        folder.close()


def snapshots(state: Path) -> list[int]:
    """The rounds to which the server can go back."""
    record(state)
    try:
        names = [path.name[len(STATE) :] for path in state.glob(f"{STATE}*")]
        return sorted(int(name) for name in names if name.isdecimal())
    except OSError as error:
        raise InputError(str(state), f"cannot be read: {error.strerror}", "give another") from None


def members(state: Path) -> dict[str, Any]:
    """Who is a member, since when, with how many answers; also while the server runs."""
    arrays = record(state)
    with inside(where=str(state)):
        table = MemberTable(len(taken(arrays, "accepted", np.int64, (None,), 0)))
        table.restore(arrays)
        table.names.listed = _listed(state)
        ledger = Ledger(len(table))
        ledger.restore(arrays)
        n = number(arrays, "n")
    columns = {"since": table.since, "answers": ledger.accepted, "last": ledger.accepted_at,
               "lost": ledger.lost}  # fmt: skip
    rows = [
        {
            "client": int(table.ids[row]),
            "name": table.names(int(table.ids[row])),
            "standing": WORDS[int(table.status[row])],
        }
        | {name: int(column[row]) for name, column in columns.items()}
        for row in np.argsort(table.ids).tolist()
        if table.status[row] != VACANT
    ]
    counts = {word: sum(one["standing"] == word for one in rows) for word in WORDS[1:]}
    return {"round": n, "counts": counts, "clients": rows}


def _listed(state: Path) -> tuple[str, ...]:
    """The names in the file of the run; none of a copy without it. No code of it is imported."""
    try:
        return tuple(tomllib.loads((state / plans.PLAN).read_text())["deploy"]["names"])
    except (OSError, ValueError, KeyError):
        return ()


def history(state: Path) -> str:
    """The changes so far as tables [[fleet]]."""
    import tomli_w

    arrays = record(state)
    with inside(where=str(state)):
        count = number(arrays, "logged")
    found = changes(reader(state)(LOG), count, str(state))
    return tomli_w.dumps({"fleet": [change.to_table() for change in found]}) if found else ""


def record(state: Path) -> dict[str, Any]:
    """The newest record of a server's folder, which another process may be using."""
    found = newest(reader(state), str(state))[0] if state.is_dir() else None
    role = None if found is None else found.about.get("role")
    if found is None or role != "server":
        what = "not a state folder of a server" if role is None else f"the state folder of {role}"
        right = "give the folder that `psofed deploy serve --state` was given"
        raise InputError(str(state), f"is {what}", right)
    return found.arrays
