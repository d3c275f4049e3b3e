"""The files of a study of attacks: its table, a figure for each method, and the report."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator
from io import StringIO
from math import isfinite
from typing import Any

from psofed import schema
from psofed.compare.attacking import AttackPlan, AttackResult, Estimated, loss
from psofed.provenance import Written, versions, written
from psofed.report import files, html
from psofed.report.grid import Block, Grid


def render(result: AttackResult, command: str) -> dict[str, bytes]:
    """Every file of the result by name."""
    made = written(result.plan.base.to_table)
    out = (
        made.sources
        | tried(result.plan).sources
        | {
            "experiment.toml": made.toml.encode(),
            "attack.csv": _csv(result).encode(),
            "attack.json": (json.dumps(to_table(result, command), indent=2) + "\n").encode(),
        }
    )
    out = html.with_report(out)
    if not files.can_draw():
        return out
    from psofed.report.attack_figures import panels
    from psofed.report.figures import both

    found = result.plan.methods
    for i, j in enumerate(found, 1):
        out |= both(panels(result, j), "attack" if len(found) == 1 else f"attack-{i}")
    return out


def to_table(result: AttackResult, command: str) -> dict[str, Any]:
    """The result for scripts: what attack.json holds."""
    made, base = written(result.plan.base.to_table), result.plan.base
    alone, used = result.alone(), tried(result.plan)
    table: dict[str, Any] = {
        "command": command,
        "versions": versions(),
        "seed": base.seed,
        "runs": result.runs,
        "rounds": base.rounds,
        "targets": base.judged,
        "experiment": made.table,
        "attacks": used.table["attacks"],
        "shares": [0.0, *result.plan.shares],
        "defences": used.table["defences"],
        "points": [_entry(row) for row in result.rows()],
        "alone_db": None if alone is None else vars(alone),
        "left_out": [{"what": what, "why": why} for what, why in result.plan.left_out],
        "answer": sentences(result),
    }
    if made.plugins or used.plugins:
        table["plugins"] = made.plugins + used.plugins
    plain: dict[str, Any] = files.plain(table)
    return plain


def tried(plan: AttackPlan) -> Written:
    """The attacks and defences: titles, and options but for the share, which is an axis."""

    def table(options: Any) -> dict[str, Any]:
        own = {key: value for key, value in schema.table(options).items() if key != "share"}
        return {"title": options.describe(), **own}

    defences = plan.defences[1:]
    return written(
        lambda: {"attacks": [*map(table, plan.attacks)], "defences": [*map(table, defences)]}
    )


def command(plan: AttackPlan, every: bool) -> str:
    """What repeats it, in its folder. The file there has no attack and no defence: they are named.

    If `every` attack was tried, they need not be.
    """
    used = tried(plan).table
    parts = ["psofed", "attack", "experiment.toml", "--runs", str(plan.base.runs)]
    parts += ["--shares", ",".join(f"{share:g}" for share in (0.0, *plan.shares))]
    for option, tables in (("--attack", [] if every else used["attacks"]),
                           ("--defence", used["defences"])):  # fmt: skip
        for table in tables:
            own = ",".join(f"{k}={v}" for k, v in table.items() if k not in ("title", "name"))
            parts += [option, f"{table['name']}:{own}" if own else table["name"]]
    return shlex.join(parts)


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: row[key] for key in ("method", "attack", "share", "defence")}
    for key, short in (("mse_db", "mse"), ("loss_db", "loss")):
        kept[key] = {"value": row[key], "low": row[f"{short}_low"], "high": row[f"{short}_high"]}
    return kept


def _csv(result: AttackResult) -> str:
    buffer, rows = StringIO(), list(result.rows())
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: files.cell(value) for key, value in row.items()})
    return buffer.getvalue()


def blocks(result: AttackResult) -> list[Block]:
    """The tables for a screen, one for each method, and the worst case in a sentence."""
    found: list[Block] = []
    for j in result.plan.methods:
        found += [f"{result.plan.base.titles[j]}: loss in dB, {columns(result)}", ""]
        found += [grid(result, j), ""]
    found += [f"Left out: {what}, {why}." for what, why in result.plan.left_out]
    found += [*sentences(result), note(result)]
    return found


def columns(result: AttackResult) -> str:
    """What stands in a cell.

    Without a defence there is one number.
    """
    names = [each.describe() for each in result.plan.defences if each is not None]
    return " | ".join(["without defence", *(f"with {name}" for name in names)])


def note(result: AttackResult) -> str:
    """What the numbers are."""
    halves = [row["loss_high"] - row["loss_db"] for row in result.rows()]
    widest = max((half for half in halves if isfinite(half)), default=None)
    sure = "" if widest is None else f"; 95 % intervals, at most ±{widest:.2f}, are in attack.csv"
    return (
        f"Loss: test MSE of the last fifth of the rounds, {result.plan.base.judged}, over that"
        f" of the clean federation without defence, on the same draws{sure}."
    )


def grid(result: AttackResult, j: int) -> Grid:
    """Attacks by shares for one method; first the price of the defence where all are honest."""
    made = result.plan
    head = ["attack", *(f"{100 * share:.3g} %" for share in made.shares)]
    rows = [head]
    if len(made.defences) > 1:
        rows.append(["nobody is malicious", cells(result, j, None, 0.0)])
        rows[-1] += [""] * (len(head) - 2)
    for attack in made.attacks:
        found = [cells(result, j, attack, share) for share in made.shares]
        if any(cell.strip("- |") for cell in found):
            rows.append([attack.describe(), *found])
    return Grid(rows, least=tuple(range(1, len(head) - 1)), where="attack.csv")


def cells(result: AttackResult, j: int, attack: Any, share: float) -> str:
    """The losses without and with each defence: "+5.21 | +0.10"."""
    found = (lost(result, j, attack, share, defence) for defence in result.plan.defences)
    return " | ".join("-" if each is None else shown(each.value) for each in found)


def shown(value: float) -> str:
    """A loss; what is none has diverged."""
    return f"{value:+.2f}" if isfinite(value) else "diverged"


def lost(result: AttackResult, j: int, attack: Any, share: float, defence: Any) -> Estimated | None:
    """What method j loses, if that was tried."""
    part = result.place(attack, share, defence)
    errors = None if part is None else result.errors(part, j)
    clean = result.errors(0, j)
    return None if errors is None or clean is None else loss(errors, clean)


def sentences(result: AttackResult) -> list[str]:
    """The worst case with each defence; without any, the worst case at all."""
    tried = result.plan.defences
    return [_worst(result, defence) for defence in tried[1:] or tried]


def _worst(result: AttackResult, defence: Any) -> str:
    with_it = "Without a defence" if defence is None else f"With {defence.describe()}"
    found = list(_cases(result, defence))
    if not found:
        return f"{with_it}, no method was attacked."
    j, attack, share, case = max(found, key=lambda each: _badness(each[3].value))
    low, high = case.low, case.high
    sure = f" (95 %: {low:+.2f} to {high:+.2f})" if isfinite(low) and isfinite(high) else ""
    what = f"{attack.describe()} by {100 * share:.3g} % of the clients"
    words = f"{with_it}, the worst case is {what}: {result.plan.base.titles[j]} {_ends(case)}{sure}"
    bare = None if defence is None else lost(result, j, attack, share, None)
    return f"{words}." if bare is None else f"{words}; without defence it {_ends(bare)}."


def _ends(case: Estimated) -> str:
    return f"loses {case.value:.2f} dB" if isfinite(case.value) else "diverges"


def _cases(result: AttackResult, defence: Any) -> Iterator[tuple[int, Any, float, Estimated]]:
    for j in result.plan.methods:
        for attack in result.plan.attacks:
            for share in result.plan.shares:
                case = lost(result, j, attack, share, defence)
                if case is not None:
                    yield j, attack, share, case


def _badness(value: float) -> float:
    return value if isfinite(value) else float("inf")
