"""Timeouts: which clients are waited for, which are asleep, when those are probed (rule 9).

It knows times of the monotonic clock and nothing else; the server's loop does what it says.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

LEAST = 3.0  # seconds that every client has to answer, unless others are stated
HURRY = 0.5  # the same while others fall asleep: where one is gone, there may be more
ALERT = 30.0  # seconds that this lasts after the last one
USUALLY = 4.0  # times as long as it usually takes: so long a client is waited for
SHARE = 0.25  # of the newest answer in what is usual
HOLD, DRAG = 10.0, 0.1  # seconds for which one client may hold rounds up, and the share of all time
PROBE, LONGEST = 10.0, 600.0  # seconds until a client that is asleep is probed: first, and at most


@dataclass
class Sleeper:
    """A client that is asleep."""

    asked: float  # when it was asked what it has not answered
    wait: float  # seconds to the probe after the next one
    probe: float  # when it is probed
    heed: float  # a hello before this time does not wake it
    until: float = 0.0  # nothing wakes it before this time


@dataclass
class Timeouts:
    """Who was asked when, who has answered, who is asleep."""

    patience: float | None = None  # seconds; None: by what is usual in the fleet
    asleep: dict[int, Sleeper] = field(default_factory=dict)
    _asked: dict[int, float] = field(default_factory=dict)  # when, by who has not answered since
    _usual: dict[int, float] = field(default_factory=dict)  # seconds to an answer, by client
    _fleet: float | None = None  # the median of these, which no minority can move far
    _pace: float = 0.0  # from when on the open round takes longer than it would anyway
    _held: dict[int, tuple[float, float]] = field(default_factory=dict)  # seconds of whom, since
    _alert: float = -ALERT  # when somebody fell asleep
    _sleeps: dict[int, int] = field(default_factory=dict)  # how often since the last answer

    def begin(self, now: float, every: float) -> None:
        """A round is opened, and is to take so many seconds at least."""
        for k in self._asked:
            self._charge(k, now)
        self._pace = now + every

    def ask(self, clients: Iterable[int], now: float) -> None:
        """These have been asked; a question that is repeated is the same one."""
        for k in clients:
            if k not in self.asleep:
                self._asked.setdefault(k, now)

    def hear(self, k: int, outcome: str, now: float) -> bool:
        """A message of client k that is not refused, or only late; whether it wakes."""
        sleeper = self.asleep.get(k)
        if outcome in ("accepted", "late"):
            self._charge(k, now)
            asked = self._asked.pop(k, None) if sleeper is None else sleeper.asked
            if asked is not None:
                usual = self._usual.get(k, now - asked)
                self._usual[k] = (1 - SHARE) * usual + SHARE * (now - asked)
            self._sleeps.pop(k, None)
        if sleeper is None or now < sleeper.until:
            return False  # a hello alone is no answer
        if outcome == "ahead":  # it is there, but cannot answer yet
            sleeper.wait = PROBE
            sleeper.probe = min(sleeper.probe, now + PROBE)
        if outcome == "ahead" or (outcome == "hello" and now < sleeper.heed):
            return False
        del self.asleep[k]
        return True

    def limit(self, now: float) -> float:
        """Seconds that every client has to answer."""
        if self.patience is not None:
            return self.patience
        if not self._usual:
            return LEAST
        self._fleet = median(self._usual.values())
        return max(HURRY if now < self._alert + ALERT else LEAST, USUALLY * self._fleet)

    def held(self, k: int, now: float) -> float:
        """Seconds for which client k has held rounds up, of which a tenth of all time is forgiven.

        It does so when the pace of the rounds, and a few times what is usual, are over.
        """
        seconds, since = self._held.get(k, (0.0, now))
        before = max(seconds - DRAG * (now - since), 0.0)
        if k not in self._asked or self._fleet is None or self.patience is not None:
            return before
        return before + max(now - max(self._pace, self._asked[k] + USUALLY * self._fleet), 0.0)

    def _charge(self, k: int, now: float) -> None:
        self._held[k] = self.held(k, now), now

    def overdue(self, now: float) -> list[int]:
        """Those who have been silent for too long, now or in many rounds together."""
        limit, asked = self.limit(now), self._asked.items()
        usual = self._usual if self.patience is None else {}  # who is slow is not hurried
        slow = {k: min(LEAST, USUALLY * seconds) for k, seconds in usual.items()}
        late = {k for k, t in asked if now >= t + max(limit, slow.get(k, 0.0))}
        return [k for k, _ in asked if k in late or self.held(k, now) > HOLD]

    def put_to_sleep(self, clients: Iterable[int], now: float) -> None:
        """These are asleep. Who is so again without an answer between needs longer to wake.

        Who has held rounds up for too long sleeps until that is a tenth of the time.
        """
        for k in clients:
            held = self.held(k, now)
            self._held[k] = held, now
            until = now + held / DRAG if held > HOLD else 0.0
            self._alert = self._alert if until else now
            times = self._sleeps[k] = self._sleeps.get(k, 0) + 1
            wait = min(PROBE * 2 ** min(times - 1, 10), LONGEST) * random.uniform(1.0, 1.2)
            heed = now if times == 1 else now + wait
            probe = max(now + wait, until)
            self.asleep[k] = Sleeper(self._asked.pop(k), wait, probe, heed, until)

    def due(self, now: float) -> list[int]:
        """Those who are to be probed now; the next time after twice as long."""
        found = [k for k, sleeper in self.asleep.items() if now >= sleeper.probe]
        for k in found:
            sleeper = self.asleep[k]
            sleeper.wait = min(2 * sleeper.wait, LONGEST * random.uniform(1.0, 1.2))
            sleeper.probe = now + sleeper.wait
        return found

    def pause(self) -> None:
        """Without a broker nobody can answer: that time does not count."""
        self._asked.clear()

    def forget(self, members: Iterable[int]) -> None:
        """All but these have left."""
        here = set(members)
        for table in (self._asked, self._usual, self._held, self._sleeps, self.asleep):
            for k in [k for k in table if k not in here]:
                del table[k]
