"""`psofed deploy fleet`, `restore` and `verify`: members, earlier models, the simulation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from psofed.cli.verbs import FILE, Sentences

_state = click.argument("state", type=click.Path(path_type=Path))
_clients = click.argument("clients", metavar="NAME...", nargs=-1, required=True)


@click.group(cls=Sentences)
def fleet() -> None:
    """Add and remove clients of a deployment while it runs, and list them.

    STATE is the state folder of the server. A running server does what is asked within a second;
    if none runs, the folder itself is changed. Clients need no new file: the server says it. NAME
    is the name or the number of a client.
    """


@fleet.command()
@_state
@click.argument("clients", metavar="[NAME...]", nargs=-1)
@click.option("--count", type=click.IntRange(1, 100_000), metavar="N",
              help="Add N clients with the next free numbers. [default: 1]")  # fmt: skip
def add(state: Path, clients: tuple[str, ...], count: int | None) -> None:
    """Add clients: by number, by a new NAME, as NAME=K, or with the next free numbers.

    A new client begins with the model of the server at its first contact.
    """
    from psofed.errors import InputError

    if clients and count is not None:
        raise InputError("--count", "is given with numbers", "give one of them")
    request: dict[str, Any] = {"clients": list(clients)} if clients else {"count": count or 1}
    _do(state, {"act": "add", **request})


def _verb(act: str, text: str) -> None:
    """A command that does something to clients."""

    def work(state: Path, clients: tuple[str, ...]) -> None:
        _do(state, {"act": act, "clients": list(clients)})

    fleet.command(act, help=text)(_state(_clients(work)))


_verb("remove", "Remove clients for good: nobody gets their numbers again.")
_verb("exclude", "Do not ask clients any more until they are readmitted.")
_verb("readmit", "Ask clients again that were excluded; they start over, with the server's model.")


def _do(state: Path, request: dict[str, Any]) -> None:
    from psofed.fleet import requests

    for line in requests.ask(state, request):
        print(line[0].upper() + line[1:])


@fleet.command(name="list")
@_state
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--toml", "as_toml", is_flag=True,
              help="Print the changes so far as tables [[fleet]] of an experiment file, with which"
              " `psofed run` simulates what happened.")  # fmt: skip
def list_(state: Path, as_json: bool, as_toml: bool) -> None:
    """Show the clients of a deployment: members, those who were excluded, and since when."""
    from psofed.fleet import requests

    if as_toml:
        print(requests.history(state), end="")
        return
    found = requests.members(state)
    if as_json:
        print(json.dumps(found))
        return
    counts = {w + "s" * (w == "member" and n > 1): n for w, n in found["counts"].items() if n}
    print(f"Round {found['round']}: {', '.join(f'{n} {word}' for word, n in counts.items())}")
    wide = max(8, *(len(row["name"]) for row in found["clients"]))
    print(
        f"{'client':>{wide}}  {'standing':<9} {'since':>8} {'answers':>8} {'last':>8} {'lost':>8}"
    )
    for row in found["clients"]:
        last = "-" if row["last"] < 0 else row["last"]
        print(f"{row['name']:>{wide}}  {row['standing']:<9} {row['since']:>8} {row['answers']:>8}"
              f" {last:>8} {row['lost']:>8}")  # fmt: skip


@click.command()
@_state
@click.option("--round", "n", type=click.IntRange(min=0), metavar="N",
              help="Go back to the snapshot of round N. [default: STATE is an old copy]"
              )  # fmt: skip
@click.option("--keep-clients", is_flag=True,
              help="Clients keep their models. [default: they start over, with the restored one]"
              )  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Only list the rounds with a snapshot.")
@click.option("--plan", type=FILE, metavar="FILE",
              help="The file of the run, if STATE is a copy and the run has plug-ins.")  # fmt: skip
def restore(
    state: Path, n: int | None, keep_clients: bool, listed: bool, plan: Path | None
) -> None:
    """Put an earlier model of the server in STATE into service, or an old copy of its folder.

    With --round, the model of that round is in service from the next round on: the numbers of
    rounds go on, and what clients answer to earlier ones is refused. The server may run.

    Without --round, STATE is an old copy of the folder of a server that is lost. It must be
    stopped. Start it then with `psofed deploy serve`: it asks its clients how far they are, and
    goes on.
    """
    from psofed.errors import InputError
    from psofed.fleet import requests

    if listed:
        print(" ".join(map(str, requests.snapshots(state))) or "There is no snapshot yet.")
        return
    if n is None and keep_clients:
        raise InputError("--round", "is missing", "give it with --keep-clients")
    if n is None:
        last = requests.revive(state, plan)
        print(f"The copy has round {last}. Start it with `psofed deploy serve`; it goes on"
              " after the last round that its clients have seen.")  # fmt: skip
        return
    _do(state, {"restore": n, "keep": keep_clients})


@click.command()
@_state
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", type=FILE)
def verify(state: Path, clients: tuple[Path, ...]) -> None:
    """Compare the model of the server in STATE, a lockstep run, with a simulation of that run.

    What has happened to its fleet is simulated, too. The state folders of CLIENTs, if they are
    here, are compared with their local models. All may run meanwhile. With files of samples of
    their own they have learned something else. The exit code is 0 only if every difference is at
    most 1e-12 or, where numbers have fewer bits, what their rounding may amount to.
    """
    from psofed.cli.laws.executors import verified

    found = verified(state, clients)
    print(f"round {found.n}: " + "\n".join(found.lines()))
    sys.exit(0 if found.holds else 1)
