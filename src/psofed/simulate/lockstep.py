"""Any method of the contract, round by round, clients stacked along the first axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.methods.contract import Method, State
from psofed.simulate.draws import Draws

Array = NDArray[Any]
BLOCK = 16  # rounds whose features are computed at once


@dataclass(frozen=True, eq=False)
class Moment:
    """The state before a round, and the bytes of the round before it: up, down, multicast down."""

    server: State
    clients: State
    traffic: tuple[int, int, int]


class Features:
    """z of all clients, a block of rounds at a time, shared by the methods that run in lockstep."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.begin, self.z = -BLOCK, np.empty(0)

    def at(self, n: int) -> Array:
        """z_{k,n} for all k."""
        if not self.begin <= n < self.begin + BLOCK:
            self.begin = n
            self.z = self.draws.features(self.draws.x[:, n : n + BLOCK])
        return self.z[:, n - self.begin]


def play(draws: Draws, method: Method, features: Features) -> Iterator[Moment]:
    """The moments before rounds 0, 1, ..., N. State is live: the next step changes it."""
    server = method.server()
    states = [method.client(k) for k in draws.ids]
    clients = {name: np.stack([state[name] for state in states]) for name in states[0]}
    traffic = (0, 0, 0)
    for n in range(draws.rounds):
        yield Moment(server, clients, traffic)
        traffic = _round(n, draws, method, features.at(n), server, clients)
    yield Moment(server, clients, traffic)


def _round(
    n: int, draws: Draws, method: Method, z: Array, server: State, clients: State
) -> tuple[int, int, int]:
    """One round in the order that the contract prescribes. Returns its bytes."""
    cohort = [int(k) for k in method.cohort(n)]
    # An ellipsis keeps scalars of the state as views, so that handlers can change them.
    member = {k: {name: array[k, ...] for name, array in clients.items()} for k in cohort}
    downloads = {k: method.download(server, k, n) for k in cohort}
    for k, message in downloads.items():
        method.receive(member[k], k, n, message)
    if method.idle:
        method.learn(clients, draws.x[:, n], z, draws.y[:, n])
    else:
        for k in cohort:
            method.learn(member[k], draws.x[k, n], z[k], draws.y[k, n])
    uploads = {k: method.upload(member[k], k, n) for k in cohort}
    method.fold(server, n, uploads, dict.fromkeys(cohort, 1 / max(len(cohort), 1)))
    up = sum(len(method.encode(m)) for m in uploads.values() if m is not None)
    sent = [len(method.encode(m)) for m in downloads.values() if m is not None]
    return up, sum(sent), sum(sent[:1] if method.common else sent)
