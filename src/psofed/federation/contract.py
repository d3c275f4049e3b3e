"""The contract of a method: what goes down, what the client does, what goes up, how it is folded.

A method is one file with two classes, in `methods`, in `rivals` or anywhere else. `Options` is a
frozen dataclass: the keys of its table in an experiment file. `Method(options, task)` has the
handlers below. State is a plain dict of arrays, changed in place by the handlers and owned by their
caller. Handlers use no other state, no clock and no randomness but `task.seeds`, so every executor
gives the same numbers.

Handlers take a stack of clients: `k` [..., s], a client's state [..., s, ...], a message with one
row for each. One client is a stack of one. Axes before s broadcast: there several Monte-Carlo runs
are computed in one call, the server's state is [..., D], and no handler has to know of it.
`round.py` calls them, for every executor and for both ends of a deployment:

    k = cohort(n, server)
    receive(client, k, n, download(server, k, n))
    learn(client, x, z, y)                        all clients if `idle`, else the cohort
    fold(server, k, n, upload(client, k, n), weights)

In blocks of `pace` rounds a cohort stays the same, downloads first and uploads last. A client that
starts over gets the download of the block; if it keeps entries that do not come down, that of
round BEFORE, in which all come. `fold` is called in every round, also where nobody uploads: with an
empty stack, or with rows that are shorter than usual. The weights are 1/|S_n|, and 0 for those who
sent no values; those of a policy need not sum to 1: `fold` adds weighted differences to w.

What stands around a method (checks, codes, noise, masks, attacks, defences, policies, averaging)
is a stage (see `stage.py`), of which a method knows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np

from psofed.core import payload
from psofed.core.features import FeatureMap
from psofed.core.native import Array as Array
from psofed.core.schedule import GivenCohorts, Indices, UniformCohorts
from psofed.core.seeds import Seeds
from psofed.federation.forms import Contract
from psofed.federation.learners import lms
from psofed.federation.learners.contract import Learner
from psofed.federation.options import Common

State = dict[str, Array]
ABSENT = -1  # the length of no message at all


@dataclass(frozen=True, eq=False)
class Message:
    """Rows of values, one for each client of a stack; the first `length` of a row travel.

    A length of 0 is a message without values: one byte, which says that none come. ABSENT is no
    message, and costs nothing. Behind its length, a row is 0.
    """

    values: Array  # [..., s, m]
    length: Array  # [..., s]

    @property
    def heard(self) -> Array:
        """Whose messages have values."""
        return self.length > 0

    def row(self, i: int) -> Array | None:
        """What travels to or from client i of the stack; None: nothing does."""
        length = int(self.length[i])
        return None if length == ABSENT else self.values[i, :length]


@lru_cache(maxsize=64)
def _all(shape: tuple[int, ...], length: int) -> Array:
    found = np.full(shape, length)
    found.flags.writeable = False
    return found


def whole(values: Array) -> Message:
    """All values of every row.

    >>> whole(np.ones((2, 3))).length.tolist()
    [3, 3]
    """
    return Message(values, _all(values.shape[:-1], values.shape[-1]))


def same(values: Array, k: Array) -> Message:
    """The same values [..., m] for each of the clients k [..., s]."""
    return whole(np.broadcast_to(values[..., None, :], (*k.shape, values.shape[-1])))


def some(values: Array, sent: Array, least: int = 0) -> Message:
    """The rows of those who `sent` them [..., s]; of the others the first `least` values.

    >>> some(np.ones((2, 3)), np.array([True, False])).length.tolist()
    [3, 0]
    """
    if sent.all():
        return whole(values)
    kept = sent[..., None] | (np.arange(values.shape[-1]) < least)
    length = np.where(sent, values.shape[-1], least)
    return Message(np.where(kept, values, values.dtype.type(0)), length)


def nothing(k: Array, dtype: Any = np.float64) -> Message:
    """No message for any of the clients k [..., s]."""
    return Message(np.empty((*k.shape, 0), dtype), _all(k.shape, ABSENT))


def rows(messages: Sequence[Array | None], dtype: Any = np.float64) -> Message:
    """Messages one by one, as those of a stack.

    >>> rows([np.ones(2), None, np.empty(0)]).length.tolist()
    [2, -1, 0]
    """
    length = np.array([ABSENT if m is None else len(m) for m in messages], np.intp)
    values = np.zeros((len(messages), max(length.max(initial=0), 0)), dtype)
    for row, m in zip(values, messages, strict=True):
        if m is not None:
            row[: len(m)] = m
    return Message(values, length)


@dataclass(frozen=True, eq=False)
class Task:
    """What a method may know: the federation's size, the features, the cohorts and the seeds."""

    clients: int
    dim: int
    taps: int
    step: Any  # mu; of several runs with steps of their own, [R]
    seeds: Seeds
    features: FeatureMap
    cohorts: UniformCohorts | GivenCohorts
    dtype: str = "float64"
    wire: str = "float32"
    learner: Learner = field(default_factory=lms.Options)  # an executor may have a compiled one

    @property
    def places(self) -> int:
        """Rows of arrays over clients."""
        return self.cohorts.places

    def zeros(self, *shape: int) -> Array:
        """Initial values in the precision of this task."""
        return np.zeros(shape, self.dtype)

    def initial(self) -> Array:
        """w_0, the model of the server and of every client before round 0."""
        return self.learner.initial(self.seeds, self.taps, self.dim).astype(self.dtype)


