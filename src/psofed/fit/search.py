"""Which method, which M and E, at what cost: tuned on the warm-up, searched under limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from psofed.core.features import Linear
from psofed.core.payload import size
from psofed.core.seeds import Seeds
from psofed.data import losses, warmup
from psofed.data.reading import Table
from psofed.data.rounds import Rounds
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.fit import choices, counsel, evidence, federation, fitting, handover, with_noise
from psofed.fit.choices import Choice, Limits
from psofed.fit.evidence import Evidence
from psofed.fit.federation import Span
from psofed.fit.fitting import Counting, silent
from psofed.fit.plan import Plan
from psofed.fit.player import Contender
from psofed.fit.with_noise import PrivateChoice
from psofed.methods import fedavg, local, onlinefed, periodic, psofed
from psofed.methods.contract import Options, start
from psofed.privacy.settings import Privacy

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
    private: list[PrivateChoice] | None  # candidates with noise; None: no promise was asked for

    @property
    def federate(self) -> bool:
        """Whether to share, with noise if a promise was asked for."""
        if self.private is not None:
            return with_noise.worthwhile(self.private, self.choices)
        return self.best is not None and self.best.federated


def advise(
    table: Table,
    plan: Plan,
    limits: Limits,
    counting: Counting = silent,
    tune_dim: bool = True,
    source: str | Path | None = None,
    privacy: Privacy | None = None,
) -> Advice:
    """Tune D, width and step on the warm-up; run all settings in lockstep; choose.

    Settings are chosen on the rounds before the last part, and reported on the last part. With
    `privacy`, also those with noise, and the experiment has the best of them.
    """
    losses.check(table, plan.allow_loss)
    whole = fitting.spans(table, plan)
    span = parts(whole, plan, table.latest)
    encoder = warmup.learn(table, span.first if span.first else table.rounds, plan.limited)
    fitting.check_inputs(encoder, table)
    rounds = Rounds(table, encoder)
    plan = replace(plan, methods=(onlinefed.Options(),))
    if tune_dim:
        plan = _dimension(rounds, plan, span, counting)
    plan, linear_step = fitting.tuned(rounds, plan, span, counting)
    settings = candidates(plan, limits)
    contenders = fitting.line_up(
        rounds, replace(plan, methods=settings), True, linear_step, span.first
    )
    contenders.append(_linear_alone(rounds, plan, linear_step, span.first))
    with counting("searching, rounds") as on_round:
        scores, _ = federation.federate(rounds, contenders, plan.label_delay, span, on_round)
    found = choices.all_of(scores, settings, limits)
    best = choices.best(found, limits)
    notes = fitting.drop_notes(table, rounds) + fitting.doubts(scores)
    held, made = choices.expressible(found, best, limits), None
    if held is not None and held.options is not None:
        plan = replace(plan, methods=(held.options,))
        if best is not None and best.federated and held.federated:
            made = handover.experiment(rounds, plan, whole, source)
    proof = evidence.weigh(scores, found, best, limits)
    words = counsel.words(found, best, limits, proof, held)
    noisy: list[PrivateChoice] | None = None
    if privacy is not None:
        noisy = with_noise.search(rounds, plan, span, limits, privacy, counting)
        words[0] = f"Without noise: {words[0]}"
        words = with_noise.words(noisy, found, privacy) + words
        notes += with_noise.doubts(plan, privacy)
        made = None
        if with_noise.worthwhile(noisy, found):
            mine = replace(plan, methods=(noisy[0].options,), step=noisy[0].options.step)
            made = handover.experiment(rounds, mine, whole, source)
            made = replace(made, privacy=noisy[0].privacy)
    count = span.stop - span.first
    return Advice(plan, found, best, held, proof, words, count, table.calendar, limits, notes,
                  made, noisy)  # fmt: skip


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


def _linear_alone(rounds: Rounds, plan: Plan, step: float, begin: int) -> Contender:
    """The linear control without sharing: what a linear model gains is not due to sharing."""
    line, seeds = Linear(rounds.encoder.taps), Seeds(plan.seed)
    task = federation.task(
        rounds, line, seeds, step, plan.cohort, plan.label_delay, plan.wire, begin, plan.check
    )
    return Contender(choices.LINEAR_ALONE, start(local.Options(), task), line)


def _dimension(rounds: Rounds, plan: Plan, span: Span, counting: Counting) -> Plan:
    """The smallest D that is nearly as good as the best, on the warm-up."""
    first = max(0, span.first - fitting.TUNING)
    own = Span(first, (first + span.first) // 2, span.first)
    if own.stop - own.frozen <= plan.label_delay + 10:
        return plan
    plans = [replace(plan, dim=d) for d in DIMS]
    contenders = [fitting.line_up(rounds, p, False, 0.1, own.first)[0] for p in plans]
    with counting("tuning D") as on_round:
        scores, _ = federation.federate(rounds, contenders, plan.label_delay, own, on_round)
    errors = np.array([scores.error(j, "prequential") for j in range(len(plans))])
    good = (
        np.flatnonzero(errors <= ENOUGH * np.nanmin(errors)) if np.isfinite(errors).any() else [2]
    )
    return replace(plan, dim=DIMS[int(good[0])])
