"""A study of attacks for readers: its tables, a figure for each method, and the worst case."""

from __future__ import annotations

import shlex
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from psofed.compare.attacks import AttackPlan, AttackResult, Estimated
from psofed.extras import estimate
from psofed.federation import schema
from psofed.federation.plugins import Written, written
from psofed.report import files, page
from psofed.report.charts import Chart, Curve, Sheet
from psofed.report.files import Block, Grid
from psofed.report.page import Page

COLUMNS = 4
ROOM = 15.0  # dB above the clean level, or that of learning alone: worse errors are cut off


def render(result: AttackResult, command: str) -> dict[str, bytes]:
    """Every file of the result by name."""
    texts = {
        "attack.csv": files.csv_text(result.rows()),
        "attack.json": files.json_text(to_table(result, command)),
    }
    found = result.plan.methods
    names = ["attack"] if len(found) == 1 else [f"attack-{i}" for i in range(1, len(found) + 1)]
    pictures = {n: panels(result, j) for n, j in zip(names, found, strict=True)}
    return tried(result.plan).sources | page.render(_page(result, command), texts, pictures)


def _page(result: AttackResult, command: str) -> Page:
    count = len(result.plan.attacks)
    parts: list[Any] = [f"Left out: {what}, {why}." for what, why in result.plan.left_out]
    parts += [grid(result, j, sure=True) for j in result.plan.methods]
    return page.of_experiment(
        result.plan.base, command, result.runs, f"{count} attacks" if count > 1 else "An attack",
        " ".join(sentences(result)), parts=[*parts, note(result)],
    )  # fmt: skip


def to_table(result: AttackResult, command: str) -> dict[str, Any]:
    """The result for scripts: what attack.json holds."""
    made, base = written(result.plan.base.to_table), result.plan.base
    alone, used = result.alone(), tried(result.plan)
    return files.summary(command, made._replace(plugins=made.plugins + used.plugins), {
        "seed": base.seed,
        "runs": result.runs,
        "rounds": base.rounds,
        "targets": base.judged,
        "attacks": used.table["attacks"],
        "shares": [0.0, *result.plan.shares],
        "defences": used.table["defences"],
        "points": [_entry(row) for row in result.rows()],
        "alone_db": None if alone is None else vars(alone),
        "left_out": [{"what": what, "why": why} for what, why in result.plan.left_out],
        "answer": sentences(result),
    })  # fmt: skip


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
    parts = ["psofed", "study", "attack", "experiment.toml", "--runs", str(plan.base.runs)]
    parts += ["--shares", ",".join(f"{share:g}" for share in (0.0, *plan.shares))]
    for option, tables in (("--attack", [] if every else used["attacks"]),
                           ("--defence", used["defences"])):  # fmt: skip
        for table in tables:
            own = ",".join(f"{k}={v}" for k, v in table.items() if k not in ("title", "name"))
            parts += [option, f"{table['name']}:{own}" if own else table["name"]]
    return shlex.join(parts)


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: row[key] for key in ("method", "attack", "share", "defence")}
    for key in ("mse", "loss"):
        ends = {end: row[f"{key}_{end}"] for end in ("low", "high")}
        kept[f"{key}_db"] = {"value": row[f"{key}_db"]} | ends
    return kept


def blocks(result: AttackResult) -> list[Block]:
    """The tables for a screen, one for each method, and the worst case in a sentence."""
    found: list[Block] = []
    for j in result.plan.methods:
        table = grid(result, j)
        found += [table.title, "", table, ""]
    found += [f"Left out: {what}, {why}." for what, why in result.plan.left_out]
    found += [*sentences(result), note(result)]
    return found


def note(result: AttackResult) -> str:
    """What the numbers are."""
    halves = [row["loss_high"] - row["loss_db"] for row in result.rows()]
    widest = max((half for half in halves if isfinite(half)), default=None)
    sure = "" if widest is None else f"; 95 % intervals, at most ±{widest:.2f}, are in attack.csv"
    return (
        f"Loss: test MSE of the last fifth of the rounds, {result.plan.base.judged}, over that"
        f" of the clean federation without defence, on the same draws{sure}."
    )


