"""`psofed study sweep`, `attack` and `privacy`: one experiment in many forms, on the same draws."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.fit import command
from psofed.cli.printing import results, say, show
from psofed.cli.run import Overrides, compute, jobs, leave_interrupted, warn_of_steps
from psofed.cli.verbs import FILE, common, fields
from psofed.errors import InputError
from psofed.federation import texts
from psofed.federation.progress import in_turn, showing

if TYPE_CHECKING:
    from psofed.compare.attacks import AttackPlan
    from psofed.compare.sweeping import SweepPlan
    from psofed.curves import Curves
    from psofed.experiment import Experiment
    from psofed.privacy.audit import Audit
    from psofed.report.files import ResultFolder
    from psofed.simulate.finished import Checkpoint

RUNS = 20
SHARES = "0,0.05,0.1,0.2,0.3"


@click.command()
@click.argument("file", type=FILE)
@click.option("--set", "sets", multiple=True, required=True, metavar="KEY=A,B,C",
              help="A setting and its values, such as methods.shared=1,5,40, step=0.5,0.75 or"
              " features.width=1,2. Give several for all combinations. runs, rounds and seed have"
              " one value, for all points.")  # fmt: skip
@common("out")
def sweep(file: Path, sets: tuple[str, ...], out: Path | None) -> None:
    """Run the experiment in FILE at every combination of some settings, on the same draws.

    A setting is a key of FILE, an option of its methods (methods.shared, or shared alone where
    that is clear) or a key of its tables (features.width). Methods without an option are run
    once. Writes sweep.csv and sweep.json (every point), sweep.png and sweep.pdf (the error at the
    end against the first setting), curves.csv (every curve) and a report, and prints the table.
    """
    from psofed import experiment as experiments
    from psofed.compare import sweeping
    from psofed.report import sweeps

    fixed = tuple(text for text in sets if re.match(r"(runs|rounds|seed) *=[^,]+$", text))
    axes = [text for text in sets if text not in fixed]
    experiment = Overrides(out, settings=fixed).changed(experiments.read(file))
    plan = sweeping.plan(experiment, _values(axes))
    with results(out, f"{file.stem}-sweep", resumes=True) as folder:
        curves, store = _swept(plan, folder)
        result = sweeping.SweepResult(plan, tuple(curves))
        words = " ".join(shlex.join(["--set", text]) for text in axes)
        folder.write(sweeps.render(result, f"psofed study sweep experiment.toml {words}"))
    store.remove()
    count = "1 curve" if plan.curves == 1 else f"{plan.curves} curves"
    end = f"\n{count}, {curves[0].counted_runs()}, all on the same draws; results in {folder.path}"
    show(*sweeps.blocks(result), end)


def _values(axes: Sequence[str]) -> dict[str, list[Any]]:
    """The settings and their values.

    >>> _values(("features.name=cosine,gaussian", "step=0.5,1"))
    {'features.name': ['cosine', 'gaussian'], 'step': [0.5, 1]}
    """
    found: dict[str, list[Any]] = {}
    for setting in texts.settings(axes):
        parts = [part.strip() for part in setting.text.split(",")]
        if not all(parts):
            raise InputError(setting.typed, "has an empty value", "write values as 1,5,40")
        read = ((part, texts.value(part)) for part in parts)
        found[setting.key] = [v if isinstance(v, int | float | str) else part for part, v in read]
    return found


def _swept(plan: SweepPlan, folder: ResultFolder) -> tuple[list[Curves], Checkpoint]:
    """The curves of every part; what is finished is kept if it is interrupted."""
    from psofed.simulate.finished import Checkpoint

    store = Checkpoint(folder.path, plan.base)
    if not store.exists():
        store.begin()
    done: list[Curves] = []
    try:
        for i, (settings, experiment) in enumerate(plan.parts):
            if settings:
                shown = ", ".join(f"{key} {value}" for key, value in settings.items())
                say(f"Settings {i + 1} of {len(plan.parts)}: {shown}")
            warn_of_steps(experiment)
            curves, finished, own = compute(experiment, store.folder / str(i))
            if curves is None or not finished:
                kept = own.count() + sum(each.runs for each in done)
                leave_interrupted(folder, store, kept)
            done.append(curves)
    except InputError:
        if not any(store.folder.glob("*/checkpoint/*")):
            store.remove()
        raise
    return done, store


@click.command()
@click.argument("file", type=FILE)
@click.option("--shares", default=SHARES, show_default=True, metavar="A,B,C",
              help="Shares of the clients that are malicious.")  # fmt: skip
@click.option("--attack", "attacks", multiple=True, metavar="NAME",
              help="An attack, or one with options as in scale:factor=-5. May be given several"
              " times. [default: all attacks]")  # fmt: skip
@click.option("--defence", "defences", multiple=True, metavar="NAME",
              help="A defence to try, with options likewise. May be given several times."
              " [default: FILE's, or clip]")  # fmt: skip
@fields("settings.Settings", "runs", default=f"FILE's, at most {RUNS}")
@common("set", "out")
def attack(
    file: Path, shares: str, attacks: tuple[str, ...], defences: tuple[str, ...], **options: Any
) -> None:
    """Attack the methods of FILE, with more and more malicious clients, with and without a defence.

    Everything runs on the same draws and, for a share, with the same malicious clients, so losses
    are paired differences to the clean federation. An attack that FILE has in its table [attack] is
    tried with the options there. Writes attack.csv and attack.json (every error and loss, with 95 %
    intervals), a figure with a panel for each attack, and a report; prints a table for each method.
    """
    from psofed import experiment as experiments
    from psofed.compare import attacks as study
    from psofed.report import attacks as words

    how = Overrides(**options)
    experiment = experiments.read(file)
    experiment = how.changed(experiment, max(min(experiment.runs, RUNS), 2), {"runs": 2})
    made = _attack_plan(experiment, shares, attacks, defences)
    with results(how.out, f"{file.stem}-attack") as folder:
        if len(made.defences) == 1:
            say("No defence: FILE has none, and none was named with --defence.")
        result = study.AttackResult(made, tuple(_attacked(made)))
        command = words.command(made, not attacks and experiment.attack is None)
        folder.write(words.render(result, command))
    end = f"\n{result.runs} runs of {made.base.rounds:,} rounds each; results in {folder.path}"
    show(*words.blocks(result), end)


def _attack_plan(
    experiment: Experiment, shares: str, attacks: tuple[str, ...], defences: tuple[str, ...]
) -> AttackPlan:
    from psofed.compare import attacks as study

    own = experiment.attack
    tried = list(dict.fromkeys(parsed("attack", text, own) for text in attacks))
    against = list(dict.fromkeys(parsed("defence", text, experiment.defence) for text in defences))
    parts = texts.typed("--shares", shares, tuple[float, ...])
    try:
        return study.plan(
            experiment, tried or study.every_attack(own), parts,
            against or study.usual_defence(experiment.defence),
        )  # fmt: skip
    except InputError as error:
        raise error.inside("--") if error.field == "shares" else error from None


def parsed(kind: str, text: str, own: Any = None) -> Any:
    """An attack or a defence such as "scale:factor=-5"; by its name alone, as FILE has it."""
    if own is not None and text == own.name:
        return own
    return texts.named(f"psofed.{kind}s", f"--{kind}", text)


def _attacked(made: AttackPlan) -> list[Any]:
    """The steady errors of every part."""
    from psofed.compare import attacks as study
    from psofed.simulate import montecarlo

    total = made.base.runs * len(made.parts)
    typical = made.parts[-1].experiment  # attacked and, if there is a defence, defended
    with (
        showing("attacking", "runs", total=total, runs=True) as job,
        montecarlo.local(typical, jobs()) as workers,
    ):
        try:
            return study.compute(made, workers, job.advance)
        finally:
            workers.stop()


@click.command()
@click.argument("file", type=FILE, required=False)
@click.option("--clients", type=click.IntRange(min=1), default=3, show_default=True, metavar="N",
              help="Number of clients that are attacked.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Number of rounds to play. [default: 20 contacts of each client]")  # fmt: skip
@common("out")
def privacy(file: Path | None, clients: int, rounds: int | None, out: Path | None) -> None:
    """Play an honest-but-curious server, and show which samples it reconstructs from messages.

    The messages are those of the deployed server and clients, joined in memory, for every method of
    FILE; without FILE, in the paper's setting. The attacks get these bytes and what both ends know:
    features, windows, step. If FILE has a table [privacy], the result without it is shown, too. For
    a table the columns are shown in their units. Writes privacy.json and a report.
    """
    from psofed.report import privacy as words

    with results(out, f"{file.stem if file else 'paper'}-privacy") as folder:
        with in_turn("steps") as report:
            found = _played(file, rounds, clients, report)
        folder.write(words.render(found, command()))
    show(*words.blocks(found), f"\nresults in {folder.path}")


def _played(file: Path | None, rounds: int | None, clients: int, report: Any) -> Audit:
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
    return audit.audit(experiment, deploy, played, clients, report)
