"""The round, where samples come one by one, at any time: `play` of federation/round.py in parts.

    open     the members of S_n are drawn, and get their downloads
    learn    one sample of one client, whenever it comes
    close    the members upload, and the server folds

For every client, and for the server, this is the order in which `play` calls the handlers, so each
model and each byte is the same. Clients may join and leave between rounds, and have rows of arrays
that grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from psofed.core.native import Array
from psofed.core.schedule import Indices
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation import round as rounds
from psofed.federation.clients import Clients, learn
from psofed.federation.contract import ABSENT, Message, Method, State, nothing
from psofed.federation.membership import FleetCohorts, cleared, moved, row_axes
from psofed.federation.records import MOST, restored, taken
from psofed.federation.round import Sizes
from psofed.federation.stage import answer
from psofed.simulate import kernel
from psofed.stages.defences.contract import OWN
from psofed.stages.surroundings import start
from psofed.streams.contract import Samples, StreamOptions

MOST_CLIENTS = 10**9


@dataclass(frozen=True)
class Given(StreamOptions):
    """No stream: samples are given when they are there."""

    name: ClassVar[str] = "given"
    measured: ClassVar[bool] = True
    gaps: ClassVar[bool] = True  # a client need not have a sample in a round
    taps: int = 1

    def samples(
        self, seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any, memory: Any = None
    ) -> Samples:
        """There are none."""
        raise InputError("stream", "has no samples of its own", "give them to learn_one")

    def snapshot(self, seeds: Seeds, purpose: str, clients: int | Array, count: int) -> Samples:
        """Nor are there others, from which centres of features could be drawn."""
        return self.samples(seeds, np.arange(count), 0, 1, np.float64)


class Attendance:
    """Who is there in each round, as far back as a block of rounds may reach."""

    def __init__(self, count: int, pace: int) -> None:
        self.pace = pace
        self.known: list[tuple[int, Indices]] = [(0, np.arange(count))]  # since a round

    def members(self, n: int) -> Indices:
        """Those of round n, in order."""
        first = self.known[0][1]
        return next((who for since, who in reversed(self.known) if since <= n), first)

    def change(self, n: int, who: Iterable[int]) -> None:
        """From round n on, these are there."""
        if self.known[-1][0] == n:
            self.known.pop()
        self.known.append((n, np.array(sorted(who), np.intp)))
        while len(self.known) > 1 and self.known[1][0] <= n - self.pace:
            self.known.pop(0)

    @property
    def now(self) -> set[int]:
        """Those who are there from now on."""
        return set(self.known[-1][1].tolist())


@dataclass(frozen=True, eq=False)
class OpenCohorts(FleetCohorts):
    """Those of a fleet that may be smaller than a cohort: then everybody is asked."""

    def draw(self, n: Any) -> Indices:
        if self.size < self.clients:
            return super().draw(n)
        return np.broadcast_to(np.arange(self.clients), (*np.shape(n), self.clients))


class Turns:
    """The server and the clients of one federation, by row, and the round that comes next."""

    def __init__(self, experiment: Experiment, cohort: int, clients: int) -> None:
        self.experiment, self.size = experiment, cohort
        (self.options,) = experiment.methods
        self.settled = self.options.settled or self.options.simulated
        self.task = kernel.faster(experiment.task(0))
        self.attendance = Attendance(clients, self.options.pace)
        self.method = self._bind(max(clients, 1))
        self.server = self.method.server()
        self.clients = Clients(self.method, max(clients, 1))
        self.sizes = Sizes(self.method)
        self.sent = np.zeros(2, np.int64)  # bytes up and down
        self.n = 0  # the round that is open, or comes next
        self.k: Indices | None = None  # its members, once it is open
        self.down = nothing(np.empty(0, np.intp))
        self.count = clients  # rows that are in use
        self.begun = np.ones(clients, bool)  # who has a model: the others get one when first asked
        self.samples = np.zeros(clients, np.int64)  # that each has learned from
        self.touched = np.zeros(clients, np.int64)  # changes of each one's state
        self.relays, self.once = rounds.relays(self.method), rounds.setup(self.method)
        self.fresh: dict[int, tuple[Array, Array]] = {}  # samples of this round, to be passed on

    @cached_property
    def features(self) -> Callable[[Array], Array]:
        """z = features(x)."""
        return kernel.compiled(self.task.features, self.task.dtype)

    def __getstate__(self) -> dict[str, Any]:
        """All but that function, which is made again."""
        return {name: each for name, each in vars(self).items() if name != "features"}

    def _bind(self, room: int) -> Method:
        """The method, with room for so many clients."""
        experiment, task = self.experiment, self.task
        if not self.settled:
            cohorts = OpenCohorts(
                task.seeds, task.clients, self.size, room=room, history=self.attendance
            )
            task = replace(task, cohorts=cohorts)
        return start(self.options, task, replace(experiment.around, mix=experiment.mix))

    @property
    def shared(self) -> Array:
        """The model of all: the server's, or the mean of the clients' if it has none."""
        w = self.method.models(self.server, self.clients.states)
        return w if w.ndim == 1 else w[: self.count].mean(axis=0)

    def view(self, row: int) -> State:
        """The state of one client, as a stack of one; changes in it stay."""
        return {name: array[row : row + 1] for name, array in self.clients.states.items()}

    # Who is there.

    def join(self, row: int | None = None, state: State | None = None) -> int:
        """A client joins, or joins again: with this state, or else anew. Returns its row."""
        self.check_open()
        if row is None:
            row = self._new_row()
        elif state is None:
            axes = {a: i for a, i in row_axes(self.method).items() if not a.startswith(OWN)}
            cleared(self.server, self.method.server(), axes, [row])
            self.begun[row] = False
        if state is not None:
            for name, array in self.view(row).items():
                array[:] = state[name]
            self.begun[row] = True
            self.touched[row] += 1
        self.attendance.change(self._next, self.attendance.now | {row})
        return row

    def check_open(self) -> None:
        """Refuse changes of a fleet that cannot change."""
        if reason := self.settled:
            found = f"is {self.options.name}, whose clients can neither join nor leave: {reason}"
            raise InputError("method", found, "name all clients at first, or use another method")

    def leave(self, row: int) -> None:
        """A client is not asked any more, also in the round that is open."""
        self.attendance.change(self._next, self.attendance.now - {row})
        if self.k is not None:
            self.k = self.k[self.k != row]
        self.fresh.pop(row, None)

    @property
    def _next(self) -> int:
        """The first round for which nothing is decided yet."""
        return self.n + (self.k is not None)

    def _new_row(self) -> int:
        row, self.count = self.count, self.count + 1
        # Before the first round, everybody has w_0.
        self.begun = np.append(self.begun, self._next == 0)
        self.samples, self.touched = np.append(self.samples, 0), np.append(self.touched, 0)
        if self.count > self.clients.count:
            self._grow(2 * self.clients.count)
        return row

    def _grow(self, room: int) -> None:
        self.method, before = self._bind(room), self.clients
        self.server = moved(self.server, self.method.server())
        self.clients, self.sizes = Clients(self.method, room), Sizes(self.method)
        for name, array in self.clients.states.items():
            array[: before.count] = before.states[name]

    # The round.

    def open(self) -> None:
        """Those who take part are drawn and get what comes down, unless this was done."""
        if self.k is not None:
            return
        known = np.array(sorted(self.fresh), np.intp) if self.relays else None
        k = rounds.members(self.method, self.n, self.server, known)
        new = [row for row in k.tolist() if not self.begun[row]]
        self.clients.renew(new)
        self.begun[new] = True
        self.down = rounds.open_round(self.method, self.server, k, self.n, new)
        members = self.clients.members(k)
        rounds.receive(self.method, members.stack, k, self.n, self.down, new)
        members.put_back()
        self.touched[k] += 1
        self.k = k

    def learn(self, row: int, x: Array, y: Array) -> None:
        """One sample x [1, L] and y [1] of a client that has begun: of all of them, if clients
        learn when idle, else of the members.
        """
        if self.relays:
            self.fresh[row] = x, y
            return
        self.open()
        assert self.k is not None
        if self.begun[row] and (self.method.idle or row in self.k):
            self._learn(row, x, y)

    def _learn(self, row: int, x: Array, y: Array) -> None:
        learn(self.method, self.view(row), x, self.features(x), y)
        self.samples[row] += 1
        self.touched[row] += 1

    def close(self) -> tuple[int, int]:
        """The members upload and the server folds. Returns the bytes of the round, up and down."""
        self.open()
        assert self.k is not None
        k = self.k
        for row in k.tolist() if self.relays else ():
            self._learn(row, *self.fresh[row])
        members = self.clients.members(k)
        up = rounds.upload(self.method, members.stack, k, self.n)
        members.put_back()
        rounds.close_round(self.method, self.server, k, self.n, up)
        sent = np.array(self.sizes.traffic(up, self.down)[:2], np.int64)
        self.sent += sent
        self.n, self.k = self.n + 1, None
        self.fresh.clear()
        return int(sent[0]), int(sent[1])

    def predict(self, row: int | None, x: Array) -> float:
        """What a client says of x [1, L]; without a model of its own, by that of all."""
        z = self.features(x)
        if row is not None and self.begun[row]:
            try:
                return float(answer(self.method, self.view(row), x, z)[0])
            except KeyError:
                pass  # clients of this method keep none
        return float(self.task.learner.predict(self.shared, z)[0])

    # As arrays.

    def to_arrays(self) -> dict[str, Array]:
        """All that a round changes."""
        k = np.empty(0, np.intp) if self.k is None else self.k
        known, fresh = self.attendance.known, self.fresh.values()
        there = np.zeros((len(known), self.count), bool)
        for row, (_, who) in zip(there, known, strict=True):
            row[who] = True
        samples = [np.array(each, self.task.dtype) for each in zip(*fresh, strict=True)]
        return {
            "numbers": np.array([self.n, self.count, self.clients.count, self.k is not None]),
            "sent": self.sent, "k": k.astype(np.int64), "begun": self.begun,
            "samples": self.samples, "touched": self.touched,
            "since": np.array([n for n, _ in known]), "there": there,
            "down": self.down.length.astype(np.int64), "fresh": np.array([*self.fresh], np.int64),
            **dict(zip(("fresh.x", "fresh.y"), samples, strict=bool(samples))),
            **{f"server.{name}": array for name, array in self.server.items()},
            **{f"state.{name}": a[: self.count] for name, a in self.clients.states.items()},
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """The inverse of `to_arrays`, in a federation that has just begun."""
        numbers = taken(arrays, "numbers", np.int64, (4,), 0, [MOST, MOST_CLIENTS, MOST_CLIENTS, 1])
        self.n, self.count, room, is_open = numbers.tolist()
        count = self.count
        self.method = self._bind(room)
        self.clients, self.sizes = Clients(self.method, room), Sizes(self.method)
        self.server = _restored(self.method.server(), "server.", arrays)
        here = {name: array[:count] for name, array in self.clients.states.items()}
        for name, array in _restored(here, "state.", arrays).items():
            here[name][:] = array
        self.sent = taken(arrays, "sent", np.int64, (2,), 0)
        self.begun = taken(arrays, "begun", np.bool_, (count,))
        self.samples, self.touched = (
            taken(arrays, name, np.int64, (count,), 0) for name in ("samples", "touched")
        )
        since = taken(arrays, "since", np.int64, (None,), 0)
        there = taken(arrays, "there", np.bool_, (len(since), count))
        known = zip(since.tolist(), map(np.flatnonzero, there), strict=True)
        self.attendance.known = list(known)
        k = taken(arrays, "k", np.int64, (None,), 0, room - 1)
        self.k = k.astype(np.intp) if is_open else None
        length = taken(arrays, "down", np.int64, (None,), ABSENT, self.task.dim).astype(np.intp)
        # Only its bytes are still needed.
        self.down = Message(np.zeros((len(length), length.max(initial=0))), length)
        rows = taken(arrays, "fresh", np.int64, (None,), 0, room - 1)
        if len(rows):
            x = taken(arrays, "fresh.x", self.task.dtype, (len(rows), 1, self.task.taps))
            y = taken(arrays, "fresh.y", self.task.dtype, (len(rows), 1))
            self.fresh = dict(zip(rows.tolist(), zip(x, y, strict=True), strict=True))


def _restored(state: State, prefix: str, arrays: Mapping[str, Array]) -> State:
    """The arrays of this state; a model may have diverged."""
    mine = {f"state.{n.removeprefix(prefix)}": a for n, a in arrays.items() if n.startswith(prefix)}
    return restored(state, mine, finite=False)
