"""Any method of the contract, round by round, clients stacked along the first axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.core import learner
from psofed.core.schedule import Indices
from psofed.methods.contract import Message, Messages, Method, Rows, State, is_stacked, traffic
from psofed.simulate import engine, selecting
from psofed.simulate.draws import Draws

Array = NDArray[Any]
BLOCK = 32  # rounds whose features are computed at once; divides the rounds of a chunk


def lms(w: Array, z: Array, y: Any, step: float) -> Any:
    """`learner.lms`, compiled for a stack of clients."""
    same = w.dtype == z.dtype == getattr(y, "dtype", None)
    if not (w.ndim == 2 and same and w.flags.c_contiguous and z.flags.c_contiguous):
        return learner.lms(w, z, y, step)
    error = np.empty(len(w), w.dtype)
    engine.learn_rows(w, z, y, w.dtype.type(step), error)
    return error


class Moment(NamedTuple):
    """The state before a round, and the bytes of the round before it: up, down, multicast down."""

    server: State
    clients: State
    traffic: tuple[int, int, int]


class Samples:
    """x, z and y of all clients, round by round, shared by the methods that run in lockstep."""

    def __init__(self, draws: Draws) -> None:
        self.features, self.chunks = draws.features, draws.chunks()
        self.chunk = self.before = next(self.chunks)
        self.begin = -BLOCK
        self.x = self.z = self.y = np.empty(0)
        self.some: dict[Any, tuple[Array, Array, Array]] = {}

    def move_to(self, n: int) -> None:
        """Have the samples of round n at hand; rounds are asked for in order."""
        if n - self.chunk.first >= self.chunk.y.shape[1]:
            self.before, self.chunk = self.chunk, next(self.chunks)

    def at(self, n: int) -> tuple[Array, Array, Array]:
        """x_{k,n}, z_{k,n} and y_{k,n} for all k, of a round that was moved to."""
        if not self.begin <= n < self.begin + BLOCK:
            i = (n - self.chunk.first) // BLOCK * BLOCK
            self.begin = self.chunk.first + i
            self.some.clear()
            # Round by round in memory, as methods read them.
            self.x = np.ascontiguousarray(self.chunk.x[:, i : i + BLOCK].swapaxes(0, 1))
            self.y = np.ascontiguousarray(self.chunk.y[:, i : i + BLOCK].T)
            self.z = self.features(self.x)
        i = n - self.begin
        return self.x[i], self.z[i], self.y[i]

    def of(self, n: int, cohort: Indices) -> tuple[Array, Array, Array]:
        """The same for some clients; remembered for the methods that ask for the same ones."""
        key = n, cohort.tobytes()
        if key not in self.some:
            x, z, y = self.at(n)
            self.some[key] = x[cohort], z[cohort], y[cohort]
        return self.some[key]

    def past(self, k: int, start: int, stop: int) -> tuple[Array, Array, Array]:
        """x, z and y of one client in rounds start..stop-1 of this chunk or the one before."""
        chunk = self.chunk if start >= self.chunk.first else self.before
        here = slice(start - chunk.first, stop - chunk.first)
        x = chunk.x[k, here]
        return x, self.features(x), chunk.y[k, here]


class Backlog:
    """Clients that catch up when they are asked, in one go; `learn` would do it round by round."""

    def __init__(self, method: Any, samples: Samples, clients: State) -> None:
        self.method, self.samples, self.clients = method, samples, clients
        self.position = [0] * len(next(iter(clients.values())))

    def settle(self, n: int) -> None:
        """Before the samples of an old chunk are forgotten, everybody learns from them."""
        if n and n == self.samples.chunk.first:
            for k in range(len(self.position)):
                self.catch_up(k, n)

    def catch_up(self, k: int, stop: int) -> None:
        """Client k learns from its samples before round `stop`."""
        if self.position[k] < stop:
            member = {name: array[k, ...] for name, array in self.clients.items()}
            self.method.absorb(member, *self.samples.past(k, self.position[k], stop))
            self.position[k] = stop


class Sizes:
    """Bytes of a message: asked of the encoder once for each direction and number of entries."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.known: dict[tuple[bool, int], int] = {}
        self.rounds: dict[tuple[int, ...], tuple[int, int, int]] = {}

    def __call__(self, message: Array, up: bool) -> int:
        key = up, len(message)
        if key not in self.known:
            self.known[key] = len(self.method.encode(message, up))
        return self.known[key]

    def of(self, messages: Messages, members: int, up: bool) -> list[int]:
        """Of each message to or from so many members."""
        if messages is None:
            return []
        if isinstance(messages, list):
            return [self(message, up) for message in messages if message is not None]
        one = messages if messages.ndim == 1 else messages[0]
        return [self(one, up)] * members

    def traffic(self, up: Messages, down: Messages, members: int) -> tuple[int, int, int]:
        """Of a round, by what goes up and down; remembered where all members send alike."""
        if isinstance(up, list) or isinstance(down, list):
            return traffic(self.method, self.of(up, members, True), self.of(down, members, False))
        lengths = tuple(-1 if m is None else m.shape[-1] for m in (up, down))
        key = (*lengths, members)
        if key not in self.rounds:
            sizes = self.of(up, members, True), self.of(down, members, False)
            self.rounds[key] = traffic(self.method, *sizes)
        return self.rounds[key]