# To each client by itself; the same to the whole cohort, so that a multicast sends it once; or from
# other clients, who have sent it up: then there is no server.
Delivery = Literal["each", "common", "peers"]
BEFORE = -1  # the round of a download for those who start over and keep what does not come down


class Method(Protocol):
    """The handlers of a method. See the module's first lines for the order of the calls."""

    task: Task
    step: Any
    idle: bool  # clients learn also in rounds in which they do not take part
    pace: int  # rounds of a block, with one download and one upload
    delivery: Delivery  # how what goes down gets there
    entrywise: bool  # an upload is entries of a model, and the fold adds their differences to w
    lazy: bool  # what a client learned is read at its contacts only: it learns [..., s, T, ...]
    several: bool  # handlers take several runs at once

    def cohort(self, n: int, server: State) -> Indices: ...

    def server(self) -> State: ...

    def client(self) -> State: ...

    def download(self, server: State, k: Indices, n: int) -> Message: ...

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None: ...

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None: ...

    def upload(self, client: State, k: Indices, n: int) -> Message: ...

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None: ...

    def models(self, server: State | None, clients: State) -> Array: ...

    def entries(self, k: Indices, n: Any, up: bool) -> Indices: ...

    def encode(self, values: Array, up: bool) -> bytes: ...

    def decode(self, data: bytes, up: bool) -> Array: ...


class Plain:
    """What most methods share: the task's cohorts, plain values on the wire, a global model `w`."""

    idle = entrywise = lazy = False
    several = True
    delivery: Delivery = "each"

    def __init__(self, options: Common, task: Task) -> None:
        self.task, self.learner, self.pace = task, task.learner, options.pace
        self.mu = task.step if options.step is None else options.step
        self.step = self.times(1.0)

    def times(self, factor: float, axes: int = 1) -> Any:
        """mu times a factor; where runs have their own steps, [R, 1, ...] with `axes` ones."""
        if isinstance(self.mu, float | int):
            return self.mu * factor
        return (self.mu * factor).astype(self.task.dtype).reshape(-1, *(1,) * axes)

    def cohort(self, n: int, server: State) -> Indices:
        """S_n; in blocks, that of their first round."""
        return self.task.cohorts.cohort(n - n % self.pace)

    def server(self) -> State:
        """The server's state before round 0: w_0, which is 0 with LMS."""
        return {"w": self.task.initial()}

    def client(self) -> State:
        """The state of a client before round 0: w_{k,0} = w_0."""
        return {"w": self.task.initial()}

    def download(self, server: State, k: Indices, n: int) -> Message:
        """What goes down; every method has its own."""
        raise NotImplementedError

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """What clients do with a download; every method has its own."""
        raise NotImplementedError

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """What clients do with a sample: a step of the learner, which is LMS by default."""
        self.learner.learn(client["w"], z, y, self.step)

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """What comes up; every method has its own."""
        raise NotImplementedError

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """What the server does with the uploads; every method has its own."""
        raise NotImplementedError

    def models(self, server: State | None, clients: State) -> Array:
        """What is evaluated, w or one model per client; without a server's state, the clients' own.

        A KeyError says that clients have none.
        """
        return clients["w"] if server is None else server["w"]

    def entries(self, k: Indices, n: Any, up: bool) -> Indices:
        """The entries [..., M] of a model that clients `k` exchange in rounds `n`: all."""
        return np.broadcast_to(np.arange(self.task.dim), (*np.shape(k), self.task.dim))

    def encode(self, values: Array, up: bool) -> bytes:
        """The bytes of one message: up to the server, or down to a client."""
        return payload.encode(values, self.task.wire) if len(values) else payload.NOTHING

    def decode(self, data: bytes, up: bool) -> Array:
        """The values that `encode` was given, as exact as the wire allows; else a ValueError."""
        if not data:
            raise ValueError("no bytes, not even one that says so")
        values = np.empty(0) if data == payload.NOTHING else payload.decode(data, self.task.wire)
        if self.entrywise:
            sized(values, *(exchanged(self, up, n).shape[-1] for n in (0, BEFORE)[: 2 - up]))
        return values


