"""Whether to share, which method, which M and E, at what cost: searched under limits, in words.

The first sentence of the advice is the recommendation; the others explain it and never recommend
another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from psofed.core.features import Linear
from psofed.core.payload import size
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation.options import Options
from psofed.methods import fedavg, local, onlinefed, psofed
from psofed.rivals import periodic
from psofed.streams.data import rounds as losses
from psofed.streams.data.rounds import Rounds
from psofed.streams.data.table import Table
from psofed.tables import backtest, choices, fitting
from psofed.tables.choices import Choice, Evidence, Gain, Limits, goal, leader, upset
from psofed.tables.fitting import Counting, silent
from psofed.tables.plan import Plan, Span

MOST_ROUNDS = 10_000
DIMS = (50, 100, 200, 400)
ENOUGH = 1.03  # the smallest D within 3 % of the best
SHARED = (1, 2, 5, 10, 20, 40, 80, 160)
STEPS = (4, 16)  # E


@dataclass(frozen=True, eq=False)
class Advice:
    """The answer: all candidates, the one to use, and why."""

    plan: Plan  # with the recommended one, or with the nearest that a plan can hold
    choices: list[Choice]
    best: Choice | None
    held: Choice | None  # what the plan has
    evidence: Evidence | None  # what sharing gains, and how sure that is
    words: list[str]
    rounds: int
    seconds: bool  # whether times are dates, so that the length of a day is known
    limits: Limits
    notes: list[str]
    experiment: Experiment | None  # the plan for `run`, `serve` and `client`; None: do not share

    @property
    def federate(self) -> bool:
        """Whether to share."""
        return self.best is not None and self.best.federated


def advise(
    table: Table,
    plan: Plan,
    limits: Limits,
    counting: Counting = silent,
    tune_dim: bool = True,
    source: str | Path | None = None,
) -> Advice:
    """Tune D, width and step on the warm-up; run all settings in lockstep; choose.

    Settings are chosen on the rounds before the last part, and reported on the last part.
    """
    losses.check(table, plan.allow_loss)
    whole = fitting.spans(table, plan)
    span = parts(whole, plan, table.latest)
    rounds = fitting.sampled(table, plan, span)
    plan = replace(plan, methods=(onlinefed.Options(),))
    if tune_dim:
        plan = _dimension(rounds, plan, span, counting)
    plan, linear_step = fitting.tuned(rounds, plan, span, counting)
    settings = candidates(plan, limits)
    contenders = fitting.line_up(
        rounds, replace(plan, methods=settings), True, linear_step, span.first
    )
    # What a linear model gains is not due to sharing.
    alone, line = local.Options(step=linear_step), Linear(rounds.recipe.taps)
    contenders.insert(
        -1, fitting.contender(rounds, plan, alone, line, span.first, choices.LINEAR_ALONE)
    )
    with counting("searching, rounds") as on_round:
        scores = backtest.run(rounds, contenders, plan.label_delay, span, on_round)
    found = choices.all_of(scores, settings, limits)
    best = choices.best(found, limits)
    notes = fitting.drop_notes(table, rounds) + fitting.doubts(scores)
    held, made = choices.expressible(found, best, limits), None
    if held is not None and held.options is not None:
        plan = replace(plan, methods=(held.options,))
        if best is not None and best.federated and held.federated:
            made = plan.experiment(rounds, whole, source)
    proof = choices.weigh(scores, found, best, limits)
    words = _words(found, best, limits, proof, held)
    count = span.stop - span.first
    return Advice(plan, found, best, held, proof, words, count, table.calendar, limits, notes,
                  made)  # fmt: skip


def parts(whole: Span, plan: Plan, where: str) -> Span:
    """A limited number of rounds; the last part is for the report, the one before for choosing."""
    stop = min(whole.stop, whole.first + MOST_ROUNDS)
    frozen = stop - round(plan.frozen * (stop - whole.first))
    choice = max(2 * frozen - stop, (whole.first + frozen) // 2)
    if stop - frozen < 2 or choice - whole.first < plan.label_delay + 2:
        found = f"leaves {stop - frozen} rounds to report on and {choice - whole.first} to learn in"
        right = "settings are chosen before the last part: give more rows, or a share near 1/4"
        raise InputError("frozen", found, right, where)
    return Span(whole.first, frozen, stop, choice)


def candidates(plan: Plan, limits: Limits) -> tuple[Options, ...]:
    """Methods with M and E on a grid, and the M that just fills a message."""
    windows = {m for m in SHARED if m < plan.dim}
    if limits.payload is not None:
        windows.add(int(np.clip(limits.payload // size(plan.wire), 1, plan.dim - 1)))
    ms = sorted(windows)
    few = [m for m in ms if m in (5, 20, 80)] + ([max(ms)] if max(ms) not in (5, 20, 80) else [])
    found: list[Options] = [onlinefed.Options(), *(psofed.Options(m) for m in ms)]
    found += [periodic.Options(m, local_steps=e) for e in STEPS for m in few]
    found += [fedavg.Options(local_steps=e) for e in STEPS]
    return (*found, local.Options())


def _dimension(rounds: Rounds, plan: Plan, span: Span, counting: Counting) -> Plan:
    """The smallest D that is nearly as good as the best, on the warm-up."""
    own = fitting.tuning_span(span)
    if own.stop - own.frozen <= plan.label_delay + 10:
        return plan
    plans = [replace(plan, dim=d) for d in DIMS]
    contenders = [fitting.line_up(rounds, p, False, 0.1, own.first)[0] for p in plans]
    with counting("tuning D") as on_round:
        scores = backtest.run(rounds, contenders, plan.label_delay, own, on_round)
    errors = np.array([scores.error(j, "prequential") for j in range(len(plans))])
    good = (
        np.flatnonzero(errors <= ENOUGH * np.nanmin(errors)) if np.isfinite(errors).any() else [2]
    )
    return replace(plan, dim=DIMS[int(good[0])])


LOCAL = {
    "alone": "learning alone",
    "linear alone": "a linear model, which each device learns alone,",
    "persistence": "repeating the last known label",
}


def _words(
    choices: list[Choice],
    chosen: Choice | None,
    limits: Limits,
    found: Evidence | None,
    held: Choice | None,
) -> list[str]:
    """The advice as text; all errors in it are those of the last part, if nothing else is said."""
    if chosen is None:
        return ["Nothing is recommended: on this data no error can be computed."]
    lines = [_headline(choices, chosen, limits, found)]
    lines.append(_gain(chosen, limits, found))
    lines.append(_why(choices, chosen, limits))
    lines.append(_last_rounds(choices, chosen, limits, found))
    lines.append(_beyond(choices, chosen, limits))
    lines.append(_raw(choices, chosen, limits))
    lines.append(_plan(chosen, held))
    return [line for line in lines if line]


def doubtful(choices: list[Choice], chosen: Choice, limits: Limits, found: Evidence | None) -> bool:
    """Whether the last part does not bear out what was chosen: to share, or not to."""
    if found is None:
        return False
    if chosen.federated:
        return not found.gain.low > 0
    better = upset(choices, chosen, limits)
    return better is not None and better.federated


def _headline(choices: list[Choice], chosen: Choice, limits: Limits, found: Evidence | None) -> str:
    doubt = ", with doubt" if doubtful(choices, chosen, limits, found) else ""
    error = f"{_error(chosen.error)} of the variance"
    if not chosen.federated:
        once = f" after {chosen.setup} bytes once" if chosen.setup else ""
        more = {"persistence": "; no model is needed", "linear alone": "; no kernel is needed"}
        silent = f"{LOCAL[chosen.kind]} reaches {error} and sends nothing"
        return f"Do not federate{doubt}: {silent}{once}{more.get(chosen.kind, '')}."
    what = "a linear model is enough: use " if chosen.kind == "linear" else "use "
    whose = " (each device's own model)" if chosen.model == "own" else ""
    cost = (f"{chosen.bytes:,.0f} bytes per device and day in {chosen.messages:.1f} messages of at"
            f" most {chosen.largest} bytes, and {chosen.setup} bytes once")  # fmt: skip
    return f"Federate{doubt}: {what}{chosen.title}{whose}: {error}, {cost}{_full(choices, chosen)}."


def _full(choices: list[Choice], chosen: Choice) -> str:
    full = next((c for c in choices if c.options is not None and c.options.role == "reference"),
                None)  # fmt: skip
    if full is None or full is chosen:
        return ""
    return f"; full sharing reaches {_error(full.error)} with {full.bytes:,.0f} bytes"


def _gain(chosen: Choice, limits: Limits, found: Evidence | None) -> str:
    """What sharing gains or would gain, for whom, and with what certainty."""
    if found is None:
        return "" if chosen.federated else "No shared model fits the limits (see the table)."
    gain, would = found.gain, not chosen.federated
    name = "sharing" if chosen.federated else f"sharing ({found.sharing.title})"
    beside = f"against {LOCAL[found.silent.kind].rstrip(',')} ({_error(found.silent.error)})"
    if not gain.known:
        return f"What {name} gains {beside} cannot be computed."
    verb = "raise" if gain.high < 0 else "lower"
    verb = f"would {verb}" if would else f"{verb}s"
    text = f"{name} {verb} the error {beside}"
    if gain.verdict == "cannot be told":
        text = f"it cannot be told whether {text}: by {interval(gain)}"
    else:
        text = f"{text} by {interval(gain)}"
    text = text[0].upper() + text[1:]
    return f"{text}{_who(found)}."


def interval(gain: Gain) -> str:
    """The size of a gain or a loss with its interval, in percent.

    >>> interval(Gain(0.142, 0.09, 0.18)), interval(Gain(-0.3, -0.5, -0.1))
    ('14 % (95 %: 9.0 to 18 %)', '30 % (95 %: 10 to 50 %)')
    >>> interval(Gain(0.02, -0.01, 0.05)), interval(Gain(0.1, -float("inf"), 1.0))
    ('2.0 % (95 %: -1.0 to 5.0 %)', '10 % (too few blocks of time for an interval)')
    """
    sign = -1 if gain.high < 0 else 1
    value, *ends = (sign * 100 * v for v in (gain.value, gain.low, gain.high))
    if not np.isfinite(gain.low):
        return f"{_short(value)} % (too few blocks of time for an interval)"
    low, high = sorted(ends)
    return f"{_short(value)} % (95 %: {_short(low)} to {_short(high)} %)"


def _short(percent: float) -> str:
    return f"{percent:.0f}" if abs(percent) >= 9.95 else f"{percent:.1f}"


def _who(found: Evidence) -> str:
    if len(found.clients) < 2:
        return ""
    counts = found.counts
    some = {"gains": ("gains", "gain"), "loses": ("loses", "lose"),
            "cannot be told": ("cannot be told", "cannot be told")}  # fmt: skip
    parts = [
        f"{counts[key]} {words[counts[key] != 1]}" for key, words in some.items() if counts[key]
    ]
    return f"; of {len(found.clients)} clients {', '.join(parts)}"


def _why(choices: list[Choice], chosen: Choice, limits: Limits) -> str:
    """By what it was chosen."""
    first = leader(choices)
    if limits.target_error is not None:
        wanted = f"{limits.target_error:.3g}"
        if chosen.chosen <= limits.target_error:
            how = f"the cheapest that reaches {wanted} on earlier rounds ({_error(chosen.chosen)})"
        else:
            how = (f"the most accurate that fits, on earlier rounds ({_error(chosen.chosen)}); none"
                   f" reaches {wanted}")  # fmt: skip
    elif first is None or first is chosen:
        how = f"the most accurate of all that fit, on earlier rounds ({_error(chosen.chosen)})"
    else:
        how = (f"the cheapest within {100 * limits.within:g} % of the best of all that fit, on"
               f" earlier rounds ({_error(chosen.chosen)}; the best, {first.title},"
               f" {_error(first.chosen)})")  # fmt: skip
    return f"It is {how}. All other errors are on the last rounds, not used for any choice."


def _last_rounds(
    choices: list[Choice], chosen: Choice, limits: Limits, found: Evidence | None
) -> str:
    """Where the last part does not repeat what the part before it said."""
    wanted, text = goal(choices, limits), ""
    if chosen.error > wanted >= 0 and chosen.chosen <= goal(choices, limits, "chosen"):
        far = "the wanted error" if limits.target_error is not None else "that tolerance"
        text = f"On the last rounds it does not reach {far} ({_error(wanted)})"
    better = upset(choices, chosen, limits)
    if better is not None:
        lead = None if found is None else found.upset
        by = f" by {interval(lead)}" if lead is not None and lead.known else ""
        text = f"{text}; " if text else "On the last rounds "
        text += (f"{better.title} was better{by}: {_error(better.error)} with"
                 f" {better.bytes:,.0f} bytes; on the earlier ones it had {_error(better.chosen)}"
                 f" against {_error(chosen.chosen)}")  # fmt: skip
    return f"{text}." if text else ""


def _beyond(choices: list[Choice], chosen: Choice, limits: Limits) -> str:
    """What the limits cost in accuracy."""
    out = [c for c in choices if c.why_not and c.kind != "raw" and np.isfinite(c.chosen)]
    over = min(out, key=lambda c: c.chosen, default=None)
    if over is None or over.chosen * (1 + limits.within) >= chosen.chosen:
        return ""
    return (f"Without the limits {over.title} would be better: {_error(over.error)} with"
            f" {over.bytes:,.0f} bytes, but {over.why_not}.")  # fmt: skip


def _raw(choices: list[Choice], chosen: Choice, limits: Limits) -> str:
    """What would be better or cheaper if raw samples were sent."""
    some = [c for c in choices if c.kind == "raw" and not c.why_not and np.isfinite(c.chosen)]
    raw = min(some, key=lambda c: c.chosen, default=None)
    if raw is None or not chosen.federated:
        return ""
    cheaper = raw.bytes <= chosen.bytes and raw.chosen <= chosen.chosen
    if not cheaper and raw.chosen * (1 + limits.within) >= chosen.chosen:
        return ""
    return (f"If raw samples may be sent: {raw.title} reaches {_error(raw.error)} with"
            f" {raw.bytes:,.0f} bytes."
            " Models tell about samples too: docs/privacy.md.")  # fmt: skip


def _plan(chosen: Choice, held: Choice | None) -> str:
    """What plan.toml holds, where it cannot hold the recommended one."""
    if held is chosen:
        return ""
    if held is None:
        return f"A plan cannot hold {chosen.title}, and no other candidate fits."
    return (f"A plan cannot hold {chosen.title}: plan.toml has the nearest that `psofed fit` can"
            f" run, {held.title} ({_error(held.error)}, {held.bytes:,.0f} bytes).")  # fmt: skip


def _error(value: float) -> str:
    return f"{value:.3f}" if value < 1000 else "diverged"
