"""The result of `psofed compare`: tables, one sentence, and charts over rounds and over bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from psofed.compare.comparing import Comparison
from psofed.compare.search import ABOUT, AIMS, LIKELY, PLAIN, Aim
from psofed.compare.tuning import Entry
from psofed.curves import Estimate
from psofed.extras import estimate
from psofed.federation.plugins import written
from psofed.report import files, page, runs
from psofed.report.charts import COLOURS, Chart, Sheet
from psofed.report.files import Block, Grid, joined
from psofed.stages.checks.contract import in_words

STRONG = 6  # methods that stand out in a figure; the others are grey
NAMED = ("onlinefed", "psofed", "fedavg")  # what everything is compared with
TITLES: dict[Aim, str] = {
    "error": "Lowest error at {share} % of Online-Fed's traffic",
    "bytes": "Fewest bytes to {target} dB, at {share} % of Online-Fed's traffic at most",
}
SEARCHED = (
    "Options, step and averaging of each method are the best of a search on other seeds"
    " of the same length, in {pilots} and at last {last} runs; steps are on a grid that grows until"
    " the best is inside it."
)


def blocks(c: Comparison) -> list[Block]:
    """The tables, the sentence and the notes."""
    lines: list[Block] = []
    for table in tables(c):
        lines += [table.title, "", table, ""]
    return [*lines, sentence(c), "", *left_out(c), *_notes(c)]


def left_out(c: Comparison) -> list[str]:
    """Methods that do not take part, and why."""
    return [f"Left out: {title}, {why}." for title, why in c.left_out]


def tables(c: Comparison) -> list[Grid]:
    """A table for each aim of the search."""
    aims = AIMS[1:] if c.tuning == "none" else AIMS
    return [_table(c, aim) for aim in aims]


def _table(c: Comparison, aim: Aim) -> Grid:
    """The methods of an aim, the best first."""
    head = ["method", "step", "traffic", "longest, B", "peak, B", "steady, dB", "95 %"]
    head += [f"kB to {c.target:g} dB", "95 %", "at n"]
    head += ["global, dB"] * (c.curves.global_mse is not None)
    rows = [head]
    for j in c.order(aim):
        entry, reached = c.entries[j], c.reached(j)
        steady = c.curves.point(j, "steady")
        at, sure = "-", "-"
        if reached.round is not None:
            at, sure = str(reached.round), f"{_kb(reached.low)} to {_kb(reached.high)}"
        rows.append([
            named(c, j), "-" if entry.step is None else f"{entry.step:.3g}",
            f"{100 * c.share(j):.3g} %", str(entry.cost.largest), str(entry.cost.peak),
            estimate(steady.value), interval(steady),
            _kb(reached.bytes), sure, at,
            *(estimate(each) for each in c.curves.global_steady_db[j : j + 1]),
        ])  # fmt: skip
    title = TITLES[aim].format(share=f"{100 * c.budget:g}", target=f"{c.target:g}")
    return Grid(rows, least=(4, 3, 9, 6, 8, 2), where="comparison.txt", title=title)


def named(c: Comparison, j: int) -> str:
    """The title, marked if the method is a control or stands at the end of what was tried."""
    entry = c.entries[j]
    control = " (control)" * _is_control(entry)
    over = entry.options.role == "method" and c.share(j) > ABOUT * c.budget
    return c.curves.titles[j] + control + " *" * bool(entry.edges) + " !" * over


def interval(known: Estimate) -> str:
    """A 95 % interval: -12.03 to -11.95."""
    if not np.isfinite(known).all():
        return "-"
    half = LIKELY * known.stderr
    return f"{known.value - half:.2f} to {known.value + half:.2f}"


def _notes(c: Comparison) -> Iterator[str]:
    entries, titles = c.entries, c.curves.titles
    yield from files.sentences(c.curves.experiment.threat)
    yield (
        "Traffic: share of Online-Fed's bytes, up and down, as they were sent. Bytes to the"
        " target: up and down, first n from which the mean stays there for 100 rounds."
        " Steady: mean of the last fifth of the rounds. Longest: largest message; peak: largest"
        " round. Ranges are 95 % intervals."
    )
    if c.curves.global_mse is not None:
        yield (
            "Errors are those of each client's own model, by its own samples; options and steps are"
            " tuned for them. Global: the steady error of w, by the samples of all clients."
        )
    most = max(entry.cost.setup for entry in entries)
    yield f"Before round 0 a seed goes to all clients: {most} B, once; not counted above."
    pilots = ", ".join(dict.fromkeys(str(rung.runs) for rung in PLAIN[:-1]))
    searched = SEARCHED.format(pilots=pilots, last=PLAIN[-1].runs)
    yield "Steps are not tuned." if c.tuning == "none" else searched
    ends = [f"{titles[j]} ({', '.join(e.edges)})" for j, e in enumerate(entries) if e.edges]
    if ends:
        yield f"* At the end of what was tried, so another value may be better: {'; '.join(ends)}."
    over = [titles[j] for j in range(len(entries)) if named(c, j).endswith("!")]
    if over:
        yield f"! Sent more than the budget: {'; '.join(over)}."
    if any(entry.gifted for entry in entries):
        given = [titles[j] for j, entry in enumerate(entries) if entry.gifted]
        yield f"With gifts (coded values, a whitened basis, normalised LMS): {'; '.join(given)}."
    controls = [titles[j] for j in range(len(entries)) if _is_control(entries[j])]
    if controls:
        yield f"Controls, not federated learning: {', '.join(dict.fromkeys(controls))}."
    for title, found in zip(titles, c.curves.checked, strict=False):  # none without a check
        yield f"{title}: {in_words(found)}, in all runs."


def _is_control(entry: Entry) -> bool:
    return entry.options.role == "control"


def _kb(value: float) -> str:
    return f"{value / 1000:.4g}" if np.isfinite(value) else "not reached"


def sentence(c: Comparison) -> str:
    """Which method needs the fewest bytes at this budget, and by how much; or that it is open."""
    able = [
        j for j in c.order("bytes")
        if not _is_control(c.entries[j]) and c.share(j) <= ABOUT * c.budget
    ]  # fmt: skip
    ranked = sorted((c.reached(j), c.curves.titles[j]) for j in able)
    ranked = [pair for pair in ranked if np.isfinite(pair[0].bytes)]
    stream = c.curves.experiment.stream.name
    where = f"at {100 * c.budget:g} % of Online-Fed's traffic on the {stream} stream"
    if not ranked:
        return f"No method reaches {c.target:g} dB {where}."
    (best, winner), rest = ranked[0], ranked[1:]
    if not rest:
        return f"{winner} alone reaches {c.target:g} dB {where}, with {_kb(best.bytes)} kB."
    second, runner = rest[0]
    ratio = second.bytes / best.bytes
    if best.high >= second.low:
        return (
            f"{winner} and {runner} need about the same to reach {c.target:g} dB {where}:"
            f" {_kb(best.bytes)} and {_kb(second.bytes)} kB, a difference within error."
        )
    return (
        f"{winner} reaches {c.target:g} dB with the fewest bytes {where}: {_kb(best.bytes)} kB;"
        f" {runner}, which is next, needs {ratio:.2f} times as many."
    )


def to_table(c: Comparison) -> dict[str, Any]:
    """The result for scripts: what comparison.json holds."""
    methods = []
    for j in c.ranking():
        entry, steady = c.entries[j], c.curves.point(j, "steady")
        methods.append({
            "method": c.curves.titles[j], "name": entry.options.name, "step": entry.step,
            "traffic_share": c.share(j), "control": _is_control(entry),
            "tables": list(entry.aims), "gifted": entry.gifted, "at_the_end": list(entry.edges),
            "longest_message": entry.cost.largest, "peak_round": entry.cost.peak,
            "setup_bytes": entry.cost.setup, "averaged": entry.options.average,
            "steady_db": {"value": steady.value, "stderr": steady.stderr},
            "bytes_to_target": c.reached(j)._asdict(),
            **({"global_steady_db": found[j]} if (found := c.curves.global_steady_db) else {}),
            "pilot_db": [
                {"step": t.step, "averaged": t.averaged, "end_db": t.error, "bytes": t.bytes}
                for t in entry.trials
            ],
        })  # fmt: skip
    return files.summary(c.command, written(c.curves.experiment.to_table), {
        "budget": c.budget, "target_db": c.target, "tuning": c.tuning,
        "runs": c.curves.runs, "answer": sentence(c), "methods": methods,
        "left_out": [{"method": title, "why": why} for title, why in c.left_out],
        "threat": c.curves.experiment.threat,
    })  # fmt: skip


def render(c: Comparison) -> dict[str, bytes]:
    """Every file of a result by name."""
    texts = {
        "comparison.json": files.json_text(to_table(c)),
        "comparison.txt": joined(blocks(c)) + "\n", "curves.csv": files.csv_text(c.curves.rows()),
    }  # fmt: skip
    shown = page.of_experiment(
        c.curves.experiment, c.command, c.curves.runs,
        f"{len(c.entries)} methods at {100 * c.budget:.3g} % of Online-Fed's traffic", sentence(c),
        curves=curves(c),
        parts=[*left_out(c), *tables(c), *_notes(c), runs.traffic(c.curves)],
    )  # fmt: skip
    return page.render(shown, texts, {over: sheet(c, over) for over in ("rounds", "bytes")})


def curves(c: Comparison) -> Chart:
    """Learning curves, over bytes at first: those that stand out, and the others by their rank."""
    strong = highlighted(c)
    order = [*strong, *(j for j in c.ranking() if j not in strong)]
    few = len(order) <= COLOURS + 2
    target = (page.minus(f"target {c.target:.1f} dB"), c.target, "")
    groups = () if few else [("The best and best known", list(range(len(strong))))]
    return runs.learning(c.curves, groups, [target], order, "unicast")


def sheet(c: Comparison, over: str) -> Sheet:
    """The figure over "rounds" or "bytes"."""
    chart = curves(c)
    if over == "bytes":
        spent = dict(zip(c.curves.titles, c.curves.cumulative, strict=True))
        lines = [replace(s, x=spent[s.label][1:], y=s.y[1:], error=None) for s in chart.series]
        chart = replace(chart, series=lines, log=True, x="bytes, up and down")
    title = f"{100 * c.budget:g} % of Online-Fed's traffic, mean of {c.curves.runs} runs"
    top = c.curves.mse_db[0, 0] + page.CUT
    return Sheet([replace(chart, title=title, top=top)], size=(9.6, 6.0))


def highlighted(c: Comparison) -> list[int]:
    """Six that stand out: Online-Fed, PSO-Fed and FedAvg as they are, and the best of others."""
    found: dict[Any, int] = {}
    for name in NAMED:
        mine = [j for j in c.ranking() if _kind(c, j) == (name, False)]
        found |= {_kind(c, j): j for j in mine[:1]}
    # The best of either table in turn: those that need the fewest bytes are often much alike.
    able = [j for j in c.ranking() if not _is_control(c.entries[j])]
    both = zip_longest(c.order("error"), c.order("bytes"))
    for j in [j for pair in both for j in pair if j in able]:
        if len(found) < STRONG:
            found.setdefault(_kind(c, j), j)
    rest = [j for j in able if j not in found.values()]
    return [*found.values(), *rest[: STRONG - len(found)]]


def _kind(c: Comparison, j: int) -> tuple[str, bool]:
    return c.entries[j].options.name, c.entries[j].gifted
