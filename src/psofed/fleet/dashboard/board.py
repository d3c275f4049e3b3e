"""Board: what a dashboard shows, read from the server's own state by the server's own thread.

A reader leaves a request, and the loop answers it between two messages. So the figures fit each
other, nothing is computed while nobody looks, and no result depends on who does.
"""

from __future__ import annotations

import math
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic, time
from typing import Any

import numpy as np

from psofed.fleet.identity import days
from psofed.fleet.protocol.confidence import summary
from psofed.fleet.protocol.durable import Closed
from psofed.fleet.protocol.members import MEMBER, REMOVED, VACANT
from psofed.fleet.server_loop import HEARD, RETRY, ServerLoop
from psofed.stages.noise import noise_in

PATIENCE = 3 * RETRY  # seconds without an answer after which a client counts as gone
ROUNDS, NOTES = 500, 200  # the newest are kept, in memory
LONGEST = 500  # characters of a note
WAIT = 2.0  # seconds that a reader waits for the loop; after that it gets what was shown last
COLUMNS = (
    "state", "contact", "accepted", "refused", "lost", "last", "reason", "messages", "coverage",
    "dropped", "score", "clipped", "quarantined", "why", "error", "unlearned",
    "trusted", "learned", "sensor",
)  # fmt: skip
STATES = ("ok", "new", "waited", "gone", "refused", "quarantined", "silent", "stuck", "excluded")
NEVER = -1.0


