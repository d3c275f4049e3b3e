"""`psofed study privacy [FILE.toml]`: what an honest-but-curious server reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli import printing
from psofed.cli.fit import command
from psofed.cli.verbs import FILE, common
from psofed.federation.progress import in_turn

if TYPE_CHECKING:
    from psofed.privacy.audit import Audit


@click.command()
@click.argument("file", type=FILE, required=False)
@click.option("--clients", type=click.IntRange(min=1), metavar="N",
              help="Number of clients that are attacked. [default: 3]")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Number of rounds to play. [default: 20 contacts of each client]")  # fmt: skip
@common("out", "force", "json")
def privacy(
    file: Path | None, clients: int | None, rounds: int | None, out: Path | None, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Play an honest-but-curious server, and show which samples it reconstructs from messages.

    The messages are those of the deployed server and clients, joined in memory, for every method of
    FILE; without FILE, in the paper's setting. The attacks get these bytes and what both ends know:
    features, windows, step. If FILE has a table [privacy], the result without it is shown beside.
    For a table the columns are shown in their units. Writes privacy.json and a report.
    """
    from psofed.privacy import audit
    from psofed.report import files
    from psofed.report import privacy as words

    many = clients or audit.CLIENTS
    name = "paper" if file is None else file.stem
    folder = files.ResultFolder(
        out or files.default_folder(Path("results") / f"{name}-privacy", False), force
    )
    try:
        with in_turn("steps") as told:
            found = _played(file, rounds, many, told)
        folder.write(words.render(found, command()))
    except BaseException:
        folder.discard()
        raise
    if as_json:
        printing.as_json(words.to_table(found, command()), folder.path)
        return
    printing.show(*words.blocks(found), f"\nresults in {folder.path}")


def _played(file: Path | None, rounds: int | None, clients: int, told: Any) -> Audit:
    from psofed import experiment as experiments
    from psofed.fleet.protocol import deployment
    from psofed.privacy import audit

    if file is None:
        experiment, deploy = audit.paper(), deployment.Deploy()
    else:
        experiment = experiments.read(file)
        deploy = deployment.settings(file)
    audit.check(experiment)
    played = min(rounds or audit.enough(experiment), experiment.rounds)
    return audit.audit(experiment, deploy, played, clients, told)
