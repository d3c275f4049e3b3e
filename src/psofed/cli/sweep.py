"""`psofed sweep FILE.toml --set KEY=A,B,C`: one experiment at many settings, on the same draws."""

from __future__ import annotations

import json
import shlex
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from psofed.cli import printing
from psofed.cli.progress import say
from psofed.cli.work import (
    Wishes,
    changed,
    compute,
    leave_interrupted,
    options,
    runs_asked,
    targets_option,
    warn_of_steps,
)
from psofed.errors import InputError

if TYPE_CHECKING:
    from psofed.compare.sweeping import SweepPlan
    from psofed.curves import Curves
    from psofed.simulate.checkpoint import Checkpoint


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, required=True, metavar="KEY=A,B,C",
              help="A setting and its values, such as methods.shared=1,5,40, step=0.5,0.75 or"
              " features.width=1,2. Give several for all combinations.")  # fmt: skip
@click.option("--runs", type=click.IntRange(min=1), metavar="N",
              help="Number of independent runs. [default: FILE's]")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Number of rounds. [default: FILE's]")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), metavar="N",
              help="Seed of all random numbers. [default: FILE's]")  # fmt: skip
@targets_option
@options
def sweep(file: Path, settings: tuple[str, ...], runs: int | None, **wishes: Any) -> None:
    """Run the experiment in FILE at every combination of some settings, on the same draws.

    A setting is a key of FILE, an option of its methods (methods.shared, or shared alone where
    that is clear) or a key of its tables (features.width). Methods without an option are run
    once. Writes sweep.csv and sweep.json (every point), sweep.png and sweep.pdf (the error at the
    end against the first setting), curves.csv (every curve) and a report, and prints the table.
    """
    from psofed import experiment as experiments
    from psofed.compare import sweeping
    from psofed.report import files, sweep_files

    asked = {key: wishes.pop(key) for key in ("rounds", "seed", "targets")}
    how = Wishes(**wishes)
    experiment = changed(experiments.read(file), **asked)
    experiment = replace(experiment, runs=runs_asked(runs, experiment.runs, how))
    plan = sweeping.plan(experiment, dict(_setting(text) for text in _once(settings)))
    out = how.out or files.default_folder(Path("results") / f"{file.stem}-sweep", how.resume)
    folder = files.ResultFolder(out, how.force, how.resume)
    if not files.can_draw():
        say("No figures: they need matplotlib (pip install '.[plot]' in a clone).")
    curves = _compute(plan, folder, how)
    result = sweeping.SweepResult(plan, tuple(curves))
    sets = " ".join(shlex.join(["--set", text]) for text in settings)
    command = f"psofed sweep experiment.toml {sets} --runs {curves[0].experiment.runs}"
    folder.write(sweep_files.render(result, command))
    _store(folder.path, plan).remove()
    if how.as_json:
        table = sweep_files.to_table(result, command) | {"folder": str(folder.path)}
        print(json.dumps(table, indent=2))
        return
    count = "1 curve" if plan.curves == 1 else f"{plan.curves} curves"
    end = f"\n{count}, {curves[0].counted_runs()}, all on the same draws; results in {folder.path}"
    printing.show(*sweep_files.blocks(result), end)


def _once(settings: tuple[str, ...]) -> tuple[str, ...]:
    keys = [text.partition("=")[0].strip() for text in settings]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"--set {key}", "is given twice", "give all its values at once")
    return settings


def _setting(text: str) -> tuple[str, list[Any]]:
    """A key and its values.

    >>> _setting("features.name=cosine,gaussian"), _setting("step=0.5,1")
    (('features.name', ['cosine', 'gaussian']), ('step', [0.5, 1]))
    """
    key, sign, values = text.partition("=")
    if not sign or not key.strip() or not values.strip():
        found = f"is {text!r}, which is not KEY=A,B,C"
        raise InputError("--set", found, "write it as methods.shared=1,5,40")
    return key.strip(), [_value(part.strip()) for part in values.split(",")]


def _value(text: str) -> Any:
    """A number, true or false as TOML has them, or a text."""
    if not text:
        raise InputError("--set", "has an empty value", "write values as 1,5,40")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, int | float | str) else text


@dataclass(frozen=True)
class _Part:
    """Where the checkpoint of one part of a sweep is kept, within that of the whole."""

    path: Path

    def discard(self) -> None:
        """The folder belongs to the whole sweep."""


def _store(folder: Path, plan: SweepPlan) -> Checkpoint:
    from psofed.simulate.checkpoint import Checkpoint

    return Checkpoint(folder, plan.base)


def _compute(plan: SweepPlan, folder: Any, how: Wishes) -> list[Curves]:
    """The curves of every part; what is finished is kept if it is interrupted."""
    store = _store(folder.path, plan)
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
                leave_interrupted(folder, _Kept(store, own, done))  # type: ignore[arg-type]
            done.append(curves)
    except InputError:
        if not any(folder.path.glob("checkpoint/*/checkpoint/*")):
            store.remove()
            folder.discard()
        raise
    return done


def _say_where(i: int, parts: int, settings: dict[str, Any], taken: float) -> None:
    shown = ", ".join(f"{key} {value}" for key, value in settings.items())
    left = f"; about {taken / i * (parts - i):.0f} s left for all" if i else ""
    say(f"Settings {i + 1} of {parts}: {shown}{left}")


@dataclass(frozen=True)
class _Kept:
    """The checkpoints of a sweep, counted together."""

    whole: Checkpoint
    last: Checkpoint
    done: list[Curves]

    def count(self) -> int:
        """Finished runs of all parts."""
        return self.last.count() + sum(curves.runs for curves in self.done)

    def remove(self) -> None:
        """Nothing was finished."""
        self.whole.remove()
