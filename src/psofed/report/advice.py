"""Advice as a table, files and a picture."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from psofed.fit import evidence, handover
from psofed.fit.certainty import Gain
from psofed.fit.choices import goal, to_table
from psofed.fit.search import Advice
from psofed.provenance import versions, written
from psofed.report.files import can_draw, plain
from psofed.report.grid import Block, Grid, joined
from psofed.report.html import with_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = ("plan.toml", "run.toml", "advice.json", "advice.txt", "advice.png", "advice.pdf")


def render(advice: Advice, command: str) -> dict[str, bytes]:
    """Every file by name."""
    made = written(advice.plan.to_table)
    files = made.sources | {
        "plan.toml": made.toml.encode(),
        "advice.json": (json.dumps(summary(advice, command), indent=2) + "\n").encode(),
        "advice.txt": (text(advice) + "\n").encode(),
    }
    if advice.experiment is not None:
        whole = written(partial(handover.to_table, advice.experiment, advice.plan.wire))
        files["run.toml"] = (handover.HEAD + whole.toml).encode()
    files = with_report(files)
    if can_draw():
        from psofed.report.figures import both

        files |= both(figure(advice), "advice")
    return files


def summary(advice: Advice, command: str) -> dict[str, Any]:
    """What `advice.json` holds."""
    return plain({
        "command": command, "versions": versions(), "words": advice.words,
        "federate": advice.federate,
        "recommended": None if advice.best is None else to_table(advice.best),
        "planned": None if advice.held is None else advice.held.title,
        "evidence": evidence.to_table(advice.evidence),
        "limits": advice.limits.__dict__, "rounds": advice.rounds,
        "plan": written(advice.plan.to_table).table,
        "settings": [to_table(choice) for choice in advice.choices], "notes": advice.notes,
        **({"private": [each.to_table() for each in advice.private]} if advice.private is not None
           else {}),
    })  # fmt: skip


def text(advice: Advice) -> str:
    """The advice, all of it."""
    return joined(blocks(advice))


def blocks(advice: Advice) -> list[Block]:
    """The advice in words, then all candidates from cheap to expensive, then who gains."""
    rows = [
        ["candidate", "error", "chosen by", "B/device/day", "messages/day", "longest B", "fits"]
    ]
    for choice in sorted(advice.choices, key=lambda c: (c.bytes, c.error)):
        mark = "recommended" if choice is advice.best else "yes"
        mark = "sends raw samples" if choice.kind == "raw" else mark
        errors = [_show(choice.error), _show(choice.chosen)]
        rows.append([choice.title, *errors, f"{choice.bytes:,.0f}", f"{choice.messages:.1f}",
                     str(choice.largest), choice.why_not or mark])  # fmt: skip
    day = [] if advice.seconds else ["Times are numbers, not dates: a day is taken as 86,400."]
    table = Grid(rows, left=(0, 6), least=(2, 5, 4), where="advice.txt")
    return [*advice.words, "", table, *_private(advice), *_clients(advice), *day]


def _private(advice: Advice) -> list[Block]:
    """Candidates with noise, each with its best step and clip."""
    if not advice.private:
        return []
    rows = [["with noise", "error", "chosen by", "step", "clip", "B/device/day"]]
    rows += [[each.choice.title, _show(each.choice.error), _show(each.choice.chosen),
              f"{each.options.step:.3g}", each.clip, f"{each.choice.bytes:,.0f}"]
             for each in advice.private]  # fmt: skip
    return ["", Grid(rows, left=(0, 4), least=(2, 5))]


def _clients(advice: Advice, most: int = 30) -> list[Block]:
    """By how much the error of each client falls, from the surest loss to the surest gain."""
    found = advice.evidence
    if found is None or not found.clients:
        return []
    rows = [["client", "error falls by", "sharing"]]
    some = sorted(found.clients, key=lambda each: each[1].low)
    rows += [[name, _signed(gain), gain.verdict] for name, gain in some[:most]]
    more = [f"... and {len(some) - most} more in advice.json"] if len(some) > most else []
    head = f"{found.sharing.title} instead of {found.silent.title}, on the last rounds:"
    return ["", head, "", Grid(rows), *more]


def _signed(gain: Gain) -> str:
    if not np.isfinite(gain.low):
        return f"{100 * gain.value:+.1f} %"
    return f"{100 * gain.value:+.1f} % ({100 * gain.low:+.1f} to {100 * gain.high:+.1f} %)"


def _show(error: float) -> str:
    return f"{error:.3f}" if error < 1000 else "diverged"


# Markers show the family, and filled ones fit the link: both can be seen without colour.
FAMILIES = {
    "PSO-Fed": ("o", ("psofed",)),
    "PSO-Fed, every E rounds": ("^", ("periodic",)),
    "Online-Fed, FedAvg": ("s", ("onlinefed", "fedavg")),
    "linear, centralised": ("D", (None,)),
}


def figure(advice: Advice) -> Figure:
    """Error against bytes per device and day; settings that exceed a limit are hollow."""
    from matplotlib.figure import Figure

    from psofed.report.figures import finish

    picture = Figure(figsize=(7.2, 5.2), layout="constrained", dpi=150)
    axes = picture.add_subplot()
    errors = [c.error for c in advice.choices if c.error < 10 and (c.bytes or c.options)]
    top = 1.15 * max(errors, default=1.0)
    for label, (marker, names) in FAMILIES.items():
        _dots(axes, advice, marker, names, label)
    if advice.best is not None and advice.best.bytes:
        axes.scatter([advice.best.bytes], [advice.best.error], marker="*", s=260, color="#D55E00",
                     edgecolors="black", linewidths=0.6, zorder=3,
                     label=f" {advice.best.title}")  # fmt: skip
    _levels(axes, advice, top)
    axes.set_xscale("log")
    axes.set_ylim(0, top)
    axes.set_xlabel("bytes per device and day, up and down")
    axes.set_ylabel("error / variance, on the last rounds")
    hollow = "; hollow: exceeds a limit" if any(c.why_not for c in advice.choices) else ""
    finish(axes, f"{advice.rounds:,} rounds, D = {advice.plan.dim}{hollow}", below=2)
    return picture


def _dots(axes: Any, advice: Advice, marker: str, names: tuple[Any, ...], label: str) -> None:
    """The settings of a family that send anything."""
    some = [c for c in advice.choices if (c.options.name if c.options else None) in names]
    some = [c for c in some if c.bytes and np.isfinite(c.error)]
    if some:
        faces = ["none" if c.why_not else "#0072B2" for c in some]
        axes.scatter([c.bytes for c in some], [c.error for c in some], facecolors=faces,
                     edgecolors="#0072B2", marker=marker, s=30, label=f" {label}")  # fmt: skip


def _levels(axes: Any, advice: Advice, top: float) -> None:
    """Lines: methods that send nothing, and the error that is good enough."""
    silent = zip((c for c in advice.choices if not c.bytes), ("-", "--", "-."), strict=False)
    lines = [
        (f"{c.title}, recommended:", c.error, "#D55E00", "-")
        if c is advice.best
        else (c.title, c.error, "0.5", dashes)
        for c, dashes in silent
    ]
    lines.append(("good enough", goal(advice.choices, advice.limits), "#009E73", ":"))
    for title, level, colour, dashes in lines:
        if np.isfinite(level):
            beyond = "" if level <= top else ", above the figure"
            axes.axhline(level, color=colour, linestyle=dashes, linewidth=1.2,
                         label=f" {title} {level:.3g}{beyond}")  # fmt: skip
