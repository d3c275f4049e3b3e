"""One client: it learns from its own stream, for ever, and takes part when it is invited."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from psofed.methods.contract import Method

Array = NDArray[Any]
BLOCK = 32  # samples whose features are computed at once


class Source(Protocol):
    """Samples by number: x [count, L] and y [count] of samples start..stop-1."""

    def __call__(self, start: int, stop: int) -> tuple[Array, Array]: ...


class Client:
    """The handlers of client k. Sample n belongs to round n (the lockstep clock)."""

    def __init__(self, method: Method, k: int, source: Source) -> None:
        self.method, self.k, self.source = method, k, source
        self.state = method.client(k)
        self.position = 0  # the next sample to learn from
        self._last: tuple[int, bytes] | None = None

    def catch_up(self, n: int) -> None:
        """Learn from the samples before round n that have not been learned from."""
        if self.method.idle:
            self._learn(self.position, n)
        self.position = max(self.position, n)

    def take_part(self, n: int, invitation: bytes) -> bytes:
        """Round n: receive, learn, answer. Asked again for the same round, it repeats itself."""
        if self._last is not None and self._last[0] == n:
            return self._last[1]
        if n < self.position:
            raise ValueError(f"round {n} is over: client {self.k} is at sample {self.position}")
        method = self.method
        self.catch_up(n)
        method.receive(
            self.state, self.k, n, method.decode(invitation, up=False) if invitation else None
        )
        self._learn(n, n + 1)
        self.position = n + 1
        message = method.upload(self.state, self.k, n)
        answer = b"" if message is None else method.encode(message, up=True)
        self._last = (n, answer)
        return answer

    def _learn(self, start: int, stop: int) -> None:
        for begin in range(start, stop, BLOCK):
            x, y = self.source(begin, min(begin + BLOCK, stop))
            z = self.method.task.features(x)
            for i in range(len(y)):
                self.method.learn(self.state, x[i], z[i], y[i])
