"""Candidates with their errors and costs, which of them to use, and how sure that is.

A candidate is chosen by its error on one part of the rounds, and reported on a later part that was
not used for any choice: on the part by which it was chosen, the best of many is better by chance.
Not to share at all is a candidate like the others.

How sure a difference between two of them is, is told by intervals over blocks of time. Errors of
neighbouring rounds are alike, so rounds do not count as independent samples; blocks of time nearly
do, if they are long enough. An interval is about these models on other times like the judged ones.
It does not cover other seeds or another training.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psofed.federation import schema
from psofed.federation.options import Options
from psofed.tables import fitting
from psofed.tables.player import PERSISTENCE
from psofed.tables.scores import FEWEST, Scores

Array = NDArray[Any]
Kind = Literal["kernel", "linear", "alone", "linear alone", "persistence", "raw"]
LINEAR_ALONE = "Linear, alone"
FEDERATED = ("kernel", "linear")  # kinds whose clients share a model
LEAST = 8  # blocks, below which nothing is said
ALIKE = 0.1  # correlation of neighbours, above which they are joined
NORMAL = 1.959964  # its 97.5 % point


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
    return "persistence" if title == PERSISTENCE else "raw"


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


def choice_table(choice: Choice) -> dict[str, Any]:
    """A candidate as plain values."""
    return {
        "method": choice.title, "kind": choice.kind, "error": choice.error,
        "error_chosen_by": choice.chosen, "model": choice.model,
        "shared": choice.shared, "own": choice.own,
        "bytes_per_device_and_day": choice.bytes, "messages_per_device_and_day": choice.messages,
        "largest_message": choice.largest, "setup_bytes_per_device": choice.setup,
        "why_not": choice.why_not,
    }  # fmt: skip


@dataclass(frozen=True)
class Gain:
    """By which share the error falls from one model to another, with its 95 % interval.

    >>> Gain(0.14, 0.09, 0.18).verdict, Gain(0.02, -0.01, 0.05).verdict
    ('gains', 'cannot be told')
    """

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether the second model is better, worse, or cannot be told from the first."""
        return "gains" if self.low > 0 else "loses" if self.high < 0 else "cannot be told"

    @property
    def known(self) -> bool:
        """Whether there are numbers at all."""
        return bool(np.isfinite(self.value))


UNKNOWN = Gain(float("nan"), float("nan"), float("nan"))


def gain(new: Array, old: Array) -> Gain:
    """By how much the error falls, from block sums [B] of squared errors of both models."""
    return gains(new[:, None], old[:, None])[0]


def gains(new: Array, old: Array) -> list[Gain]:
    """The same for each column of [B, K]; blocks are joined alike for all of them.

    With the sums over blocks A of the new and B of the old model, ratio r = A / B. The log of r has
    the standard error sqrt(n / (n - 1) sum_b d_b^2) / A, with d_b = a_b - r b_b, if blocks are
    independent. With the correlation c that neighbours still have, n blocks are worth
    m = n (1 - c) / (1 + c): the variance is n / m times as large, and t has m - 1 degrees of
    freedom.
    """
    new, old = joined(new.astype(np.float64), old.astype(np.float64))
    left = _correlation(new.sum(axis=1), old.sum(axis=1))
    worth = (1 - left) / (1 + left)
    return [_gain(a, b, worth) for a, b in zip(new.T, old.T, strict=True)]


def joined(new: Array, old: Array) -> tuple[Array, Array]:
    """Neighbouring blocks are joined, in pairs, until their differences are hardly correlated."""
    there = (new.sum(axis=1) > 0) | (old.sum(axis=1) > 0)  # some blocks have no samples
    new, old = new[there], old[there]
    while len(new) >= 2 * FEWEST and _correlation(new.sum(axis=1), old.sum(axis=1)) > ALIKE:
        starts = np.arange(0, len(new) - len(new) % 2, 2)
        new, old = np.add.reduceat(new, starts), np.add.reduceat(old, starts)
    return new, old


