"""Advice as a table, files and a picture."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from psofed.provenance import versions
from psofed.report.files import can_draw, plain
from psofed.report.html import with_report
from psofed.report.tables import align
from psofed.tables import handover
from psofed.tables.advise import Advice
from psofed.tables.choices import goal, to_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = ("plan.toml", "run.toml", "advice.json", "advice.txt", "advice.png", "advice.pdf")


def render(advice: Advice, command: str) -> dict[str, bytes]:
    """Every file by name."""
    files = {
        "plan.toml": advice.plan.to_toml().encode(),
        "advice.json": (json.dumps(summary(advice, command), indent=2) + "\n").encode(),
        "advice.txt": (text(advice) + "\n").encode(),
    }
    if advice.experiment is not None:
        files["run.toml"] = handover.to_toml(advice.experiment, advice.plan.wire).encode()
    files = with_report(files)
    if can_draw():
        from psofed.report.figures import to_bytes

        picture = figure(advice)
        files |= {f"advice.{suffix}": to_bytes(picture, suffix) for suffix in ("png", "pdf")}
    return files


def summary(advice: Advice, command: str) -> dict[str, Any]:
    """What `advice.json` holds."""
    return plain({
        "command": command, "versions": versions(), "words": advice.words,
        "recommended": None if advice.best is None else to_table(advice.best),
        "limits": advice.limits.__dict__, "plan": advice.plan.to_table(), "rounds": advice.rounds,
        "settings": [to_table(choice) for choice in advice.choices], "notes": advice.notes,
    })  # fmt: skip


def text(advice: Advice) -> str:
    """The answer in words, then all settings from cheap to dear."""
    rows = [["setting", "error", "chosen by", "B/device/day", "messages/day", "longest B", "fits"]]
    for choice in sorted(advice.choices, key=lambda c: (c.bytes, c.error)):
        mark = "recommended" if choice is advice.best else "yes"
        errors = [_show(choice.error), _show(choice.chosen)]
        rows.append([choice.title, *errors, f"{choice.bytes:,.0f}", f"{choice.messages:.1f}",
                     str(choice.largest), choice.why_not or mark])  # fmt: skip
    day = "" if advice.seconds else "\nTime is a number: a day is taken as 86,400 of it."
    return "\n".join([*advice.words, "", align(rows)]) + day


def _show(error: float) -> str:
    return f"{error:.3f}" if error < 1000 else "diverged"


# Markers tell the families apart, and filling what fits the link: both survive in grey.
FAMILIES = {
    "PSO-Fed": ("o", ("psofed",)),
    "PSO-Fed, every E rounds": ("^", ("periodic",)),
    "Online-Fed, FedAvg": ("s", ("onlinefed", "fedavg")),
    "linear, centralised": ("D", (None,)),
}


def figure(advice: Advice) -> Figure:
    """Error against bytes a device and day; what does not fit is hollow."""
    from matplotlib.figure import Figure

    from psofed.report.figures import finish

    picture = Figure(figsize=(7.2, 5.2), layout="constrained", dpi=150)
    axes = picture.add_subplot()
    errors = [c.error for c in advice.choices if c.error < 10 and (c.bytes or c.options)]
    top = 1.15 * max(errors, default=1.0)
    for label, (marker, names) in FAMILIES.items():
        _dots(axes, advice, marker, names, label)
    if advice.best is not None:
        axes.scatter([advice.best.bytes], [advice.best.error], marker="*", s=260, color="#D55E00",
                     edgecolors="black", linewidths=0.6, zorder=3,
                     label=f" {advice.best.title}")  # fmt: skip
    _levels(axes, advice, top)
    axes.set_xscale("log")
    axes.set_ylim(0, top)
    axes.set_xlabel("bytes per device and day, up and down")
    axes.set_ylabel("error / variance, on the last rounds")
    hollow = "; hollow: breaks a limit" if any(c.why_not for c in advice.choices) else ""
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
    """Lines: those who send nothing, and what would be good enough."""
    silent = zip((c for c in advice.choices if not c.bytes), ("-", "--"), strict=False)
    lines = [(c.title, c.error, "0.5", dashes) for c, dashes in silent]
    lines.append(("good enough", goal(advice.choices, advice.limits), "#009E73", ":"))
    for title, level, colour, dashes in lines:
        if np.isfinite(level):
            beyond = "" if level <= top else ", above the figure"
            axes.axhline(level, color=colour, linestyle=dashes, linewidth=1.2,
                         label=f" {title} {level:.3g}{beyond}")  # fmt: skip
