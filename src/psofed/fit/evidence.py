"""What sharing gains on the last part, for whom, and how sure that is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from psofed.fit import certainty
from psofed.fit.certainty import Gain
from psofed.fit.choices import Choice, Limits, rival, upset
from psofed.fit.scores import Scores


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
    by_client = zip(scores.clients, certainty.gains(new, old), strict=True) if apart else ()
    # A client without samples in the last part has no gain.
    clients = tuple((name, gain) for name, gain in by_client if gain.known)
    better, lead = upset(choices, chosen, limits), None
    if better is not None and (than := _blocks(scores, better)) is not None:
        lead = _whole(than, _blocks(scores, chosen))
    return Evidence(sharing, silent, _whole(new, old), clients, lead)


def _whole(new: Any, old: Any) -> Gain:
    return certainty.gain(new.sum(axis=1), old.sum(axis=1))


def _blocks(scores: Scores, choice: Choice) -> Any:
    return scores.scores[scores.find(choice.title)].blocks.get(choice.model)


def to_table(found: Evidence | None) -> dict[str, Any] | None:
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
