"""Whether to share, with which method, M and E, and at what cost: candidates under limits.

A candidate is what a device can have with a method: the mix of the method's models with what the
device learns alone, which costs no byte. It is chosen by its error on one part of the rounds, and
reported on a later part that was not used for any choice: on the part by which it was chosen, the
best of many is better by chance. Not to share at all is a candidate like the others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.core.native import Array
from psofed.core.payload import size
from psofed.errors import InputError, nearest
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.federation.options import Options
from psofed.methods import fedavg, local, onlinefed, periodic, psofed
from psofed.streams.data import rounds as losses
from psofed.streams.data.table import Table
from psofed.streams.data.ticks import UNITS
from psofed.tables import backtest, fitting
from psofed.tables.experts import Mixture
from psofed.tables.fitting import Counting, silent
from psofed.tables.gains import Gain, gains
from psofed.tables.plan import Plan, Span
from psofed.tables.scores import Kind, Score, Scores

MOST_ROUNDS = 10_000
DIMS = (50, 100, 200, 400)
SHARED = (1, 2, 5, 10, 20, 40, 80, 160)
STEPS = (4, 16)  # E
# Bytes in one message, messages a day and device (both ways): docs/tables.md has the sources.
LINKS = {
    "lorawan-dr0": (51, 618.0), "lorawan-dr1": (51, 1107.0), "lorawan-dr2": (51, 2474.0),
    "lorawan-dr3": (115, 2552.0), "lorawan-dr4": (222, 2634.0), "lorawan-dr5": (222, 4684.0),
    "nb-iot": (1600, float("inf")), "ble": (244, float("inf")),
    "satellite": (270, float("inf")), "ethernet": (1472, float("inf")),
}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """What the link and the user allow; None: no limit."""

    payload: int | None = None  # bytes of the largest message; not set: the link's
    messages: float = float("inf")  # messages of a device in a day
    bytes_per_day: float | None = None  # largest daily traffic of a device, up and down, in bytes
    target_error: float | None = None  # wanted error over the variance, instead of `within`
    within: float = 0.05  # how far an error may be above that of the best of all, as a share of it

    def __post_init__(self) -> None:
        schema.positive(self, "payload", "bytes_per_day", "target_error", "within")

    def of_link(self, name: str) -> Limits:
        """Within those of a link, too."""
        if name not in LINKS:
            raise InputError("--link", f"is {name!r}", nearest(name, list(LINKS)))
        payload, messages = LINKS[name]
        return replace(self, payload=min(self.payload or payload, payload), messages=messages)


@dataclass(frozen=True, eq=False)
class Choice:
    """One method with the mix around it: its errors, and its cost per device and day.

    Errors are over the variance, of what `psofed fit` would save.
    """

    title: str
    kind: Kind
    options: Options | None  # None: sends raw samples, which is for comparison only
    chosen: float  # the error on the part by which candidates are chosen
    error: float  # on the last part, which was not used for any choice
    bytes: float
    messages: float
    largest: int
    setup: int  # bytes of a device once, before the first round
    why_not: str = ""  # empty: within the limits
    blocks: Array | None = None  # squared errors of the last part in blocks of time [B, K]

    @property
    def federated(self) -> bool:
        """Whether clients share a model."""
        return self.kind == "kernel"

    @property
    def usable(self) -> bool:
        """Whether it may be recommended."""
        return self.kind != "raw" and not self.why_not and bool(np.isfinite(self.chosen))

    def to_table(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "method": self.title, "kind": self.kind, "error": self.error,
            "error_chosen_by": self.chosen, "bytes_per_device_and_day": self.bytes,
            "messages_per_device_and_day": self.messages, "largest_message": self.largest,
            "setup_bytes_per_device": self.setup, "why_not": self.why_not,
        }  # fmt: skip


def choice(scores: Scores, score: Score, title: str, limits: Limits) -> Choice:
    """A contender as a candidate."""
    j, days = scores.scores.index(score), max(scores.days, 1e-9) * len(scores.clients)
    errors = (scores.error(j, part) for part in ("choice", "frozen"))
    chosen, error = (e if np.isfinite(e) else np.inf for e in errors)
    return Choice(
        title, score.kind, score.options, chosen, error, score.bytes / days,
        score.messages / days, score.largest, score.setup, _why_not(score, days, limits),
        score.blocks.get("global"),
    )  # fmt: skip


def _why_not(score: Score, days: float, limits: Limits) -> str:
    """The first limit that a candidate breaks."""
    if limits.payload is not None and score.largest > limits.payload:
        return f"message of {score.largest} B"
    if score.messages / days > limits.messages:
        return f"{score.messages / days:.0f} messages a day"
    if limits.bytes_per_day is not None and score.bytes / days > limits.bytes_per_day:
        return f"{score.bytes / days:,.0f} B a day"
    return ""


def best(choices: list[Choice], limits: Limits) -> Choice | None:
    """The cheapest that is good enough and fits; else the most accurate; None if none is known."""
    some = [c for c in choices if c.usable]
    first = min(some, key=lambda c: (c.chosen, c.bytes), default=None)
    if first is None:
        return None
    wanted = limits.target_error or first.chosen * (1 + limits.within)
    enough = [c for c in some if c.chosen <= wanted]
    return min(enough, key=lambda c: (c.bytes, c.chosen), default=first)


def rival(choices: list[Choice], chosen: Choice) -> Choice | None:
    """What a recommendation is compared with, to say what sharing gains.

    Of one that shares, the best of those that do not; of one that does not, the best that shares.
    """
    other = [c for c in choices if c.usable and c.federated != chosen.federated]
    return min(other, key=lambda c: (c.chosen, c.bytes), default=None)


def in_hindsight(choices: list[Choice], chosen: Choice, limits: Limits) -> Choice | None:
    """What the last part would rather have: better for no more bytes, or by more than is accepted.

    It is not recommended, since then the last part would have been used for a choice.
    """
    some = [c for c in choices if c.usable and c.error < chosen.error]
    free = [c for c in some if c.bytes <= chosen.bytes]
    if limits.target_error is None:
        far = [c for c in some if c.error * (1 + limits.within) < chosen.error]
    else:
        far = [c for c in some if c.error <= limits.target_error < chosen.error]
    return min(free + far, key=lambda c: (c.error, c.bytes), default=None)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What sharing gains on the last part: against the best that does not share, by client."""

    sharing: Choice
    silent: Choice
    gain: Gain
    clients: tuple[tuple[str, Gain], ...] = ()  # none if they are too many to be told apart

    @property
    def counts(self) -> Counter[str]:
        """How many clients gain, lose, or cannot be told."""
        return Counter(gain.verdict for _, gain in self.clients)

    def to_table(self) -> dict[str, Any]:
        """As plain values."""
        by_client = [
            {"client": name, "gain": g.value, "low": g.low, "high": g.high, "sharing": g.verdict}
            for name, g in self.clients
        ]
        return {
            "sharing": self.sharing.title, "instead_of": self.silent.title,
            "gain": self.gain.value, "low": self.gain.low, "high": self.gain.high,
            "counts": dict(self.counts), "by_client": by_client,
        }  # fmt: skip


