"""Board: what a dashboard shows, from snapshots: which clients are gone or back, what changed.

It belongs to one thread, which is not the server's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.dashboard.history import History
from psofed.dashboard.watch import Note, Snapshot, Watch
from psofed.deploy.server_loop import RETRY
from psofed.protocol.reports import Report, summary
from psofed.protocol.seats import MEMBER, REMOVED, VACANT

Array = NDArray[Any]
PATIENCE = 3 * RETRY  # seconds without an answer after which a client counts as gone
GRACE = 20.0  # seconds that clients have to come back to a broker that was away
BACK = 60.0  # seconds for which a client is shown as back
NAMED = 5  # clients that a note names; of more it tells the number
CONTACTS = 10.0  # seconds between two records of who was heard when
COLUMNS = (
    "state", "contact", "accepted", "refused", "lost", "last", "reason", "messages", "coverage",
    "dropped", "score", "clipped", "quarantined", "why", "error", "labels", "unlearned",
)  # fmt: skip
NOW, FRESH, WAITED, GONE, RETURNED, REFUSED, HELD, OUT = (
    "ok", "new", "waited", "gone", "back", "refused", "quarantined", "excluded",
)  # fmt: skip


class Board:
    """The whole picture, and after each update what is new in it."""

    def __init__(self, watch: Watch, about: Mapping[str, Any], history: History) -> None:
        self.watch, self.about, self.history = watch, dict(about), history
        self._ids = np.empty(0, np.int64)  # who sat where at the last look
        self._gone = np.empty(0, bool)
        self._mark = np.empty(0)  # when those were last heard
        self._back = np.empty(0)  # when others came back
        self._contacts_at = watch.latest.moment
        self._warned = 0
        self.facts: dict[str, Any] = {}
        self.rows: dict[int, list[Any]] = {}  # by client, as COLUMNS
        start = watch.server.coordinator.incarnation
        text = "the server was started" + (f" again (start {start})" if start > 1 else "")
        self._note("start", text)
        self.update()

    def update(self) -> dict[str, Any]:
        """Update; returns what has changed. The history is written before anything is shown."""
        snapshot, queue = self.watch.latest, self.watch.rows
        self._seat(snapshot)
        fresh, notes = [], []
        while queue and queue[0].n < snapshot.n:
            fresh.append(queue.popleft())
        while self.watch.news:
            notes.append(self.watch.news.popleft())
        notes += self._comings(snapshot)
        self.history.add(fresh, notes, self._contacts(snapshot))
        notes += self._warnings(snapshot)
        facts, rows = self._facts(snapshot), self._rows(snapshot)
        changes: dict[str, Any] = {k: v for k, v in facts.items() if self.facts.get(k) != v}
        changed: dict[int, list[Any] | None] = {
            k: row for k, row in rows.items() if row != self.rows.get(k)
        }
        changed |= dict.fromkeys(self.rows.keys() - rows.keys())  # who was removed
        self.facts, self.rows = facts, rows
        changes |= {"clients": changed} if changed else {}
        changes |= {"rows": fresh} if fresh else {}
        changes |= {"notes": notes} if notes else {}
        return changes

    def whole(self) -> dict[str, Any]:
        """Everything."""
        history = {"rows": list(self.history.rows), "notes": self.history.notes}
        return {"about": self.about, **self.facts, "clients": self.rows, **history}

    def stop(self) -> None:
        """The server stops cleanly."""
        self._note("stop", "the server was stopped")
        self.history.close()

    def _seat(self, s: Snapshot) -> None:
        """Of who has taken a seat since the last look nothing is known."""
        more = len(s.ids) - len(self._ids)
        if more:
            self._ids = np.concatenate([self._ids, np.full(more, -2)])
            self._gone = np.concatenate([self._gone, np.zeros(more, bool)])
            self._mark, self._back = (
                np.concatenate([old, np.zeros(more)]) for old in (self._mark, self._back)
            )
        new = self._ids != s.ids
        self._gone[new], self._mark[new], self._back[new] = False, 0.0, -BACK
        self._ids = s.ids

    def _note(self, kind: str, text: str) -> None:
        self.history.add(notes=[Note(int(time()), self.watch.latest.n, kind, text)])

    def _warnings(self, snapshot: Snapshot) -> list[Note]:
        """The history cannot be kept: show this to the operator."""
        new, self._warned = self.history.warnings[self._warned :], len(self.history.warnings)
        return [Note(int(snapshot.time), snapshot.n, "news", text) for text in new]

    def _contacts(self, snapshot: Snapshot) -> dict[int, float]:
        """Who was heard since the last record of that, if one is due."""
        if snapshot.moment < self._contacts_at + CONTACTS:
            return {}
        (new,) = np.nonzero(snapshot.heard > self._contacts_at)
        self._contacts_at = snapshot.moment
        self.history.keep(set(snapshot.ids.tolist()))
        return {int(snapshot.ids[row]): round(float(snapshot.contact[row])) for row in new}

    def _comings(self, s: Snapshot) -> list[Note]:
        """The clients that are gone and those that are back. Gone clients stay so until heard."""
        asleep = np.isin(s.ids, s.asleep)
        back = self._gone & (s.heard > self._mark) & ~asleep
        self._back[back] = s.moment
        self._gone &= ~back
        gone = self._silent(s, PATIENCE) | _left_out(s) | asleep
        gone &= ~self._gone & self._known(s) & (s.standing == MEMBER)
        self._gone |= gone
        self._mark[gone] = s.heard[gone]
        notes = []
        for kind, which, verb in (("gone", gone, "does not answer"), ("back", back, "is back")):
            if which.any():
                text = _sentence(np.sort(s.ids[which]), verb)
                notes.append(Note(int(s.time), s.n, kind, text))
        return notes

    def _silent(self, s: Snapshot, seconds: float) -> Array:
        """The clients that are asked and were not heard for too long, although they could be."""
        silent = np.zeros(len(s.heard), bool)
        if s.asked_at is None or not s.waiting:
            return silent
        rows = np.isin(s.ids, s.waiting)
        since = np.maximum(s.heard[rows], s.asked_at)
        silent[rows] = (s.moment - since >= seconds) & ~_excused(s)[rows]
        return silent

    def _known(self, s: Snapshot) -> Array:
        """The clients that were ever heard; others cannot be gone."""
        known = (s.heard >= 0) | (s.accepted_at >= 0)
        known |= np.isin(s.ids, list(self.history.contacts))
        return known & (s.ids >= 0)

    def _facts(self, s: Snapshot) -> dict[str, Any]:
        """What is not about one client."""
        row = self.history.rows[-1] if self.history.rows else None
        waited = np.sort(s.ids[self._silent(s, RETRY)])
        return {
            "n": s.n,
            "start": self.watch.server.coordinator.incarnation,
            "connected": s.connected,
            "trouble": s.trouble,
            "reconnects": max(s.connects - 1, 0),
            "mse": row.mse if row else None,
            "up": s.traffic[0],
            "down": s.traffic[1],
            "closed": row.time if row else None,
            "waiting": [int(k) for k in waited],
            "counts": s.counts,
            "alarms": s.alarms,
            "quarantined": _held(s),
            "asleep": len(s.asleep),
            "seen": summary(s.errors.values()),
            "ignored": s.ignored,
            "logins": s.logins,
            "certificates": s.certificates,
            "epsilon": self._epsilon(s),
            "reasons": {reason: count for reason, count in s.reasons.items() if count},
        }

    def _epsilon(self, s: Snapshot) -> list[float] | None:
        """The most that a client can have spent of its budget, and the budget; None: there is none.

        A client spends when it answers, also if the answer is late or lost.
        """
        noise = self.watch.server.coordinator.server.method.noise
        if noise is None:
            return None
        asked = int((s.accepted + s.refused + s.lost).max(initial=0))
        return [round(noise.epsilon(asked), 4), round(noise.planned, 4)]

    def _rows(self, s: Snapshot) -> dict[int, list[Any]]:
        contact, ids = np.round(s.contact).astype(np.int64).tolist(), s.ids.tolist()
        seen = [
            when if when > 0 else self.history.contacts.get(k)
            for k, when in zip(ids, contact, strict=True)
        ]
        counts = (a.tolist() for a in (s.accepted, s.refused, s.lost, s.accepted_at))
        table = list(zip(self._states(s), seen, *counts, strict=True))
        return {
            k: [*table[row], *s.refusals.get(k, ("", 0)), _share(s.coverage.get(k)),
                s.dropped.get(k, 0), *_judged(s, row), *_told(s.errors.get(k))]
            for row, k in sorted(enumerate(ids), key=lambda pair: pair[1])
            if s.standing[row] not in (VACANT, REMOVED)
        }  # fmt: skip

    def _states(self, s: Snapshot) -> list[str]:
        states = np.full(len(s.heard), NOW, object)
        states[~self._known(s)] = FRESH
        states[s.moment - self._back < BACK] = RETURNED
        states[self._silent(s, RETRY)] = WAITED
        states[np.isin(s.ids, list(s.refusals))] = REFUSED
        if s.opinion is not None:
            states[np.flatnonzero(s.opinion.quarantined)] = HELD
        states[self._gone] = GONE
        states[s.standing != MEMBER] = OUT
        found: list[str] = states.tolist()
        return found


def _share(told: tuple[int, int] | None) -> float | None:
    """The share of labels that were inside their interval, if the client tells it."""
    return None if told is None else round(told[1] / told[0], 4)


def _judged(s: Snapshot, row: int) -> tuple[float | None, float | None, bool, str]:
    """What the defence thinks of a client: score, clipped, quarantined, why."""
    if s.opinion is None:
        return None, None, False, ""
    o = s.opinion
    if row >= len(o.score):
        return None, None, False, ""  # it has joined within the last second
    score, clipped = round(float(o.score[row]), 1), round(float(o.clipped[row]), 2)
    return score, clipped, bool(o.quarantined[row]), o.reason[row]


def _held(s: Snapshot) -> list[int]:
    if s.opinion is None:
        return []
    found: list[int] = sorted(s.ids[np.flatnonzero(s.opinion.quarantined)].tolist())
    return found


def _told(report: Report | None) -> tuple[float | None, int | None, int | None]:
    """What a client tells of itself: its error in dB, from how many labels, samples refused."""
    if report is None:
        return None, None, None
    return round(report.decibels, 2), report.labels, report.refused


def _left_out(s: Snapshot) -> Array:
    """Clients whose last round closed without them, and that were not heard since."""
    return (s.lost_at > s.accepted_at) & (s.heard <= s.missed) & ~((s.missed > 0) & _excused(s))


def _excused(s: Snapshot) -> Array:
    """Clients that may still reconnect to a broker that was away, e.g. after a server start."""
    return (s.heard < s.connected_at) & (s.moment < s.connected_at + GRACE)


def _sentence(clients: Sequence[int] | Array, verb: str) -> str:
    names = ", ".join(map(str, clients[:NAMED]))
    if len(clients) == 1:
        return f"client {names} {verb}"
    verb = verb.replace("does not", "do not").replace("is ", "are ")
    more = f" and {len(clients) - NAMED} more" if len(clients) > NAMED else ""
    return f"clients {names}{more} {verb}"
