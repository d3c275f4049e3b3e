"""Sensors: which clients answer, but have learned nothing for longer than is usual for them.

It knows times of the monotonic clock and the signs of answers; alarms and dashboard show what it
says, and no result depends on it. A server that has just started knows nobody yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from psofed.federation.progress import duration
from psofed.fleet.protocol.signs import ENDED, EXPIRY, STUCK, Signs

LEAST = 60.0  # seconds without a new sample that are never too long
USUALLY = 3.0  # times the usual time between two answers with new samples: so long is fine
UNKNOWN = 7200.0  # seconds for who is not known yet
SHARE = 0.25  # of the newest time in what is usual
SAME = "the label stays the same while inputs change"


@dataclass
class Sensor:
    """What one client has said of its samples."""

    fresh: float  # when an answer last had new samples
    heard: float  # when the last answer came
    usual: float | None = None  # seconds between answers with new samples
    learned: int = 0
    skipped: int = 0
    wrong: int = 0

    def hear(self, signs: Signs, now: float) -> None:
        """An answer. An outage is not usual, however long it was."""
        self.heard, self.wrong = now, signs.wrong
        self.learned += signs.learned
        self.skipped += signs.skipped
        if signs.learned:
            gap = min(now - self.fresh, self.limit)
            self.usual = gap if self.usual is None else (1 - SHARE) * self.usual + SHARE * gap
            self.fresh = now

    @property
    def limit(self) -> float:
        """Seconds without new samples that are fine."""
        return UNKNOWN if self.usual is None else max(LEAST, USUALLY * self.usual)

    @property
    def silence(self) -> float:
        """Seconds for which it has said that there is nothing new, if that is too long; or 0."""
        found = self.heard - self.fresh
        return found if found > self.limit else 0.0

    @property
    def state(self) -> tuple[str, str]:
        """What is wrong with it, in a word and in words; empty: nothing."""
        if self.wrong & ENDED:
            return "silent", "its samples have ended"
        if seconds := self.silence:
            return "silent", f"nothing learned for {duration(seconds)}"
        return ("stuck", SAME) if self.wrong & STUCK else ("", "")


@dataclass
class Sensors:
    """Those of all clients that have answered since this start."""

    of: dict[int, Sensor] = field(default_factory=dict)
    learned: int = 0  # samples, also of clients that have left

    def hear(self, k: int, signs: Signs, now: float) -> None:
        """The signs in an answer of client k."""
        self.learned += signs.learned
        self.of.setdefault(k, Sensor(now, now)).hear(signs, now)

    @property
    def silence(self) -> float:
        """Seconds for which nobody has learned anything, if that is too long; or 0."""
        if not self.of:
            return 0.0
        sensors = self.of.values()
        usual = [sensor.usual for sensor in sensors if sensor.usual is not None]
        limit = max(LEAST, USUALLY * median(usual)) if usual else UNKNOWN
        found = max(sensor.heard for sensor in sensors) - max(sensor.fresh for sensor in sensors)
        return found if found > limit else 0.0

    @property
    def faults(self) -> dict[int, str]:
        """By client: what is wrong with its sensor."""
        return {k: words for k, sensor in self.of.items() if (words := sensor.state[1])}

    @property
    def expiring(self) -> list[int]:
        """Clients whose certificates end soon."""
        return [k for k, sensor in self.of.items() if sensor.wrong & EXPIRY]

    def forget(self, members: Iterable[int]) -> None:
        """All but these have left."""
        here = set(members)
        self.of = {k: sensor for k, sensor in self.of.items() if k in here}
