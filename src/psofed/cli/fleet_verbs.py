"""`psofed fleet add|remove|exclude|readmit|list STATE`: the members of a deployment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

_state = click.argument("state", type=click.Path(path_type=Path))
_clients = click.argument("clients", metavar="K...", nargs=-1, required=True,
                          type=click.IntRange(min=0))  # fmt: skip
_json = click.option("--json", "as_json", is_flag=True, help="Print the changes as JSON.")


@click.group()
def fleet() -> None:
    """Add and remove clients of a deployment while it runs, and list them.

    STATE is the state folder of the server. A running server does what is wished within a second;
    if none runs, the folder itself is changed. Clients need no new file: they are told.
    """


@fleet.command()
@_state
@click.argument("clients", metavar="[K...]", nargs=-1, type=click.IntRange(min=0))
@click.option("--count", type=click.IntRange(1, 100_000), metavar="N",
              help="Add N clients with the next free numbers. [default: 1]")  # fmt: skip
@_json
def add(state: Path, clients: tuple[int, ...], count: int | None, as_json: bool) -> None:
    """Add clients, with the numbers K or the next free ones.

    A new client begins with the model of the server at its first contact.
    """
    from psofed.errors import InputError

    if clients and count is not None:
        raise InputError("--count", "is given with numbers", "give one of them")
    wish: dict[str, Any] = {"clients": list(clients)} if clients else {"count": count or 1}
    _do(state, {"act": "add", **wish}, as_json)


@fleet.command()
@_state
@_clients
@_json
def remove(state: Path, clients: tuple[int, ...], as_json: bool) -> None:
    """Remove clients for good: nobody gets their numbers again."""
    _do(state, {"act": "remove", "clients": list(clients)}, as_json)


@fleet.command()
@_state
@_clients
@_json
def exclude(state: Path, clients: tuple[int, ...], as_json: bool) -> None:
    """Do not ask clients any more until they are readmitted."""
    _do(state, {"act": "exclude", "clients": list(clients)}, as_json)


@fleet.command()
@_state
@_clients
@_json
def readmit(state: Path, clients: tuple[int, ...], as_json: bool) -> None:
    """Ask clients again that were excluded; they begin anew, with the model of the server."""
    _do(state, {"act": "readmit", "clients": list(clients)}, as_json)


def _do(state: Path, wish: dict[str, Any], as_json: bool) -> None:
    from psofed import schema
    from psofed.core.fleet import Change
    from psofed.deploy import desk

    changes = desk.ask(state, wish)
    if as_json:
        print(json.dumps(changes))
        return
    for line in desk.in_words([schema.build(Change, change) for change in changes]):
        print(line[0].upper() + line[1:])


@fleet.command(name="list")
@_state
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--toml", "as_toml", is_flag=True,
              help="Print the changes so far as tables [[fleet]] of an experiment file, with which"
              " `psofed run` simulates what happened.")  # fmt: skip
def list_(state: Path, as_json: bool, as_toml: bool) -> None:
    """Show the clients of a deployment: members, those who were excluded, and since when."""
    from psofed.deploy import muster

    if as_toml:
        print(muster.toml(state), end="")
        return
    found = muster.read(state)
    if as_json:
        print(json.dumps(found))
        return
    words = {"member": "members"}
    counts = ", ".join(
        f"{n} {word if n == 1 else words.get(word, word)}"
        for word, n in found["counts"].items()
        if n
    )
    print(f"Round {found['round']}: {counts}")
    print(f"{'client':>8}  {'standing':<9} {'since':>8} {'answers':>8} {'last':>8} {'lost':>8}")
    for row in found["clients"]:
        last = "-" if row["last"] < 0 else row["last"]
        print(f"{row['client']:>8}  {row['standing']:<9} {row['since']:>8} {row['answers']:>8}"
              f" {last:>8} {row['lost']:>8}")  # fmt: skip
