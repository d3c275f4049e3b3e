"""`psofed restore STATE`: go back to an earlier model, or put an old copy into service."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("state", type=click.Path(path_type=Path))
@click.option("--round", "n", type=click.IntRange(min=0), metavar="N",
              help="Go back to the snapshot of round N. [default: STATE is an old copy]"
              )  # fmt: skip
@click.option("--without", type=click.IntRange(min=0), multiple=True, metavar="K",
              help="Fold the answers since round N in again, but for those of client K; may be"
              " repeated.")  # fmt: skip
@click.option("--keep-clients", is_flag=True,
              help="Clients keep their models. [default: they begin anew, with the restored one]"
              )  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Only list the rounds with a snapshot.")
def restore(
    state: Path, n: int | None, without: tuple[int, ...], keep_clients: bool, listed: bool
) -> None:
    """Put an earlier model of the server in STATE into service, or an old copy of its folder.

    With --round, the model of that round is in service from the next round on: the numbers of
    rounds go on, and what clients answer to earlier ones is refused. The server may run.

    Without --round, STATE is an old copy of the folder of a server that is lost. It must be
    stopped. Start it then with `psofed serve`: it asks its clients how far they are, and goes on.
    """
    from psofed.deploy import desk
    from psofed.errors import InputError

    if listed:
        print(" ".join(map(str, desk.snapshots(state))) or "There is no snapshot yet.")
        return
    if n is None and (without or keep_clients):
        raise InputError("--round", "is missing", "give it with --without and --keep-clients")
    if n is None:
        print(f"The copy has round {desk.revive(state)}. Start it with `psofed serve`; it goes on"
              " behind the last round that its clients have seen.")  # fmt: skip
        return
    wish = {"restore": n, "without": list(without), "keep": keep_clients}
    change = desk.ask(state, wish)[0]
    what = f" without the answers of {', '.join(map(str, without))}" if without else ""
    clients = "keep their models" if keep_clients else "begin anew at their next contact"
    print(f"The model of round {n}{what} is in service from round {change['round']} on; clients"
          f" {clients}.")  # fmt: skip