def weigh(clients: list[str], choices: list[Choice], chosen: Choice | None) -> Evidence | None:
    """The recommended one against its rival; None if there is nothing to compare."""
    other = None if chosen is None else rival(choices, chosen)
    if chosen is None or other is None:
        return None
    sharing, silent = (chosen, other) if chosen.federated else (other, chosen)
    new, old = sharing.blocks, silent.blocks
    if new is None or old is None:
        return None
    by_client = zip(clients, gains(new, old), strict=True) if new.shape[1] == len(clients) else ()
    # A client without samples in the last part has no gain.
    known = tuple((name, gain) for name, gain in by_client if gain.known)
    (whole,) = gains(*(each.sum(axis=1, keepdims=True) for each in (new, old)))
    return Evidence(sharing, silent, whole, known)


@dataclass(frozen=True, eq=False)
class Advice:
    """The answer: all candidates, the one to use, and what sharing gains."""

    plan: Plan  # with the recommended one
    choices: list[Choice]
    best: Choice | None
    evidence: Evidence | None  # what sharing gains, and how sure that is
    rounds: int
    limits: Limits
    notes: list[str]
    experiment: Experiment | None  # the plan for `run`, `serve` and `client`; None: do not share

    @property
    def federate(self) -> bool:
        """Whether to share."""
        return self.best is not None and self.best.federated


@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator] # as in a fit
def advise(
    table: Table, plan: Plan, limits: Limits, counting: Counting = silent, tune_dim: bool = True,
    source: str | Path | None = None,
) -> Advice:  # fmt: skip
    """Tune D, width and step on the warm-up; run all settings in lockstep; choose.

    Settings are chosen on the rounds before the last part, and reported on the last part.
    """
    losses.check(table, plan.allow_loss)
    if np.isnan(table.ticks.days):
        right = f"costs are per day: say what they count with --set tick_unit={'|'.join(UNITS)}"
        raise InputError("tick_unit", "is not given, and times are numbers, not dates", right)
    whole = fitting.spans(table, plan)
    span = parts(whole, plan, table.latest)
    rounds = fitting.sampled(table, plan, span)
    plan = replace(plan, methods=(onlinefed.Options(),))
    plan = fitting.tuned(rounds, plan, span, counting, DIMS if tune_dim else ())
    settings = replace(plan, methods=candidates(plan, limits), compare=True)
    contenders = fitting.line_up(rounds, settings, span.first)
    with counting("searching, rounds") as on_round:
        scores = backtest.run(rounds, contenders, plan.label_delay, span, on_round,
                              season=fitting.season(table, plan))  # fmt: skip
    mixes = [c for c in contenders if isinstance(c, Mixture)]
    named = [(c.score, c.player.score.title) for c in mixes]
    raw = [(c.score, c.score.title) for c in contenders if c.score.kind == "raw"]
    found = [choice(scores, score, title, limits) for score, title in (*named, *raw)]
    chosen, made = best(found, limits), None
    if chosen is not None and chosen.options is not None:
        plan = replace(plan, methods=(chosen.options,))
        mix = next(c for c in mixes if c.score.options is chosen.options)
        habits = mix.beginning(fitting.season(table, plan))
        made = plan.experiment(rounds, whole, source, habits) if chosen.federated else None
    notes = fitting.notes(table, rounds, scores)
    proof = weigh(scores.clients, found, chosen)
    return Advice(plan, found, chosen, proof, span.stop - span.first, limits, notes, made)


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
