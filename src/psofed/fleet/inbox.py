"""Inbox: what has arrived and waits, with a bounded share for each speaker, taken in turn.

One client that sends a hundred thousand messages a second fills its own share only. The others
wait for one of its messages at most.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, Literal

SHARE = 16  # messages of one speaker that may wait; a client that answers needs two or three
OWN = 1_000  # events of this process that may wait: connections and their loss
STRANGER = -1  # all who are not clients share one queue


@dataclass(frozen=True)
class Event:
    """An event: a connection, its loss, a message, or what else was put into the inbox."""

    kind: Literal["up", "down", "message", "sample"]
    topic: str = ""
    data: Any = b""
    receipt: tuple[int, int] = (0, 0)  # what to acknowledge when the message is handled


class Inbox:
    """Rule 16: a queue for each speaker, and one for events of this process, which comes first."""

    def __init__(self) -> None:
        self.dropped: Counter[int] = Counter()  # by speaker: messages for which there was no room
        self._own: deque[Event] = deque(maxlen=OWN)
        self._queues: dict[int, deque[Event]] = {}
        self._turns: deque[int] = deque()  # speakers of whom something waits, the next one first
        self._ready = threading.Condition()

    def put(self, event: Event, speaker: int | None = None) -> bool:
        """Let it wait; False if the speaker's share is full. Without a speaker: our own event."""
        with self._ready:
            if speaker is None:
                self._own.append(event)
            else:
                queue = self._queues.setdefault(speaker, deque())
                if len(queue) >= SHARE:
                    self.dropped[speaker] += 1
                    return False
                if not queue:
                    self._turns.append(speaker)
                queue.append(event)
            self._ready.notify()
            return True

    def get(self, seconds: float | None) -> Event | None:
        """The next event, or None if there is none in time."""
        with self._ready:
            if not self._ready.wait_for(lambda: self._own or self._turns, seconds):
                return None
            if self._own:
                return self._own.popleft()
            speaker = self._turns.popleft()
            queue = self._queues[speaker]
            event = queue.popleft()
            if queue:
                self._turns.append(speaker)  # behind the others
            else:
                del self._queues[speaker]
            return event

    def __len__(self) -> int:
        with self._ready:
            return len(self._own) + sum(map(len, self._queues.values()))
