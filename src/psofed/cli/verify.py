"""`psofed verify [CASE.json ...]`: all executors give the same models, to 1e-12."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("cases", nargs=-1, type=click.Path(path_type=Path))
@click.option("--random", "count", type=click.IntRange(min=1), default=25, show_default=True,
              metavar="N", help="Number of random cases if none are given.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              metavar="N", help="Seed of the random cases.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def verify(cases: tuple[Path, ...], count: int, seed: int, as_json: bool) -> None:
    """Run CASES through all three executors and show the largest differences.

    A case is a JSON file with all random draws and the models that must follow from them. Without
    CASES, small random ones are drawn and the executors are compared with the dense reference.
    The exit code is 0 only if every difference is at most 1e-12.
    """
    from psofed import case
    from psofed.verify.executors import compare

    drawn = [case.read(path) for path in cases] or [case.draw(i, seed) for i in range(count)]
    results = [compare(each) for each in drawn]
    passed = all(result.passed for result in results)
    if as_json:
        table: dict[str, Any] = {"tolerance": case.TOLERANCE, "passed": passed}
        table["cases"] = [vars(result) | {"passed": result.passed} for result in results]
        print(json.dumps(table, indent=2))
    else:
        _print(results, passed)
    sys.exit(0 if passed else 1)


def _print(results: list[Any], passed: bool) -> None:
    from psofed.case import TOLERANCE
    from psofed.cli import printing
    from psofed.report.grid import Grid

    rows = [["case", "against", "reference", "engine", "messages", ""]]
    for result in results:
        worst = {name: max(pair.values()) for name, pair in result.differences.items()}
        cells = [f"{worst[n]:.1e}" if n in worst else "-" for n in rows[0][2:5]]
        rows.append([result.case, result.against, *cells, "ok" if result.passed else "DIFFERS"])
    said = "Largest difference over all rounds, global and local models."
    within = f"All within {TOLERANCE:g}." if passed else f"NOT all within {TOLERANCE:g}."
    printing.show(Grid(rows, least=(1,)), f"{said} {within}")
