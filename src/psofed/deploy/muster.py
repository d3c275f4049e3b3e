"""Muster: the clients of a deployment and its changes so far, from the server's state folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psofed.errors import InputError
from psofed.protocol import deployment as plans
from psofed.protocol.change_log import LOG, changes
from psofed.protocol.checked_record import number, reading
from psofed.protocol.deployment import PLAN
from psofed.protocol.ledger import Ledger
from psofed.protocol.seats import VACANT, WORDS, Seats
from psofed.protocol.store import newest, reader


def read(state: Path) -> dict[str, Any]:
    """Who is a member, since when, with how many answers; also while the server runs."""
    plan, arrays = record(state)
    seats = Seats(plan.experiment.clients)
    with reading(str(state)):
        seats.restore(arrays)
        ledger = Ledger(len(seats))
        ledger.restore(arrays)
        n = number(arrays, "n")
    rows = []
    for row in sorted(range(len(seats)), key=lambda row: int(seats.ids[row])):
        if seats.status[row] == VACANT:
            continue
        rows.append({
            "client": int(seats.ids[row]),
            "standing": WORDS[int(seats.status[row])],
            "since": int(seats.since[row]),
            "answers": int(ledger.accepted[row]),
            "last": int(ledger.accepted_at[row]),
            "lost": int(ledger.lost[row]),
        })  # fmt: skip
    counts = {word: sum(one["standing"] == word for one in rows) for word in WORDS[1:]}
    return {"round": n, "counts": counts, "clients": rows}


def toml(state: Path) -> str:
    """The changes so far as tables [[fleet]]."""
    import tomli_w

    _, arrays = record(state)
    with reading(str(state)):
        count = number(arrays, "logged", default=0)
    found = changes(reader(state)(LOG), count, str(state))
    return tomli_w.dumps({"fleet": [change.to_table() for change in found]}) if found else ""


def record(state: Path) -> tuple[plans.Deployment, dict[str, Any]]:
    """The plan and the newest record of a server's folder, which another process may be using."""
    found = newest(reader(state), str(state))[0] if state.is_dir() else None
    role = None if found is None else found.about.get("role")
    if found is None or role != "server":
        what = "no state folder of a server" if role is None else f"the state folder of {role}"
        right = "give the folder that `psofed serve --state` was given"
        raise InputError(str(state), f"is {what}", right)
    return plans.read(state / PLAN), found.arrays
