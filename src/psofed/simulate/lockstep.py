"""Any method of the contract, round by round, clients stacked along the first axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.methods.contract import Method, State, traffic
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
        self.chunk = next(self.chunks)
        self.begin, self.z = -BLOCK, np.empty(0)

    def at(self, n: int) -> tuple[Array, Array, Array]:
        """x_{k,n}, z_{k,n} and y_{k,n} for all k; rounds are asked for in order."""
        if n - self.chunk.first >= self.chunk.y.shape[1]:
            self.chunk = next(self.chunks)
        i = n - self.chunk.first
        if not self.begin <= n < self.begin + BLOCK:
            self.begin = n
            self.z = self.features(self.chunk.x[:, i : i + BLOCK])
        return self.chunk.x[:, i], self.z[:, n - self.begin], self.chunk.y[:, i]


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


def play(draws: Draws, method: Method, samples: Samples) -> Iterator[Moment]:
    """The moments before rounds 0, 1, ..., N. State is live: the next step changes it."""
    server = method.server()
    states = [method.client(k) for k in draws.ids]
    clients = {name: np.stack([state[name] for state in states]) for name in states[0]}
    sent, sizes = (0, 0, 0), Sizes(method)
    for n in range(draws.rounds):
        yield Moment(server, clients, sent)
        sent = _round(n, method, samples.at(n), server, clients, sizes)
    yield Moment(server, clients, sent)


def _round(
    n: int,
    method: Method,
    samples: tuple[Array, Array, Array],
    server: State,
    clients: State,
    sizes: Sizes,
) -> tuple[int, int, int]:
    """One round in the order that the contract prescribes. Returns its bytes."""
    cohort = [int(k) for k in method.cohort(n, server)]
    x, z, y = samples
    # An ellipsis keeps scalars of the state as views, so that handlers can change them.
    member = {k: {name: array[k, ...] for name, array in clients.items()} for k in cohort}
    downloads = {k: method.download(server, k, n) for k in cohort}
    for k, message in downloads.items():
        method.receive(member[k], k, n, message)
    if method.idle:
        method.learn(clients, x, z, y)
    else:
        for k in cohort:
            method.learn(member[k], x[k], z[k], y[k])
    uploads = {k: method.upload(member[k], k, n) for k in cohort}
    method.fold(server, n, uploads, dict.fromkeys(cohort, 1 / max(len(cohort), 1)))
    up = [sizes(m, True) for m in uploads.values() if m is not None]
    down = [sizes(m, False) for m in downloads.values() if m is not None]
    return traffic(method, up, down)
