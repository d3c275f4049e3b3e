"""`psofed check FILE`: the rules of its contract, tried over a plug-in or one of ours."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import click


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Try every rule of its contract over the method, stream, attack or the like in FILE.

    FILE is a Python file, the dotted name of a module, or a name of psofed's own. A setting may
    follow: `psofed check mine.py:shared=3,idle=false`. The rules are those that psofed's own obey.
    The exit code is 0 only if every rule holds.
    """
    from psofed.checks.subject import subjects

    counts: Counter[str] = Counter()
    tables = []
    for file in files:
        for subject in subjects(file):
            entry: dict[str, Any] = {"file": file, "subject": subject.title, "verdicts": []}
            tables.append(entry)
            if not as_json:
                print(f"{file}: {subject.title}")
            for verdict in subject.verdicts():
                counts[verdict.outcome] += 1
                entry["verdicts"].append(vars(verdict))
                if not as_json:
                    print(f"  {verdict.line()}", flush=True)
    passed = not counts["failed"]
    if as_json:
        print(json.dumps({"passed": passed, "checked": tables}, indent=2))
    else:
        parts = [f"{counts[key]} {key}" for key in ("ok", "failed", "not applicable")]
        print(
            f"{', '.join(parts)}. " + ("Every rule holds." if passed else "NOT every rule holds.")
        )
    sys.exit(0 if passed else 1)
