"""`psofed init`, `run` and `reproduce`: an experiment with progress, kept if interrupted.

`compare` and the studies share it: what the options say, the folder, the runs, the way out.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from psofed.cli.printing import finish, results, say
from psofed.cli.verbs import FILE, experiment_options

if TYPE_CHECKING:
    from psofed.curves import Curves
    from psofed.experiment import Experiment
    from psofed.report.files import ResultFolder
    from psofed.simulate.finished import Checkpoint

PRESETS = ("paper", "lean", "tracking", "private", "lean-private")
SKELETONS = ("method", "stream", "policy", "learner", "attack", "defence")
Figures = dict[str, tuple[list[int], str]]


@click.command()
@click.argument("file")
@click.option("--preset", type=click.Choice([*PRESETS, *SKELETONS]), default="paper",
              show_default=True, metavar="NAME",
              help="paper: the paper's setting. lean: few bytes (MEMO-Fed). tracking: a function f"
              " that changes with time. private: masked sums and noise. lean-private: the same with"
              " a third of the bytes. method, stream, policy, learner, attack, defence: the"
              " skeleton of one of your own, which `psofed check` accepts.")  # fmt: skip
def init(file: str, preset: str) -> None:
    """Write a commented experiment to FILE ("-" prints it), or the skeleton of a plug-in."""
    from psofed.errors import InputError, written
    from psofed.federation import records

    skeleton = preset in SKELETONS
    if skeleton and file != "-" and not file.endswith(".py"):
        raise InputError("FILE", f"is {file!r}", "give a file that ends in .py")
    name = f"cli/presets/{preset}.{'template' if skeleton else 'toml'}"
    text = resources.files("psofed").joinpath(name).read_text(encoding="utf-8")
    if file == "-":
        print(text, end="")
        return
    if os.path.lexists(file):
        raise InputError(file, "exists already", "give another name; nothing was changed")
    with written(file, "give another name"):
        records.write(Path(file), text.encode())
    then = "Try its rules with: psofed check" if skeleton else "Run it with: psofed run"
    print(f"Wrote {file}. {then} {file}")


@click.command()
@click.argument("file", type=FILE)
@experiment_options("runs", default="FILE's")
def run(file: Path, **options: Any) -> None:
    """Run the experiment in FILE (TOML; `psofed init` writes one).

    Writes figure (.png, .pdf), curves.csv, summary.json and experiment.toml, and prints the table.
    """
    from psofed import experiment as experiments

    overrides = Overrides(**options)
    experiment = overrides.changed(experiments.read(file))
    figures = {"figure": (list(range(len(experiment.methods))), "")}
    # The folder holds the experiment, so the command that repeats it starts there.
    work(experiment, "psofed run experiment.toml", figures, file.stem, overrides)


@click.command()
@experiment_options("runs", "rounds", "seed", default="the paper's")
def reproduce(**options: Any) -> None:
    """Reproduce the paper's figures.

    Online-Fed and PSO-Fed with M = 1, 5, 40, coordinated (a) and uncoordinated (b), on the
    paper's stream. Writes figure_a and figure_b (.png, .pdf), curves.csv, summary.json and
    experiment.toml. Prints the table and a verdict on each of the paper's claims.
    """
    from psofed.experiment import Experiment

    overrides = Overrides(**options)
    experiment = overrides.changed(Experiment())
    command = f"psofed reproduce --rounds {experiment.rounds} --seed {experiment.seed}"
    figures = {
        "figure_a": ([0, 1, 2, 3], "(a) Coordinated partial sharing"),
        "figure_b": ([0, 4, 5, 6], "(b) Uncoordinated partial sharing"),
    }
    work(experiment, command + overrides.sets(), figures, "reproduce", overrides)


@dataclass(frozen=True)
class Overrides:
    """What the options say: what to change in an experiment, and where its result goes."""

    out: Path | None
    as_json: bool = False
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
        from psofed.compare import addresses
        from psofed.errors import InputError
        from psofed.federation import texts

        typed = {name: getattr(self, name) for name in ("runs", "rounds", "seed")}
        given = [texts.Assignment(k, v, f"--{k}") for k, v in typed.items() if v is not None]
        given += texts.settings(self.settings)
        if runs is not None and all(setting.key != "runs" for setting in given):
            experiment = replace(experiment, runs=runs)
        made = addresses.changed(experiment, given)
        for setting in given:
            number = getattr(made, setting.key, 0) if setting.key in least else None
            if number is not None and number < least[setting.key]:
                right = f"use {least[setting.key]} or more"
                raise InputError(setting.typed, f"is {number}", right)
        made.check_simulated()
        return made

    def sets(self) -> str:
        """What was given with --set, as it is typed."""
        return "".join(f" --set {shlex.quote(text)}" for text in self.settings)


def jobs() -> int | None:
    """How many threads or processes the environment asks for; nothing: one for each core."""
    from psofed.errors import InputError

    text = os.environ.get("PSOFED_JOBS", "")
    if text and not (text.isdecimal() and int(text)):
        raise InputError("PSOFED_JOBS", f"is {text!r}", "use 1 or more")
    return int(text) if text else None


def work(
    experiment: Experiment, command: str, figures: Figures, default: str, overrides: Overrides
) -> None:
    """Run the experiment, write its folder, print its table."""
    from psofed.report import runs

    if overrides.out and runs.is_finished(overrides.out, experiment):
        say(f"Nothing to do: {overrides.out} holds the finished result.")
        return
    warn_of_steps(experiment)
    with results(overrides.out, default, resumes=True) as folder:
        curves, finished, store = compute(experiment, folder.path)
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
    finish(folder, overrides.as_json, summary, *_blocks(curves, "claims" in summary, folder))
    if not finished:
        leave_interrupted(folder, store)


def _blocks(curves: Curves, claimed: bool, folder: ResultFolder) -> list[Any]:
    from psofed.report import claims, runs

    blocks = [runs.grid(curves), *runs.levels(curves)]
    if claimed:
        judged = curves.experiment.judged
        blocks += [f"\nThe paper's claims, as measured here on {judged}"]
        blocks += [claims.text(claims.judge(curves))]
        blocks += claims.caution(int(curves.rounds[-1]), judged)
    return [*blocks, f"\n{curves.counted_runs()}; results in {folder.path}"]


def warn_of_steps(experiment: Experiment) -> None:
    """Say before a run starts which of its steps will make it diverge."""
    from psofed.compare.running import unsafe
    from psofed.theory.system import alarms

    for alarm in alarms(experiment):
        say(f"Warning: {unsafe(alarm)}")


def leave_interrupted(folder: ResultFolder, store: Checkpoint, kept: int | None = None) -> NoReturn:
    """Say what is kept and leave at once, without waiting for a run to end."""
    kept = store.count() if kept is None else kept
    if kept:
        many = f"{kept} runs were finished; these are"
        some = "1 run was finished; it is" if kept == 1 else many
        say(f"Interrupted: {some} kept.")
        say(f"To continue, repeat the command with --out {folder.path}.")
    else:
        store.remove()
        folder.discard()
        say("Interrupted before the first run was finished; nothing was written.")
    sys.stdout.flush()
    os._exit(130)


def compute(
    experiment: Experiment, folder: Path, note: str = ""
) -> tuple[Curves | None, bool, Checkpoint]:
    """The curves, whether they are finished, and the checkpoint that was kept on the way.

    It goes on from the runs that the folder has. `note` is a text that is kept with them.
    """
    from psofed.compare import running
    from psofed.core import native
    from psofed.errors import InputError, unwritable
    from psofed.federation import plugins
    from psofed.simulate import montecarlo
    from psofed.simulate.finished import Checkpoint

    if not native.available():
        say(running.SLOW)
    store = Checkpoint(folder, experiment)
    try:
        if not store.exists():
            store.begin(note)
        pool = montecarlo.local(experiment, jobs())
        on_run = _resumed(store)
        curves = montecarlo.run(experiment, on_run=on_run, store=store, pool=pool, progress=True)
        on_run(None)  # if there was no run left to do
        return curves, True, store
    except montecarlo.Interrupted as stop:
        return stop.curves, False, store
    except KeyboardInterrupt:  # before the first run began, or after the last
        return None, False, store
    except Exception as error:
        blamed = error if isinstance(error, InputError) else plugins.blamed(error)
        kept = store.count()
        if not kept:
            store.remove()
        if blamed is not None or not isinstance(error, OSError):
            raise blamed or error from None
        right = f"free some space and repeat the command: {kept} finished runs are kept"
        right = right if kept else "free some space; no run was finished"
        raise unwritable(folder, error, right) from None


def _resumed(store: Checkpoint) -> Callable[[Any], None]:
    """Says after the first run what was resumed or damaged."""
    already = store.count()
    runs = "1 run was" if already == 1 else f"{already} runs were"
    lines = iter([f"Resumed: {runs} finished before."] * bool(already))

    def on_run(total: Any) -> None:
        while store.warnings:
            say(f"Warning: {store.warnings.pop(0)}")
        for line in lines:
            say(line)

    return on_run
