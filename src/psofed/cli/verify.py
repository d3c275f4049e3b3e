"""`psofed play`, `check` and `study verify`: the playground, the laws of a plug-in, executors."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from psofed.cli.verbs import FILE
from psofed.errors import written

RANDOM = 25  # cases, if none are given
ROUNDS = 50  # of an experiment, for each of its methods


@click.command()
@click.argument("files", nargs=-1, type=FILE, metavar="[FILE]...")
def verify(files: tuple[Path, ...]) -> None:
    """Run the experiments in FILEs through all executors and show the largest differences.

    Compared are the first 50 rounds of each method, with its learner. Without FILE, 25 small random
    cases are drawn, and the executors are compared with the dense reference. The exit code is 0
    only if every difference is at most 1e-12.
    """
    from psofed import experiment
    from psofed.cli.laws.executors import compare, compare_methods
    from psofed.simulate import reference

    results = [r for path in files for r in compare_methods(experiment.read(path), ROUNDS)]
    if not files:
        results = [compare(reference.draw(i)) for i in range(RANDOM)]
    passed = all(result.passed for result in results)
    _print(results, passed)
    sys.exit(0 if passed else 1)


def _print(results: list[Any], passed: bool) -> None:
    from psofed.cli import printing
    from psofed.report.files import Grid
    from psofed.simulate.reference import TOLERANCE

    rows = [["case", "against", "reference", "engine", "messages", ""]]
    for result in results:
        worst = {name: max(pair.values()) for name, pair in result.differences.items()}
        cells = [f"{worst[n]:.1e}" if n in worst else "-" for n in rows[0][2:5]]
        rows.append([result.case, result.against, *cells, "ok" if result.passed else "DIFFERS"])
    said = "Largest difference over all rounds, global and local models."
    within = f"All within {TOLERANCE:g}." if passed else f"NOT all within {TOLERANCE:g}."
    printing.show(Grid(rows, least=(1,)), f"{said} {within}")


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def check(files: tuple[str, ...]) -> None:
    """Try every rule of its contract over the method, stream, attack or the like in FILE.

    FILE is a Python file, the dotted name of a module, or a name of psofed's own. A setting may
    follow: `psofed check mine.py:shared=3,idle=false`. The rules are those that psofed's own obey.
    The exit code is 0 only if every rule holds.
    """
    from psofed.cli.laws.rules import subject

    counts: Counter[str] = Counter()
    for file in files:
        tried = subject(file)
        print(f"{file}: {tried.title}")
        for verdict in tried.verdicts():
            counts[verdict.outcome] += 1
            print(f"  {verdict.line()}", flush=True)
    passed = not counts["failed"]
    parts = [f"{counts[key]} {key}" for key in ("ok", "failed", "not applicable")]
    print(f"{', '.join(parts)}. " + ("Every rule holds." if passed else "NOT every rule holds."))
    sys.exit(0 if passed else 1)


@click.command()
@click.option("--out", type=FILE, help="Write the page to this file, and do not open it.")
def play(out: Path | None) -> None:
    """Open the playground: an interactive page that shows how PSO-Fed works.

    The page is one file, playground.html, to keep or to send: it computes in the browser and needs
    no server and no network. Its address holds its settings.
    """
    import webbrowser

    from psofed.federation import records
    from psofed.report import playground

    path = out or Path("playground.html")
    with written(path, "give another --out"):
        records.write(path, playground.render().encode())
    shown = out is None and webbrowser.open(path.resolve().as_uri())
    print(f"The playground is in {path}." + ("" if shown else " Open it in a browser."))
