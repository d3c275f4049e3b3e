"""`psofed study sweep` and `psofed study attack`: one experiment in many forms, on the same draws.

What is finished is kept if a study is interrupted.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.printing import say
from psofed.cli.run import Wishes, compute, leave_interrupted, warn_of_steps
from psofed.cli.verbs import FILE, common, experiment_options, fields
from psofed.errors import InputError
from psofed.federation import texts
from psofed.federation.progress import showing

if TYPE_CHECKING:
    from psofed.compare.attacks import AttackPlan
    from psofed.compare.sweeping import SweepPlan
    from psofed.curves import Curves
    from psofed.experiment import Experiment
    from psofed.simulate.finished import Checkpoint

RUNS = 20
SHARES = "0,0.05,0.1,0.2,0.3"


@click.command()
@click.argument("file", type=FILE)
@click.option("--set", "axes", multiple=True, required=True, metavar="KEY=A,B,C",
              help="A setting and its values, such as methods.shared=1,5,40, step=0.5,0.75 or"
              " features.width=1,2. Give several for all combinations.")  # fmt: skip
@fields("settings.Settings", "runs", "rounds", "seed", default="FILE's")
@common("jobs", "out", "resume", "force", "json")
def sweep(file: Path, axes: tuple[str, ...], **options: Any) -> None:
    """Run the experiment in FILE at every combination of some settings, on the same draws.

    A setting is a key of FILE, an option of its methods (methods.shared, or shared alone where
    that is clear) or a key of its tables (features.width). Methods without an option are run
    once. Writes sweep.csv and sweep.json (every point), sweep.png and sweep.pdf (the error at the
    end against the first setting), curves.csv (every curve) and a report, and prints the table.
    """
    from psofed import experiment as experiments
    from psofed.compare import sweeping
    from psofed.report import sweeps

    how = Wishes(**options)
    experiment = how.changed(experiments.read(file))
    plan = sweeping.plan(experiment, _values(axes))
    folder = how.folder(f"{file.stem}-sweep")
    curves, store = _swept(plan, folder, how)
    result = sweeping.SweepResult(plan, tuple(curves))
    sets = " ".join(shlex.join(["--set", text]) for text in axes)
    command = f"psofed study sweep experiment.toml {sets} --runs {curves[0].experiment.runs}"
    folder.write(sweeps.render(result, command))
    store.remove()
    count = "1 curve" if plan.curves == 1 else f"{plan.curves} curves"
    end = f"\n{count}, {curves[0].counted_runs()}, all on the same draws; results in {folder.path}"
    how.show(folder, lambda: sweeps.to_table(result, command), *sweeps.blocks(result), end)


def _values(axes: tuple[str, ...]) -> dict[str, list[Any]]:
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


@dataclass(frozen=True)
class _Part:
    """Where the checkpoint of one part of a sweep is kept, within that of the whole."""

    path: Path

    def discard(self) -> None:
        """The folder belongs to the whole sweep."""


def _swept(plan: SweepPlan, folder: Any, how: Wishes) -> tuple[list[Curves], Checkpoint]:
    """The curves of every part; what is finished is kept if it is interrupted."""
    from psofed.simulate.finished import Checkpoint

    store = Checkpoint(folder.path, plan.base)
    if not (how.resume and store.exists()):
        store.begin()
    done: list[Curves] = []
    begin = monotonic()
    try:
        for i, (settings, experiment) in enumerate(plan.parts):
            if settings:
                _say_where(i, len(plan.parts), settings, monotonic() - begin)
            warn_of_steps(experiment)
            part: Any = _Part(store.folder / str(i))
            curves, finished, own = compute(experiment, part, how)
            if curves is None or not finished:
                kept = own.count() + sum(each.runs for each in done)
                leave_interrupted(folder, store, kept)
            done.append(curves)
    except InputError:
        _discard(folder, store, "*/checkpoint/*")
        raise
    return done, store


def _discard(folder: Any, store: Checkpoint, finished: str) -> None:
    """After a mistake nothing stays, unless something was finished."""
    if not any(store.folder.glob(finished)):
        store.remove()
        folder.discard()


def _say_where(i: int, parts: int, settings: dict[str, Any], taken: float) -> None:
    shown = ", ".join(f"{key} {value}" for key, value in settings.items())
    left = f"; about {taken / i * (parts - i):.0f} s left for all" if i else ""
    say(f"Settings {i + 1} of {parts}: {shown}{left}")


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
@experiment_options(runs=f"FILE's, at most {RUNS}")
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

    how = Wishes(**options)
    experiment = experiments.read(file)
    experiment = how.changed(experiment, max(min(experiment.runs, RUNS), 2), {"runs": 2})
    made = _attack_plan(experiment, shares, attacks, defences)
    folder = how.folder(f"{file.stem}-attack")
    if len(made.defences) == 1:
        say("No defence: FILE has none, and none was named with --defence.")
    store, steady = _attacked(made, folder, how)
    result = study.AttackResult(made, tuple(steady))
    command = words.command(made, not attacks and experiment.attack is None)
    folder.write(words.render(result, command))
    store.remove()
    end = f"\n{result.runs} runs of {made.base.rounds:,} rounds each; results in {folder.path}"
    blocks = words.blocks(result)
    how.show(folder, lambda: words.to_table(result, command), *blocks, end)


def _attack_plan(
    experiment: Experiment, shares: str, attacks: tuple[str, ...], defences: tuple[str, ...]
) -> AttackPlan:
    from psofed.compare import attacks as study

    own = experiment.attack
    tried = [parsed("attack", text, own) for text in attacks]
    against = [parsed("defence", text, experiment.defence) for text in defences]
    for option, found in (("--attack", tried), ("--defence", against)):
        twice = [each.describe() for i, each in enumerate(found) if each in found[:i]]
        if twice:
            raise InputError(option, f"names {twice[0]} twice", "name it once")
    try:
        return study.plan(
            experiment, tried or study.every_attack(own), _numbers(shares),
            against or study.usual_defence(experiment.defence),
        )  # fmt: skip
    except InputError as error:
        raise error.inside("--") if error.field == "shares" else error from None


def parsed(kind: str, text: str, own: Any = None) -> Any:
    """An attack or a defence such as "scale:factor=-5"; by its name alone, as FILE has it."""
    if own is not None and text == own.name:
        return own
    return texts.named(f"psofed.{kind}s", f"--{kind}", text)


def _numbers(shares: str) -> list[float]:
    try:
        return [float(part) for part in shares.split(",")]
    except ValueError:
        found, right = f"is {shares!r}", f"write numbers, as {SHARES}"
        raise InputError("--shares", found, right) from None


def _attacked(made: AttackPlan, folder: Any, how: Wishes) -> tuple[Checkpoint, list[Any]]:
    """The steady errors of every part; what is finished is kept if it is interrupted."""
    from psofed.compare import attacks as study
    from psofed.simulate.finished import Checkpoint, write

    store = Checkpoint(folder.path, made.base)
    known = _known(store, made, folder, how)
    runs = made.base.runs

    def done(part: int, steady: Any) -> None:
        write(store.folder / f"part-{part}", {"steady": steady}, durable=False)

    try:
        with _workers(made, how, runs * len(known)) as (workers, told):
            return store, study.compute(made, workers, known, done, told)
    except KeyboardInterrupt:
        leave_interrupted(folder, store, len(list(store.folder.glob("part-*"))), "part")
    except InputError:
        _discard(folder, store, "part-*")
        raise


def _known(store: Checkpoint, made: AttackPlan, folder: Any, how: Wishes) -> dict[int, Any]:
    """The parts that were finished before, of the same question."""
    from psofed.report import attacks as words
    from psofed.simulate.finished import Accumulator, read

    used = words.tried(made)
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

    total = made.base.runs * len(made.parts)
    slow = [part.experiment for part in made.parts if _handled(part.experiment, family.supports)]
    typical = (slow or [made.base])[-1]
    with (
        showing("attacking", "runs", total=total, already=already, runs=True) as job,
        pools.local(typical, how.jobs) as workers,
    ):
        try:
            yield workers, job.advance
        finally:
            workers.stop()


def _handled(experiment: Experiment, compiled: Any) -> bool:
    """Whether one of its methods is not compiled, under this attack and defence."""
    parts = (part for _, part in experiment.parts())
    return not all(compiled(method) for part in parts for method in part.start(part.task(0)))
