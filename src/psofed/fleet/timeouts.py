"""Timeouts: which clients are waited for, which are asleep, when those are probed (rule 9).

It knows times of the monotonic clock and nothing else; the server's loop does what it says.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

LEAST = 3.0  # seconds that every client has to answer, unless others are stated
HURRY = 0.5  # the same while others fall asleep: where one is gone, there may be more
ALERT = 30.0  # seconds that this lasts after the last one
USUALLY = 4.0  # times as long as it usually takes: so long a client is waited for
SHARE = 0.25  # of the newest answer in what is usual
NAMED = 5  # clients that a line names
PROBE, LONGEST = 10.0, 600.0  # seconds until a client that is asleep is probed: first, and at most


@dataclass
class Sleeper:
    """A client that is asleep."""

    asked: float  # when it was asked what it has not answered
    wait: float  # seconds to the probe after the next one
    probe: float  # when it is probed
    heed: float  # a hello before this time does not wake it


@dataclass
class Timeouts:
    """Who was asked when, who has answered, who is asleep."""

    patience: float | None = None  # seconds; None: by what is usual for the client
    asleep: dict[int, Sleeper] = field(default_factory=dict)
    _asked: dict[int, float] = field(default_factory=dict)  # when, and nothing was heard since
    _usual: dict[int, float] = field(default_factory=dict)  # seconds to an answer, by client
    _fleet: float | None = None  # the same of all
    _alert: float = -ALERT  # when somebody fell asleep
    _sleeps: dict[int, int] = field(default_factory=dict)  # how often since the last answer

    def ask(self, clients: Iterable[int], now: float) -> None:
        """These have been asked; a question that is repeated is the same one."""
        for k in clients:
            if k not in self.asleep:
                self._asked.setdefault(k, now)

    def hear(self, k: int, outcome: str, now: float) -> bool:
        """A message of client k that is not refused, or only late; whether it wakes."""
        sleeper = self.asleep.get(k)
        if outcome in ("accepted", "late"):
            asked = self._asked.pop(k, None) if sleeper is None else sleeper.asked
            if asked is not None:
                self._usual[k] = _mean(self._usual.get(k), now - asked)
                self._fleet = _mean(self._fleet, now - asked)
            self._sleeps.pop(k, None)
        if sleeper is None:
            return False  # a hello alone is no answer
        if outcome == "ahead":  # it is there, but cannot answer yet
            sleeper.wait = PROBE
            sleeper.probe = min(sleeper.probe, now + PROBE)
        if outcome == "ahead" or (outcome == "hello" and now < sleeper.heed):
            return False
        del self.asleep[k]
        return True

    def limit(self, k: int, now: float) -> float:
        """Seconds that client k has to answer."""
        if self.patience is not None:
            return self.patience
        usual = self._usual.get(k, self._fleet)
        if usual is None:
            return LEAST
        return max(HURRY if now < self._alert + ALERT else LEAST, USUALLY * usual)

    def overdue(self, now: float) -> list[int]:
        """Those who have been silent for too long."""
        return [k for k, asked in self._asked.items() if now >= asked + self.limit(k, now)]

    def put_to_sleep(self, clients: Iterable[int], now: float) -> None:
        """These are asleep. Who is so again without an answer between needs longer to wake."""
        for k in clients:
            self._alert = now
            times = self._sleeps[k] = self._sleeps.get(k, 0) + 1
            wait = min(PROBE * 2 ** min(times - 1, 10), LONGEST) * random.uniform(1.0, 1.2)
            heed = now if times == 1 else now + wait
            self.asleep[k] = Sleeper(self._asked.pop(k), wait, now + wait, heed)

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
        for table in (self._asked, self._usual, self._sleeps, self.asleep):
            for k in [k for k in table if k not in here]:
                del table[k]


def _mean(usual: float | None, seconds: float) -> float:
    return seconds if usual is None else (1 - SHARE) * usual + SHARE * seconds


def clients_in_words(clients: Iterable[int]) -> str:
    """The first few by number, and how many more there are."""
    found = sorted(clients)
    named = ", ".join(map(str, found[:NAMED]))
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"client{'s' if len(found) > 1 else ''} {named}{more}"
