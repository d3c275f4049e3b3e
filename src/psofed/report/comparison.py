"""The result of `psofed compare`: a table, one sentence, and figures over rounds and over bytes."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.compare.comparing import Comparison
from psofed.compare.target import Reached, bytes_to_target, cumulative_bytes
from psofed.compare.tuning import Entry
from psofed.provenance import versions, written
from psofed.report import files, html
from psofed.report.grid import Block, Grid, joined

Array = NDArray[Any]
TOTALS = {"up": "uplink", "unicast": "up and down", "multicast": "up and multicast down"}


def text(c: Comparison) -> str:
    """The table, the sentence and the notes."""
    return joined(blocks(c))


def blocks(c: Comparison) -> list[Block]:
    """The same in parts, for a screen."""
    head = ["method", "step", "traffic", "longest, B", "peak, B", "steady, dB"]
    head += [f"kB to {c.target:g} dB", "95 %", "at n"]
    rows = [head]
    for j in c.order():
        entry, reached = c.entries[j], c.reached(j)
        steady = c.curves.point(j, "steady")
        shown = f"{steady.value:.2f}" if np.isfinite(steady.value) else "diverged"
        error = f" ±{steady.stderr:.2f}" if np.isfinite(steady.stderr) else ""
        at = "-" if reached.round is None else str(reached.round)
        rows.append([
            c.curves.titles[j], "-" if entry.step is None else f"{entry.step:g}",
            f"{100 * entry.share:.3g} %", str(entry.cost.largest), str(entry.cost.peak),
            shown + error, _kb(reached.bytes), _range(reached), at,
        ])  # fmt: skip
    table = Grid(rows, least=(4, 3, 8, 1, 7, 2), where="comparison.txt")
    lines: list[Block] = [table, "", sentence(c), ""]
    lines += [f"Left out: {title}, {why}." for title, why in c.left_out]
    lines.append(
        f"Traffic: share of Online-Fed's bytes, {TOTALS['unicast']}; bytes to the target:"
        f" {TOTALS[c.total]}, first n from which the mean stays there for 100 rounds."
        " Longest: largest message; peak: largest round, up and down. ± is one standard error."
    )
    grid = c.curves.experiment.learner.steps
    count = {7: "seven"}.get(len(grid), str(len(grid)))
    most = max(entry.cost.setup for entry in c.entries)
    lines.append(f"Before round 0 a seed goes to all clients: {most} B, once; not counted above.")
    lines.append(
        f"Each method has the best of {count} steps in a pilot of 3 runs on another seed"
        f"{', and averages its models if that was better' if c.average else ''}."
        if c.tuned
        else "Steps are not tuned."
    )
    if c.tuned and not c.curves.experiment.learner.lms:  # its grid may not be the right one
        ends = [t for t, e in zip(c.curves.titles, c.entries, strict=True) if _at_end(e, grid)]
        lines += [
            f"At the end of the grid of steps, so another may be better: {', '.join(ends)}."
        ] * bool(ends)
    controls = [c.curves.titles[j] for j in range(len(c.entries)) if _is_control(c.entries[j])]
    if controls:
        lines.append(f"Controls, not federated learning: {', '.join(controls)}.")
    return lines


def _at_end(entry: Entry, grid: tuple[float, ...]) -> bool:
    return bool(entry.trials) and entry.step in (grid[0], grid[-1])


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
        j for j in range(len(c.entries))
        if not _is_control(c.entries[j]) and c.entries[j].share <= 1.001 * c.budget
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
    for j in c.order():
        entry, steady = c.entries[j], c.curves.point(j, "steady")
        methods.append({
            "method": c.curves.titles[j], "name": entry.options.name, "step": entry.step,
            "traffic_share": entry.share, "control": _is_control(entry),
            "longest_message": entry.cost.largest, "peak_round": entry.cost.peak,
            "setup_bytes": entry.cost.setup, "averaged": entry.options.average,
            "steady_db": {"value": steady.value, "stderr": steady.stderr},
            "bytes_to_target": c.reached(j)._asdict(),
            "pilot_db": [
                {"step": mu, "averaged": a, "end_db": end} for mu, a, end in entry.trials
            ],
        })  # fmt: skip
    made = written(c.curves.experiment.to_table)
    table: dict[str, Any] = {
        "command": c.command, "versions": versions(), "budget": c.budget, "target_db": c.target,
        "total": c.total, "runs": c.curves.runs, "experiment": made.table,
        "answer": sentence(c), "methods": methods,
        "left_out": [{"method": title, "why": why} for title, why in c.left_out],
    }  # fmt: skip
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