def _correlation(a: Array, b: Array) -> float:
    """Of the differences of neighbouring blocks, from 0 to 0.8; estimates of it are too low."""
    if not (np.isfinite(a).all() and np.isfinite(b).all() and b.sum() > 0 and len(a) > 4):
        return 0.0
    d = a - a.sum() / b.sum() * b
    found = float(d[1:] @ d[:-1] / max(d @ d, 1e-300))
    return float(np.clip(found + (1 + 3 * found) / len(d), 0.0, 0.8))


def _gain(a: Array, b: Array, worth: float) -> Gain:
    there = (a > 0) | (b > 0)
    a, b = a[there], b[there]
    count, above, below = len(a), float(a.sum()), float(b.sum())
    if not (0 < below < np.inf and 0 < above < np.inf):
        return UNKNOWN
    ratio = above / below
    if count < LEAST:
        return Gain(1 - ratio, -np.inf, 1.0)
    d = a - ratio * b
    spread = float(np.sqrt(count / (count - 1) / worth * np.square(d).sum()) / above)
    wide = np.exp(min(student(max(count * worth - 1, 3)) * spread, 700.0))
    return Gain(1 - ratio, 1 - ratio * wide, 1 - ratio / wide)


def student(freedom: float) -> float:
    """The 97.5 % point of Student's t, by the expansion of Cornish and Fisher.

    >>> round(student(19), 2), round(student(7), 2)
    (2.09, 2.36)
    """
    z, v = NORMAL, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3


@dataclass(frozen=True, eq=False)
class Evidence:
    """What sharing gains on the last part: against the best that does not share, by client."""

    sharing: Choice
    silent: Choice
    gain: Gain
    clients: tuple[tuple[str, Gain], ...] = ()  # none if they are too many to be told apart
    upset: Gain | None = None  # of what was better on the last part, against the recommended one

    @property
    def counts(self) -> Counter[str]:
        """How many clients gain, lose, or cannot be told."""
        return Counter(gain.verdict for _, gain in self.clients)


def weigh(
    scores: Scores, choices: list[Choice], chosen: Choice | None, limits: Limits
) -> Evidence | None:
    """The recommended one against its rival; None if there is nothing to compare."""
    other = None if chosen is None else rival(choices, chosen)
    if chosen is None or other is None:
        return None
    sharing, silent = (chosen, other) if chosen.federated else (other, chosen)
    new, old = _blocks(scores, sharing), _blocks(scores, silent)
    if new is None or old is None:
        return None
    apart = new.shape[1] == len(scores.clients)
    by_client = zip(scores.clients, gains(new, old), strict=True) if apart else ()
    # A client without samples in the last part has no gain.
    clients = tuple((name, gain) for name, gain in by_client if gain.known)
    better, lead = upset(choices, chosen, limits), None
    if better is not None and (than := _blocks(scores, better)) is not None:
        lead = _whole(than, _blocks(scores, chosen))
    return Evidence(sharing, silent, _whole(new, old), clients, lead)


def _whole(new: Any, old: Any) -> Gain:
    return gain(new.sum(axis=1), old.sum(axis=1))


def _blocks(scores: Scores, choice: Choice) -> Any:
    return scores.scores[scores.find(choice.title)].blocks.get(choice.model)


def evidence_table(found: Evidence | None) -> dict[str, Any] | None:
    """The evidence as plain values."""
    if found is None:
        return None
    return {
        "sharing": found.sharing.title, "instead_of": found.silent.title,
        "gain": found.gain.value, "low": found.gain.low, "high": found.gain.high,
        "counts": dict(found.counts),
        "by_client": [
            {"client": name, "gain": g.value, "low": g.low, "high": g.high, "sharing": g.verdict}
            for name, g in found.clients
        ],
    }  # fmt: skip
