"""Advice for readers: whether to federate, all candidates with their costs, and who gains."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from psofed.federation.plugins.known import written
from psofed.report import files
from psofed.report.charts import Chart, Curve, Sheet
from psofed.report.files import Block, Grid, joined, ratio
from psofed.report.page import Page
from psofed.report.page import render as render_page
from psofed.tables import plan as plans
from psofed.tables.advice import Advice
from psofed.tables.choices import Gain, choice_table, evidence_table, goal

FILES = ("plan.toml", "run.toml", "advice.json", "advice.txt", "advice.png", "advice.pdf")
CLIENTS = 100  # that a page lists; advice.json has all


def render(advice: Advice, command: str) -> dict[str, bytes]:
    """Every file by name."""
    texts = {
        "advice.json": files.json_text(summary(advice, command)),
        "advice.txt": text(advice) + "\n",
    }
    if advice.experiment is not None:
        whole = written(partial(plans.run_table, advice.experiment, advice.plan.wire))
        texts["run.toml"] = plans.RUN_HEAD + whole.toml
    return render_page(page(advice, command), texts, {"advice": Sheet([costs(advice)])})


def summary(advice: Advice, command: str) -> dict[str, Any]:
    """What `advice.json` holds."""
    return files.summary(command, written(advice.plan.to_table), {
        "words": advice.words, "federate": advice.federate,
        "recommended": None if advice.best is None else choice_table(advice.best),
        "planned": None if advice.held is None else advice.held.title,
        "evidence": evidence_table(advice.evidence),
        "limits": advice.limits.__dict__, "rounds": advice.rounds,
        "settings": [choice_table(choice) for choice in advice.choices], "notes": advice.notes,
    }, "plan")  # fmt: skip


def text(advice: Advice) -> str:
    """The advice, all of it."""
    return joined(blocks(advice))


def blocks(advice: Advice) -> list[Block]:
    """The advice in words, then all candidates from cheap to expensive, then who gains."""
    day = [] if advice.seconds else ["Times are numbers, not dates: a day is taken as 86,400."]
    return [*advice.words, "", _candidates(advice), *_clients(advice), *day]


def _candidates(advice: Advice) -> Grid:
    rows = [
        ["candidate", "error", "chosen by", "B/device/day", "messages/day", "longest B", "fits"]
    ]
    for choice in sorted(advice.choices, key=lambda c: (c.bytes, c.error)):
        mark = "recommended" if choice is advice.best else "yes"
        mark = "sends raw samples" if choice.kind == "raw" else mark
        errors = [ratio(choice.error), ratio(choice.chosen)]
        rows.append([choice.title, *errors, f"{choice.bytes:,.0f}", f"{choice.messages:.1f}",
                     str(choice.largest), choice.why_not or mark])  # fmt: skip
    note = (
        "Squared errors over the variance of the target, on the last rounds; a candidate is chosen"
        " by its error on earlier ones."
    )
    return Grid(rows, left=(0, 6), least=(2, 5, 4), where="advice.txt", note=note,
                title="Candidates, from cheap to expensive")  # fmt: skip


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
    note = "Intervals are over blocks of time, for these models, each client by itself."
    return ["", head, "", Grid(rows, title="Who gains from sharing", note=note), *more]


def _signed(gain: Gain) -> str:
    if not np.isfinite(gain.low):
        return f"{100 * gain.value:+.1f} %"
    return f"{100 * gain.value:+.1f} % ({100 * gain.low:+.1f} to {100 * gain.high:+.1f} %)"


def page(advice: Advice, command: str) -> Page:
    """The page: what to do first, then what it rests on."""
    answer, *words = advice.words
    notes = [f"{note[:1].upper()}{note[1:]}" for note in advice.notes]
    parts = [*words, *notes, costs(advice), *_clients(advice, CLIENTS), _candidates(advice)]
    return Page(
        f"Advice on learning “{advice.plan.columns.target}” together", answer,
        f"{advice.rounds:,} rounds · D = {advice.plan.dim:,} parameters", command,
        written(advice.plan.to_table), plan=True,
        parts=[part for part in parts if part],
    )  # fmt: skip


def costs(advice: Advice) -> Chart:
    """Error against bytes: what fits the limits, what does not, and what is recommended."""
    kinds: dict[str, list[tuple[float, float]]] = {}
    best = None if advice.best is None else advice.best.title
    for choice in advice.choices:
        if choice.bytes and choice.error <= 10:
            kind = "beyond the limits" if choice.why_not else "within the limits"
            kind = choice.title if choice is advice.best else kind
            kinds.setdefault(kind, []).append((choice.bytes, choice.error))
    looks = {"within the limits": (1, 0), "beyond the limits": (4, -1)}
    series = []
    for kind, found in sorted(kinds.items()):
        style, stress = looks.get(kind, (2, 1))
        x, y = zip(*sorted(dict(found).items()), strict=True)
        series.append(Curve(kind, x, y, style=style, points=True, stress=stress))
    known = [(c.title, c.error) for c in advice.choices if not c.bytes]
    known = [(f"{t}, recommended" if t == best else t, e) for t, e in known if e < 10]
    known.append(("good enough", goal(advice.choices, advice.limits)))
    levels = [(f"{name} {level:.3g}", level, "") for name, level in known if np.isfinite(level)]
    top = 1.15 * max((c.error for c in advice.choices if c.error < 10 and (c.bytes or c.options)),
                     default=1.0)  # fmt: skip
    return Chart("What an error costs", "bytes per device and day, up and down",
                 "error / variance, on the last rounds", series, levels, log=True, digits=3,
                 bottom=0, top=top, bytes="x")  # fmt: skip
