"""Ledger: exact counts of the outcome of every question and of every message.

Each member that is asked ends as one of accepted, refused (only invalid answers came, or a late
one) or lost (nothing came): asked = accepted + refused + lost. Each message that arrives is one of
accepted, repeated (the same bytes again) or rejected: received = accepted + repeated + rejected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.protocol.checked_record import taken

Array = NDArray[Any]
REASONS = (
    "size", "version", "kind", "type", "digest", "stranger", "late", "early", "conflict",
    "values", "finite", "bound",
)  # fmt: skip
# Reasons that records of older servers do not have.
LATER = ("mac", "together", "excluded", "removed", "masks")
ADDED = ("accepted_at", "refused", "lost")  # tables that they do not have, either
COUNTS = ("asked", "accepted", "refused", "lost", "received", "repeated", "rejected")


class Ledger:
    """The counters of a run and a row per seat; durable with each commit, so consistent."""

    def __init__(self, clients: int) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.reasons = dict.fromkeys((*REASONS, *LATER), 0)
        self.accepted = np.zeros(clients, np.int64)  # uploads folded in, by client
        self.flagged = np.zeros(clients, np.int64)  # answers that contradict an earlier one
        self.lost_at = np.full(clients, -1, np.int64)  # the last round without an answer
        self.accepted_at = np.full(clients, -1, np.int64)  # the last round with one
        self.refused = np.zeros(clients, np.int64)  # the totals of these two, by client
        self.lost = np.zeros(clients, np.int64)
        self.dropped: dict[int, int] = {}  # members not waited for in the open round any more
        self._tried: set[int] = set()

    def repeat(self) -> None:
        """Rule 8: the same bytes again are acknowledged, not counted."""
        self.counts["received"] += 1
        self.counts["repeated"] += 1

    def reject(self, k: int, reason: str, n: int | None = None) -> None:
        """Rule 9 and 11: a message that changes nothing but this table."""
        self.counts["received"] += 1
        self.counts["rejected"] += 1
        self.reasons[reason] += 1
        if not 0 <= k < len(self.lost_at):
            return
        if reason == "conflict":
            self.flagged[k] += 1
        open_round = self.dropped.get(k, -1) == n
        if reason not in ("late", "mac") or (reason == "late" and open_round):
            # Without the key, it was not this client that tried.
            self._tried.add(k)
        elif reason == "late" and self.lost_at[k] == n:
            # It was counted as lost when its round closed, but it was only late.
            self.lost_at[k] = -1
            self.counts["lost"] -= 1
            self.counts["refused"] += 1
            self.lost[k] -= 1
            self.refused[k] += 1

    def close(self, n: int, cohort: Iterable[int], answered: Iterable[int]) -> None:
        """Rule 9: every member that was asked is accounted for; only now is an upload accepted."""
        members, here = {*cohort, *self.dropped}, set(answered)
        refused = (members & self._tried) - here
        lost = members - here - refused
        self.counts["asked"] += len(members)
        self.counts["accepted"] += len(here)
        self.counts["received"] += len(here)
        self.accepted[list(here)] += 1
        self.accepted_at[list(here)] = n
        self.counts["refused"] += len(refused)
        self.refused[list(refused)] += 1
        self.counts["lost"] += len(lost)
        self.lost[list(lost)] += 1
        self.lost_at[list(lost)] = n
        self._tried.clear()
        self.dropped.clear()

    def drop(self, k: int, n: int) -> None:
        """Rule 9: a member that was asked in round n is not waited for: it will count as lost."""
        self.dropped[k] = n

    def void(self) -> None:
        """Rule 18: the open round is not closed, so nobody was asked in it."""
        self._tried.clear()
        self.dropped.clear()

    def seat(self, seats: int, cleared: Iterable[int] = ()) -> None:
        """As many rows as there are seats; some are cleared for others."""
        for name, fresh in vars(Ledger(seats)).items():
            if isinstance(fresh, np.ndarray):
                old = getattr(self, name)
                fresh[: len(old)] = old
                fresh[list(cleared)] = -1 if name in ("lost_at", "accepted_at") else 0
                setattr(self, name, fresh)

    def to_arrays(self) -> dict[str, Array]:
        """What is stored."""
        counts = [*self.counts.values(), *(self.reasons[reason] for reason in REASONS)]
        later = np.array([self.reasons[reason] for reason in LATER], np.int64)
        table = {"accepted": self.accepted, "flagged": self.flagged, "lost_at": self.lost_at}
        more = {"accepted_at": self.accepted_at, "refused": self.refused, "lost": self.lost}
        more |= {"later": later} if later.any() else {}
        return {"counts": np.array(counts, np.int64), **table, **more}

    def restore(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`."""
        size, rows = len(COUNTS) + len(REASONS), self.accepted.shape
        size = max(size, arrays["counts"].size) if "counts" in arrays else size
        counts = taken(arrays, "counts", np.int64, (size,), 0).tolist()
        self.counts = dict(zip(COUNTS, counts, strict=False))
        later = taken(arrays, "later", np.int64, (None,), 0).tolist() if "later" in arrays else []
        # Some had the first of the later reasons among the others; a newer server may have more.
        counted = [*counts[len(COUNTS) :], *later, *[0] * len(LATER)]
        self.reasons = dict(zip((*REASONS, *LATER), counted, strict=False))
        for name in ("accepted", "flagged", "lost_at", "accepted_at", "refused", "lost"):
            if name in arrays or name not in ADDED:
                least = -1 if name.endswith("_at") else 0
                setattr(self, name, taken(arrays, name, np.int64, rows, least))
        self._tried, self.dropped = set(), {}
