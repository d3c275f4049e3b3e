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
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed import native
from psofed.core import equations
from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.methods import graphs, psofed
from psofed.methods.contract import Array, Message, State, Task, Who, stack
from psofed.methods.graphs import Neighbours

MOST = 2000  # nodes of a graph for which all pairs are examined


@dataclass(frozen=True)
class Options(psofed.Options):
    """The windows of PSO-Fed; the graph, its degree if it is a ring, and the weights."""

    name: ClassVar[str] = "pdlms"
    uncoded: ClassVar[str] = (
        "broadcasts to neighbours, who would each need a reference of their own"
    )
    everybody: ClassVar[bool] = True
    serves: ClassVar[bool] = False
    selects: ClassVar[bool] = True
    gapless: ClassVar[bool] = True
    simulated: ClassVar[str] = "it has no server: its nodes send to their neighbours"
    graph: Literal["ring", "complete", "star", "geometric"] = "ring"
    degree: int = 4
    weights: Literal["metropolis", "uniform"] = "metropolis"

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
        return f"{self.graph}{ring}{', uniform' if self.weights == 'uniform' else ''}"

    def check(self, dim: int, clients: int) -> None:
        """The windows are valid for PSO-Fed, all nodes learn, a ring has two sides."""
        super().check(dim, clients)
        if not self.idle:
            found = "is false, but every node learns in every round"
            raise InputError("idle", found, "leave it out")
        if self.degree < 2 or self.degree % 2:
            raise InputError("degree", f"is {self.degree}", "use an even number, 2 or more")
        if self.graph in ("complete", "geometric") and clients > MOST:
            found = f"is {self.graph!r}, but there are {clients} clients"
            raise InputError("graph", found, f'use "ring" or "star", or {MOST} clients at most')


