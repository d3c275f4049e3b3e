"""Guesses: wrong tokens, by where they come from; who gives too many is not listened to."""

from __future__ import annotations

import ipaddress
import threading
from collections import OrderedDict
from time import monotonic

DELAY = 1.0  # seconds that the reply to a wrong token takes
SLEEPERS = 16  # such replies that may wait at once; each holds a thread
MOST, WINDOW = 10, 60.0  # wrong tokens from one address in so many seconds
ADDRESSES = 10_000  # that are remembered


class Guesses:
    """Counts wrong tokens. Used by the threads of all connections."""

    def __init__(self) -> None:
        self.total = 0
        self.last = ""  # the address of the last one
        self.sleepers = threading.Semaphore(SLEEPERS)
        self._lock = threading.Lock()
        self._found: OrderedDict[str, list[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """A wrong token from this address."""
        with self._lock:
            self.total, self.last = self.total + 1, address
            times = self._found.setdefault(_household(address), [])
            times[:] = [*_recent(times), monotonic()]
            self._found.move_to_end(_household(address))
            while len(self._found) > ADDRESSES:
                self._found.popitem(last=False)

    def too_many(self, address: str) -> bool:
        """Whether this address has to wait before it may try again."""
        with self._lock:
            return len(_recent(self._found.get(_household(address), []))) >= MOST


def _recent(times: list[float]) -> list[float]:
    now = monotonic()
    return [when for when in times if now - when < WINDOW]


def _household(address: str) -> str:
    """An IPv6 network of one customer is one address: it has 2^64 of them.

    >>> _household("2001:db8::1") == _household("2001:db8::2"), _household("192.0.2.1")
    (True, '192.0.2.1')
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if found.version == 4:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False))
