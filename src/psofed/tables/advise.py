"""Which method, which M and E, at what cost: tuned on the warm-up, searched under limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from psofed.core.payload import size
from psofed.methods import fedavg, local, onlinefed, periodic, psofed
from psofed.methods.contract import Options
from psofed.rows import warmup
from psofed.rows.rounds import Rounds
from psofed.rows.table import Table
from psofed.tables import federate, fit
from psofed.tables.fit import Counting, silent
from psofed.tables.plan import Plan
from psofed.tables.scores import Scores

MOST_ROUNDS = 10_000
DIMS = (50, 100, 200, 400)
ENOUGH = 1.03  # the smallest D within 3 % of the best
SHARED = (1, 2, 5, 10, 20, 40, 80, 160)
STEPS = (4, 16)  # E
SAME = 0.02  # relative; less is called the same


@dataclass(frozen=True)
class Limits:
    """What the link and the user allow; None: anything."""

    payload: int | None = None  # bytes in a message
    messages: float = float("inf")  # a device and day
    bytes_per_day: float | None = None  # of a device
    target_error: float | None = None  # of the variance
    within: float = 0.05  # of full sharing, relative


@dataclass(frozen=True)
class Choice:
    """One setting, what it reaches and what it costs a device and day."""

    title: str
    options: Options | None
    error: float  # frozen, of the better of shared and own model, over the variance
    shared: float
    own: float
    bytes: float
    messages: float
    largest: int
    why_not: str = ""  # empty: within the limits

    @property
    def federated(self) -> bool:
        """Whether clients talk."""
        return self.options is not None and self.options.name != "local"


@dataclass(frozen=True, eq=False)
class Advice:
    """The answer: all settings, the one to use, and why."""

    plan: Plan  # the recommended one
    choices: list[Choice]
    best: Choice | None
    words: list[str]
    rounds: int
    seconds: bool  # whether a day is known to be a day
    limits: Limits
    notes: list[str]


def advise(
    table: Table, plan: Plan, limits: Limits, counting: Counting = silent, tune_dim: bool = True
) -> Advice:
    """Tune D, width and step on the warm-up; run all settings in lockstep; choose."""
    span = fit.spans(table, plan)
    stop = min(span.stop, span.first + MOST_ROUNDS)
    span = replace(span, stop=stop, frozen=stop - round(plan.frozen * (stop - span.first)))
    encoder = warmup.learn(table, span.first if span.first else table.rounds)
    fit.check_inputs(encoder, table)
    rounds = Rounds(table, encoder)
    plan = replace(plan, methods=(onlinefed.Options(),))
    if tune_dim:
        plan = _dimension(rounds, plan, span, counting)
    plan, linear_step = fit.tuned(rounds, plan, span, counting)
    settings = candidates(plan, limits)
    contenders = fit.line_up(rounds, replace(plan, methods=settings), True, linear_step)
    with counting("searching, rounds") as on_round:
        scores, _ = federate.federate(rounds, contenders, plan.label_delay, span, on_round)
    by_title = {options.title(): options for options in settings}
    choices = [_choice(scores, j, by_title, limits) for j in range(len(scores.scores))]
    best = _best(choices, limits)
    plan = plan if best is None or best.options is None else replace(plan, methods=(best.options,))
    words = _words(choices, best, limits)
    notes = fit.drop_notes(table, rounds)
    return Advice(plan, choices, best, words, stop - span.first, table.calendar, limits, notes)


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


def _dimension(rounds: Rounds, plan: Plan, span: fit.Span, counting: Counting) -> Plan:
    """The smallest D that is nearly as good as the best, on the warm-up."""
    first = max(0, span.first - fit.TUNING)
    own = fit.Span(first, (first + span.first) // 2, span.first)
    if own.stop - own.frozen <= plan.label_delay + 10:
        return plan
    plans = [replace(plan, dim=d) for d in DIMS]
    contenders = [fit.line_up(rounds, p, False, 0.1)[0] for p in plans]
    with counting("tuning D") as on_round:
        scores, _ = federate.federate(rounds, contenders, plan.label_delay, own, on_round)
    errors = np.array([scores.error(j, "prequential") for j in range(len(plans))])
    good = (
        np.flatnonzero(errors <= ENOUGH * np.nanmin(errors)) if np.isfinite(errors).any() else [2]
    )
    return replace(plan, dim=DIMS[int(good[0])])


def _choice(scores: Scores, j: int, by_title: dict[str, Options], limits: Limits) -> Choice:
    score = scores.scores[j]
    days = max(scores.days, 1e-9) * len(scores.clients)
    shared, own = scores.error(j, "frozen"), scores.error(j, "frozen", "own")
    both = [e for e in (shared, own) if np.isfinite(e)]
    options = by_title.get(score.title)
    choice = Choice(score.title, options, min(both, default=float("inf")), shared, own,
                    score.bytes / days, score.messages / days, score.largest)  # fmt: skip
    return replace(choice, why_not=_why_not(choice, limits))


def _why_not(choice: Choice, limits: Limits) -> str:
    """The first limit that a setting breaks."""
    if limits.payload is not None and choice.largest > limits.payload:
        return f"message of {choice.largest} B"
    if choice.messages > limits.messages:
        return f"{choice.messages:.0f} messages a day"
    if limits.bytes_per_day is not None and choice.bytes > limits.bytes_per_day:
        return f"{choice.bytes:,.0f} B a day"
    return ""


def _best(choices: list[Choice], limits: Limits) -> Choice | None:
    """The cheapest federated setting that is good enough and fits; else the most accurate."""
    fitting = [c for c in choices if c.federated and not c.why_not and np.isfinite(c.error)]
    if not fitting:
        return None
    wanted = goal(choices, limits)
    enough = [c for c in fitting if c.error <= wanted]
    if enough:
        return min(enough, key=lambda c: (c.bytes, c.error))
    return min(fitting, key=lambda c: c.error)


def goal(choices: list[Choice], limits: Limits) -> float:
    """The error to reach: as given, or within x % of full sharing."""
    if limits.target_error is not None:
        return limits.target_error
    return _named(choices, "Online-Fed").error * (1 + limits.within)


def _named(choices: list[Choice], title: str) -> Choice:
    return next(c for c in choices if c.title == title)


def _words(choices: list[Choice], best: Choice | None, limits: Limits) -> list[str]:
    """The answer for people."""
    full, alone = _named(choices, "Online-Fed"), _named(choices, "Local only")
    line, last = _named(choices, fit.LINEAR), _named(choices, federate.PERSISTENCE)
    words = [_recommend(choices, best, full, limits)]
    ruler = best if best is not None else full
    if alone.error <= ruler.error * (1 + SAME):
        words.append(
            f"Federation does not pay on this data: learning alone reaches {alone.error:.3f} and"
            f" sends nothing; {ruler.title} reaches {ruler.error:.3f}."
        )
    else:
        gain = 100 * (1 - ruler.error / alone.error)
        words.append(f"Learning alone reaches {alone.error:.3f}: sharing lowers the error by"
                     f" {gain:.0f} %.")  # fmt: skip
    if line.error <= ruler.error * (1 + SAME):
        cost = f"{line.error:.3f}, {line.bytes:,.0f} B a device and day"
        words.append(f"A linear model is as good ({cost}): you do not need a kernel.")
    if last.error <= ruler.error * (1 + SAME):
        words.append(f"Repeating the last known label is as good ({last.error:.3f}).")
    return words


def _recommend(choices: list[Choice], best: Choice | None, full: Choice, limits: Limits) -> str:
    if best is None:
        return "No setting fits the link: every one breaks a limit (see the table)."
    cost = (f"{best.bytes:,.0f} bytes a device and day in {best.messages:.1f} messages of up to"
            f" {best.largest} bytes")  # fmt: skip
    reach = f"error {best.error:.3f} of the variance"
    if best.error > goal(choices, limits):
        wanted = f"Nothing within the limits reaches {goal(choices, limits):.3f}"
        return f"{wanted}; the best is {best.title}: {reach}, {cost}."
    beside = f"full sharing reaches {full.error:.3f} with {full.bytes:,.0f}"
    return f"Use {best.title}: {reach}, {cost}; {beside}."


def to_table(choice: Choice) -> dict[str, Any]:
    """A setting as plain values."""
    return {
        "method": choice.title, "error": choice.error, "shared": choice.shared, "own": choice.own,
        "bytes_per_device_and_day": choice.bytes, "messages_per_device_and_day": choice.messages,
        "largest_message": choice.largest, "why_not": choice.why_not,
    }  # fmt: skip
