"""The page of a result: its answer, tables and charts in one file, safe against injection.

What comes from outside (names of methods, ids of clients, file names, messages) enters a page in
one way only: as JSON in a block that no browser executes, which the page's own scripts put on the
screen as text. As a second line of defence the page allows no script but its own, by their hashes,
and no request to anywhere.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from psofed.core.native import Array
from psofed.extras import have, versions
from psofed.federation.feature_table import SIZE
from psofed.federation.plugins import Written, written
from psofed.report.charts import Chart, Sheet
from psofed.report.files import Grid

if TYPE_CHECKING:
    from psofed.experiment import Experiment

BASE = ("base.css",)
CHART_STYLES = ("uPlot.min.css",)
CHARTS = ("uPlot.iife.min.js", "dom.js", "charts.js")
SCRIPTS = (*CHARTS, "report_curves.js", "report.js")
STYLES = (*CHART_STYLES, "report.css")
NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
CUT = 2.0  # dB above the start: what is worse than no model would hide the rest


@dataclass(frozen=True, eq=False)
class Page:
    """The content of a result page: each verb fills one, and the same scripts show all."""

    title: str
    answer: str
    facts: str
    command: str
    made: Written
    parts: Sequence[str | Grid | Chart] = ()
    curves: Chart | None = None  # against rounds and bytes
    figures: Sequence[str] = ()  # files next to the page
    plan: bool = False  # whether it was made from a plan, not from an experiment

    def html(self) -> bytes:
        """The whole page; its data are plain values."""
        return document(self.title, {
            "title": self.title, "answer": minus(self.answer), "facts": minus(self.facts),
            "curves": None if self.curves is None else self.curves.data(),
            "parts": [_part(part) for part in self.parts], "figures": list(self.figures),
            "plan": self.plan, "command": self.command, "toml": self.made.toml,
            "versions": [[k, v] for k, v in versions().items()],
        }).encode()  # fmt: skip


def render(
    page: Page, texts: Mapping[str, str], figures: Mapping[str, Sheet | Callable[[], Any]]
) -> dict[str, bytes]:
    """Every file of a result by name: what it was made from, its tables, its page, its figures."""
    drawn = figures if have("matplotlib") else {}
    shown = replace(page, figures=[f"{name}.png" for name in drawn])
    toml = "plan.toml" if page.plan else "experiment.toml"
    found = page.made.sources | {toml: page.made.toml.encode(), "report.html": shown.html()}
    found |= {name: text.encode() for name, text in texts.items()}
    for name, figure in drawn.items():
        from psofed.report.figures import draw, pictures

        # What is to be printed are figures of experiments.
        kinds = ("png",) if page.plan else ("png", "pdf")
        found |= pictures(draw(figure) if isinstance(figure, Sheet) else figure(), name, kinds)
    return found


def of_experiment(
    experiment: Experiment, command: str, runs: int | None, title: str, answer: str,
    targets: str | None = None, fact: str | None = None, **rest: Any,
) -> Page:  # fmt: skip
    """The page of a result that an experiment gave, whose threat is a fact if there is no other."""
    made = written(experiment.to_table)
    table = made.table
    times = "" if runs is None else "1 run of " if runs == 1 else f"{runs:,} runs of "
    facts = [
        f"{times}{table['rounds']:,} rounds",
        f"K = {table['clients']:,} clients, {table['cohort']:,} asked in a round",
        *_model(table),
        f"step {table['step']:g}",
        f"stream {table['stream']['name']}",
        f"seed {table['seed']}",
        experiment.threat if fact is None else fact,
        experiment.judged if targets is None else targets,
    ]
    return Page(title, answer, " · ".join(filter(None, facts)), command, made, **rest)


def _model(table: dict[str, Any]) -> list[str]:
    """D, and the learner if it is not the usual one; a learner of its own size only has a name."""
    found = []
    if "features" in table:
        own = table["features"]
        basis = own.get("basis", "none") != "none"
        entries = own.get("size") or min(SIZE, own["dim"]) if basis else own["dim"]
        found.append(f"D = {entries:,} parameters" + f" of {own['dim']:,} features" * basis)
    if "learner" in table:
        found.append(f"learner {table['learner']['name']}")
    return found


def _part(part: str | Grid | Chart) -> Any:
    if isinstance(part, str):
        return minus(part)
    if isinstance(part, Chart):
        return part.data()
    head, *rows = part.rows
    return {"title": minus(part.title), "head": [*map(minus, head)], "rows": [*map(_row, rows)],
            "note": minus(part.note), "bars": part.bars}  # fmt: skip


def _row(cells: Sequence[str]) -> list[str]:
    """A name, and cells with a real minus, or a dash where there is none."""
    first, *rest = cells
    return [first, *(NONE if cell in ("-", "") else minus(cell) for cell in rest)]


def minus(text: str) -> str:
    """A text whose negative numbers have a real minus.

    >>> minus("PSO-Fed -0.5 dB, 1-2")
    'PSO-Fed −0.5 dB, 1-2'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", MINUS, text)


def top(curves: Array) -> float | None:
    """The dB above which curves are cut off, if any goes there."""
    start, known = curves[:, 0], curves[np.isfinite(curves)]
    start = start[np.isfinite(start)]
    if not len(start) or known.max() <= start.max() + CUT:
        return None
    return float(round(start.max() + CUT, 1))


def document(
    title: str,
    data: Any,
    scripts: Sequence[str] = SCRIPTS,
    styles: Sequence[str] = STYLES,
    connects: bool = False,
    works: bool = False,
) -> str:
    """A whole HTML page, from the names of files in `web`.

    The scripts find `data` in `DATA`. Only a page that says so may talk to the server it came from
    (`connects`) or start a worker from its own text (`works`).
    """
    css = "\n".join(asset(name) for name in (*BASE, *styles))
    codes = [asset(name) for name in scripts]
    policy = _policy(codes, css, connects, works)
    return "\n".join([
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        f"<style>{css}</style>",
        "</head>",
        "<body>",
        "<noscript>This page needs JavaScript, which is switched off.</noscript>",
        '<main id="main"></main>',
        f'<script type="application/json" id="data">{embed(data)}</script>',
        *(f"<script>{code}</script>" for code in codes),
        "</body>",
        "</html>",
        "",
    ])  # fmt: skip


def asset(name: str) -> str:
    """The text of a file in `web`."""
    return files("psofed.report").joinpath("web", name).read_text(encoding="utf-8")


def embed(data: Any) -> str:
    """JSON that cannot end the block around it, for any strings in it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _policy(codes: Sequence[str], css: str, connects: bool, works: bool) -> str:
    """The page's own scripts and style, by hash, and nothing else."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(_hash(code) for code in codes),
        "style-src": _hash(css),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    if connects:
        rules["connect-src"] = "'self'"
    if works:
        rules["worker-src"] = "blob:"
        rules["script-src"] += " blob:"
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