def grid(result: AttackResult, j: int, sure: bool = False) -> Grid:
    """Attacks by shares for one method; first the price of the defence where all are honest.

    For those who want to be `sure`, with half of the 95 % intervals.
    """
    made = result.plan
    head = ["attack", *(f"{100 * share:.3g} %" for share in made.shares)]
    rows = [head]
    if len(made.defences) > 1:
        rows.append(["nobody is malicious", _cells(result, j, None, 0.0, sure)])
        rows[-1] += [""] * (len(head) - 2)
    for attack in made.attacks:
        found = [_cells(result, j, attack, share, sure) for share in made.shares]
        if any(cell.strip("- |") for cell in found):
            rows.append([attack.describe(), *found])
    defences = (f"with {each.describe()}" for each in made.defences if each is not None)
    columns = " | ".join(["without defence", *defences])  # what stands in a cell
    title = f"{made.base.titles[j]}: loss in dB, {columns}"
    return Grid(rows, least=tuple(range(1, len(head) - 1)), where="attack.csv", title=title)


def _cells(result: AttackResult, j: int, attack: Any, share: float, sure: bool) -> str:
    """The losses without and with each defence: "+5.21 | +0.10"."""
    cases = (result.case(j, attack, share, defence) for defence in result.plan.defences)
    found = (None if case is None else case.lost for case in cases)
    return " | ".join(
        "-" if lost is None
        else estimate(lost.value, lost.high - lost.value if sure else None, "+")
        for lost in found
    )  # fmt: skip


def sentences(result: AttackResult) -> list[str]:
    """The worst case with each defence; without any, the worst case at all."""
    tried = result.plan.defences
    return [_worst(result, defence) for defence in tried[1:] or tried]


def _worst(result: AttackResult, defence: Any) -> str:
    with_it = "Without a defence" if defence is None else f"With {defence.describe()}"
    cases = [c for c in result.cases if c.attack is not None and c.defence == defence]
    if not cases:
        return f"{with_it}, no method was attacked."
    worst = max(cases, key=lambda c: c.lost.value if isfinite(c.lost.value) else float("inf"))
    j, attack, _, _, lost = worst
    assert attack is not None
    known = isfinite(lost.low) and isfinite(lost.high)
    sure = f" (95 %: {lost.low:+.2f} to {lost.high:+.2f})" if known else ""
    what = f"{attack.describe()} by {100 * attack.share:.3g} % of the clients"
    words = f"{with_it}, the worst case is {what}: {result.plan.base.titles[j]} {_ends(lost)}{sure}"
    bare = None if defence is None else result.case(j, attack, attack.share, None)
    return f"{words}." if bare is None else f"{words}; without defence it {_ends(bare.lost)}."


def _ends(lost: Estimated) -> str:
    return f"loses {lost.value:.2f} dB" if isfinite(lost.value) else "diverges"


def panels(result: AttackResult, j: int) -> Sheet:
    """Steady test MSE of method j against the share of malicious clients, an attack each."""
    charts = [_panel(result, j, attack) for attack in result.plan.attacks]
    charts = [chart for chart in charts if any(len(s.x) > 1 for s in chart.series)]
    ends = np.concatenate([s.y - np.nan_to_num(s.error) for c in charts for s in c.series])
    low = np.min(ends, where=np.isfinite(ends), initial=np.inf) - 2
    charts = [replace(chart, bottom=low if isfinite(low) else None) for chart in charts]
    runs = f"mean of {result.runs} runs, {result.plan.base.judged}, bands: 95 %"
    title = f"{result.plan.base.titles[j]}: {runs}"
    return Sheet(charts, COLUMNS, title, (2.6, 2.3), alike=True)


def _panel(result: AttackResult, j: int, attack: Any) -> Chart:
    """An attack: the error without a defence and with each."""
    clean, alone = result.case(j, None, 0.0, None), result.alone()
    levels = {"clean": clean and clean.error, "alone": alone}
    known = {n: e.value for n, e in levels.items() if e is not None and isfinite(e.value)}
    series = []
    for i, defence in enumerate(result.plan.defences):
        cases = ((100 * share, result.case(j, attack, share, defence))
                 for share in (0.0, *result.plan.shares))  # fmt: skip
        found = [(x, case.error) for x, case in cases if case is not None]
        label = "without defence" if defence is None else f"with {defence.describe()}"
        y = np.array([error.value for _, error in found])
        half = np.array([error.high - error.value for _, error in found])
        series.append(Curve(label, [x for x, _ in found], y, half, style=i + 1))
    return Chart(attack.describe(), "malicious (%)", "steady test MSE (dB)", series,
                 [(name, value, "") for name, value in known.items()],
                 top=max(known.values(), default=0.0) + ROOM)  # fmt: skip
