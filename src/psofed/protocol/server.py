"""The server: it invites a cohort, collects the answers and folds them into the global model.

Clients are named by their numbers here, and by their seats in the method's arrays and the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.attacks.contract import Options as Attack
from psofed.errors import InputError
from psofed.methods.contract import Message, Method, State
from psofed.methods.defending import defended
from psofed.methods.round import Guard, Uniform, close_round, open_round
from psofed.policies.contract import Options
from psofed.protocol.checked_record import number, restored
from psofed.protocol.ledger import Ledger
from psofed.protocol.seats import Seats
from psofed.protocol.unmasking import GARBAGE, unmasking
from psofed.protocol.wire import LAST_ROUND

BOUND = 1e9  # two finite uploads of 1.7e308 sum to infinity; no real model has such values


class RefusedError(ValueError):
    """An answer that is not folded in; why, in one word and in a sentence."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Server:
    """The handlers of the server. Nothing of a round counts until `commit`."""

    def __init__(
        self,
        method: Method,
        bound: float = BOUND,
        seated: Callable[[Seats, int], Method] | None = None,
    ) -> None:
        if method.policy is not None:
            refuse_policy(method.policy.options)
        self.bound, self.seated = bound, seated
        self.seats = Seats(method.task.clients)
        self.use(method)
        self.state = method.server()
        self.n = 0
        self.guard = defended(method)
        self.ledger = Ledger(method.task.clients)
        self.touched: Any = np.zeros(0, np.int64)  # the entries that the last round changed
        self.left_out: list[int] = []  # members whose answers could not be folded in with others
        self.void = ""  # why none could, of a masked round
        self._drawn: tuple[int, list[int]] = (-1, [])
        self._answers: dict[int, bytes] = {}
        self._uploads: dict[int, Message] = {}

    def use(self, method: Method) -> None:
        """The method, for the seats that there are."""
        self.method, self._who, self.masks = method, Uniform(method), unmasking(method)

    def invite(self) -> dict[int, bytes]:
        """What goes down to each member of the cohort of this round."""
        rows = [self._row(k) for k in self.cohort]
        messages = open_round(self.method, self.state, self.n, rows)
        for i in [i for i, row in enumerate(rows) if not self.seats.begun[row]]:
            messages[i] = self.method.welcome(self.state, rows[i], self.n)
        return {
            k: b"" if m is None else self.method.encode(m, up=False)
            for k, m in zip(self.cohort, messages, strict=True)
        }

    def begins(self, k: int) -> bool:
        """Whether a member has its first contact still before it: it then begins anew."""
        return not self.seats.begun[self._row(k)]

    def _row(self, k: int) -> int:
        row = self.seats.row(k)
        return -1 if row is None else row

    @property
    def cohort(self) -> list[int]:
        """S_n of this round, in order; drawn once, because every message asks for it."""
        if self._drawn[0] != self.n:
            rows = self._who.members(self.n, self.state)
            asleep = set(self.seats.naps.asleep(self.n))
            if asleep:
                asleep -= set(self.seats.members(self.n).tolist())  # all are, so all are asked
            drawn: list[int] = sorted(self.seats.ids[rows].tolist())
            self._drawn = self.n, [k for k in drawn if k not in asleep]
        return self._drawn[1]

    @property
    def asked(self) -> list[int]:
        """The cohort, and those of it who are not waited for any more."""
        gone: list[int] = self.seats.ids[list(self.ledger.dropped)].tolist()
        return sorted({*self.cohort, *gone})

    def redraw(self, stay: Iterable[int] = ()) -> None:
        """The cohort of the open round has changed: who is no member any more is not waited for.

        Some `stay`, whoever is drawn.
        """
        self._drawn = (-1, [])
        self._drawn = self.n, sorted({*self.cohort, *stay})
        for k in [k for k in self._answers if k not in self.cohort]:
            del self._answers[k], self._uploads[k]

    @property
    def complete(self) -> bool:
        """Whether all of the cohort have answered, or with spare members as many as are needed."""
        if self.sealed:
            return not self.missing
        asked, needed = len(self.cohort), self.method.task.cohorts.size
        return len(self._answers) >= max(asked - self.seats.spare, min(asked, needed))

    @property
    def missing(self) -> list[int]:
        """Members of the cohort that have not answered yet, or not told what the sum needs."""
        if self.masks is not None and self.sealed:
            return self.masks.missing
        return [k for k in self.cohort if k not in self._answers]

    @property
    def sealed(self) -> bool:
        """Rule 19: whether it is decided who is in the sum, and they are asked to unmask it."""
        return self.masks is not None and bool(self.masks.present)

    def seal(self) -> bool:
        """Rule 19: no answer is taken any more; whether seeds are needed to unmask the sum."""
        if self.masks is None or self.sealed or not any(self._answers.values()):
            return False
        drawn = self.seats.ids[self._who.members(self.n, self.state)].tolist()
        return self.masks.decide(sorted(drawn), self._answers)

    def tell(self, k: int, n: int, told: bytes) -> str:
        """Rule 19: for which sum a member tells, and its seeds. The first counts.

        Seeds for another sum may come from before a kill of this server.
        """
        try:
            if self.masks is None or not self.sealed or n != self.n:
                raise RefusedError("late", f"client {k} was not asked for seeds of round {n}")
            if k not in self.masks.present:
                raise RefusedError("stranger", f"client {k} is not in the sum of round {n}")
            question = self.masks.question
            if not told.startswith(question):
                raise RefusedError("late", f"client {k} told round {n} for another sum")
            seeds = told[len(question) :]
            if len(seeds) != self.masks.size(k):
                raise RefusedError("size", f"client {k} told {len(told)} bytes")
            if self.masks.told.setdefault(k, seeds) != seeds:
                raise RefusedError("conflict", f"client {k} told round {n} twice, differently")
        except RefusedError as error:
            self.ledger.reject(self._row(k), error.reason)
            raise
        return "told"

    @property
    def answers(self) -> dict[int, bytes]:
        """What was accepted in this round so far."""
        return self._answers

    @property
    def model(self) -> NDArray[Any]:
        """The global model, as the method has it."""
        return self.method.models(self.state, {})

    def collect(self, k: int, n: int, answer: bytes) -> str:
        """Rules 8 and 11: check one answer completely, then keep it. The first valid one counts.

        Returns "accepted" or "repeated"; a RefusedError has changed counters only.
        """
        try:
            upload = self._check(k, n, answer)
        except RefusedError as error:
            self.ledger.reject(self._row(k), error.reason, n)
            raise
        if k in self._answers:
            self.ledger.repeat()
            return "repeated"
        self._answers[k], self._uploads[k] = answer, upload
        return "accepted"

    def reject(self, k: int, reason: str) -> None:
        """Count a message that is no answer."""
        self.ledger.reject(self._row(k), reason)

    def _check(self, k: int, n: int, answer: bytes) -> Message:
        if n != self.n:
            found = f"client {k} answers round {n}: the server is in round {self.n}"
            raise RefusedError("late" if n < self.n else "early", found)
        if self.sealed and k not in self._answers:
            raise RefusedError("late", f"client {k} is not in the sum of round {n}")
        if k not in self.cohort:
            if self._row(k) in self.ledger.dropped:
                raise RefusedError("late", f"client {k} is not waited for in round {n} any more")
            raise RefusedError("stranger", f"client {k} is not asked in round {n}")
        if k in self._answers:
            if self._answers[k] != answer:
                raise RefusedError("conflict", f"client {k} answered round {n} twice, differently")
            return None
        sizes = allowed(self.method, n)
        if sizes is not None and len(answer) not in sizes:
            raise RefusedError("size", f"client {k} sent {len(answer)} bytes, not {sorted(sizes)}")
        return self._decode(k, answer)

    def _decode(self, k: int, answer: bytes) -> Message:
        """Rule 11: the values of an answer, if each is finite, bounded and can be folded in."""
        if not answer:
            return None
        try:
            message = self.method.decode(answer, up=True)
        except (ValueError, IndexError) as error:
            raise RefusedError("size", f"client {k} sent {len(answer)} bytes: {error}") from None
        if not np.isfinite(message).all():
            raise RefusedError("finite", f"client {k} sent values that are not finite")
        if np.abs(self.method.numbers(message)).max(initial=0) > self.bound:
            raise RefusedError("bound", f"client {k} sent values above {self.bound:g}")
        if self.method.lengths(self.n) is None or "w" not in self.state:
            # The values are not entries of a model, so a bound is not enough.
            try:
                self._fold({self._row(k): message})
            except (ValueError, IndexError, np.linalg.LinAlgError) as error:
                raise RefusedError("values", f"client {k} sent unusable values: {error}") from None
        return message

    def _fold(self, uploads: dict[int, Message], guard: Guard | None = None) -> State:
        """The state after folding these in; the state itself is not touched."""
        state = {name: array.copy() for name, array in self.state.items()}
        weights = self._who.weights(self.n, state, uploads)
        with np.errstate(over="ignore", invalid="ignore"):
            close_round(self.method, state, self.n, uploads, weights, guard)
        if not all(np.isfinite(array).all() for array in state.values()):
            raise ValueError("the model would not be finite")
        return state

    def _in_order(self) -> dict[int, Message]:
        """By seat, in the order of the clients' numbers."""
        return {self._row(k): self._uploads[k] for k in sorted(self._uploads)}

    def commit(self) -> list[int]:
        """Rules 9 and 10: close the round. Fold what arrived in client order, divide by how many.

        Returns the members whose answers were folded in.
        """
        uploads = self._in_order()
        state, out = self._folded(uploads) if self.masks is None else self._unmasked(uploads)
        self.left_out = self.seats.ids[out].tolist()
        for row in out:
            del uploads[row]
            self.ledger.reject(row, "masks" if self.void else "together", self.n)
        self.touched = self.method.touched(self.state, self.n, uploads)
        self.state = state
        rows = list(uploads)
        self.seats.begun[rows] = True
        self.ledger.close(self.n, map(self._row, self.cohort), rows)
        self._next()
        found: list[int] = self.seats.ids[rows].tolist()
        return found

    def skip(self, n: int) -> None:
        """Open a later round; those before it are void."""
        self.ledger.void()
        self.n = n - 1
        self._next()

    def _next(self) -> None:
        self._answers, self._uploads = {}, {}
        if self.masks is not None:
            self.masks.begin()
        self.n += 1

    def _unmasked(self, uploads: dict[int, Message]) -> tuple[State, list[int]]:
        """Rule 19: the state after this round, with the sum of all or without any."""
        assert self.masks is not None
        self.seal()  # in case nobody has: what is not whole is then void
        opened = self.masks.opened(uploads, list(self._answers))
        self.void = self.masks.void
        try:
            return self._fold(opened), [k for k in uploads if k not in opened]
        except ValueError:
            self.void = GARBAGE
            return self._fold({}), list(uploads)

    def _folded(self, uploads: dict[int, Message]) -> tuple[State, list[int]]:
        """The state after this round, and who had to be left out.

        Uploads that are fine alone may give a model that is not finite together: then the largest
        is left out, and the next largest, until it is. No client can end a server in this way.
        """
        left = dict(uploads)
        out = sorted(uploads, key=lambda k: (_largest(uploads[k]), k))
        for _ in range(len(uploads) + 1):
            seen = {} if self.guard is None else {n: a.copy() for n, a in self.guard.state.items()}
            try:
                return self._fold(left, self.guard), [k for k in uploads if k not in left]
            except (ValueError, IndexError, np.linalg.LinAlgError):
                if self.guard is not None:
                    self.guard.state = seen
                if out:
                    del left[out.pop()]
        return self.state, list(uploads)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What is stored at a commit: the next round, the model, the counters."""
        state = {f"state.{name}": array for name, array in self.state.items()}
        seen = {} if self.guard is None else self.guard.state
        kept = {f"defence.{name}": array for name, array in seen.items()}
        fleet = self.seats.to_arrays()
        return {
            "n": np.array(self.n, np.int64),
            **state,
            **kept,
            **fleet,
            **self.ledger.to_arrays(),
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Rule 6: continue after the last commit; nothing of an unfinished round is kept."""
        self.n = number(arrays, "n", 0, LAST_ROUND + 1)
        self.seats.restore(arrays)
        if self.seats.changes and self.seated is not None:
            self.use(self.seated(self.seats, 0))
            self.guard, self.state = defended(self.method), self.method.server()
            self.ledger = Ledger(len(self.seats))
        self.state = restored(self.state, arrays)
        if self.guard is not None and _same(self.guard.state, arrays):
            self.guard.state = restored(self.guard.state, arrays, "defence")
        self.ledger.restore(arrays)
        self._drawn = (-1, [])
        self._answers, self._uploads = {}, {}


