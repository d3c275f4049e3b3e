"""The client's half of the rounds: it learns from its own stream, and takes part when invited."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from psofed.core.native import Array as Array
from psofed.federation.clients import stacked
from psofed.federation.contract import Message, Method, nothing, rows
from psofed.federation.records import restored, taken
from psofed.federation.round import begins, opens, relays, take_part, waits
from psofed.federation.stage import LASTING, answer, answering, within
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.confidence import Confidence
from psofed.fleet.protocol.folding import BOUND
from psofed.fleet.protocol.masking import Masking
from psofed.fleet.protocol.moments import APART, Sums
from psofed.fleet.protocol.wire import RefusedError
from psofed.stages.checks import contract as check
from psofed.stages.mix import ASKED

Pair = tuple[Array, Array]  # x [count, L] and y [count]
MOST_WAITING = 1024  # samples that wait for a download; older ones are skipped, and counted
FARTHEST = 2**53  # position in a stream that a record may have
BLOCK = 32  # samples whose features are computed at once


class Source(Protocol):
    """Samples by number: x [count, L] and y [count] of start..stop-1; NaN: there is none."""

    def __call__(self, start: int, stop: int) -> tuple[Array, Array]: ...


class Client:
    """The client's half of the rounds, for client k; its state is a stack of one.

    With a source, sample n belongs to round n (the lockstep clock). Without one, samples come
    through `learn` and rounds at any time (the live clock): samples are then learned from at once
    or, if the method `waits`, after the next download. Whoever deploys it may
    give it masks for its uploads, and what learns how far its answers may be off.
    """

    def __init__(
        self, method: Method, k: int, source: Source | None = None, bound: float = BOUND
    ) -> None:
        self.method, self.k, self.source, self.bound = method, k, source, bound
        self.waits, self.relays = waits(method), relays(method)
        self.state = stacked(method.client(), 1)
        self.position = 0  # the next sample to learn from, or to wait
        self.passed = 0  # samples that were never learned from, because too many came after them
        self.waiting: Pair = _nothing(method)
        self.confidence: Confidence | None = None
        self.masking: Masking | None = None
        self.mix = answering(method)
        self.moments: Sums | None = None
        self._asked: dict[bytes, Array] = {}  # guesses of experts, until their labels come
        self._last: tuple[int, bytes] | None = None
        self._block: int | None = None  # the round in which its last block began; None: not known

    @property
    def last_round(self) -> int:
        """The last round in which this client took part, or -1."""
        return -1 if self._last is None else self._last[0]

    @property
    def checked(self) -> dict[str, int]:
        """What the check made of the samples so far: seen, learned, and refused by reason."""
        return check.found(self.state)

    @property
    def learned(self) -> int:
        """Samples learned from so far, as they were or clipped."""
        checked = self.checked
        unlearned = checked.get("seen", 0) - checked.get("learned", 0) - checked.get("clipped", 0)
        return self.position - unlearned

    @property
    def _news(self) -> int | None:
        """The same for masks; None: on the lockstep clock each round has its sample."""
        return None if self.source else self.learned

    @property
    def model(self) -> Array | None:
        """w_k, by which it answers questions; None if it has none."""
        try:
            found: Array = self.method.models(None, self.state)[0]
        except KeyError:
            return None
        return found

    def catch_up(self, n: int) -> None:
        """Learn from the samples before round n that have not been learned from."""
        if self.method.idle:
            self._replay(self.position, n)
        self.position = max(self.position, n)

    def take_part(self, n: int, invitation: bytes, begin: bool = False) -> bytes:
        """Rule 5, round n: receive, learn, answer. Asked again for the same round, it repeats.

        Who starts over (rule 17) starts from a fresh state and from what comes down.
        """
        if self._last is not None and self._last[0] == n:
            return self._last[1]
        if self.masking is not None:
            self.masking.check(n, begin, self._news)
        if n < self.last_round or (self.source and n < self.position):
            found = f"round {n} is over: client {self.k} is at sample {self.position}"
            raise RefusedError("late", found)
        message = self._read(n, invitation, begin)
        upload = self._exchange(n, message, begin)
        if self.masking is not None:
            self.masking.hear(n, invitation)
            upload = self.masking.hidden(upload, n, self._news)
        with np.errstate(over="ignore"):  # the server refuses values that do not fit
            answer = b"" if upload is None else self.method.encode(upload, up=True)
        self._last = (n, answer)
        return answer

    def forget(self) -> None:
        """It has not taken part: the server has not taken its answer."""
        self._last = None

    def _exchange(self, n: int, message: Message, begin: bool) -> Array | None:
        """Receive, learn, upload; if what came down cannot be received, nothing has happened."""
        before, received = (self.state, self.position, self._block), False
        self.state = {name: array.copy() for name, array in self.state.items()}
        if begin:
            self._begin(n)
        else:
            self._check_block(n)
            if self.source is not None:
                self.catch_up(n)

        def learn() -> None:
            nonlocal received
            received = True
            self._learn_now(n)

        k, new = np.array([self.k]), [self.k] if begin else []
        try:
            return take_part(self.method, self.state, k, n, message, learn, new).row(0)
        except (ValueError, IndexError) as error:
            if received:
                raise
            self.state, self.position, self._block = before
            if self.moments is not None:
                self.moments.rewind(self.state)
            raise RefusedError("size", f"received unusable values for round {n}: {error}") from None

    def _begin(self, n: int) -> None:
        """With nothing of what it has learned; on the lockstep clock, from sample n on."""
        fresh = stacked(self.method.client(), 1)
        last = {name: array for name, array in self.state.items() if name.startswith(LASTING)}
        self.state, self._block = fresh | last, n
        if self.moments is not None:
            self.moments.rewind(self.state)
        if self.source is not None:
            self.position = n

    def _check_block(self, n: int) -> None:
        """A block of rounds is one piece of work: who missed its beginning has no part in it."""
        begin = n - n % self.method.pace
        if begin < n and self._block not in (None, begin):
            raise RefusedError("block", f"round {n} belongs to a block that began without us")
        self._block = begin

    def _learn_now(self, n: int) -> None:
        """Sample n, on the lockstep clock; on the live one, what has waited for a download."""
        if self.source is not None:
            self._replay(n, n + 1)
            self.position = n + 1
        else:
            self._steps(*self.waiting)
            self.waiting = _nothing(self.method)

    def _read(self, n: int, invitation: bytes, begin: bool) -> Message:
        """Rule 11, for downloads: complete and finite, or refused."""
        when = begins(self.method, n) if begin else n
        asked = when != n or opens(self.method, n)
        if not invitation and not (asked and within(self.method).entrywise):
            return nothing(np.array([self.k]))
        try:
            if not asked or not invitation:
                raise ValueError(f"there must be {'some' if asked else 'none'}")
            values = self.method.decode(invitation, up=False)
        except (ValueError, IndexError) as error:
            found = f"received {len(invitation)} bytes for round {n}: {error}"
            raise RefusedError("size", found) from None
        if self.method.delivery != "peers" and not (  # there, who was not heard is not a number
            np.isfinite(values).all() and np.abs(values).max(initial=0) <= self.bound
        ):
            raise RefusedError("finite", f"values of round {n} are not finite or too large")
        return rows([values], self.method.task.dtype)

    def learn(self, x: Array, y: Array) -> None:
        """Learn from samples x [count, L] and y [count] that have just arrived, or that wait."""
        self.position += len(y)
        if not self.waits:
            self._steps(x, y, judge=True)
            return
        for each, z, label in zip(x, self.method.task.features(x), y, strict=True):
            self._compare(each, z, label)  # how far off the answers were is known already
        x, y = (np.concatenate(both) for both in zip(self.waiting, (x, y), strict=True))
        most = self.method.pace if self.relays else MOST_WAITING  # what is sent at a contact
        self.passed += max(len(y) - most, 0)
        self.waiting = x[-most:], y[-most:]

    def _replay(self, start: int, stop: int) -> None:
        if self.source is not None:
            for begin in range(start, stop, BLOCK):
                x, y = self.source(begin, min(begin + BLOCK, stop))
                known = ~np.isnan(y)  # a table need not have a label in every round
                self._steps(x[known], y[known])

    def _steps(self, x: Array, y: Array, judge: bool = False) -> None:
        lazy = self.method.lazy  # nothing reads what it learns before a contact: all at once
        block = BLOCK if self.moments is None else 1  # features that can be computed again
        for begin in range(0, len(y), block):
            here, labels = x[begin : begin + block], y[begin : begin + block]
            z = self.method.task.features(here)
            for i in range(len(here)):
                if judge:
                    self._compare(here[i], z[i], labels[i])
                if not lazy:
                    one = slice(i, i + 1)
                    self._recall(here[i])
                    self.method.learn(self.state, here[one], z[one], labels[one])
                    if self.moments is not None:
                        self.moments.note(self.state, here[i])
            if lazy:
                self.method.learn(self.state, here[None], z[None], labels[None])

    def _compare(self, x: Array, z: Array, y: Any) -> None:
        """A label with what was, or would have been, answered before it was known."""
        if self.confidence is not None and (self.mix is not None or self.model is not None):
            guess = answer(self.method, self.state, x[None], z[None])
            self.confidence.learn(x, float(guess[0]), float(y))

    def predict(self, x: Array) -> Array:
        """Eq. (2): w_k^T z(x) for x [..., L], or the mix of this with what else the client has."""
        found = [self._answer(one) for one in x.reshape(-1, x.shape[-1])]
        return np.array(found).reshape(x.shape[:-1])

    def guess(self, x: Array) -> tuple[float, Array | None]:
        """What it says of x [L], and what each expert does if there are some."""
        z = self.method.task.features(x)
        if self.mix is not None:
            mixed, guesses = self.mix.answer(self.state, x[None], z[None])
            return float(mixed[0]), guesses[0]
        try:
            return float(answer(self.method, self.state, x[None], z[None])[0]), None
        except KeyError:
            found = "clients of this method have no model to answer with"
            raise RefusedError("model", found) from None

    def _answer(self, x: Array) -> float:
        """The same, where what the experts said is remembered until the label comes."""
        y, guesses = self.guess(x)
        if guesses is not None:
            self._asked[x.tobytes()] = guesses
            if len(self._asked) > MOST_WAITING:
                del self._asked[next(iter(self._asked))]
        return y

    def _recall(self, x: Array) -> None:
        """What its experts said when it was asked, if the label comes later than the question."""
        if self.mix is not None and x.tobytes() in self._asked:
            self.state[ASKED][0] = self._asked.pop(x.tobytes())

    def to_arrays(self) -> dict[str, Array]:
        """What is stored before an answer leaves: state, position, round, answer, what waits."""
        n, answer = self._last or (-1, b"")
        block = -1 if self._block is None else self._block
        waiting = dict(zip(("waiting.x", "waiting.y"), self.waiting, strict=True))
        return {
            "numbers": np.array([self.position, n, block, self.passed], np.int64),
            "answer": np.frombuffer(answer, np.uint8),
            **{f"state.{name}": array for name, array in self.state.items()},
            **(waiting if self.waits else {}),
            **({} if self.confidence is None else self.confidence.to_arrays()),
            **({} if self.masking is None else self.masking.to_arrays()),
        }

    def restore(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`."""
        last = wire.LAST_ROUND
        limits = np.array([0, -1, -1, 0]), np.array([FARTHEST, last, last, FARTHEST])
        numbers = taken(arrays, "numbers", np.int64, (4,), *limits)
        self.position, n, block, self.passed = numbers.tolist()
        answer = taken(arrays, "answer", np.uint8, (None,)).tobytes()
        self._last = None if n < 0 else (n, answer)
        self._block = None if block < 0 else block
        apart = {name for name in APART if f"state.{name}" not in arrays}  # moments.py has them
        here = {name: array for name, array in self.state.items() if name not in apart}
        self.state |= restored(here, arrays)
        if self.waits:
            task, bound = self.method.task, float(np.finfo(self.method.task.dtype).max)
            y = taken(arrays, "waiting.y", task.dtype, (None,), -bound, bound)
            x = taken(arrays, "waiting.x", task.dtype, (len(y), task.taps), -bound, bound)
            self.waiting = x, y
        if self.masking is not None:
            self.masking.restore(arrays)
            self.masking.told = self.learned - len(self.waiting[1])
        if self.confidence is not None:
            self.confidence.restore(arrays)


def _nothing(method: Method) -> Pair:
    return method.task.zeros(0, method.task.taps), method.task.zeros(0)