class OneClient(Plain):
    """A method whose handlers have one client: states without a leading axis, messages [m].

    `download` and `upload` return an array, or None for nothing, and `fold` gets the uploads and
    the weights by client.
    """

    several = False

    def download(self, server: State, k: int, n: int) -> Array | None:  # type: ignore[override]
        """What goes down to client k; every method has its own."""
        raise NotImplementedError

    def receive(self, client: State, k: int, n: int, message: Array | None) -> None:  # type: ignore[override]
        """What client k does with a download; every method has its own."""
        raise NotImplementedError

    def upload(self, client: State, k: int, n: int) -> Array | None:  # type: ignore[override]
        """What comes up from client k; every method has its own."""
        raise NotImplementedError

    def fold(  # type: ignore[override]
        self, server: State, n: int, uploads: Mapping[int, Array], weights: Mapping[int, float]
    ) -> None:
        """What the server does with the uploads; every method has its own."""
        raise NotImplementedError


METHOD = Contract(
    "method", "psofed.methods", Common, "Method", (OneClient, Plain),
    ("cohort", "server", "client", "download", "receive", "learn", "upload", "fold", "models",
     "entries", "encode", "decode", "idle", "lazy", "several", "entrywise", "delivery"),
    ("download", "receive", "upload", "fold"),
)  # fmt: skip


def sized(values: Array, *counts: int) -> Array:
    """The values of a message, if they are as many as one of `counts`; else a ValueError.

    >>> sized(np.zeros(3), 0, 2)
    Traceback (most recent call last):
    ValueError: 3 values, not 0 or 2
    """
    if len(values) not in counts:
        raise ValueError(f"{len(values)} values, not {' or '.join(map(str, sorted({*counts})))}")
    return values


def exchanged(method: Method, up: bool, n: int = 0) -> Indices:
    """The entries of some client in round n: they are as many for all, in all rounds but BEFORE."""
    cohorts, k = method.task.cohorts, np.zeros(1, np.intp)
    if isinstance(cohorts, UniformCohorts):  # they may be of several runs
        first = cohorts.onward(0)[0]
        k = first[..., :1] if first.size else k
    return method.entries(k, n, up)


def summed(method: Method, ups: Array, downs: Array) -> tuple[Any, Any, Any]:
    """Bytes of messages [..., s] by round: up, down, and down where equal ones go once."""
    sent, got = _total(ups.sum(axis=-1)), _total(downs.sum(axis=-1))
    if method.delivery == "peers":
        # A broadcast reaches all neighbours at once; otherwise each of them gets a copy.
        return sent, _total(np.maximum(got - sent, 0)), _total(np.zeros_like(got))
    if method.delivery != "common":
        return sent, got, got
    by_run = downs.reshape(-1, downs.shape[-1]) if downs.size else np.zeros((1, 0))
    distinct = [sum(set(row[row > 0].tolist())) for row in by_run]
    return sent, got, _total(np.reshape(distinct, np.shape(got)))


def _total(found: Any) -> Any:
    return int(found) if np.ndim(found) == 0 else found