def _same(state: State, arrays: dict[str, NDArray[Any]]) -> bool:
    """Whether a record is of this defence; another one begins anew."""
    found = {name.partition(".")[2]: a.shape for name, a in arrays.items() if "defence." in name}
    return found == {name: array.shape for name, array in state.items()}


def _largest(message: Message) -> float:
    return 0.0 if message is None else float(np.abs(message).max(initial=0))


def refuse_policy(policy: Options) -> None:
    """Policies are for simulations."""
    found = f"is {policy.name}, for which the protocol has no messages"
    if policy.scores == "client":
        found = f"is {policy.name}, whose weights clients could choose"
    raise InputError("policy", found, "deploy the method without it")


def refuse_omniscient(attack: Attack | None) -> None:
    """A client of its own does not know what others send, so its attack would be another one."""
    if attack is not None and attack.share and attack.omniscient:
        found = f"is {attack.name!r}, whose clients know what others send: no message tells them"
        raise InputError("attack.name", found, "use another attack, or simulate it: `psofed run`")


def allowed(method: Method, n: int) -> set[int] | None:
    """Bytes that an answer of round n can have; None if only its decoder knows."""
    lengths = method.lengths(n)
    if lengths is None:
        return None
    return {len(method.encode(np.zeros(length), up=True)) for length in lengths} or {0}
