"""What `reproduce` and `run` share: run an experiment with progress, write and print the result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psofed.curves import Accumulator, Curves
    from psofed.experiment import Experiment

Figures = dict[str, tuple[list[int], str]]


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that runs an experiment."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
        click.option("--force", is_flag=True, help="Write into a folder that is not empty."),
        click.option("--out", type=click.Path(path_type=Path), help="Folder for the results."),
        click.option("--jobs", type=click.IntRange(min=1), help="Threads. [default: all cores]"),
    ):
        command = option(command)
    return command


def work(
    experiment: Experiment, command: str, figures: Figures, out: Path | None, default: str,
    force: bool, jobs: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Run the experiment, write its folder, print its table."""
    from psofed.report import files
    from psofed.simulate import montecarlo

    folder = files.Folder(out or files.free_name(Path("results") / default), force)
    if not files.can_draw():
        say("No figures: they need matplotlib (pip install 'psofed[plot]').")
    interrupted = False
    try:
        with progress(experiment) as on_run:
            curves = montecarlo.run(experiment, jobs, on_run)
    except montecarlo.Interrupted as stop:
        if stop.curves is None:
            folder.discard()
            say("Interrupted before the first run was finished; nothing was written.")
            sys.exit(130)
        curves, interrupted = stop.curves, True
    except BaseException:
        folder.discard()
        raise
    folder.write(files.render(curves, command, figures))
    show(curves, command, folder.path, as_json)
    if interrupted:
        say(f"Interrupted: {curves.runs} of {experiment.runs} runs were finished; these are kept.")
        sys.exit(130)


def show(curves: Curves, command: str, folder: Path, as_json: bool) -> None:
    """The result on standard output: for people, or as JSON."""
    from psofed.report import claims, files, tables

    summary = files.summary(curves, command)
    if as_json:
        print(json.dumps(summary | {"folder": str(folder)}, indent=2))
        return
    print(tables.text(curves))
    for name, floor in curves.floors.items():
        print(f"floor: {name} {floor.value:.2f} ±{floor.stderr:.2f} dB")
    if "claims" in summary:
        print("\nThe paper's claims, as measured here")
        print(claims.text(claims.judge(curves)))
    print(f"\n{curves.runs} runs of {curves.rounds[-1]} rounds; results in {folder}")


@contextmanager
def progress(experiment: Experiment) -> Iterator[Callable[[Accumulator], None]]:
    """A bar with the time left on a terminal, a line now and then elsewhere; on standard error."""
    if not sys.stderr.isatty():
        yield _Lines(experiment)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"),
        TimeRemainingColumn(), TextColumn("left  {task.fields[now]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=experiment.runs, now="(first run: may compile)")
        yield lambda total: bar.update(task, completed=total.runs, now=_now(total))


class _Lines:
    """Progress for logs: a line at the first run, then at most every ten seconds."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.begin, self.last = experiment, monotonic(), 0.0

    def __call__(self, total: Accumulator) -> None:
        elapsed = monotonic() - self.begin
        if total.runs > 1 and elapsed - self.last < 10:
            return
        self.last = elapsed
        left = elapsed / total.runs * (self.experiment.runs - total.runs)
        say(f"{total.runs} of {self.experiment.runs} runs, about {left:.0f} s left; {_now(total)}")


def _now(total: Accumulator) -> str:
    """The last MSE of the first method, as it stands."""
    curves = total.curves()
    estimate = curves.point(0, "steady")
    error = "" if total.runs == 1 else f" ±{estimate.stderr:.2f}"
    return f"{curves.titles[0]} {estimate.value:.2f}{error} dB"


def say(line: str) -> None:
    """A line for the person at the terminal, apart from the result."""
    print(line, file=sys.stderr)
