"""One client: it learns from its own stream, for ever, and takes part when it is invited."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.deploy.server import BOUND, RefusedError
from psofed.methods.contract import Message, Method

Array = NDArray[Any]
BLOCK = 32  # samples whose features are computed at once


class Source(Protocol):
    """Samples by number: x [count, L] and y [count] of samples start..stop-1."""

    def __call__(self, start: int, stop: int) -> tuple[Array, Array]: ...


class Client:
    """The handlers of client k.

    With a source, sample n belongs to round n (the lockstep clock). Without one, samples come
    through `learn` whenever there are some, and rounds come when they come (the live clock).
    """

    def __init__(
        self, method: Method, k: int, source: Source | None = None, bound: float = BOUND
    ) -> None:
        self.method, self.k, self.source, self.bound = method, k, source, bound
        self.state = method.client(k)
        self.position = 0  # the next sample to learn from
        self._last: tuple[int, bytes] | None = None

    @property
    def last_round(self) -> int:
        """The last round in which this client took part, or -1."""
        return -1 if self._last is None else self._last[0]

    def catch_up(self, n: int) -> None:
        """Learn from the samples before round n that have not been learned from."""
        if self.method.idle:
            self._learn(self.position, n)
        self.position = max(self.position, n)

    def take_part(self, n: int, invitation: bytes) -> bytes:
        """Rule 5, round n: receive, learn, answer. Asked again for the same round, it repeats."""
        if self._last is not None and self._last[0] == n:
            return self._last[1]
        if n < self.last_round or (self.source and n < self.position):
            found = f"round {n} is over: client {self.k} is at sample {self.position}"
            raise RefusedError("late", found)
        message = self._read(n, invitation)
        method = self.method
        if self.source:
            self.catch_up(n)
        method.receive(self.state, self.k, n, message)
        if self.source:
            self._learn(n, n + 1)
            self.position = n + 1
        upload = method.upload(self.state, self.k, n)
        with np.errstate(over="ignore"):  # what does not fit the wire format is refused there
            answer = b"" if upload is None else method.encode(upload, up=True)
        self._last = (n, answer)
        return answer

    def _read(self, n: int, invitation: bytes) -> Message:
        """Rule 11, for what comes down: whole and finite, or not at all."""
        sizes = self._sizes(n)
        if len(invitation) not in sizes:
            found = f"{len(invitation)} bytes came for round {n}, not"
            raise RefusedError("size", f"{found} {' or '.join(map(str, sorted(sizes)))}")
        if not invitation:
            return None
        try:
            message = self.method.decode(invitation, up=False)
        except (ValueError, IndexError) as error:
            raise RefusedError("size", f"useless values came for round {n}: {error}") from None
        if self.method.peers:
            return message  # a neighbour that was not heard is not a number
        if not np.isfinite(message).all() or np.abs(message).max(initial=0) > self.bound:
            raise RefusedError("finite", f"values came for round {n} that are not finite or huge")
        return message

    def _sizes(self, n: int) -> set[int]:
        """Bytes that can come down in round n."""
        lengths, encode = self.method.downloads(self.k, n), self.method.encode
        return {0 if m is None else len(encode(np.zeros(m), up=False)) for m in lengths}

    def _learn(self, start: int, stop: int) -> None:
        if self.source is not None:
            for begin in range(start, stop, BLOCK):
                self._steps(*self.source(begin, min(begin + BLOCK, stop)))

    def learn(self, x: Array, y: Array) -> None:
        """Eq. (10) for samples x [count, L] and y [count] that have just arrived."""
        for begin in range(0, len(y), BLOCK):
            self._steps(x[begin : begin + BLOCK], y[begin : begin + BLOCK])
        self.position += len(y)

    def _steps(self, x: Array, y: Array) -> None:
        z = self.method.task.features(x)
        for i in range(len(y)):
            self.method.learn(self.state, x[i], z[i], y[i])

    def predict(self, x: Array) -> Array:
        """Eq. (2): w_k^T z(x) with the client's own model, whoever can be reached or not."""
        w = self.method.own(self.state)
        if w is None:
            raise RefusedError("model", "clients of this method have no model to answer with")
        values: Array = self.method.task.features(x) @ w
        return values

    def to_arrays(self) -> dict[str, Array]:
        """What is stored before an answer leaves: state, position, round and answer."""
        n, answer = self._last or (-1, b"")
        state = {f"state.{name}": array for name, array in self.state.items()}
        numbers = np.array([self.position, n], np.int64)
        return {"numbers": numbers, "answer": np.frombuffer(answer, np.uint8), **state}

    def restore(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`."""
        self.position, n = (int(number) for number in arrays["numbers"])
        self._last = None if n < 0 else (n, arrays["answer"].tobytes())
        self.state = {name: arrays[f"state.{name}"] for name in self.state}