class Method(psofed.Method):
    """phi_k = w_k + mu e_k z_k; k broadcasts phi_k on S_{k,n} and combines what neighbours sent:

    w_k = c_kk phi_k + sum_l c_lk (phi_l on S_{l,n}, phi_k elsewhere), sum_l c_lk = 1.

    Metropolis weights are c_lk = 1 / (1 + max(deg_k, deg_l)), uniform ones 1 / (1 + deg_k).
    The weight of a neighbour that is not heard goes to phi_k. The mean error of the w_k is judged.
    Broadcasts of round n are combined when round n + 1 begins, before any node learns; until then a
    client's state has phi_k.
    """

    peers = True
    stacked = True

    def __init__(self, options: Options, task: Task, graph: Neighbours | None = None) -> None:
        super().__init__(options, task)
        self.idle, self.common = True, False
        self.neighbours = draw(options, task) if graph is None else graph
        form = graphs.metropolis if options.weights == "metropolis" else graphs.uniform
        self.weights = [np.array(shares) for shares in form(self.neighbours)]
        self.degrees = np.array([len(nodes) for nodes in self.neighbours])
        # Every node asks for the windows of the same round.
        self.windows = lru_cache(4)(lambda n: self.schedule.entries(np.arange(task.clients), n))
        self.edges = lru_cache(task.clients + 1)(self._edges)
        # Several runs at once need the same graph and everybody, with as many messages for each.
        same = options.graph != "geometric" and len(set(self.degrees.tolist())) == 1
        self.several = self.several and same and not getattr(task.cohorts, "absent", 0)

    def _edges(self, ks: tuple[int, ...]) -> tuple[Array, Array, Array]:
        """Of the edges that lead to these nodes: the row of the node, the sender, its weight."""
        rows = np.repeat(np.arange(len(ks)), self.degrees[list(ks)])
        speakers = np.array([j for k in ks for j in self.neighbours[k]], np.intp)
        return rows, speakers, np.concatenate([self.weights[k] for k in ks])

    def cohort(self, n: int, server: State) -> Indices:
        """Every node that ever sends, in every round."""
        return self.task.cohorts.there(n)

    def server(self) -> State:
        """The newest broadcast of each node, which of them arrived, and their round."""
        K = self.task.clients
        air = {"air": self.task.zeros(K, self.shared), "heard": np.zeros(K, bool)}
        return air | {"round": np.full((), -2)}

    def download(self, server: State, k: Who, n: int) -> Any:
        """The neighbours' broadcasts of the round before; one that was not heard is not a number.

        It is counted all the same, because it was sent.
        """
        if server["round"].flat[0] != n - 1:
            return None
        rows, near, _ = self.edges(_ids(k))
        said = np.where(server["heard"][..., near, None], server["air"][..., near, :], np.nan)
        said = said.astype(self.task.dtype, copy=False)
        if isinstance(k, int):
            return said.ravel() if len(near) else None
        if k.ndim == 2:
            return said.reshape(*k.shape, -1) if len(near) else None
        if len(near) and (self.degrees[k] == self.degrees[k[0]]).all():
            return said.reshape(len(k), -1)
        parts = np.split(said, np.searchsorted(rows, np.arange(1, len(k))))
        return [part.ravel() if len(part) else None for part in parts]

    def downloads(self, k: int, n: int) -> tuple[int | None, ...]:
        """The broadcasts of all neighbours, or nothing."""
        return None, int(self.degrees[k]) * self.shared

    def receive(self, client: State, k: Who, n: int, message: Any) -> None:
        """w_k from phi_k and the broadcasts of the round before."""
        if isinstance(message, list):  # nodes have different numbers of neighbours
            heard = [part for part in message if part is not None]
            message = np.concatenate(heard) if heard else None
        if message is not None:
            self._combine(client["w"], k, n - 1, message)

    def _combine(self, phi: Array, k: Who, n: int, message: Array) -> None:
        """Eq. (11) with the node as server: w_k = phi_k + sum_l c_lk S_{l,n} (phi_l - phi_k)."""
        rows, near, shares = self.edges(_ids(k))
        said = message.reshape(*phi.shape[:-2], -1, self.shared)
        one = isinstance(k, int)
        if native.available() and not one and phi.dtype == said.dtype and phi.flags.c_contiguous:
            windows, (nodes, dim) = np.ascontiguousarray(self.windows(n)), phi.shape[-2:]
            sizes = phi.size // (nodes * dim), nodes, windows.shape[-2], len(rows)
            said, total = np.ascontiguousarray(said), np.empty((nodes, dim))
            native.function("combine", phi.dtype)(
                phi, rows, near, shares, windows, said, total, *sizes, self.shared, dim
            )
            return
        windows = self.schedule.entries(near, n) if one else self.windows(n)[..., near, :]
        models = phi.reshape(*phi.shape[:-2], -1)  # of all nodes in one row: one sum serves all
        places = rows[:, None] * self.task.dim + windows
        change = shares[:, None] * (said - equations.share(models, places))
        change[np.isnan(said)] = 0
        equations.add_at(models, places, change)

    def upload(self, client: State, k: Who, n: int) -> Any:
        """phi_k on S_{k,n}; nothing if the node has no neighbours."""
        if isinstance(k, int):
            window = self.schedule.entries(k, n)
            return equations.share(client["w"], window) if self.degrees[k] else None
        window = self.windows(n)
        said = equations.share(client["w"], window[k] if k.ndim == 1 else window)
        if self.degrees[k].all():
            return said
        return [row if near else None for row, near in zip(said, self.degrees[k], strict=True)]

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return (self.shared,) if all(self.neighbours) else None  # a lone node sends nothing

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """Nothing is folded: the broadcasts are kept until the next round begins."""
        server["round"][...] = n
        server["heard"][:] = False
        ks, said, _ = stack(uploads, dict.fromkeys(uploads, 1.0))  # the weights are those of edges
        if len(ks):
            server["air"][..., _ids(ks), :] = said
            server["heard"][..., _ids(ks)] = True

    def models(self, server: State, clients: State) -> Array:
        """w_k for all k, as the next round will begin with them."""
        models: Array = clients["w"].copy()
        n, everybody = int(server["round"].flat[0]), np.arange(self.task.clients)
        everybody = np.broadcast_to(everybody, models.shape[:-1])
        message = self.download(server, everybody, n + 1)
        self.receive({"w": models}, everybody, n + 1, message)
        return models


def _ids(k: Who) -> tuple[int, ...]:
    """As a tuple; of several runs, all of which have the same."""
    return (k,) if isinstance(k, int) else tuple((k if k.ndim == 1 else k[0]).tolist())


def draw(options: Options, task: Task) -> Neighbours:
    """The graph that the options name."""
    if options.graph == "ring":
        return graphs.ring(task.clients, options.degree)
    if options.graph == "geometric":
        return graphs.geometric(task.seeds, task.clients)
    return (graphs.star if options.graph == "star" else graphs.complete)(task.clients)
