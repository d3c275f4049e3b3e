"""`psofed privacy [FILE.toml]`: what a curious server reads of its clients' samples."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli import printing
from psofed.cli.progress import say
from psofed.cli.table_options import command
from psofed.errors import InputError
from psofed.meter import in_turn

if TYPE_CHECKING:
    from psofed.audit.auditing import Audit


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--clients", type=click.IntRange(min=1), metavar="N",
              help="Number of clients that are attacked. [default: 3]")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Number of rounds to play. [default: 20 contacts of each client]")  # fmt: skip
@click.option("--frames", type=click.Path(path_type=Path), metavar="FILE",
              help="Attack messages captured from a broker, a line of JSON each.")  # fmt: skip
@click.option("--state", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Attack what a server has kept in its state folder.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Folder for the results. [default: a new folder in results/]")  # fmt: skip
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def privacy(
    file: Path | None, clients: int | None, rounds: int | None, frames: Path | None,
    state: Path | None, out: Path | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Play a curious server, and show which samples it can compute from its clients' messages.

    The messages are those of the deployed server and clients, joined in memory, for every method of
    FILE; without FILE, in the paper's setting. The attacks get these bytes and what both ends know:
    features, windows, step. If FILE has a table [privacy], the result without it is shown beside.
    For a table the columns are shown in their units. Writes privacy.json and a figure.
    """
    from psofed.audit import auditing
    from psofed.report import files, privacy_files

    if frames is not None and state is not None:
        raise click.UsageError("Give --frames or --state, not both.")
    if file is None and frames is not None:
        raise click.UsageError("--frames needs FILE, the file of that run.")
    many = clients or auditing.CLIENTS
    name = "paper" if file is None and state is None else (file or state or Path()).stem
    folder = files.ResultFolder(
        out or files.default_folder(Path("results") / f"{name}-privacy", False), force
    )
    try:
        with in_turn("steps") as told:
            if frames is not None or state is not None:
                found = _captured(file, frames, state, many, told)
            else:
                found = _played(file, rounds, many, told)
        folder.write(privacy_files.render(found, command()))
    except BaseException:
        folder.discard()
        raise
    if not files.can_draw():
        say("No figure: it needs matplotlib (pip install '.[plot]' in a clone).")
    if as_json:
        table = privacy_files.to_table(found, command()) | {"folder": str(folder.path)}
        print(json.dumps(table, indent=2))
        return
    printing.show(*privacy_files.blocks(found), f"\nresults in {folder.path}")


def _played(file: Path | None, rounds: int | None, clients: int, told: Any) -> Audit:
    from psofed import experiment as experiments
    from psofed.audit import auditing
    from psofed.protocol import deployment

    if file is None:
        experiment, deploy = auditing.paper(), deployment.Deploy()
    else:
        experiment = experiments.read(file)
        deploy = deployment.settings(file)
    auditing.check(experiment)
    played = min(rounds or auditing.enough(experiment), experiment.rounds)
    return auditing.audit(experiment, deploy, played, clients, told)


def _captured(
    file: Path | None, frames: Path | None, state: Path | None, clients: int, told: Any
) -> Audit:
    from psofed.audit import auditing, captured
    from psofed.protocol import deployment

    if file is None and state is not None and not (state / deployment.PLAN).exists():
        raise InputError("", "is no state folder of a server", "give the one of --state",
                         str(state))  # fmt: skip
    plan = deployment.read(file if file is not None else (state or Path()) / deployment.PLAN)
    if frames is not None:
        view = captured.from_frames(plan, frames)
    else:
        view = captured.from_state(plan, state or Path())
    title = plan.world.methods[0].title()
    whom = auditing.whom(view, clients)
    one = auditing.of_view(view, whom, title, told)
    rounds = view.stop - view.first
    shown = replace(plan.experiment, methods=plan.world.methods)
    return auditing.Audit(shown, plan.wire, rounds, len(whom), (one,))
