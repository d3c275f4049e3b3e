"""Partial-diffusion LMS: no server; every node learns and sends M of D entries to its neighbours.

Source: R. Arablouei, S. Werner, Y.-F. Huang, K. Dogancay, "Distributed least mean-square estimation
with partial diffusion", IEEE Trans. Signal Process. 62(2), 2014: the origin of partial sharing.

Faithful: adapt, then combine: every node learns, broadcasts M entries of the result, and takes the
weighted mean of what it hears and of its own values where it hears none. mask = "groups": the
entries are those of one of ceil(D/M) fixed groups, in turn (selection = "sequential") or at random
(selection = "stochastic").

Ours: the windows of PSO-Fed (mask = "subset" or "block"); groups are neighbouring entries, and if M
does not divide D the last one is filled up with the first entries; scheme = "coordinated" lets all
nodes send the same group. Kernel features, the graphs and a ring of degree 4 as the default.

Unverified: the scheme is that of the abstract; the body was not read, so the groups, and which
nodes send the same one, are from memory.

Every node sends in every round, which is expensive: 4 M K bytes a round if one broadcast reaches
all neighbours, and 4 M for every neighbour of every node if it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from psofed.contract import (
    ABSENT,
    Array,
    Indices,
    InputError,
    Message,
    PartialSharing,
    State,
    Task,
    Windows,
    equations,
    native,
    nothing,
    whole,
)  # fmt: skip

Neighbours = tuple[tuple[int, ...], ...]  # of each node, in ascending order, without itself
Weights = tuple[tuple[float, ...], ...]  # of each neighbour; a node keeps the rest for itself
MOST = 2000  # nodes of a graph for which all pairs are examined


@dataclass(frozen=True)
class PdLMS(Windows):
    """The windows of PSO-Fed; the graph, and its degree if it is a ring."""

    name: ClassVar[str] = "pdlms"
    uncoded: ClassVar[str] = (
        "broadcasts to neighbours, who would each need a reference of their own"
    )
    everybody: ClassVar[bool] = True
    serves: ClassVar[bool] = False
    selects: ClassVar[bool] = True
    gapless: ClassVar[bool] = True
    simulated: ClassVar[str] = "it has no server: its nodes send to their neighbours"
    graph: Literal["ring", "complete", "star"] = "ring"  # who are neighbours
    degree: int = 4  # neighbours of each client in a ring

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5, one of the groups at random."""
        return (cls(max(dim // 5, 1), selection="stochastic", mask="groups"),)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """M, the scheme, and whether groups come in turn or at random."""
        turns = ("sequential", "stochastic")
        return {**super().choices(dim, rounds), "selection": turns}

    def describe(self) -> str:
        return f"PdLMS {self.windows()}, {self.place()}"

    def place(self) -> str:
        """The graph in short."""
        ring = f" {self.degree}" if self.graph == "ring" else ""
        return f"{self.graph}{ring}"

    def check(self, dim: int, clients: int) -> None:
        """The windows are valid for PSO-Fed, all nodes learn, a ring has two sides."""
        super().check(dim, clients)
        if not self.idle:
            found = "is false, but every node learns in every round"
            raise InputError("idle", found, "leave it out")
        if self.degree < 2 or self.degree % 2:
            raise InputError("degree", f"is {self.degree}", "use an even number, 2 or more")
        if self.graph == "complete" and clients > MOST:
            found = f"is {self.graph!r}, but there are {clients} clients"
            raise InputError("graph", found, f'use "ring" or "star", or {MOST} clients at most')


Options = PdLMS


class Method(PartialSharing):
    """phi_k = w_k + mu e_k z_k; k broadcasts phi_k on S_{k,n} and combines what neighbours sent:

    w_k = c_kk phi_k + sum_l c_lk (phi_l on S_{l,n}, phi_k elsewhere), sum_l c_lk = 1.

    The weights are those of Metropolis, c_lk = 1 / (1 + max(deg_k, deg_l)). That of a neighbour who
    is not heard goes to phi_k. The mean error of the w_k is judged. Broadcasts of round n are
    combined when round n + 1 begins, before any node learns; until then a client's state has phi_k.
    """

    entrywise = False

    def __init__(self, options: Options, task: Task, graph: Neighbours | None = None) -> None:
        super().__init__(options, task)
        self.idle, self.delivery = True, "peers"
        self.neighbours = draw(options, task) if graph is None else graph
        self.weights = [np.array(shares) for shares in metropolis(self.neighbours)]
        self.degrees = np.array([len(nodes) for nodes in self.neighbours])
        # Every node asks for the windows of the same round.
        self.sent = lru_cache(4)(lambda n: self.schedule.entries(np.arange(task.clients), n))
        self.edges = lru_cache(4)(self._edges)
        self.several = not getattr(task.cohorts, "absent", 0)  # runs at once need everybody

    def _edges(self, k: tuple[int, ...]) -> Edges:
        degrees = self.degrees[list(k)]
        rows = np.repeat(np.arange(len(k)), degrees)
        first = np.repeat(np.cumsum(degrees) - degrees, degrees)
        senders = np.array([j for node in k for j in self.neighbours[node]], np.intp)
        weights = np.concatenate([self.weights[node] for node in k])
        return Edges(rows, np.arange(len(rows)) - first, senders, weights, degrees)

    def cohort(self, n: int, server: State) -> Indices:
        """Every node that ever sends, in every round."""
        return self.task.cohorts.there(n)

    def server(self) -> State:
        """The newest broadcast of each node, which of them arrived, and their round."""
        K = self.task.clients
        air = {"air": self.task.zeros(K, self.shared), "heard": np.zeros(K, bool)}
        return air | {"round": np.full((), -2)}

    def download(self, server: State, k: Indices, n: int) -> Message:
        """The neighbours' broadcasts of the round before; one that was not heard is not a number.

        It is counted anyway, because it was sent.
        """
        edges = self.edges(_ids(k))
        if server["round"].flat[0] != n - 1 or not len(edges.rows):
            return nothing(k, self.task.dtype)
        heard, air = (server[name] for name in ("heard", "air"))
        received = air[..., edges.senders, :]
        if not heard.all():
            received[~heard[..., edges.senders]] = np.nan
        return edges.message(received, k)

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """w_k from phi_k and the broadcasts of the round before."""
        if message.heard.any():
            edges = self.edges(_ids(k))
            self._combine(client["w"], edges, n - 1, edges.received(message, self.shared))

    def _combine(self, phi: Array, edges: Edges, n: int, received: Array) -> None:
        """Eq. (11) with the node as server: w_k = phi_k + sum_l c_lk S_{l,n} (phi_l - phi_k)."""
        windows = self.sent(n)
        if native.available() and phi.dtype == received.dtype and phi.flags.c_contiguous:
            windows, (nodes, dim) = np.ascontiguousarray(windows), phi.shape[-2:]
            sizes = phi.size // (nodes * dim), nodes, windows.shape[-2], len(edges.rows)
            received, total = np.ascontiguousarray(received), np.empty((nodes, dim))
            native.function("combine", phi.dtype)(
                phi, edges.rows, edges.senders, edges.weights, windows, received, total,
                *sizes, self.shared, dim,
            )  # fmt: skip
            return
        models = phi.reshape(*phi.shape[:-2], -1)  # of all nodes in one row: one sum serves all
        places = edges.rows[:, None] * self.task.dim + windows[..., edges.senders, :]
        change = edges.weights[:, None] * (received - equations.share(models, places))
        change[np.isnan(received)] = 0
        equations.add_at(models, places, change)

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """phi_k on S_{k,n}; nothing if the node has no neighbours."""
        values = equations.share(client["w"], self.sent(n)[equations.at(k)])
        if self.degrees.all():
            return whole(values)
        lonely = self.degrees[k] == 0
        values[lonely] = 0
        return Message(values, np.where(lonely, ABSENT, self.shared))

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """Nothing is folded: the broadcasts are kept until the next round begins."""
        server["round"][...] = n
        server["heard"][...] = False
        if k.size:
            ids = list(_ids(k))
            server["air"][..., ids, :] = message.values
            server["heard"][..., ids] = message.heard

    def models(self, server: State | None, clients: State) -> Array:
        """w_k for all k, as the next round will begin with them; without the others, phi_k."""
        if server is None:
            return clients["w"]
        models: Array = clients["w"].copy()
        n, everybody = int(server["round"].flat[0]), np.arange(self.task.clients)
        everybody = np.broadcast_to(everybody, models.shape[:-1])
        message = self.download(server, everybody, n + 1)
        self.receive({"w": models}, everybody, n + 1, message)
        return models

    def decode(self, data: bytes, up: bool) -> Array:
        """A window; of a download, one from each neighbour."""
        values = super().decode(data, up)
        nodes = (1,) if up else self.degrees
        if not len(values) or len(values) not in self.shared * np.asarray(nodes):
            raise ValueError(f"{len(values)} values, not windows of {self.shared}")
        return values


class Edges(NamedTuple):
    """The edges that lead to some nodes, node by node."""

    rows: Indices  # the row of the node
    place: Indices  # among the edges of its node
    senders: Indices
    weights: Array
    degrees: Indices  # of each node

    @property
    def regular(self) -> bool:
        """Whether all nodes have as many neighbours."""
        return bool((self.degrees == self.degrees[0]).all())

    def message(self, received: Array, k: Indices) -> Message:
        """The broadcasts [..., edge, M], those of a node in one row; of none, there is no row."""
        if self.regular:
            return whole(received.reshape(*k.shape, -1))
        shared = received.shape[-1]
        values = np.zeros((*k.shape, self.degrees.max(), shared), received.dtype)
        values[..., self.rows, self.place, :] = received
        length = np.where(self.degrees > 0, self.degrees * shared, ABSENT)
        return Message(values.reshape(*k.shape, -1), np.broadcast_to(length, k.shape))

    def received(self, message: Message, shared: int) -> Array:
        """The broadcasts [..., edge, M] of such a message."""
        values = message.values.reshape(*message.length.shape, -1, shared)
        if self.regular:
            return values.reshape(*values.shape[:-3], -1, shared)
        return values[..., self.rows, self.place, :]


def _ids(k: Indices) -> tuple[int, ...]:
    """As a tuple; of several runs, all of which have the same."""
    return tuple(k.ravel()[: k.shape[-1]].tolist())


def draw(options: Options, task: Task) -> Neighbours:
    """The graph that the options name."""
    if options.graph == "ring":
        return ring(task.clients, options.degree)
    return (star if options.graph == "star" else complete)(task.clients)


def ring(clients: int, degree: int = 2) -> Neighbours:
    """Node k hears the `degree` nodes nearest to it on a circle, half of them on each side.

    >>> ring(5)
    ((1, 4), (0, 2), (1, 3), (2, 4), (0, 3))
    """
    reach = range(1, min(degree // 2, clients // 2) + 1)
    near = ({(k + step) % clients for i in reach for step in (i, -i)} for k in range(clients))
    return tuple(tuple(sorted(nodes)) for nodes in near)


def complete(clients: int) -> Neighbours:
    """Every node hears every other node."""
    everybody = range(clients)
    return tuple(tuple(j for j in everybody if j != k) for k in everybody)


def star(clients: int) -> Neighbours:
    """Node 0 hears all, all hear node 0.

    >>> star(3)
    ((1, 2), (0,), (0,))
    """
    return (tuple(range(1, clients)), *((0,) for _ in range(1, clients)))


def metropolis(neighbours: Neighbours) -> Weights:
    """c_lk = 1 / (1 + max(deg_k, deg_l)): the same both ways, so that the nodes' mean is kept.

    >>> metropolis(star(3))
    ((0.3333333333333333, 0.3333333333333333), (0.3333333333333333,), (0.3333333333333333,))
    """
    degree = [len(nodes) for nodes in neighbours]
    return tuple(
        tuple(1 / (1 + max(degree[k], degree[j])) for j in nodes)
        for k, nodes in enumerate(neighbours)
    )
