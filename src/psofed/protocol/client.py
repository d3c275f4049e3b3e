"""The client's end: it learns from its own stream all the time, and takes part when it is invited.

`Client` is its half of the rounds. `Member` adds what the wire needs: an invitation comes in, an
answer goes out, and the record of both is durable before the answer leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.core.fleet import LAST
from psofed.errors import InputError
from psofed.methods import checked
from psofed.methods.contract import Message, Method
from psofed.methods.members import Members, OneByOne
from psofed.methods.noisy import SPENT, lasting
from psofed.methods.poisoning import poisoned
from psofed.methods.round import Uniform, take_part
from psofed.privacy.masks import Pairs
from psofed.protocol import wire
from psofed.protocol.checked_record import number, reading, restored, taken
from psofed.protocol.confidence import Confidence, Forecast
from psofed.protocol.deployment import Deployment
from psofed.protocol.hiding import Hiding
from psofed.protocol.seal import DOWN, UP, seal, unseal
from psofed.protocol.server import BOUND, RefusedError
from psofed.protocol.store import Disk, in_words
from psofed.sample_checks.contract import suspect

Array = NDArray[Any]
Pair = tuple[Array, Array]  # x [count, L] and y [count]
MOST_WAITING = 1024  # samples that wait for a download; older ones are passed over, and counted
FARTHEST = 2**53  # position in a stream that a record may have
BLOCK = 32  # samples whose features are computed at once


class Source(Protocol):
    """Samples by number: x [count, L] and y [count] of start..stop-1; NaN: there is none."""

    def __call__(self, start: int, stop: int) -> tuple[Array, Array]: ...


class Client:
    """The client's half of the rounds, for client k.

    With a source, sample n belongs to round n (the lockstep clock). Without one, samples come
    through `learn` and rounds at any time (the live clock): samples are then learned from at once
    or, if the method `waits`, after the next download. On the live clock it also learns how far its
    answers may be off.
    """

    def __init__(
        self, method: Method, k: int, source: Source | None = None, bound: float = BOUND
    ) -> None:
        self.method, self.k, self.source, self.bound = method, k, source, bound
        self.state = method.client(k)
        self.position = 0  # the next sample to learn from, or to wait
        self.passed = 0  # samples that were never learned from, because too many came after them
        self.waiting: Pair = _nothing(method)
        self.confidence = Confidence()
        self._who, self._treason = Uniform(method), poisoned(method, None)
        self._last: tuple[int, bytes] | None = None
        self._block: int | None = None  # the round in which its last block began; None: not known
        self.hiding: Hiding | None = None  # masks on its uploads, if there are any

    @property
    def last_round(self) -> int:
        """The last round in which this client took part, or -1."""
        return -1 if self._last is None else self._last[0]

    @property
    def checked(self) -> dict[str, int]:
        """What the check made of the samples so far: seen, learned, and refused by reason."""
        return checked.found(self.state)

    @property
    def spent(self) -> float | None:
        """Epsilon that its uploads have spent so far; None if there is no budget."""
        noise = self.method.noise
        return None if noise is None else noise.epsilon(int(self.state[SPENT]))

    @property
    def exhausted(self) -> bool:
        """Whether its uploads tell nothing any more."""
        noise = self.method.noise
        if noise is None or noise.level == "sample":
            return False
        return int(self.state[SPENT]) >= noise.uploads

    def catch_up(self, n: int) -> None:
        """Learn from the samples before round n that have not been learned from."""
        if self.method.idle:
            self._replay(self.position, n)
        self.position = max(self.position, n)

    def take_part(self, n: int, invitation: bytes, begin: bool = False) -> bytes:
        """Rule 5, round n: receive, learn, answer. Asked again for the same round, it repeats.

        Who begins anew (rule 17) starts from a fresh state and from what comes down.
        """
        if self._last is not None and self._last[0] == n:
            return self._last[1]
        if self.hiding is not None:
            self.hiding.check(n, begin)
        if n < self.last_round or (self.source and n < self.position):
            found = f"round {n} is over: client {self.k} is at sample {self.position}"
            raise RefusedError("late", found)
        sizes = self._sizes(n, begin)
        message = self._read(n, invitation, sizes)
        if begin:
            self._begin(n, message)
            message = None
        else:
            self._check_block(n)
        me = OneByOne(self.method, [self.k], [self.state])
        upload = take_part(n, me, [message], self, self._who, self._treason)[1][0]  # type: ignore[index]
        if self.hiding is not None:
            self.hiding.hear(n, invitation)
            upload = self.hiding.hidden(upload, n)
        with np.errstate(over="ignore"):  # the server refuses values that do not fit
            answer = b"" if upload is None else self.method.encode(upload, up=True)
        self._last = (n, answer)
        return answer

    def _begin(self, n: int, message: Message) -> None:
        """With nothing of what it has learned; on the lockstep clock, from sample n on."""
        self.state, self._block = self.method.client(self.k) | lasting(self.state), n
        if self.source is not None:
            self.position = n
        self.method.welcomed(self.state, self.k, n, message)

    def _check_block(self, n: int) -> None:
        """A block of rounds is one piece of work: who missed its beginning has no part in it."""
        begin = n
        while not self.method.begins(begin):
            begin -= 1
        if begin < n and self._block not in (None, begin):
            raise RefusedError("block", f"round {n} belongs to a block that began without us")
        self._block = begin

    def before(self, n: int, members: Members) -> None:
        """The samples of earlier rounds, on the lockstep clock."""
        if self.source is not None:
            self.catch_up(n)

    def now(self, n: int, members: Members) -> None:
        """Sample n, on the lockstep clock; on the live one, what has waited for a download."""
        if self.source is not None:
            self._replay(n, n + 1)
            self.position = n + 1
        else:
            self._steps(*self.waiting)
            self.waiting = _nothing(self.method)

    def _read(self, n: int, invitation: bytes, sizes: set[int]) -> Message:
        """Rule 11, for downloads: complete and finite, or refused."""
        if len(invitation) not in sizes:
            found = f"received {len(invitation)} bytes for round {n}, not"
            raise RefusedError("size", f"{found} {' or '.join(map(str, sorted(sizes)))}")
        if not invitation:
            return None
        try:
            message = self.method.decode(invitation, up=False)
        except (ValueError, IndexError) as error:
            raise RefusedError("size", f"received unusable values for round {n}: {error}") from None
        if self.method.peers:
            return message  # a neighbour that was not heard is not a number
        if not np.isfinite(message).all() or np.abs(message).max(initial=0) > self.bound:
            raise RefusedError("finite", f"values of round {n} are not finite or too large")
        return message

    def _sizes(self, n: int, begin: bool) -> set[int]:
        """Bytes that can come down in round n."""
        encode = self.method.encode
        lengths = (self.method.welcomes if begin else self.method.downloads)(self.k, n)
        return {0 if m is None else len(encode(np.zeros(m), up=False)) for m in lengths}

    def learn(self, x: Array, y: Array) -> None:
        """Eq. (10) for samples x [count, L] and y [count] that have just arrived, or that wait."""
        self.position += len(y)
        if not self.method.waits:
            self._steps(x, y, judge=True)
            return
        self._judge(x, y)
        x, y = (np.concatenate(both) for both in zip(self.waiting, (x, y), strict=True))
        most = 1 if self.method.relays else MOST_WAITING  # one is sent at a contact
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
        for begin in range(0, len(y), BLOCK):
            here, labels = x[begin : begin + BLOCK], y[begin : begin + BLOCK]
            z = self.method.task.features(here)
            for i in range(len(here)):
                if judge:
                    self._compare(here[i], z[i], labels[i])
                if not lazy:
                    self.method.learn(self.state, here[i], z[i], labels[i])
            if lazy:
                self.method.absorb(self.state, here, z, labels)

    def _judge(self, x: Array, y: Array) -> None:
        """Labels of samples that wait: how far off the answers were is known already."""
        for each, z, label in zip(x, self.method.task.features(x), y, strict=True):
            self._compare(each, z, label)

    def _compare(self, x: Array, z: Array, y: Any) -> None:
        """A label with what was, or would have been, answered before it was known."""
        w = self.method.own(self.state)
        if w is not None:
            self.confidence.learn(x, float(self._guess(w, z)), float(y))

    def predict(self, x: Array) -> Array:
        """Eq. (2): w_k^T z(x), or what the learner says, with the client's own model."""
        w = self.method.own(self.state)
        if w is None:
            raise RefusedError("model", "clients of this method have no model to answer with")
        return self._guess(w, self.method.task.features(x))

    def _guess(self, w: Array, z: Array) -> Array:
        return self.method.task.learner.predict(w, z)

    def answer(self, x: Array) -> Forecast:
        """A prediction for one x [L], with its intervals; its label may come later."""
        return self.confidence.answer(x, float(self.predict(x)))

    def to_arrays(self) -> dict[str, Array]:
        """What is stored before an answer leaves: state, position, round, answer, what waits."""
        n, answer = self._last or (-1, b"")
        state = {f"state.{name}": array for name, array in self.state.items()}
        numbers = np.array([self.position, n], np.int64)
        begun = self._block is not None and not self.method.ends(self._block)  # of several rounds
        block = {"block": np.array(self._block, np.int64)} if begun else {}
        more = zip(("waiting.x", "waiting.y", "passed"), (*self.waiting, self.passed), strict=True)
        waiting = {name: np.asarray(value) for name, value in more} if self.method.waits else {}
        radii = self.confidence.to_arrays() if self.confidence.labels else {}
        hidden = {} if self.hiding is None else self.hiding.to_arrays()
        return {"numbers": numbers, "answer": np.frombuffer(answer, np.uint8), **state, **waiting,
                **block, **radii, **hidden}  # fmt: skip

    def restore(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`; in older records nothing waits."""
        size = max(arrays["numbers"].size, 2) if "numbers" in arrays else 2  # older ones have more
        numbers = taken(arrays, "numbers", np.int64, (size,))
        self.position = number({"numbers": numbers[:1].reshape(())}, "numbers", 0, FARTHEST)
        n = number({"numbers": numbers[1:2].reshape(())}, "numbers", -1, wire.LAST_ROUND)
        answer = taken(arrays, "answer", np.uint8, (None,)).tobytes()
        self._last = None if n < 0 else (n, answer)
        begun = number(arrays, "block", 0, wire.LAST_ROUND, default=-1)
        self._block = None if begun < 0 else begun
        self.state = restored(self.state, arrays)
        if "waiting.y" in arrays:
            task, bound = self.method.task, float(np.finfo(self.method.task.dtype).max)
            y = taken(arrays, "waiting.y", task.dtype, (None,), -bound, bound)
            x = taken(arrays, "waiting.x", task.dtype, (len(y), task.taps), -bound, bound)
            self.waiting, self.passed = (x, y), number(arrays, "passed", default=0)
        if self.hiding is not None:
            self.hiding.restore(arrays)
        self.confidence.restore(arrays)


def _nothing(method: Method) -> Pair:
    return method.task.zeros(0, method.task.taps), method.task.zeros(0)


class Member:
    """Client, store and wire: the interface for the transport."""

    def __init__(
        self, plan: Deployment, k: int, disk: Disk, source: Source | None = None,
        key: bytes | None = None, measured: bool = False,
        pairs: Mapping[int, bytes] | None = None,
    ) -> None:  # fmt: skip
        if not 0 <= k <= LAST or (k >= plan.experiment.clients and plan.settled):
            right = f"use 0 to {plan.experiment.clients - 1}"
            raise InputError("--id", f"is {k}", f"{right}{plan.settled and ': '}{plan.settled}")
        self.plan, self.k, self.key, self._digest = plan, k, key, plan.digest
        bound = plan.deploy.bound
        if plan.masked and plan.world.privacy is not None:
            bound = min(bound, plan.world.privacy.range)
        self.client = Client(plan.device(measured), k, source, bound)
        self.client.hiding = self._hiding(pairs)
        self.store = plan.store(disk, f"client {k}")
        self.incarnation = 0  # the highest that was seen
        self.trouble = ""  # why the last record could not be written
        self.refused: dict[str, int] = {}
        self.standing = ""  # what the server says that this client is, if it is no member
        self.tells = self.tells_errors = False  # whether it reports coverage, errors to the server
        arrays = self.store.load()
        if arrays is not None:
            with reading(self.store.file):
                self.client.restore(arrays)
                self.incarnation = number(arrays, "incarnation", 0, wire.LAST_INCARNATION)
        if plan.masked and self.store.notes:  # what it has forgotten may have been masked, and sent
            found = f"{self.store.notes[0].partition(';')[0]}; other values under the masks of then"
            right = f"`psofed keys renew {k} --new-mask`, and a new state folder"
            raise InputError(disk.name, f"{found} would show", right)

    def _hiding(self, keys: Mapping[int, bytes] | None) -> Hiding | None:
        """Rule 19: masks, from the keys that it shares with each other client."""
        privacy = self.plan.world.privacy
        if self.plan.masked != (keys is not None):
            found = "are missing, but" if keys is None else "are given, but not"
            raise InputError("keys of masks", f"{found} [privacy] masks = true", "see the file")
        if keys is None or privacy is None:
            return None
        pairs = Pairs(self.k, keys, self._digest, privacy.self_masks)
        return Hiding(self.client.method, pairs)

    def hello(self) -> bytes:
        """The message after each connect: a server that waits for this client asks again.

        It carries the round after the last one taken part in, so that a server whose newest record
        was damaged learns that it has fallen behind; and what the client tells of its answers.
        """
        confidence, body = self.client.confidence, b""
        if self.tells and confidence.labels:
            body = wire.coverage(*confidence.told)
        if self.tells_errors and (errors := confidence.running).labels:
            body += wire.errors(errors.square, errors.labels, suspect(self.client.checked))
        frame = wire.Frame(wire.HELLO, self._digest, self.client.last_round + 1, body=body)
        return seal(self.key, UP, wire.encode(frame))

    def take(self, data: bytes) -> tuple[bytes | None, str]:
        """One message from the server: the answer, and the outcome in a word or a sentence."""
        try:
            frame = self._read(data)
            if frame.kind == wire.HELLO:
                word = wire.word(frame.body)
                self.standing = "" if word == wire.ASLEEP else word
                # Nothing but this is answered, and never with an answer to be answered.
                return (self.hello(), "probed") if word == wire.ASLEEP else (None, "welcome")
            if frame.kind == wire.QUESTION:
                return self._reveal(frame)
            self.standing = ""
            known = frame.n == self.client.last_round
            begin = frame.kind == wire.BEGIN
            answer = self.client.take_part(frame.n, frame.body, begin)
        except (wire.WireError, RefusedError) as error:
            self.refused[error.reason] = self.refused.get(error.reason, 0) + 1
            return None, str(error)
        if not known or frame.incarnation > self.incarnation:
            self.incarnation = frame.incarnation
            self.save()
        if self.trouble:  # what it would say could be forgotten, and contradicted later
            return None, "held"
        type = self.plan.wire
        reply = wire.Frame(wire.UPLOAD, self._digest, frame.n, wire=type, body=answer)
        return seal(self.key, UP, wire.encode(reply)), "repeated" if known else "answered"

    def _reveal(self, frame: wire.Frame) -> tuple[bytes | None, str]:
        """Rule 19: seeds; that they were told is durable before they leave."""
        hiding = self.client.hiding
        if hiding is None or frame.n != self.client.last_round:
            raise RefusedError("late", f"asked for seeds of round {frame.n}, not of the last one")
        before, seeds = hiding.revealed, hiding.reveal(frame.n, frame.body)
        known = hiding.revealed == before
        if not known or self.trouble:
            self.save()
        if self.trouble:
            return None, "held"
        start, type = self.incarnation, self.plan.wire
        body = frame.body + seeds  # for which sum they are, and they
        reply = wire.Frame(wire.SEEDS, self._digest, frame.n, start, type, body)
        return seal(self.key, UP, wire.encode(reply)), "repeated" if known else "revealed"

    def _read(self, data: bytes) -> wire.Frame:
        """Rules 3 and 7: a frame of this run, not from a server that was replaced."""
        frame = wire.decode(unseal(self.key, DOWN, data), self.plan.largest)
        if frame.digest != self._digest:
            found = f"the server runs another experiment ({frame.digest:08x}, not"
            advice = f"{self._digest:08x}); compare the files of both, and `psofed --version`"
            raise wire.WireError("digest", f"{found} {advice}")
        if frame.kind == wire.HELLO:
            return frame
        if frame.kind == wire.QUESTION and self.plan.masked:
            return frame
        if frame.kind not in wire.INVITATIONS or frame.wire != self.plan.wire:
            raise wire.WireError("kind", "the message is not an invitation to this run")
        wire.check_start(frame.incarnation, self.incarnation)
        if self.client.source is not None and frame.n >= self.plan.experiment.rounds:
            # Otherwise a wrong number would make the client learn for days to catch up.
            found = f"round {frame.n} was asked for, the experiment has"
            raise wire.WireError("round", f"{found} {self.plan.experiment.rounds}")
        return frame

    def save(self) -> bool:
        """Rule 5: one durable record of the model, the position, the round and the answer.

        False: the disk does not take it, and no answer leaves until a later attempt succeeds.
        """
        incarnation = np.array(self.incarnation, np.int64)
        try:
            self.store.save({**self.client.to_arrays(), "incarnation": incarnation})
            self.trouble = ""
        except OSError as error:
            self.trouble = in_words(error)
        return not self.trouble
