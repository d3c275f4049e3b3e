"""`psofed attack FILE.toml`: what malicious clients cost, with and without a defence."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from psofed.cli import printing
from psofed.cli.progress import counted, metered, say
from psofed.cli.work import Wishes, changed, plain_options, targets_option
from psofed.errors import InputError

if TYPE_CHECKING:
    from psofed.compare.attacking import AttackPlan
    from psofed.experiment import Experiment
    from psofed.simulate.checkpoint import Checkpoint

RUNS = 20
SHARES = "0,0.05,0.1,0.2,0.3"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--shares", default=SHARES, show_default=True, metavar="A,B,C",
              help="Shares of the clients that are malicious.")  # fmt: skip
@click.option("--attack", "attacks", multiple=True, metavar="NAME",
              help="An attack, or one with options as in scale:factor=-5. May be given several"
              " times. [default: all attacks]")  # fmt: skip
@click.option("--defence", "defences", multiple=True, metavar="NAME",
              help="A defence to try, with options likewise. May be given several times."
              " [default: FILE's, or clip]")  # fmt: skip
@click.option("--runs", type=click.IntRange(min=2), metavar="N",
              help=f"Number of independent runs. [default: FILE's, at most {RUNS}]")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Number of rounds. [default: FILE's]")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), metavar="N",
              help="Seed of all random numbers. [default: FILE's]")  # fmt: skip
@targets_option
@plain_options
def attack(file: Path, shares: str, runs: int | None, **wishes: Any) -> None:
    """Attack the methods of FILE, with more and more malicious clients, with and without a defence.

    Everything runs on the same draws and, for a share, with the same malicious clients, so losses
    are paired differences to the clean federation. An attack that FILE has in its table [attack] is
    tried with the options there. Writes attack.csv and attack.json (every error and loss, with 95 %
    intervals), a figure with a panel for each attack, and a report; prints a table for each method.
    """
    from psofed import experiment as experiments
    from psofed.compare import attacking
    from psofed.report import attack_files, files

    asked = {key: wishes.pop(key) for key in ("rounds", "seed", "targets")}
    named = {key: wishes.pop(key) for key in ("attacks", "defences")}
    how = Wishes(**wishes)
    experiment = changed(experiments.read(file), **asked)
    experiment = replace(experiment, runs=runs or max(min(experiment.runs, RUNS), 2))
    made = _plan(experiment, shares, named)
    out = how.out or files.default_folder(Path("results") / f"{file.stem}-attack", how.resume)
    folder = files.ResultFolder(out, how.force, how.resume)
    if not files.can_draw():
        say("No figures: they need matplotlib (pip install '.[plot]' in a clone).")
    if len(made.defences) == 1:
        say("No defence: FILE has none, and none was named with --defence.")
    store, steady = _computed(made, folder, how)
    result = attacking.AttackResult(made, tuple(steady))
    command = attack_files.command(made, not named["attacks"] and experiment.attack is None)
    folder.write(attack_files.render(result, command))
    store.remove()
    if how.as_json:
        table = attack_files.to_table(result, command) | {"folder": str(folder.path)}
        print(json.dumps(table, indent=2))
        return
    end = f"\n{result.runs} runs of {made.base.rounds:,} rounds each; results in {folder.path}"
    printing.show(*attack_files.blocks(result), end)


def _plan(experiment: Experiment, shares: str, named: dict[str, tuple[str, ...]]) -> AttackPlan:
    from psofed.compare import attacking

    own = experiment.attack
    attacks = [parsed("attack", text, own) for text in named["attacks"]]
    defences = [parsed("defence", text, experiment.defence) for text in named["defences"]]
    for option, found in (("--attack", attacks), ("--defence", defences)):
        twice = [each.describe() for i, each in enumerate(found) if each in found[:i]]
        if twice:
            raise InputError(option, f"names {twice[0]} twice", "name it once")
    try:
        return attacking.plan(
            experiment, attacks or attacking.every_attack(own), _numbers(shares),
            defences or attacking.usual_defence(experiment.defence),
        )  # fmt: skip
    except InputError as error:
        raise error.inside("--") if error.field == "shares" else error from None


def parsed(kind: str, text: str, own: Any = None) -> Any:
    """An attack or a defence such as "scale:factor=-5"; by its name alone, as FILE has it."""
    from psofed import schema
    from psofed.fit.plan import value_of

    name, colon, given = text.partition(":")
    if own is not None and not colon and name == own.name:
        return own
    values = dict(part.partition("=")[::2] for part in given.split(",") if part)
    table = {key.strip(): value_of(value) for key, value in values.items()}
    try:
        return schema.reader(f"psofed.{kind}s")(kind, {**table, "name": name})
    except InputError as error:
        field = error.field.removeprefix(f"{kind}.")
        raise InputError(f"--{kind} {text}: {field}", error.found, error.right) from None


def _numbers(shares: str) -> list[float]:
    try:
        return [float(part) for part in shares.split(",")]
    except ValueError:
        found, right = f"is {shares!r}", f"write numbers, as {SHARES}"
        raise InputError("--shares", found, right) from None


def _computed(made: AttackPlan, folder: Any, how: Wishes) -> tuple[Checkpoint, list[Any]]:
    """The steady errors of every part; what is finished is kept if it is interrupted."""
    from psofed.compare import attacking
    from psofed.simulate.checkpoint import Checkpoint, write

    store = Checkpoint(folder.path, made.base)
    known = _known(store, made, folder, how)
    runs = made.base.runs

    def done(part: int, steady: Any) -> None:
        write(store.folder / f"part-{part}", {"steady": steady}, durable=False)

    try:
        with _workers(made, how, runs * len(known)) as (workers, told):
            return store, attacking.compute(made, workers, known, done, told)
    except KeyboardInterrupt:
        _leave(store, folder)
    except InputError:
        if not any(store.folder.glob("part-*")):
            store.remove()
            folder.discard()
        raise


def _known(store: Checkpoint, made: AttackPlan, folder: Any, how: Wishes) -> dict[int, Any]:
    """The parts that were finished before, of the same question."""
    from psofed.report import attack_files
    from psofed.simulate.accumulate import Accumulator
    from psofed.simulate.checkpoint import read

    used = attack_files.tried(made)
    question = {"runs": made.base.runs, "shares": made.shares, "plugins": used.plugins}
    beside = json.dumps(question | used.table)
    if not (how.resume and store.exists()):
        store.begin(beside)
        return {}
    store.resume(Accumulator(made.base))  # refuses another experiment
    if store.beside(folder.path) != beside:
        found, right = "was started with other attacks, shares, defences or runs", "repeat them"
        raise InputError("--resume", found, f"{right}, or start again with --force")
    known = {}
    for path in store.folder.glob("part-*"):
        try:
            known[int(path.name.removeprefix("part-"))] = read(path)["steady"]
        except (ValueError, KeyError) as error:
            say(f"Warning: {error}; that part is repeated")
    if known:
        say(f"Resumed: {len(known)} of {len(made.parts)} parts were finished before.")
    return known


@contextmanager
def _workers(made: AttackPlan, how: Wishes, already: int) -> Iterator[tuple[Any, Any]]:
    """Where it is computed, and what to tell how many runs are finished."""
    from psofed.simulate import family, pools
    from psofed.simulate.onerun import width

    total = made.base.runs * len(made.parts)
    slow = [part.experiment for part in made.parts if _handled(part.experiment, family.knows)]
    typical = (slow or [made.base])[-1]
    pool = pools.cluster(how.cluster) if how.cluster else pools.local(typical, how.jobs)
    with (
        metered("attacking", "runs", total=total, already=already) as meter,
        counted(pool, meter, width(typical)) as workers,
    ):
        try:
            yield workers, meter.advance
        finally:
            workers.stop()


def _handled(experiment: Experiment, compiled: Any) -> bool:
    """Whether one of its methods is not compiled, under this attack and defence."""
    parts = (part for _, part in experiment.parts())
    return not all(compiled(method) for part in parts for method in part.start(part.task(0)))


def _leave(store: Checkpoint, folder: Any) -> NoReturn:
    """Say what is kept and leave at once, without waiting for a run to end."""
    kept = len(list(store.folder.glob("part-*")))
    if kept:
        say(f"Interrupted: {kept} parts were finished; these are kept.")
        say(f"To continue, repeat the command with --out {folder.path} --resume.")
    else:
        store.remove()
        folder.discard()
        say("Interrupted before the first part was finished; nothing was written.")
    sys.stdout.flush()
    os._exit(130)
