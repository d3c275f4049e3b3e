"""The result of `psofed compare`: tables, one sentence, and figures over rounds and over bytes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.compare.comparing import Comparison
from psofed.compare.halving import ABOUT, AIMS, PLAIN, Aim
from psofed.compare.target import LIKELY, Reached, bytes_to_target, cumulative_bytes
from psofed.compare.tuning import Entry
from psofed.curves import Estimate
from psofed.provenance import versions, written
from psofed.report import files, html
from psofed.report.grid import Block, Grid, joined
from psofed.sample_checks.contract import in_words

Array = NDArray[Any]
TOTALS = {"up": "uplink", "unicast": "up and down", "multicast": "up and multicast down"}
TITLES: dict[Aim, str] = {
    "error": "Lowest error at {share} % of Online-Fed's traffic",
    "bytes": "Fewest bytes to {target} dB, at {share} % of Online-Fed's traffic at most",
}
HOW = {
    "fair": "Options, step and averaging of each method are the best of a search on other seeds"
    " of the same length, in {pilots} and at last {last} runs; steps are on a grid that grows until"
    " the best is inside it.",
    "quick": "Each method has its knob at the budget, and the best of a few steps in a short pilot"
    " of 3 runs on another seed.",
    "none": "Steps are not tuned.",
}


def text(c: Comparison) -> str:
    """The tables, the sentence and the notes."""
    return joined(blocks(c))


def blocks(c: Comparison) -> list[Block]:
    """The same in parts, for a screen."""
    lines: list[Block] = []
    for aim in AIMS if c.tuning == "fair" else AIMS[1:]:
        lines += [f"{TITLES[aim].format(share=f'{100 * c.budget:g}', target=f'{c.target:g}')}", ""]
        lines += [_table(c, aim), ""]
    lines += [sentence(c), ""]
    lines += [f"Left out: {title}, {why}." for title, why in c.left_out]
    return lines + list(_notes(c))


def _table(c: Comparison, aim: Aim) -> Grid:
    head = ["method", "step", "traffic", "longest, B", "peak, B", "steady, dB", "95 %"]
    head += [f"kB to {c.target:g} dB", "95 %", "at n"]
    rows = [head]
    for j in c.order(aim):
        entry, reached = c.entries[j], c.reached(j)
        steady = c.curves.point(j, "steady")
        at = "-" if reached.round is None else str(reached.round)
        rows.append([
            named(c, j), "-" if entry.step is None else f"{entry.step:.3g}",
            f"{100 * c.share(j):.3g} %", str(entry.cost.largest), str(entry.cost.peak),
            f"{steady.value:.2f}" if np.isfinite(steady.value) else "diverged", interval(steady),
            _kb(reached.bytes), _range(reached), at,
        ])  # fmt: skip
    return Grid(rows, least=(4, 3, 9, 6, 8, 2), where="comparison.txt")


def named(c: Comparison, j: int) -> str:
    """The title, marked if the method is a control or stands at the end of what was tried."""
    entry = c.entries[j]
    control = " (control)" * _is_control(entry)
    over = entry.options.role == "method" and c.share(j) > ABOUT * c.budget
    return c.curves.titles[j] + control + " *" * bool(entry.edges) + " !" * over


def interval(estimate: Estimate) -> str:
    """A 95 % interval: -12.03 to -11.95."""
    if not (np.isfinite(estimate.value) and np.isfinite(estimate.stderr)):
        return "-"
    half = LIKELY * estimate.stderr
    return f"{estimate.value - half:.2f} to {estimate.value + half:.2f}"


def _notes(c: Comparison) -> Iterator[str]:
    entries, titles = c.entries, c.curves.titles
    if threat := c.curves.experiment.threat:
        yield f"{threat[:1].upper()}{threat[1:]}."
    yield (
        f"Traffic: share of Online-Fed's bytes, {TOTALS[c.total]}, as they were sent. Bytes to the"
        f" target: {TOTALS[c.total]}, first n from which the mean stays there for 100 rounds."
        " Steady: mean of the last fifth of the rounds. Longest: largest message; peak: largest"
        " round. Ranges are 95 % intervals."
    )
    most = max(entry.cost.setup for entry in entries)
    yield f"Before round 0 a seed goes to all clients: {most} B, once; not counted above."
    yield HOW[c.tuning].format(
        pilots=", ".join(str(rung.runs) for rung in PLAIN[:-1]), last=PLAIN[-1].runs
    )
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


def _range(reached: Reached) -> str:
    """A 95 % interval: 592.6 to 1105."""
    if not np.isfinite(reached.bytes):
        return "-"
    return f"{_kb(reached.low)} to {_kb(reached.high)}"


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
    where = f"at {100 * c.budget:g} % of Online-Fed's traffic on the {_stream(c)} stream"
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


def _stream(c: Comparison) -> str:
    return c.curves.experiment.stream.name


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
            "pilot_db": [
                {"step": t.step, "averaged": t.averaged, "end_db": t.error, "bytes": t.bytes}
                for t in entry.trials
            ],
        })  # fmt: skip
    made = written(c.curves.experiment.to_table)
    table: dict[str, Any] = {
        "command": c.command, "versions": versions(), "budget": c.budget, "target_db": c.target,
        "total": c.total, "tuning": c.tuning, "runs": c.curves.runs, "experiment": made.table,
        "answer": sentence(c), "methods": methods,
        "left_out": [{"method": title, "why": why} for title, why in c.left_out],
    }  # fmt: skip
    if c.curves.experiment.threat:
        table["threat"] = c.curves.experiment.threat
    if made.plugins:
        table["plugins"] = made.plugins
    plain: dict[str, Any] = files.plain(table)
    return plain


def render(c: Comparison) -> dict[str, bytes]:
    """Every file of a result by name."""
    made = written(c.curves.experiment.to_table)
    out = made.sources | {
        "experiment.toml": made.toml.encode(),
        "comparison.json": (json.dumps(to_table(c), indent=2) + "\n").encode(),
        "comparison.txt": (text(c) + "\n").encode(),
        "frontier.csv": _frontier_csv(c).encode(),
        "curves.csv": files.curves_csv(c.curves).encode(),
    }
    out = html.with_report(out)
    if not files.can_draw():
        return out
    from psofed.report import comparison_figures as pictures
    from psofed.report.figures import both

    figures = {
        "rounds": pictures.over_rounds(c),
        "bytes": pictures.over_bytes(c),
        "frontier": pictures.frontier(c, targets(c)),
    }
    for name, figure in figures.items():
        out |= both(figure, name)
    return out


def targets(c: Comparison) -> Array:
    """The targets of the frontier: half dB steps between the start and the best end."""
    finite = c.curves.mse_db[np.isfinite(c.curves.mse_db)]
    low = np.ceil(2 * finite.min()) / 2
    return np.arange(min(c.target + 4, finite.max()), low - 0.25, -0.5)


def _frontier_csv(c: Comparison) -> str:
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["method", "target_db", "bytes", "low", "high", "round"])
    for j, title in enumerate(c.curves.titles):
        for target in targets(c).tolist():
            value, low, high, n = bytes_to_target(c.curves, j, target, c.total)
            cells = [files.cell(each) for each in (value, low, high)]
            writer.writerow([title, target, *cells, "" if n is None else n])
    return buffer.getvalue()


def bytes_axis(c: Comparison, j: int) -> Array:
    """Cumulative bytes of method j before each mark."""
    axis: Array = cumulative_bytes(c.curves, c.total)[j]
    return axis
