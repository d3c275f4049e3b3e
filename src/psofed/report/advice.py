"""Advice for readers: whether to federate, all candidates with their costs, and who gains.

The first sentence is the recommendation; the others explain it and never recommend another.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from psofed.federation.plugins import written
from psofed.report import files
from psofed.report.charts import Chart, Curve, Sheet
from psofed.report.files import Block, Grid, joined, ratio
from psofed.report.page import Page
from psofed.report.page import render as render_page
from psofed.tables import plan as plans
from psofed.tables.advice import Advice, Choice, in_hindsight
from psofed.tables.gains import Gain

CLIENTS = 100  # that a page lists; advice.json has all
ALONE = "what each device has alone"


def render(advice: Advice, command: str) -> dict[str, bytes]:
    """Every file by name."""
    texts = {
        "advice.json": files.json_text(summary(advice, command)),
        "advice.txt": joined(blocks(advice)) + "\n",
    }
    if advice.experiment is not None:
        whole = written(partial(plans.run_table, advice.experiment, advice.plan.wire))
        texts["run.toml"] = plans.RUN_HEAD + whole.toml
    return render_page(page(advice, command), texts, {"advice": Sheet([costs(advice)])})


def summary(advice: Advice, command: str) -> dict[str, Any]:
    """What `advice.json` holds."""
    return files.summary(command, written(advice.plan.to_table), {
        "words": words(advice), "federate": advice.federate,
        "recommended": None if advice.best is None else advice.best.to_table(),
        "evidence": None if advice.evidence is None else advice.evidence.to_table(),
        "limits": advice.limits.__dict__, "rounds": advice.rounds,
        "settings": [choice.to_table() for choice in advice.choices], "notes": advice.notes,
    }, "plan")  # fmt: skip


def words(advice: Advice) -> list[str]:
    """The advice as text; errors are those of the last part, if nothing else is said."""
    chosen, wanted = advice.best, advice.limits.target_error
    if chosen is None:
        return ["Nothing is recommended: on this data no error can be computed."]
    better = in_hindsight(advice.choices, chosen, advice.limits)
    lines = [_headline(advice, chosen, better), _gain(advice, chosen)]
    if wanted is not None and chosen.error > wanted:
        lines.append(f"The wanted error of {wanted:.3g} is not reached.")
    if better is not None:
        lines.append(
            f"On the last rounds {better.title} was better: {ratio(better.error)} with"
            f" {better.bytes:,.0f} bytes; on the earlier ones, by which candidates are chosen, it"
            f" had {ratio(better.chosen)} against {ratio(chosen.chosen)}."
        )
    return [line for line in lines if line]


def _headline(advice: Advice, chosen: Choice, better: Choice | None) -> str:
    """What to do, with doubt if the last part does not bear it out."""
    proof, error = advice.evidence, f"{ratio(chosen.error)} of the variance"
    if not chosen.federated:
        unsure = proof is not None and better is not None and better.federated
        once = f" after {chosen.setup} bytes once" if chosen.setup else ""
        silent = f"{ALONE} reaches {error} and sends nothing{once}"
        return f"Do not federate{', with doubt' if unsure else ''}: {silent}."
    unsure = proof is not None and not proof.gain.low > 0
    cost = (f"{chosen.bytes:,.0f} bytes per device and day in {chosen.messages:.1f} messages of at"
            f" most {chosen.largest} bytes, and {chosen.setup} bytes once")  # fmt: skip
    doubt = ", with doubt" if unsure else ""
    return f"Federate{doubt}: use {chosen.title}: {error}, {cost}."


def _gain(advice: Advice, chosen: Choice) -> str:
    """What sharing gains or would gain, for whom, and with what certainty."""
    found = advice.evidence
    if found is None:
        return "" if chosen.federated else "No shared model fits the limits (see the table)."
    pair = f"{found.sharing.title} against {ALONE} ({ratio(found.silent.error)})"
    if not found.gain.known:
        return f"What sharing gains, {pair}, cannot be computed."
    verbs = {"gains": ("lowers", "would lower"), "loses": ("raises", "would raise")}
    verb = verbs.get(found.gain.verdict, ("may lower or raise",) * 2)[not chosen.federated]
    counts = ", ".join(f"{count} {word}" for word, count in sorted(found.counts.items()))
    who = f"; by client: {counts}" if len(found.clients) > 1 else ""
    return f"Sharing {verb} the error, {pair}: by {interval(found.gain)}{who}."


def interval(gain: Gain) -> str:
    """The size of a gain or a loss with its interval, in percent.

    >>> interval(Gain(0.142, 0.09, 0.18)), interval(Gain(-0.3, -0.5, -0.1))
    ('14 % (95 %: 9.0 to 18 %)', '30 % (95 %: 10 to 50 %)')
    >>> interval(Gain(0.02, -0.01, 0.05)), interval(Gain(0.1, -float("inf"), 1.0))
    ('2.0 % (95 %: -1.0 to 5.0 %)', '10 % (too few blocks of time for an interval)')
    """
    sign = -100 if gain.high < 0 else 100
    ends = sorted((sign * gain.low, sign * gain.high))
    value, low, high = (
        f"{v:.0f}" if abs(v) >= 9.95 else f"{v:.1f}" for v in (sign * gain.value, *ends)
    )
    if not np.isfinite(gain.low):
        return f"{value} % (too few blocks of time for an interval)"
    return f"{value} % (95 %: {low} to {high} %)"


def blocks(advice: Advice) -> list[Block]:
    """The advice in words, then all candidates from cheap to expensive, then who gains."""
    return [*words(advice), "", _candidates(advice), *_clients(advice)]


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
    wanted = advice.limits.target_error
    rule = f"the cheapest within {100 * advice.limits.within:g} % of the best that fits"
    rule = rule if wanted is None else f"the cheapest that fits and reaches {wanted:.3g}"
    note = (
        "Squared errors over the variance of the target, on the last rounds. Recommended is"
        f" {rule}, by its error on earlier ones."
    )
    return Grid(rows, left=(0, 6), least=(2, 5, 4), where="advice.txt", note=note,
                title="Candidates, from cheap to expensive")  # fmt: skip


def _clients(advice: Advice, most: int = 30) -> list[Block]:
    """By how much the error of each client falls, from the surest loss to the surest gain."""
    found = advice.evidence
    if found is None or not found.clients:
        return []
    rows = [["client", "error changes by", "sharing"]]
    some = sorted(found.clients, key=lambda each: each[1].low)
    rows += [[name, interval(gain), gain.verdict] for name, gain in some[:most]]
    more = [f"... and {len(some) - most} more in advice.json"] if len(some) > most else []
    head = f"{found.sharing.title} instead of {found.silent.title}, on the last rounds:"
    note = "Intervals are over blocks of time, for these models, each client by itself."
    return ["", head, "", Grid(rows, title="Who gains from sharing", note=note), *more]


def page(advice: Advice, command: str) -> Page:
    """The page: what to do first, then what it rests on."""
    answer, *more = words(advice)
    notes = [f"{note[:1].upper()}{note[1:]}" for note in advice.notes]
    parts = [*more, *notes, costs(advice), *_clients(advice, CLIENTS), _candidates(advice)]
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
    levels = [(f"{name} {level:.3g}", level, "") for name, level in known if np.isfinite(level)]
    top = 1.15 * max((c.error for c in advice.choices if c.error < 10 and (c.bytes or c.options)),
                     default=1.0)  # fmt: skip
    return Chart("What an error costs", "bytes per device and day, up and down",
                 "error / variance, on the last rounds", series, levels, log=True, digits=3,
                 bottom=0, top=top, bytes="x")  # fmt: skip
