"""The contract of a method: what goes down, what the client does, what goes up, how it is folded.

A method is one file in this folder with two classes. `Options` is a frozen dataclass: the keys of
its table in an experiment file. `Method(options, task)` has the handlers below. State is a plain
dict of arrays, changed in place by the handlers and owned by whoever calls them: the engine stacks
clients along a leading axis, a deployed client keeps its own. Handlers use no state but that, no
clock and no randomness but `task.seeds`, so every executor gives the same numbers.

One round n, for every executor:

    for k in cohort(n, server):  receive(client_k, k, n, download(server, k, n))
    for k that learn:            learn(client_k, x, z, y)       all if `idle`, else the cohort
    for k in cohort(n, server):  uploads[k] = upload(client_k, k, n)
    fold(server, n, uploads, weights)                           in client order, weights 1/|S_n|

A message is an array; None means that nothing is sent, and costs nothing. Its bytes are
`encode(message, up)`: the two directions may have different forms, and the number of bytes
depends on the number of entries only. A member that decides not to
send its update says so with an empty array, which is one byte, and still counts in |S_n|.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.core import payload
from psofed.core.features import FeatureMap
from psofed.core.schedule import GivenCohorts, Indices, UniformCohorts
from psofed.core.seeds import Seeds

Array = NDArray[Any]
State = dict[str, Array]
Message = Array | None


@dataclass(frozen=True, eq=False)
class Task:
    """What a method may know: the federation's size, the features, the cohorts and the seeds."""

    clients: int
    dim: int
    taps: int
    step: float
    seeds: Seeds
    features: FeatureMap
    cohorts: UniformCohorts | GivenCohorts
    dtype: str = "float64"
    wire: str = "float32"

    def zeros(self, *shape: int) -> Array:
        """Initial values in the precision of this task."""
        return np.zeros(shape, self.dtype)


@dataclass(frozen=True, kw_only=True)
class Common:
    """What every method can be told: its own step (or the experiment's) and a label of its own."""

    name: ClassVar[str]
    knob: ClassVar[str] = ""  # the option that decides the traffic, if there is one
    step: float | None = None
    label: str = ""

    def title(self) -> str:
        """The name in tables and figures."""
        return self.label or self.describe()

    def describe(self) -> str:
        """The method and its options, in short."""
        raise NotImplementedError

    def check(self, dim: int, clients: int) -> None:
        """Refuse options that do not fit the experiment."""


Options = Common


class Method(Protocol):
    """The handlers of a method. See the module's first lines for the order of the calls."""

    idle: bool
    common: bool  # the whole cohort gets the same download, so a multicast sends it once
    peers: bool  # there is no server: what goes down is what neighbours have sent
    task: Task

    def cohort(self, n: int, server: State) -> Indices: ...

    def begins(self, n: int) -> bool: ...

    def ends(self, n: int) -> bool: ...

    def server(self) -> State: ...

    def client(self, k: int) -> State: ...

    def download(self, server: State, k: int, n: int) -> Message: ...

    def receive(self, client: State, k: int, n: int, message: Message) -> None: ...

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None: ...

    def upload(self, client: State, k: int, n: int) -> Message: ...

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None: ...

    def encode(self, message: Array, up: bool) -> bytes: ...

    def decode(self, data: bytes, up: bool) -> Array: ...

    def lengths(self, n: int) -> tuple[int, ...] | None: ...

    def models(self, server: State, clients: State) -> Array: ...


class Plain:
    """What most methods share: the task's cohorts, plain values on the wire, a global model `w`."""

    idle = False
    common = False
    peers = False

    def __init__(self, options: Options, task: Task) -> None:
        self.task = task
        self.step = task.step if options.step is None else options.step

    def cohort(self, n: int, server: State) -> Indices:
        """S_n."""
        return self.task.cohorts.cohort(n)

    def begins(self, n: int) -> bool:
        """Whether the cohort of round n is a new one."""
        return True

    def ends(self, n: int) -> bool:
        """Whether the cohort of round n uploads in it."""
        return True

    def server(self) -> State:
        """The server's state before round 0: w_0 = 0."""
        return {"w": self.task.zeros(self.task.dim)}

    def client(self, k: int) -> State:
        """The state of client k before round 0: w_{k,0} = 0."""
        return {"w": self.task.zeros(self.task.dim)}

    def encode(self, message: Array, up: bool) -> bytes:
        """The bytes that travel: up to the server, or down to a client."""
        return payload.encode(message, self.task.wire) if len(message) else payload.NOTHING

    def decode(self, data: bytes, up: bool) -> Array:
        """The message that `encode` was given, as exact as the wire format allows."""
        return np.empty(0) if data == payload.NOTHING else payload.decode(data, self.task.wire)

    def lengths(self, n: int) -> tuple[int, ...] | None:
        """How many entries an upload of round n can have, or None if only `decode` knows."""
        return None

    def models(self, server: State, clients: State) -> Array:
        """What is evaluated: one model, or one per client, whose errors are then averaged."""
        return server["w"]


def traffic(method: Method, up: Sequence[int], down: Sequence[int]) -> tuple[int, int, int]:
    """Bytes of a round from those of its messages: up, down, and down where equal ones go once.

    Neighbours hear what a node says once (multicast); point to point, it says it to each of them.
    """
    if method.peers:
        return sum(up), max(sum(down) - sum(up), 0), 0
    return sum(up), sum(down), sum(down[:1] if method.common else down)
