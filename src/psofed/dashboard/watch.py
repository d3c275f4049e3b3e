"""Watch: what the server's loop shows to other threads, without ever waiting for them.

The loop puts copies of its figures where other threads find them: one attribute that is replaced,
two bounded queues that are appended to. None of that takes a lock, and nothing comes back, so no
result can depend on the watchers.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from time import monotonic, time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.defences.contract import Opinion
from psofed.deploy.server_loop import ServerLoop
from psofed.protocol.coordinator import Closed
from psofed.protocol.reports import Report

Array = NDArray[Any]
PACE = 0.1  # seconds between two snapshots while no round closes
HEARD = ("hello", "accepted", "repeated", "late", "ahead", "told")
QUEUE = 20_000  # rounds and news that may wait for a reader
LONGEST = 500  # characters of a line of news
NEVER = -1.0


class Row(NamedTuple):
    """The run after a round. All but n, time and mse are totals of the durable record, so that
    no row depends on those before it."""

    n: int
    time: int  # in seconds, of the wall clock
    mse: float | None  # in dB
    up: int
    down: int
    accepted: int
    refused: int
    lost: int


class Note(NamedTuple):
    """An event as text."""

    time: int
    n: int
    kind: str  # "gone", "back", "start", "stop" or "news"
    text: str


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The server at one moment; arrays are by seat, times without `time` monotonic."""

    time: float
    moment: float
    n: int
    connected: bool
    trouble: str
    connects: int
    connected_at: float
    asked_at: float | None
    waiting: tuple[int, ...]
    traffic: tuple[int, int]
    counts: dict[str, int]
    reasons: dict[str, int]
    ids: Array  # who sits there; -1: nobody
    standing: Array  # whether it is a member, or excluded
    accepted: Array
    refused: Array
    lost: Array
    accepted_at: Array
    lost_at: Array
    contact: Array  # the wall clock when it was last heard
    heard: Array  # the same since this start, monotonic
    missed: Array  # when a round last closed without it
    coverage: dict[int, tuple[int, int]]  # of clients that tell: labels, those inside
    errors: dict[int, Report]  # of clients that tell
    refusals: dict[int, tuple[str, int]]  # of messages since this start: the last reason, how many
    alarms: dict[str, str]
    opinion: Opinion | None  # of the defence, at most a second old
    dropped: dict[int, int]  # by client (-1: strangers): messages for which there was no room
    ignored: dict[str, int]  # messages that were not read at all, by reason
    logins: int  # wrong tokens
    certificates: dict[str, int]  # whole days that are left, by whose
    asleep: tuple[int, ...]  # members that are not asked, because they do not answer


class Watch:
    """Belongs to the loop's thread, except `latest`, `rows` and `news`, which others may read."""

    def __init__(self, server: ServerLoop) -> None:
        self.server = server
        self.rows: deque[Row] = deque(maxlen=QUEUE)
        self.news: deque[Note] = deque(maxlen=QUEUE)
        self._ids = np.empty(0, np.int64)
        self._contact, self._heard, self._missed = (np.empty(0) for _ in range(3))
        self._refusals: dict[int, tuple[str, int]] = {}
        self._next = 0.0
        server.on_message, server.on_tick = self.message, self.tick
        self.latest = self._snapshot()

    def message(self, k: int, outcome: str) -> None:
        """A message of client k, and its outcome."""
        row = self.server.coordinator.server.seats.row(k)
        if row is None:
            return
        self._seat()
        if outcome != "mac":  # of that one nobody knows who sent it
            self._contact[row], self._heard[row] = time(), monotonic()
        if outcome not in HEARD:
            self._refusals[k] = outcome, self._refusals.get(k, ("", 0))[1] + 1
        elif k in self._refusals and outcome == "accepted":
            del self._refusals[k]

    def tell(self, text: str) -> None:
        """A line for the operator."""
        self.news.append(Note(int(time()), self.server.coordinator.n, "news", text[:LONGEST]))

    def close(self, closed: Closed, mse: float | None) -> None:
        """A round was committed."""
        coordinator = self.server.coordinator
        counts = coordinator.server.ledger.counts
        self._seat()
        # With spare members a round may close before all could answer.
        missing = () if coordinator.server.seats.spare else closed.missing
        rows = map(coordinator.server.seats.row, missing)
        self._missed[[row for row in rows if row is not None]] = monotonic()
        known = mse if mse is not None and math.isfinite(mse) else None
        outcomes = (counts[name] for name in ("accepted", "refused", "lost"))
        up, down = coordinator.traffic.tolist()
        self.rows.append(Row(closed.n, int(time()), known, up, down, *outcomes))
        self.latest = self._snapshot()

    def tick(self) -> None:
        """Something may have changed: publish it, but not too often."""
        if monotonic() >= self._next:
            self.latest = self._snapshot()

    def _seat(self) -> None:
        """Who has taken a seat since the last look was not heard there yet."""
        ids = self.server.coordinator.server.seats.ids
        if len(ids) > len(self._ids):
            more = len(ids) - len(self._ids)
            self._ids = np.concatenate([self._ids, np.full(more, -2)])
            self._contact, self._heard, self._missed = (
                np.concatenate([old, np.zeros(more)])
                for old in (self._contact, self._heard, self._missed)
            )
        new = ids != self._ids
        if new.any():
            self._contact[new], self._heard[new], self._missed[new] = NEVER, NEVER, 0.0
            self._refusals = {
                k: r for k, r in self._refusals.items() if k in self.server.coordinator.server.seats
            }
            self._ids = ids.copy()

    def _snapshot(self) -> Snapshot:
        self._seat()
        now, status, coordinator = monotonic(), self.server.status, self.server.coordinator
        self._next = now + PACE
        ledger, link = coordinator.server.ledger, self.server.link
        dropped = link.inbox.dropped.copy()
        return Snapshot(
            time=time(),
            moment=now,
            n=coordinator.n,
            connected=status.connected,
            trouble=status.trouble,
            connects=status.connects,
            connected_at=status.connected_at,
            asked_at=status.asked_at,
            waiting=tuple(coordinator.missing),
            traffic=(int(coordinator.traffic[0]), int(coordinator.traffic[1])),
            counts=ledger.counts.copy(),
            coverage=coordinator.coverage.copy(),
            errors=coordinator.errors.copy(),
            reasons=ledger.reasons.copy(),
            ids=self._ids,
            standing=coordinator.server.seats.status.copy(),
            accepted=ledger.accepted.copy(),
            refused=ledger.refused.copy(),
            lost=ledger.lost.copy(),
            accepted_at=ledger.accepted_at.copy(),
            lost_at=ledger.lost_at.copy(),
            contact=self._contact.copy(),
            heard=self._heard.copy(),
            missed=self._missed.copy(),
            refusals=self._refusals.copy(),
            alarms=self.server.alarms.on.copy(),
            opinion=status.opinion,
            dropped=dropped,
            ignored={
                "dropped": dropped.total(),
                "retained": link.retained,
                "oversized": link.oversized,
            },
            logins=status.logins[0],
            certificates={} if link.papers is None else link.papers.days(),
            asleep=() if self.server.roll_call is None else tuple(self.server.roll_call.asleep),
        )
