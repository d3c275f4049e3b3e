"""The clients of one process: their states as one stack, and what they learn from."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import Indices
from psofed.federation.contract import Array, Method, State
from psofed.federation.stage import LASTING

NOBODY = np.empty(0, np.intp)


class RoundSamples(Protocol):
    """x, z and y of round n. `known` are those with a sample, in order; None: all have one."""

    def known(self, n: int) -> Indices | None: ...

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]: ...


def among(keys: Indices, known: Indices) -> NDArray[np.bool_]:
    """Which of the clients `keys` are among the `known`, which are in order."""
    if not len(known):
        return np.zeros(len(keys), bool)
    return known.take(known.searchsorted(keys), mode="clip") == keys


def stacked(state: State, *shape: int) -> State:
    """The state of one client, or of a server, as that of many."""
    return {
        name: np.broadcast_to(array, (*shape, *array.shape)).copy() for name, array in state.items()
    }


class Clients:
    """All clients of this process: states [client, ...], of several runs [run, client, ...]."""

    def __init__(self, method: Method, count: int, runs: int = 0) -> None:
        self.method, self.count, self.runs = method, count, runs
        self.states = stacked(method.client(), *([runs] if runs else []), count)
        # One row for each client of each run.
        self.flat = {
            name: array.reshape(-1, *array.shape[2:]) if runs else array
            for name, array in self.states.items()
        }
        self.first = count * np.arange(runs)[:, None]

    def members(self, k: Indices) -> Members:
        """Those who take part in a round."""
        return Members(self, k)

    def renew(self, new: Collection[int]) -> None:
        """Clients that start over have a fresh state; what has to last stays."""
        for name, array in self.method.client().items() if new else ():
            if not name.startswith(LASTING):
                self.states[name][list(new)] = array

    def learn(self, n: int, samples: RoundSamples) -> None:
        """All clients that have a sample learn from it."""
        known = samples.known(n)
        if known is None or len(known) == self.count:
            learn(self.method, self.states, *samples.of(n, None))
        elif len(known):
            learn_rows(self.method, self.states, known, samples.of(n, known))


class Members:
    """Some clients, their states copied to a stack of their own."""

    def __init__(self, clients: Clients, k: Indices) -> None:
        self.clients, self.k = clients, k
        self.rows: Any = k if k.ndim == 1 else k + clients.first
        self.all = k.ndim == 1 and len(k) == clients.count
        flat = {} if self.all else clients.flat
        some = {name: array.take(self.rows, 0) for name, array in flat.items()}
        self.stack = clients.states if self.all else some

    def fetch(self) -> None:
        """Read the members' states again, after those of all clients may have changed."""
        if not self.all:
            for name, array in self.clients.flat.items():
                array.take(self.rows, 0, out=self.stack[name], mode="clip")

    def put_back(self) -> None:
        """Write the members' states, before those of all clients are used."""
        if not self.all:
            for name, array in self.clients.flat.items():
                array[self.rows] = self.stack[name]

    def learn(self, n: int, samples: RoundSamples) -> None:
        """Those of them that have a sample learn from it."""
        if not self.k.size:
            return
        known, method = samples.known(n), self.clients.method
        here = None if known is None else among(self.k, known)
        if here is None or here.all():
            learn(method, self.stack, *samples.of(n, None if self.all else self.k))
        elif here.any():
            rows = np.flatnonzero(here)
            learn_rows(method, self.stack, rows, samples.of(n, self.k[rows]))


def learn(method: Method, states: State, x: Array, z: Array, y: Array) -> None:
    """Each client of a stack learns from one sample; to a lazy method, that is a row of one."""
    if method.lazy:
        x, z, y = x[..., None, :], z[..., None, :], y[..., None]
    method.learn(states, x, z, y)


def learn_rows(
    method: Method, states: State, rows: Any, samples: tuple[Array, Array, Array]
) -> None:
    """Some clients of a stack learn, each from its sample."""
    some = {name: array[rows] for name, array in states.items()}
    learn(method, some, *samples)
    for name, array in states.items():
        array[rows] = some[name]


class SampleFeed(Protocol):
    """What clients learn from, and when: older samples before the download, the others after it."""

    def known(self, n: int) -> Indices | None: ...

    def before(self, n: int, k: Indices, new: Collection[int]) -> None: ...

    def now(self, n: int, members: Members) -> None: ...


class EachRound:
    """One sample a round: for all clients if they learn when idle, else for the members."""

    def __init__(self, clients: Clients, samples: RoundSamples) -> None:
        self.clients, self.samples = clients, samples

    def known(self, n: int) -> Indices | None:
        """Those who have a sample in round n; None: all have one."""
        return self.samples.known(n)

    def before(self, n: int, k: Indices, new: Collection[int]) -> None:
        """Everything older has been learned, or is never learned."""

    def now(self, n: int, members: Members) -> None:
        """Those who have a sample learn from it."""
        if self.clients.method.idle:
            members.put_back()
            self.clients.learn(n, self.samples)
            members.fetch()
        else:
            members.learn(n, self.samples)
