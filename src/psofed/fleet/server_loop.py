"""The server's loop: ask the cohort, collect until all have answered or the deadline, commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from psofed.fleet.alarms import Alarms, Status
from psofed.fleet.broker import STRANGER, down_topic, speaker
from psofed.fleet.mqtt import POLL, Event, Link
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.durable import Closed
from psofed.fleet.protocol.members import Names
from psofed.fleet.protocol.store import in_words
from psofed.fleet.requests import Requests
from psofed.fleet.sensors import Sensors
from psofed.fleet.timeouts import Timeouts

# Outcomes that are no refusals.
HEARD = ("hello", "accepted", "repeated", "late", "ahead", "revealed")
LOOK = 0.1  # seconds between two looks at who is overdue
STANDSTILL = 0.5  # seconds in which this loop has done nothing: answers may wait
RETRY = 1.0  # seconds after which those who have not answered are asked again
OUTSIDE = ("stranger", "excluded", "removed")  # those who are not members get a hello that says so
REPLIES = 5  # to one client in a second: its messages cannot make the server send without end

WHY = {  # what an operator can do about it
    "version": "it speaks another protocol: upgrade the end with the older psofed",
    "digest": "it runs another experiment: compare the files, and `psofed --version`",
}


@dataclass
class ServerLoop:
    """A coordinator on a link. Times are for waiting only: no result depends on them."""

    coordinator: Coordinator
    link: Link
    deadline: float | None = None  # seconds that a round waits; None: for all of the cohort
    every: float = 0.0  # seconds from one round to the next, at least
    on_close: Callable[[Closed], None] = lambda closed: None
    on_news: Callable[[str], None] = lambda line: None
    on_message: Callable[[int, str], None] = lambda k, outcome: None
    on_tick: Callable[[], None] = lambda: None  # called often, from this thread: it must not block
    requests: Requests | None = None  # where operators ask for changes
    timeouts: Timeouts | None = None  # who is waited for; None: everybody
    status: Status = field(default_factory=Status)
    alarms: Alarms = field(default_factory=Alarms)
    sensors: Sensors = field(default_factory=Sensors)
    stopped: bool = False
    _reported: dict[str, int] = field(default_factory=dict)
    _replies: dict[int, int] = field(default_factory=dict)  # by client, in this second
    _second: float = 0.0
    _looked: float = 0.0
    _moved: float = 0.0

    def run(self, rounds: int | None) -> None:
        """Run rounds until this number is committed, or until `stop`."""
        while not self.stopped and (rounds is None or self.coordinator.n < rounds):
            begun = monotonic()
            if self._collect() and self._unmask() and (closed := self._commit()) is not None:
                self.status.asked_at = None
                self._left_out(closed)
                self.on_close(closed)
                self._wait(begun + self.every)

    def _commit(self) -> Closed | None:
        """Rule 6: nothing of the next round is opened before this one is durable."""
        while not self.stopped:
            try:
                closed = self.coordinator.commit()
                self.status.disk = ""
                return closed
            except OSError as error:
                self.status.disk = in_words(error)
                self.status.asked_at = self.status.unanswered_since = None
                self._wait(monotonic() + RETRY)
        return None

    def _unmask(self) -> bool:
        """Rule 19: members of a sum that is still masked are asked for seeds, till the deadline."""
        return not self.coordinator.seal() or self._collect()

    def _left_out(self, closed: Closed) -> None:
        for k in closed.left_out:
            self.on_message(k, "masks" if closed.void else "together")
            if not closed.void:
                line = f"the answer of client {self._names(k)} is left out: {closed.why}"
                self._report("together", f"round {closed.n}: {line}")
        if closed.void:
            self._report(closed.void, f"round {closed.n} is void: {closed.void}")

    def stop(self) -> None:
        """End soon; a round that is open is not committed, and is repeated at the next start."""
        self.stopped = True  # nothing else: a signal handler must not wait for a lock

    def _collect(self) -> bool:
        """Rule 9: wait for the cohort; whether the round is to be closed."""
        self._move(monotonic())
        opened = asked = monotonic()
        if self.timeouts is not None:
            self.timeouts.begin(opened, self.every)
        self._ask()
        while self.coordinator.server.missing and not self.stopped:
            now = monotonic()
            if not self.link.up:
                opened = now  # time without a broker does not count towards the deadline
            if self.deadline is not None and now >= opened + self.deadline:
                return True
            if now >= asked + RETRY:
                self._ask()
                asked = now
            self._check_timeouts(now)
            if not self.coordinator.server.missing:  # of those who are awake, all have answered
                return True
            until = [asked + RETRY] + ([] if self.deadline is None else [opened + self.deadline])
            self._handle(self.link.get(min(max(min(until) - now, 0.0), POLL)))
        return True

    def _wait(self, until: float) -> None:
        while not self.stopped and (left := until - monotonic()) > 0:
            self._handle(self.link.get(min(left, POLL)))

    def _check_timeouts(self, now: float) -> None:
        """Rule 9: clients silent for too long are asleep; others are asked, and sleepers probed."""
        timeouts, early = self.timeouts, now < self._looked + LOOK
        if timeouts is None or early or not self.link.up or self.coordinator.server.sealed:
            return
        self._looked = now
        self._move(now)
        if silent := timeouts.overdue(now):
            timeouts.put_to_sleep(silent, now)
            verb = "does" if len(silent) == 1 else "do"
            self.on_news(f"{self._names.words(silent)} {verb} not answer, and will be asked again"
                         " when heard")  # fmt: skip
            others = self.coordinator.sleep(silent)
            timeouts.ask(others, now)
            for k in others:
                if (frame := self.coordinator.frame_for(k)) is not None:
                    self._send(k, frame)
        for k in timeouts.due(now):
            self._send(k, self.coordinator.probe(k))

    def _move(self, now: float) -> None:
        """After a standstill of this process, the silence before it means nothing."""
        if self.timeouts is not None and now > self._moved + STANDSTILL:
            self.timeouts.pause()
        self._moved = now

    def _ask(self) -> None:
        if self.link.up and not self.coordinator.held:
            if self.status.asked_at is None:
                self.status.asked_at = monotonic()
            if self.status.unanswered_since is None:
                self.status.unanswered_since = monotonic()
            frames = self.coordinator.frames()
            if self.timeouts is not None and not self.coordinator.server.sealed:
                self.timeouts.ask(frames, monotonic())
            for k, frame in frames.items():
                self._send(k, frame)

    def _send(self, k: int, frame: bytes) -> None:
        self.link.send(down_topic(self.coordinator.plan.deploy.run, k), frame)

    def _handle(self, event: Event | None) -> None:
        self._move(monotonic())
        if event is not None:
            self._react(event)
        if self.requests is not None and (named := self.requests.look(self.on_news)) is not None:
            self.sensors.forget(self.coordinator.server.table.present)
            if self.timeouts is not None:
                self.timeouts.forget(self.coordinator.server.table.present)
            for k in named:
                self._send(k, self.coordinator.hello(k))
            self._ask()
        self.alarms.look(self.status, self.link, self.coordinator, self.sensors)
        while self.alarms.news:
            self.on_news(self.alarms.news.pop(0))
        self.on_tick()

    def _react(self, event: Event) -> None:
        if event.kind == "message":
            self._message(speaker(event.topic), event.data)
            self.link.handled(event)
        elif event.kind == "up":
            self.status.connected, self.status.trouble = True, ""
            self.status.connects += 1
            self.on_news(f"connected to {self.link.address}")
            self._ask()
            if self.coordinator.server.now.behind:  # all shall say how far they are
                for k in self.coordinator.server.table.present:
                    self._send(k, self.coordinator.probe(k))
        elif event.kind == "down":
            self.status.connected = False
            self.status.asked_at = self.status.unanswered_since = None
            if self.timeouts is not None:
                self.timeouts.pause()
            if event.data != self.status.trouble:  # say it once, not at every attempt
                self.status.trouble = event.data
                self.on_news(f"no broker at {self.link.address}: {event.data}; trying again")

    def _message(self, k: int, data: bytes) -> None:
        n = self.coordinator.n
        try:
            outcome = self.coordinator.take(k, data)
        except OSError as error:  # of an old copy that could not follow its clients
            self.on_news(f"{in_words(error)}: no round that clients can answer is opened yet")
            return
        if self.coordinator.n > n:
            self.on_news(f"this is an old copy: clients are ahead of round {n}, so"
                         f" round {self.coordinator.n} is opened")  # fmt: skip
            self._ask()
        self.on_message(k, outcome)
        timeouts = self.timeouts
        heard = outcome in HEARD and not (outcome == "late" and k in self.coordinator.missing)
        if timeouts is not None and heard and timeouts.hear(k, outcome, monotonic()):
            self.coordinator.wake(k)
            self.on_news(f"client {self._names(k)} is back")
        if outcome in ("accepted", "revealed"):
            self.status.unanswered_since = None
        if outcome == "accepted" and (signs := self.coordinator.signs.get(k)) is not None:
            self.sensors.hear(k, signs, monotonic())
        if outcome in ("hello", "ahead", "digest", "version", *OUTSIDE):
            self._reply(k, outcome)
        if outcome not in HEARD:
            why = f" ({WHY[outcome]})" if outcome in WHY else ""
            self._report(outcome, f"refused a message of client {self._names(k)}: {outcome}{why}")

    @property
    def _names(self) -> Names:
        return self.coordinator.names

    def _reply(self, k: int, outcome: str) -> None:
        """An invitation to who is waited for; to others a hello, so that they can say what is
        wrong."""
        now, who = monotonic(), k if k in self.coordinator.server.table else STRANGER
        if now >= self._second + 1.0:
            self._second, self._replies = now, {}
        self._replies[who] = self._replies.get(who, 0) + 1
        if self._replies[who] <= REPLIES:
            frame = self.coordinator.frame_for(k) if outcome == "hello" else None
            if k >= 0:
                self._send(k, frame or self.coordinator.hello(k))

    def _report(self, reason: str, line: str) -> None:
        """Report the 1st, 10th, 100th, ... time of a reason, to keep the log short."""
        count = self._reported[reason] = self._reported.get(reason, 0) + 1
        if str(count).strip("0") == "1":
            self.on_news(line + (f", {count} so far" if count > 1 else ""))
