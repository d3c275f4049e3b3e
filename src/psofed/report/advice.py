"""Advice as a table, files and a picture."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from psofed.provenance import versions
from psofed.report.files import can_draw, plain
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


def figure(advice: Advice) -> Figure:
    """Error against bytes a device and day; what does not fit is hollow."""
    from matplotlib.figure import Figure

    from psofed.report.figures import finish

    picture = Figure(figsize=(7.2, 4.6), layout="constrained", dpi=150)
    axes = picture.add_subplot()
    talk = [c for c in advice.choices if c.bytes and np.isfinite(c.error)]
    for fits, face, label in ((True, "#0072B2", " within the limits"), (False, "none", " not")):
        some = [c for c in talk if (not c.why_not) == fits]
        if some:
            axes.scatter([c.bytes for c in some], [c.error for c in some], facecolors=face,
                         edgecolors="#0072B2", label=label, s=28)  # fmt: skip
    if advice.best is not None:
        axes.scatter([advice.best.bytes], [advice.best.error], marker="*", s=180, color="#D55E00",
                     label=f" {advice.best.title}")  # fmt: skip
    silent = [c for c in advice.choices if not c.bytes and np.isfinite(c.error)]
    for choice, dashes in zip(silent, ("-", "--"), strict=False):
        axes.axhline(
            choice.error, color="0.5", linestyle=dashes, linewidth=1, label=f" {choice.title}"
        )
    if talk:
        axes.set_xscale("log")
    level = goal(advice.choices, advice.limits)
    if np.isfinite(level):
        axes.axhline(level, color="#009E73", linestyle=":", label=" good enough")
    errors = [c.error for c in advice.choices if c.error < 10 and (c.bytes or c.options)]
    axes.set_ylim(0, 1.15 * max(errors, default=1.0))
    axes.set_xlabel("bytes per device and day, up and down")
    axes.set_ylabel("frozen error / variance")
    finish(axes, f"{advice.rounds:,} rounds, D = {advice.plan.dim}")
    return picture
