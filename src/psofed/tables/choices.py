"""Settings with what they reach and cost; which of them to use, and the answer in words.

A setting is chosen by its error on one part of the rounds, and reported on a later part that no
choice has seen: the best of many is better by chance where it was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from psofed.methods.contract import Options
from psofed.tables import federate, fit
from psofed.tables.scores import Scores

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
    """One setting, what it reaches and what it costs a device and day.

    Errors are of frozen models, the better of the shared and the own one, over the variance.
    """

    title: str
    options: Options | None
    chosen: float  # on the part that settings are chosen by
    error: float  # on the last part, which no choice has seen
    shared: float  # the same for each of the two models
    own: float
    bytes: float
    messages: float
    largest: int
    setup: int  # bytes of a device once, before the first round
    why_not: str = ""  # empty: within the limits

    @property
    def federated(self) -> bool:
        """Whether clients talk."""
        return self.options is not None and self.options.name != "local"


def all_of(scores: Scores, settings: tuple[Options, ...], limits: Limits) -> list[Choice]:
    """Every contender as a choice."""
    by_title = {options.title(): options for options in settings}
    return [_choice(scores, j, by_title, limits) for j in range(len(scores.scores))]


def _choice(scores: Scores, j: int, by_title: dict[str, Options], limits: Limits) -> Choice:
    score = scores.scores[j]
    days = max(scores.days, 1e-9) * len(scores.clients)
    errors = {p: [scores.error(j, p, m) for m in ("global", "own")] for p in ("choice", "frozen")}
    chosen, error = (min(filter(np.isfinite, errors[p]), default=np.inf) for p in errors)
    shared, own = errors["frozen"]
    sent = score.bytes / days, score.messages / days, score.largest, score.setup
    choice = Choice(score.title, by_title.get(score.title), chosen, error, shared, own, *sent)
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


def best(choices: list[Choice], limits: Limits) -> Choice | None:
    """The cheapest federated setting that is good enough and fits; else the most accurate."""
    fitting = [c for c in choices if c.federated and not c.why_not and np.isfinite(c.chosen)]
    if not fitting:
        return None
    wanted = goal(choices, limits, "chosen")
    enough = [c for c in fitting if c.chosen <= wanted]
    if enough:
        return min(enough, key=lambda c: (c.bytes, c.chosen))
    return min(fitting, key=lambda c: c.chosen)


def goal(choices: list[Choice], limits: Limits, part: str = "error") -> float:
    """The error to reach: as given, or within x % of full sharing on the same part."""
    if limits.target_error is not None:
        return limits.target_error
    full: float = getattr(_named(choices, "Online-Fed"), part)
    return full * (1 + limits.within)


def _named(choices: list[Choice], title: str) -> Choice:
    return next(c for c in choices if c.title == title)


def words(choices: list[Choice], chosen: Choice | None, limits: Limits) -> list[str]:
    """The answer for people; all errors in it are those of the last part."""
    full, alone = _named(choices, "Online-Fed"), _named(choices, "Local only")
    line, last = _named(choices, fit.LINEAR), _named(choices, federate.PERSISTENCE)
    found = _recommend(choices, chosen, full, limits)
    ruler = chosen if chosen is not None else full
    if alone.error <= ruler.error * (1 + SAME):
        found.append(
            f"Federation does not pay on this data: learning alone reaches {alone.error:.3f} and"
            f" sends nothing; {ruler.title} reaches {ruler.error:.3f}."
        )
    else:
        gain = 100 * (1 - ruler.error / alone.error)
        found.append(f"Learning alone reaches {alone.error:.3f}: sharing lowers the error by"
                     f" {gain:.0f} %.")  # fmt: skip
    if line.error <= ruler.error * (1 + SAME):
        cost = f"{line.error:.3f}, {line.bytes:,.0f} B a device and day"
        but = f"; it breaks a limit, though: {line.why_not}" if line.why_not else ""
        found.append(f"A linear model is as good ({cost}): you do not need a kernel{but}.")
    if last.error <= ruler.error * (1 + SAME):
        found.append(f"Repeating the last known label is as good ({last.error:.3f}).")
    return found


def _recommend(
    choices: list[Choice], chosen: Choice | None, full: Choice, limits: Limits
) -> list[str]:
    if chosen is None:
        return ["No setting fits the link: every one breaks a limit (see the table)."]
    cost = (f"{chosen.bytes:,.0f} bytes a device and day in {chosen.messages:.1f} messages of up to"
            f" {chosen.largest} bytes, and {chosen.setup} once")  # fmt: skip
    reach = f"error {chosen.error:.3f} of the variance"
    wanted = goal(choices, limits, "chosen")
    if chosen.chosen > wanted:
        lead = f"Nothing within the limits reaches {wanted:.3f}; the best is {chosen.title}"
    else:
        lead = f"Use {chosen.title}"
    beside = f"full sharing reaches {full.error:.3f} with {full.bytes:,.0f}"
    found = [f"{lead}: {reach}, {cost}; {beside}."]
    found.append(
        f"It was chosen by its error on earlier rounds ({chosen.chosen:.3f}, full sharing"
        f" {full.chosen:.3f}); all other errors here are on the last rounds, which no choice saw."
    )
    wanted = goal(choices, limits)
    if chosen.error > wanted and chosen.chosen <= goal(choices, limits, "chosen"):
        found.append(f"On the last rounds it misses what was asked for, {wanted:.3f}.")
    return found


def to_table(choice: Choice) -> dict[str, Any]:
    """A setting as plain values."""
    return {
        "method": choice.title, "error": choice.error, "error_chosen_by": choice.chosen,
        "shared": choice.shared, "own": choice.own,
        "bytes_per_device_and_day": choice.bytes, "messages_per_device_and_day": choice.messages,
        "largest_message": choice.largest, "setup_bytes_per_device": choice.setup,
        "why_not": choice.why_not,
    }  # fmt: skip
