"""What a curious server sees: the public plan, and the bytes that went down and came up.

Attacks get a `ServerView` and nothing else. What the samples really were is in `TrueSamples`, which
only the judge gets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core import payload
from psofed.methods.contract import Method
from psofed.privacy import fixed_point
from psofed.protocol.deployment import Deployment

Array = NDArray[Any]


@dataclass(frozen=True)
class Contact:
    """One client in one round: the bytes that went down to it, and those that came up from it."""

    n: int
    client: int
    down: bytes
    up: bytes
    anew: bool = False  # whether it began with a fresh model


@dataclass(frozen=True)
class Total:
    """A cohort under masks: of what came up, only the sum mod 2^32 is known."""

    n: int
    clients: tuple[int, ...]
    down: bytes
    up: bytes


@dataclass(frozen=True)
class ServerView:
    """All that was seen of rounds first..stop-1; under masks there are sums instead of contacts."""

    plan: Deployment
    first: int
    stop: int
    contacts: tuple[Contact, ...] = ()
    totals: tuple[Total, ...] = ()

    @property
    def method(self) -> Method:
        """The method, which follows from the plan."""
        return self.plan.method()

    def of(self, k: int) -> tuple[Contact, ...]:
        """The contacts of client k, in order."""
        return tuple(contact for contact in self.contacts if contact.client == k)

    @property
    def bytes_up(self) -> float:
        """Bytes that come up in a round, on average over the rounds in which any do."""
        sent: dict[int, int] = {}
        for each in self.contacts:
            sent[each.n] = sent.get(each.n, 0) + len(each.up)
        for total in self.totals:
            sent[total.n] = len(total.clients) * len(total.up)
        counts = [size for size in sent.values() if size]
        return sum(counts) / max(len(counts), 1)


@dataclass(frozen=True, eq=False)
class TrueSamples:
    """The samples as the clients had them, by client: x [N, L] and y [N]; NaN: there is none."""

    samples: dict[int, tuple[Array, Array]]


def seen(plan: Deployment, contacts: Iterable[Contact], first: int, stop: int) -> ServerView:
    """The view of a server that got these messages: under masks it knows sums, and no more."""
    found = tuple(sorted(contacts, key=lambda each: (each.n, each.client)))
    privacy = plan.experiment.privacy
    if privacy is None or not privacy.masks:
        return ServerView(plan, first, stop, found)
    rounds: dict[int, list[Contact]] = {}
    for each in found:
        rounds.setdefault(each.n, []).append(each)
    # With fewer than all of a cohort the masks do not cancel: that round tells nothing.
    cohort = plan.method().task.cohorts.size
    totals = (_summed(some) for some in rounds.values() if len(some) == cohort)
    return ServerView(
        plan, first, stop, totals=tuple(total for total in totals if total is not None)
    )


def _summed(cohort: list[Contact]) -> Total | None:
    ups = [each.up for each in cohort]
    if any(up in (b"", payload.NOTHING) or len(up) != len(ups[0]) for up in ups):
        return None
    total = fixed_point.added(np.stack([np.frombuffer(up, "<u4") for up in ups]))
    members = tuple(each.client for each in cohort)
    return Total(cohort[0].n, members, cohort[0].down, total.astype("<u4").tobytes())
