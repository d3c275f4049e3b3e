"""Candidates with their errors and costs, and which of them to use: also not to share at all.

A candidate is chosen by its error on one part of the rounds, and reported on a later part that was
not used for any choice: on the part by which it was chosen, the best of many is better by chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from psofed.fit import federation, fitting
from psofed.fit.scores import Scores
from psofed.methods.contract import Options

Kind = Literal["kernel", "linear", "alone", "linear alone", "persistence", "raw"]
LINEAR_ALONE = "Linear, alone"
FEDERATED = ("kernel", "linear")  # kinds whose clients share a model


@dataclass(frozen=True)
class Limits:
    """What the link and the user allow; None: no limit."""

    payload: int | None = None  # bytes in a message
    messages: float = float("inf")  # a device and day
    bytes_per_day: float | None = None  # of a device
    target_error: float | None = None  # of the variance
    within: float = 0.05  # of the best of all, relative


@dataclass(frozen=True)
class Choice:
    """One candidate, its errors and its cost per device and day.

    Errors are of frozen models over the variance: of the shared model or of the clients' own ones,
    whichever was better on the part by which candidates are chosen.
    """

    title: str
    kind: Kind
    options: Options | None  # what a plan can hold; None: no method of a plan
    chosen: float  # the error on the part by which candidates are chosen
    error: float  # on the last part, which was not used for any choice
    shared: float  # the same for each of the two models
    own: float
    bytes: float
    messages: float
    largest: int
    setup: int  # bytes of a device once, before the first round
    model: str = "global"  # or "own": which of the two the errors are of
    why_not: str = ""  # empty: within the limits

    @property
    def federated(self) -> bool:
        """Whether clients share a model."""
        return self.kind in FEDERATED

    @property
    def usable(self) -> bool:
        """Whether it may be recommended; to send raw samples is for comparison only."""
        return self.kind != "raw" and not self.why_not and bool(np.isfinite(self.chosen))


def all_of(scores: Scores, settings: tuple[Options, ...], limits: Limits) -> list[Choice]:
    """Every contender as a choice; those of the settings come first."""
    rest = (None,) * (len(scores.scores) - len(settings))
    every = enumerate((*settings, *rest))
    return [_choice(scores, j, options, limits) for j, options in every]


def _choice(scores: Scores, j: int, options: Options | None, limits: Limits) -> Choice:
    score = scores.scores[j]
    days = max(scores.days, 1e-9) * len(scores.clients)
    both = {m: [scores.error(j, p, m) for p in ("choice", "frozen")] for m in ("global", "own")}
    model = min(both, key=lambda m: both[m][0] if np.isfinite(both[m][0]) else np.inf)
    chosen, error = (e if np.isfinite(e) else np.inf for e in both[model])
    sent = score.bytes / days, score.messages / days, score.largest, score.setup
    choice = Choice(score.title, _kind(score.title, options), options, chosen, error,
                    both["global"][1], both["own"][1], *sent, model)  # fmt: skip
    return replace(choice, why_not=_why_not(choice, limits))


def _kind(title: str, options: Options | None) -> Kind:
    if options is not None:
        return "alone" if options.alone else "kernel"
    if title in (fitting.LINEAR, LINEAR_ALONE):
        return "linear" if title == fitting.LINEAR else "linear alone"
    return "persistence" if title == federation.PERSISTENCE else "raw"


def _why_not(choice: Choice, limits: Limits) -> str:
    """The first limit that a candidate breaks."""
    if limits.payload is not None and choice.largest > limits.payload:
        return f"message of {choice.largest} B"
    if choice.messages > limits.messages:
        return f"{choice.messages:.0f} messages a day"
    if limits.bytes_per_day is not None and choice.bytes > limits.bytes_per_day:
        return f"{choice.bytes:,.0f} B a day"
    return ""


def best(choices: list[Choice], limits: Limits) -> Choice | None:
    """The cheapest that is good enough and fits; else the most accurate; None if none is known."""
    some = [c for c in choices if c.usable]
    if not some:
        return None
    wanted = goal(choices, limits, "chosen")
    enough = [c for c in some if c.chosen <= wanted]
    if enough:
        return min(enough, key=lambda c: (c.bytes, c.chosen))
    return min(some, key=lambda c: (c.chosen, c.bytes))


def goal(choices: list[Choice], limits: Limits, part: str = "error") -> float:
    """The error to reach: as given, or within x % of the best of all that fit.

    Which one is the best is always decided on the part for choosing; `part` is where it is judged.
    """
    if limits.target_error is not None:
        return limits.target_error
    first = leader(choices)
    if first is None:
        return float("inf")
    return (first.chosen if part == "chosen" else first.error) * (1 + limits.within)


def leader(choices: list[Choice]) -> Choice | None:
    """The most accurate of all that fit."""
    return min((c for c in choices if c.usable), key=lambda c: (c.chosen, c.bytes), default=None)


def rival(choices: list[Choice], chosen: Choice) -> Choice | None:
    """What a recommendation is compared with, to say what sharing gains.

    Of one that shares, the best of those that do not; of one that does not, the best that shares.
    """
    other = [c for c in choices if c.usable and c.federated != chosen.federated]
    return min(other, key=lambda c: (c.chosen, c.bytes), default=None)


def upset(choices: list[Choice], chosen: Choice, limits: Limits) -> Choice | None:
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


def expressible(choices: list[Choice], chosen: Choice | None, limits: Limits) -> Choice | None:
    """The recommended one, or the nearest that a plan can hold: as federated, chosen likewise."""
    if chosen is None or chosen.options is not None:
        return chosen
    some = [c for c in choices if c.options is not None and c.kind != "raw"]
    alike = best([c for c in some if c.federated == chosen.federated], limits)
    return alike if alike is not None else best(some, limits)


def to_table(choice: Choice) -> dict[str, Any]:
    """A candidate as plain values."""
    return {
        "method": choice.title, "kind": choice.kind, "error": choice.error,
        "error_chosen_by": choice.chosen, "model": choice.model,
        "shared": choice.shared, "own": choice.own,
        "bytes_per_device_and_day": choice.bytes, "messages_per_device_and_day": choice.messages,
        "largest_message": choice.largest, "setup_bytes_per_device": choice.setup,
        "why_not": choice.why_not,
    }  # fmt: skip
