"""Which method, which M and E, at what cost: tuned on the warm-up, searched under limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from psofed.core.payload import size
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.methods import fedavg, local, onlinefed, periodic, psofed
from psofed.methods.contract import Options
from psofed.rows import warmup
from psofed.rows.rounds import Rounds
from psofed.rows.table import Table
from psofed.tables import choices, federate, fit, handover
from psofed.tables.choices import Choice, Limits
from psofed.tables.federate import Span
from psofed.tables.fit import Counting, silent
from psofed.tables.plan import Plan

MOST_ROUNDS = 10_000
DIMS = (50, 100, 200, 400)
ENOUGH = 1.03  # the smallest D within 3 % of the best
SHARED = (1, 2, 5, 10, 20, 40, 80, 160)
STEPS = (4, 16)  # E


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
    experiment: Experiment | None  # the plan for `run`, `serve` and `client`; None if none fits


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
    whole = fit.spans(table, plan)
    span = parts(whole, plan, table.latest)
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
    found = choices.all_of(scores, settings, limits)
    best = choices.best(found, limits)
    notes = fit.drop_notes(table, rounds) + fit.doubts(scores)
    made = None
    if best is not None and best.options is not None:
        plan = replace(plan, methods=(best.options,))
        made, left_out = handover.experiment(rounds, plan, whole, source)
        notes += [f"not in run.toml: {name!r} has no label to learn from" for name in left_out]
    words = choices.words(found, best, limits)
    count = span.stop - span.first
    return Advice(plan, found, best, words, count, table.calendar, limits, notes, made)


def parts(whole: Span, plan: Plan, where: str) -> Span:
    """At most so many rounds; their last part is kept for the report, the one before chooses."""
    stop = min(whole.stop, whole.first + MOST_ROUNDS)
    frozen = stop - round(plan.frozen * (stop - whole.first))
    choice = max(2 * frozen - stop, (whole.first + frozen) // 2)
    if stop - frozen < 2 or choice - whole.first < plan.label_delay + 2:
        found = f"leaves {stop - frozen} rounds to report on and {choice - whole.first} to learn in"
        right = "settings are chosen before the last part: bring more rows, or a share near 1/4"
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
    first = max(0, span.first - fit.TUNING)
    own = Span(first, (first + span.first) // 2, span.first)
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