class OneByOne:
    """The cohort of a round, for a method whose handlers take one client at a time."""

    def __init__(self, method: Method, clients: State, cohort: Indices) -> None:
        self.method, self.ids = method, cohort.tolist()
        # An ellipsis keeps scalars of the state as views, so that handlers can change them.
        self.states = [{name: array[k, ...] for name, array in clients.items()} for k in self.ids]

    def download(self, server: State, n: int) -> Messages:
        return [self.method.download(server, k, n) for k in self.ids]

    def receive(self, n: int, messages: Any) -> None:
        for state, k, message in zip(self.states, self.ids, messages, strict=True):
            self.method.receive(state, k, n, message)

    def learn(self, n: int, samples: Samples) -> None:
        x, z, y = samples.at(n)
        for state, k in zip(self.states, self.ids, strict=True):
            self.method.learn(state, x[k], z[k], y[k])

    def upload(self, n: int) -> Messages:
        return [self.method.upload(*one, n) for one in zip(self.states, self.ids, strict=True)]

    def by_client(self, messages: Any) -> Mapping[int, Message]:
        return dict(zip(self.ids, messages, strict=True))

    def fetch(self) -> None:
        """States are views of those of all clients: there is nothing to do."""

    put_back = fetch


class Together:
    """The same for a method whose handlers take the whole cohort, its states copied to a stack."""

    def __init__(self, method: Method, clients: State, cohort: Indices) -> None:
        self.method, self.clients, self.cohort, self.ids = method, clients, cohort, cohort.tolist()
        self.everybody = len(self.ids) == len(next(iter(clients.values())))
        self.fetch()

    def download(self, server: State, n: int) -> Messages:
        messages: Messages = self.method.download(server, self.cohort, n)
        return messages

    def receive(self, n: int, messages: Messages) -> None:
        self.method.receive(self.stack, self.cohort, n, messages)

    def learn(self, n: int, samples: Samples) -> None:
        here = samples.at(n) if self.everybody else samples.of(n, self.cohort)
        self.method.learn(self.stack, *here)

    def upload(self, n: int) -> Messages:
        messages: Messages = self.method.upload(self.stack, self.cohort, n)
        return messages

    def by_client(self, messages: Messages) -> Mapping[int, Message]:
        if messages is None:
            return dict.fromkeys(self.ids)
        if isinstance(messages, list):
            return dict(zip(self.ids, messages, strict=True))
        return Rows(self.cohort, messages)

    def fetch(self) -> None:
        """Read the members' states, after everybody's may have changed."""
        if self.everybody:
            self.stack = self.clients
        else:
            self.stack = {name: array.take(self.cohort, 0) for name, array in self.clients.items()}

    def put_back(self) -> None:
        """Write them, before everybody's are used."""
        if not self.everybody:
            for name, array in self.clients.items():
                array[self.cohort] = self.stack[name]


def play(
    draws: Draws, method: Method, samples: Samples, sizes: Sizes | None = None
) -> Iterator[Moment]:
    """The moments before rounds 0, 1, ..., N. State is live: the next step changes it."""
    inner: Any = getattr(method, "method", method)
    if hasattr(inner, "lms"):
        inner.lms = lms
    server = method.server()
    states = [method.client(k) for k in draws.ids]
    clients = {name: np.stack([state[name] for state in states]) for name in states[0]}
    sent, sizes = (0, 0, 0), sizes or Sizes(method)
    backlog = Backlog(method, samples, clients) if method.lazy else None
    selected = selecting.start(method, sizes)
    for n in range(draws.rounds):
        yield Moment(server, clients, sent)
        if selected is not None:
            sent = selected(n, samples, server, clients)
            continue
        sent = _round(n, method, samples, server, clients, sizes, backlog)
    yield Moment(server, clients, sent)


def _round(
    n: int,
    method: Method,
    samples: Samples,
    server: State,
    clients: State,
    sizes: Sizes,
    backlog: Backlog | None,
) -> tuple[int, int, int]:
    """One round in the order that the contract prescribes. Returns its bytes."""
    cohort = method.cohort(n, server)
    samples.move_to(n)
    if not len(cohort):
        return _quiet_round(n, method, samples, server, clients, backlog)
    members = (Together if is_stacked(method) else OneByOne)(method, clients, cohort)
    downloads = members.download(server, n)
    members.receive(n, downloads)
    if backlog:
        backlog.settle(n)
        for k in members.ids:
            backlog.catch_up(k, n + 1)
    elif method.idle:
        members.put_back()
        method.learn(clients, *samples.at(n))
        members.fetch()
    else:
        members.learn(n, samples)
    uploads = members.upload(n)
    members.put_back()
    size = len(members.ids)
    method.fold(server, n, members.by_client(uploads), dict.fromkeys(members.ids, 1 / size))
    return sizes.traffic(uploads, downloads, size)


def _quiet_round(
    n: int,
    method: Method,
    samples: Samples,
    server: State,
    clients: State,
    backlog: Backlog | None,
) -> tuple[int, int, int]:
    """A round in which nobody is selected."""
    if backlog:
        backlog.settle(n)
    elif method.idle:
        method.learn(clients, *samples.at(n))
    method.fold(server, n, {}, {})
    return 0, 0, 0
