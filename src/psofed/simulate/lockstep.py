"""Any method of the contract, round by round, clients stacked along the first axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.methods.contract import Method, State, traffic
from psofed.simulate import selecting
from psofed.simulate.draws import Draws

Array = NDArray[Any]
BLOCK = 16  # rounds whose features are computed at once


@dataclass(frozen=True, eq=False)
class Moment:
    """The state before a round, and the bytes of the round before it: up, down, multicast down."""

    server: State
    clients: State
    traffic: tuple[int, int, int]


class Samples:
    """x, z and y of all clients, round by round, shared by the methods that run in lockstep."""

    def __init__(self, draws: Draws) -> None:
        self.features, self.chunks = draws.features, draws.chunks()
        self.chunk = self.before = next(self.chunks)
        self.begin, self.z = -BLOCK, np.empty(0)

    def move_to(self, n: int) -> None:
        """Have the samples of round n at hand; rounds are asked for in order."""
        if n - self.chunk.first >= self.chunk.y.shape[1]:
            self.before, self.chunk = self.chunk, next(self.chunks)

    def at(self, n: int) -> tuple[Array, Array, Array]:
        """x_{k,n}, z_{k,n} and y_{k,n} for all k, of a round that was moved to."""
        i = n - self.chunk.first
        if not self.begin <= n < self.begin + BLOCK:
            self.begin = n
            self.z = self.features(self.chunk.x[:, i : i + BLOCK])
        return self.chunk.x[:, i], self.z[:, n - self.begin], self.chunk.y[:, i]

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

    def __call__(self, message: Array, up: bool) -> int:
        key = up, len(message)
        if key not in self.known:
            self.known[key] = len(self.method.encode(message, up))
        return self.known[key]


def play(
    draws: Draws, method: Method, samples: Samples, sizes: Sizes | None = None
) -> Iterator[Moment]:
    """The moments before rounds 0, 1, ..., N. State is live: the next step changes it."""
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
    cohort = [int(k) for k in method.cohort(n, server)]
    samples.move_to(n)
    # An ellipsis keeps scalars of the state as views, so that handlers can change them.
    member = {k: {name: array[k, ...] for name, array in clients.items()} for k in cohort}
    downloads = {k: method.download(server, k, n) for k in cohort}
    for k, message in downloads.items():
        method.receive(member[k], k, n, message)
    if backlog:
        backlog.settle(n)
        for k in cohort:
            backlog.catch_up(k, n + 1)
    elif method.idle:
        method.learn(clients, *samples.at(n))
    elif cohort:
        x, z, y = samples.at(n)
        for k in cohort:
            method.learn(member[k], x[k], z[k], y[k])
    uploads = {k: method.upload(member[k], k, n) for k in cohort}
    method.fold(server, n, uploads, dict.fromkeys(cohort, 1 / max(len(cohort), 1)))
    up = [sizes(m, True) for m in uploads.values() if m is not None]
    down = [sizes(m, False) for m in downloads.values() if m is not None]
    return traffic(method, up, down)