class Board:
    """Belongs to the thread of the server's loop, except `ask`."""

    def __init__(self, server: ServerLoop, rounds: int | None = None, targets: str = "") -> None:
        """`targets` says what the MSE of the server is of, if known."""
        self.server = server
        plan = server.coordinator.plan
        self.about = {
            "run": plan.deploy.run,
            "method": plan.experiment.methods[plan.deploy.method or 0].title(),
            "clock": plan.deploy.clock,
            "cohort": plan.experiment.cohort,
            "rounds": rounds,
            "targets": targets,
            "deadline": server.deadline,
            "columns": COLUMNS,
        }
        self._rounds: deque[tuple[int, float | None, int, int]] = deque(maxlen=ROUNDS)
        self._notes: deque[tuple[int, int, str]] = deque(maxlen=NOTES)
        self._closed: int | None = None  # when the last round was
        self._heard: dict[int, tuple[float, int]] = {}  # monotonic, and of the wall clock
        self._missed: dict[int, float] = {}  # when a round last closed without the client
        self._refused: dict[int, tuple[str, int]] = {}  # the last reason, and how many messages
        self._asked: SimpleQueue[Future[dict[str, Any]]] = SimpleQueue()
        self._latest = self._state()
        server.on_message, server.on_tick = self.message, self.tick

    def ask(self) -> dict[str, Any]:
        """All that there is to see, ready for JSON. For other threads than that of the loop."""
        asked: Future[dict[str, Any]] = Future()
        self._asked.put(asked)
        with suppress(TimeoutError):
            return asked.result(WAIT)
        return self._latest

    def tick(self) -> None:
        """Answer those who have asked."""
        if self._asked.empty():
            return
        waiting = [self._asked.get() for _ in range(self._asked.qsize())]
        self._latest = self._state()
        for asked in waiting:
            asked.set_result(self._latest)

    def message(self, k: int, outcome: str) -> None:
        """A message of client k, and its outcome."""
        if k not in self.server.coordinator.server.table:
            return
        if outcome != "mac":  # of that one nobody knows who sent it
            self._heard[k] = monotonic(), round(time())
        if outcome not in HEARD:
            self._refused[k] = outcome, self._refused.get(k, ("", 0))[1] + 1
        elif outcome == "accepted":
            self._refused.pop(k, None)

    def note(self, text: str) -> None:
        """A line for the operator."""
        self._notes.append((int(time()), self.server.coordinator.n, text[:LONGEST]))

    def close(self, closed: Closed, mse: float | None) -> None:
        """A round was committed."""
        server = self.server.coordinator.server
        self._missed |= dict.fromkeys(closed.missing, monotonic())
        known = mse if mse is not None and math.isfinite(mse) else None
        self._rounds.append((closed.n, known, closed.up, closed.down))
        self._closed = int(time())
        for seen in (self._heard, self._missed, self._refused):
            if len(seen) > len(server.table):  # some have been removed
                for k in [k for k in seen if k not in server.table]:
                    del seen[k]

    def _state(self) -> dict[str, Any]:
        loop, status, coordinator = self.server, self.server.status, self.server.coordinator
        ledger, link = coordinator.server.ledger, loop.link
        gone, waited = self._silent()
        clients, dropped = self._clients(gone, waited), link.inbox.dropped.copy()
        up, down = coordinator.server.now.traffic.tolist()
        return {
            "about": self.about,
            "time": time(),
            "n": coordinator.n,
            "start": coordinator.incarnation,
            "connected": status.connected,
            "trouble": status.trouble,
            "reconnects": max(status.connects - 1, 0),
            "mse": self._rounds[-1][1] if self._rounds else None,
            "up": up,
            "down": down,
            "closed": self._closed,
            "waiting": sorted(waited),
            "counts": ledger.counts.copy(),
            "reasons": {reason: count for reason, count in ledger.reasons.items() if count},
            "alarms": loop.alarms.on.copy(),
            "quarantined": [k for k, row in clients.items() if row[COLUMNS.index("quarantined")]],
            "silence": loop.sensors.silence,
            "samples": loop.sensors.learned,
            "blanks": coordinator.blanks.total(),
            "asleep": 0 if loop.timeouts is None else len(loop.timeouts.asleep),
            "seen": summary(coordinator.reports.values()),
            "ignored": {"dropped": dropped.total(), "retained": link.retained,
                        "oversized": link.oversized},
            "certificates": days(link.ends),
            "epsilon": self._epsilon(),
            "clients": clients,
            "names": {k: name for k, name in coordinator.names.known().items() if k in clients},
            "rows": list(self._rounds),
            "notes": list(self._notes),
        }  # fmt: skip

    def _epsilon(self) -> list[float] | None:
        """The most that a client can have spent of its budget, and the budget; None: there is none.

        A client spends when it answers, also if the answer is late or lost.
        """
        server = self.server.coordinator.server
        noise, ledger = noise_in(server.method), server.ledger
        if noise is None:
            return None
        asked = int((ledger.accepted + ledger.refused + ledger.lost).max(initial=0))
        found = [noise.epsilon(asked), noise.planned]
        found += [noise.measurement] * (noise.measurement > noise.planned)  # in several samples
        return [round(each, 4) for each in found]

    def _clients(self, gone: set[int], waited: set[int]) -> dict[int, list[Any]]:
        """By client, in their order: a row of COLUMNS."""
        coordinator = self.server.coordinator
        table, ledger = coordinator.server.table, coordinator.server.ledger
        counts = [a.tolist() for a in (ledger.accepted, ledger.refused, ledger.lost)]
        last, dropped = ledger.accepted_at.tolist(), self.server.link.inbox.dropped
        found, sensors = {}, self.server.sensors.of
        for row in np.argsort(table.ids, kind="stable").tolist():
            k, standing = int(table.ids[row]), table.status[row]
            if standing in (VACANT, REMOVED):
                continue
            opinion, heard = self._opinion(row), self._heard.get(k)
            state = "ok" if heard or last[row] >= 0 else "new"
            if standing != MEMBER:
                state = "excluded"
            elif k in gone and state == "ok":  # who was never heard is not gone
                state = "gone"
            elif opinion[2]:
                state = "quarantined"
            elif k in self._refused:
                state = "refused"
            elif (sensor := sensors.get(k)) is not None and sensor.state[0]:
                state = sensor.state[0]
            elif k in waited:
                state = "waited"
            seen, report = None if heard is None else heard[1], coordinator.reports.get(k)
            sensor = sensors.get(k)
            skipped = report.refused if report else sensor and sensor.skipped
            found[k] = [
                state, seen, *(count[row] for count in counts), last[row],
                *self._refused.get(k, ("", 0)), report and report.coverage, dropped[k], *opinion,
                report and round(report.decibels, 2), skipped, report and report.trusted,
                sensor and sensor.learned, sensor.state[1] if sensor else "",
            ]  # fmt: skip
        return found

    def _silent(self) -> tuple[set[int], set[int]]:
        """The clients that count as gone, and all that are waited for.

        Gone are those who were put to sleep, who are waited for too long, or without whom their
        last round was closed.
        """
        loop, now, server = self.server, monotonic(), self.server.coordinator.server
        gone = set() if loop.timeouts is None else set(loop.timeouts.asleep)
        waited = set()
        asked = now if loop.status.asked_at is None else loop.status.asked_at
        for k in loop.coordinator.missing:
            silent = now - max(self._heard.get(k, (NEVER, 0))[0], asked)
            if silent >= RETRY:
                waited.add(k)
                gone |= {k} if silent >= PATIENCE else set()
        left_out = server.ledger.lost_at > server.ledger.accepted_at
        for k in server.table.ids[np.flatnonzero(left_out)].tolist():
            if self._heard.get(k, (NEVER, 0))[0] <= self._missed.get(k, 0.0):
                gone.add(k)
        return gone, waited

    def _opinion(self, row: int) -> tuple[float | None, float | None, bool, str]:
        """What the defence thinks of a client: score, clipped, quarantined, why."""
        o = self.server.status.opinion
        if o is None or row >= len(o.score):  # there is none, or it has joined within this second
            return None, None, False, ""
        score, clipped = round(float(o.score[row]), 1), round(float(o.clipped[row]), 2)
        return score, clipped, bool(o.quarantined[row]), o.reason[row]
