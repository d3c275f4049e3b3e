"""`psofed run FILE.toml` and `psofed reproduce`: an experiment with progress, kept if interrupted.

`compare` and the studies share it: what the options say, the folder, the runs, the way out.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from psofed.cli import printing
from psofed.cli.printing import say
from psofed.cli.verbs import FILE, experiment_options

if TYPE_CHECKING:
    from psofed.curves import Curves
    from psofed.experiment import Experiment
    from psofed.report.files import ResultFolder
    from psofed.simulate.finished import Checkpoint

Figures = dict[str, tuple[list[int], str]]


@click.command()
@click.argument("file", type=FILE)
@experiment_options()
def run(file: Path, **options: Any) -> None:
    """Run the experiment in FILE (TOML; `psofed init` writes one).

    Writes figure (.png, .pdf), curves.csv, summary.json and experiment.toml, and prints the table.
    """
    from psofed import experiment as experiments

    wishes = Wishes(**options)
    experiment = wishes.changed(experiments.read(file))
    figures = {"figure": (list(range(len(experiment.methods))), "")}
    # The folder holds the experiment, so the command that repeats it starts there.
    work(experiment, "psofed run experiment.toml", figures, file.stem, wishes)


@click.command()
@experiment_options("the paper's")
def reproduce(**options: Any) -> None:
    """Reproduce the paper's figures.

    Online-Fed and PSO-Fed with M = 1, 5, 40, coordinated (a) and uncoordinated (b), on the
    paper's stream. Writes figure_a and figure_b (.png, .pdf), curves.csv, summary.json and
    experiment.toml. Prints the table and a verdict on each of the paper's claims.
    """
    from psofed.experiment import Experiment

    wishes = Wishes(**options)
    experiment = wishes.changed(Experiment())
    command = f"psofed reproduce --rounds {experiment.rounds} --seed {experiment.seed}"
    figures = {
        "figure_a": ([0, 1, 2, 3], "(a) Coordinated partial sharing"),
        "figure_b": ([0, 4, 5, 6], "(b) Uncoordinated partial sharing"),
    }
    work(experiment, command + wishes.sets(), figures, "reproduce", wishes)


@dataclass(frozen=True)
class Wishes:
    """What the options say: what to change in an experiment, and how to run it."""

    out: Path | None
    force: bool
    as_json: bool
    jobs: int | None
    resume: bool = False
    runs: str | None = None
    rounds: str | None = None
    seed: str | None = None
    settings: tuple[str, ...] = ()

    def changed(
        self,
        experiment: Experiment,
        runs: int | None = None,
        least: Mapping[str, int] = MappingProxyType({}),
    ) -> Experiment:
        """The experiment with what is given; `runs` if these are not."""
        from psofed.errors import InputError
        from psofed.federation import texts

        if self.settings:
            from psofed.compare import addresses

            experiment = addresses.changed(experiment, texts.settings(self.settings))
        typed = {name: getattr(self, name) for name in ("runs", "rounds", "seed")}
        given = {k: texts.typed(f"--{k}", v, int) for k, v in typed.items() if v is not None}
        for name, number in given.items():
            if number < least.get(name, 0):
                raise InputError(f"--{name}", f"is {number}", f"use {least[name]} or more")
        every = experiment.evaluate_every
        if every is not None and every > given.get("rounds", every):
            every = None
        try:
            usual = {"runs": runs or experiment.runs, "evaluate_every": every}
            made = replace(experiment, **usual | given)
        except InputError as error:
            raise error.inside("--") if error.field in given else error from None
        made.check_simulated()
        return made

    def sets(self) -> str:
        """What was given with --set, as it is typed."""
        return "".join(f" --set {shlex.quote(text)}" for text in self.settings)

    def folder(self, default: str) -> ResultFolder:
        """The folder for the results, a new one by default."""
        from psofed.report import files

        out = self.out or files.default_folder(Path("results") / default, self.resume)
        made = files.ResultFolder(out, self.force, self.resume)
        if not files.can_draw():
            say("No figures: they need matplotlib (pip install '.[plot]' in a clone).")
        return made

    def show(self, folder: ResultFolder, table: Callable[[], Any], *blocks: Any) -> None:
        """The result on standard output: as JSON, or for people."""
        if self.as_json:
            printing.as_json(table(), folder.path)
        else:
            printing.show(*blocks)


def work(
    experiment: Experiment, command: str, figures: Figures, default: str, wishes: Wishes
) -> None:
    """Run the experiment, write its folder, print its table."""
    from psofed.report import files, runs

    out = wishes.out or files.default_folder(Path("results") / default, wishes.resume)
    if wishes.resume and runs.is_finished(out, experiment):
        say(f"Nothing to do: {out} holds the finished result.")
        return
    warn_of_steps(experiment)
    folder = replace(wishes, out=out).folder(default)
    curves, finished, store = compute(experiment, folder, wishes)
    if curves is None:
        leave_interrupted(folder, store)
    if not finished:
        say("Stopped. Writing what is finished (Ctrl-C again stops at once) ...")
    command = f"{command} --runs {curves.experiment.runs}"
    try:
        folder.write(runs.render(curves, command, figures))
    except KeyboardInterrupt:
        leave_interrupted(folder, store)
    if finished:
        store.remove()
    summary = runs.summary(curves, command)
    wishes.show(folder, lambda: summary, *_blocks(curves, "claims" in summary, folder, wishes))
    if not finished:
        leave_interrupted(folder, store)


def _blocks(curves: Curves, claimed: bool, folder: ResultFolder, wishes: Wishes) -> Sequence[Any]:
    from psofed.report import claims, runs

    blocks = [runs.grid(curves), *runs.levels(curves)]
    if claimed:
        judged = curves.experiment.judged
        blocks += [f"\nThe paper's claims, as measured here on {judged}"]
        blocks += [claims.text(claims.judge(curves))]
        blocks += claims.caution(int(curves.rounds[-1]), judged)
    blocks += [f"\n{curves.counted_runs()}; results in {folder.path}"]
    return blocks


def warn_of_steps(experiment: Experiment) -> None:
    """Say before a run starts which of its steps will make it diverge."""
    from psofed.theory.system import alarms

    for alarm in alarms(experiment):
        start = f"Warning: {alarm.title}: step {alarm.step:g} is"
        end = "expect it to diverge. See `psofed study theory FILE`."
        if alarm.sure:
            say(f"{start} unsafe, its mean-square limit is about {alarm.limit:.2g}; {end}")
        else:
            limit = f"the mean-square limit of LMS here, about {alarm.limit:.2g}"
            say(f"{start} above {limit}; it may diverge. Lower it, or scale the features.")


def leave_interrupted(
    folder: ResultFolder, store: Checkpoint, kept: int | None = None, what: str = "run"
) -> NoReturn:
    """Say what is kept and leave at once, without waiting for a run to end."""
    kept = store.count() if kept is None else kept
    if kept:
        many = f"{kept} {what}s were finished; these are"
        some = f"1 {what} was finished; it is" if kept == 1 else many
        say(f"Interrupted: {some} kept.")
        say(f"To continue, repeat the command with --out {folder.path} --resume.")
    else:
        store.remove()
        folder.discard()
        say(f"Interrupted before the first {what} was finished; nothing was written.")
    sys.stdout.flush()
    os._exit(130)


def compute(
    experiment: Experiment, folder: ResultFolder, wishes: Wishes, beside: str = ""
) -> tuple[Curves | None, bool, Checkpoint]:
    """The curves, whether they are finished, and the checkpoint that was kept on the way.

    `beside` is a text that is kept with it.
    """
    from psofed.core import native
    from psofed.errors import InputError
    from psofed.federation import plugins
    from psofed.simulate import montecarlo, pools
    from psofed.simulate.finished import Checkpoint

    if not native.available():
        right = "with a C compiler, install psofed again"
        say(f"This psofed has no compiled code: it takes many times as long; {right}.")
    store = Checkpoint(folder.path, experiment)
    pool = pools.local(experiment, wishes.jobs)
    try:
        if not (wishes.resume and store.exists()):
            store.begin(beside)
        curves = montecarlo.run(
            experiment, on_run=_resumed(store), store=store, pool=pool, progress=True
        )
        return curves, True, store
    except montecarlo.Interrupted as stop:
        return stop.curves, False, store
    except KeyboardInterrupt:  # before the first run began, or after the last
        return None, False, store
    except Exception as error:
        told = error if isinstance(error, InputError) else plugins.blamed(error)
        if told is None and not isinstance(error, OSError):
            raise
        kept = store.count()
        if not kept:
            store.remove()
            folder.discard()
        if told is not None or not isinstance(error, OSError):
            raise told or error from None
        found = f"cannot be written: {error.strerror}"
        right = f"free some space and continue with --resume: {kept} finished runs are kept"
        right = right if kept else "free some space; no run was finished"
        raise InputError(str(folder.path), found, right) from None


def _resumed(store: Checkpoint) -> Callable[[Any], None]:
    """Says after the first run what was resumed or damaged."""
    already, said = store.count(), False

    def on_run(total: Any) -> None:
        nonlocal said
        if said:
            return
        said = True
        for warning in store.warnings:
            say(f"Warning: {warning}")
        if already:
            runs = "1 run was" if already == 1 else f"{already} runs were"
            say(f"Resumed: {runs} finished before.")

    return on_run
