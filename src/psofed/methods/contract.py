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

A policy (see `policies/contract.py`) may say in the cohort's place who takes part, who of them
uploads, and the weights, which then need not sum to 1: `fold` adds weighted differences to w.

A message is an array; None means that nothing is sent, and costs nothing. Its bytes are
`encode(message, up)`: the two directions may have different forms, and the number of bytes
depends on the number of entries only. A member that decides not to send its update says so with
an empty array, which is one byte, and still counts in |S_n|.

A method may be `lazy`: what an idle client has learned is then read at its contacts only, and it
also has `absorb(client, x, z, y)`, which learns from many samples of one client at once.

A class may say of itself that it is `stacked`: its handlers then also take several clients at once,
which is faster. `k` is then an array [s] and state has a leading axis, as it has in `learn`.
`download` and `upload` give None, an array [s, m] or a list of messages, and `download` also one
message [m] that is the same for all; `receive` is given what `download` gave. `fold` has a message
for each client, whoever calls it. Being stacked is not inherited: a subclass may change a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed import schema
from psofed.core import learner, payload
from psofed.core.features import FeatureMap
from psofed.core.schedule import GivenCohorts, Indices, UniformCohorts
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.policies import contract as policies
from psofed.policies.contract import Policy

Array = NDArray[Any]
State = dict[str, Array]
Message = Array | None
Who = Any  # one client, or an array [s] of several; a method that is not stacked has an int
Learner = Callable[[Array, Array, Any, float], Any]
Messages = Array | list[Array] | None  # of one client, or of several


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
    """What every method can be told: a step, averaging at the server, a label and a policy."""

    name: ClassVar[str]
    knob: ClassVar[str] = ""  # the option that decides the traffic, if there is one
    steps: ClassVar[bool] = True  # whether it has a step to tune
    serves: ClassVar[bool] = True  # whether it is judged by a model that the server has
    selects: ClassVar[bool] = False  # whether it decides itself who takes part
    simulated: ClassVar[str] = ""  # why it can be simulated only, if it cannot be deployed
    step: float | None = None  # mu of this method; not set: the experiment's
    average: bool = False  # judge a mean of the server's late models
    label: str = ""  # the title in tables and figures; not set: made from the options
    policy: policies.Options | None = None  # who takes part; not set: a uniform cohort

    def title(self) -> str:
        """The name in tables and figures."""
        by = "" if self.policy is None else f", {self.policy.describe()}"
        return self.label or self.describe() + by + (", averaged" if self.average else "")

    def describe(self) -> str:
        """The method and its options, in short."""
        raise NotImplementedError

    def check(self, dim: int, clients: int) -> None:
        """Refuse options that do not fit the experiment."""

    def check_policy(self, clients: int, cohort: int) -> None:
        """Refuse a policy where the method selects, and one that does not fit the experiment."""
        if self.policy is None:
            return
        if not isinstance(self.policy, policies.Options):
            raise InputError("policy", f"is {self.policy!r}", "use the Options of a policy")
        if self.selects:
            found = f"is given, but {self.name} itself decides who takes part"
            raise InputError("policy", found, "leave it out")
        try:
            schema.check(self.policy)
            self.policy.check(clients, cohort)
        except InputError as error:
            raise error.inside("policy.") from None


Options = Common


class Method(Protocol):
    """The handlers of a method. See the module's first lines for the order of the calls."""

    idle: bool
    common: bool  # the whole cohort gets the same download, so a multicast sends it once
    peers: bool  # there is no server: what goes down is what neighbours have sent
    lazy: bool  # what a client learned is read at its contacts only; see `absorb`
    setup: int  # bytes that every client gets once, before round 0
    task: Task
    policy: Policy | None  # who takes part in the cohort's place

    def cohort(self, n: int, server: State) -> Indices: ...

    def begins(self, n: int) -> bool: ...

    def ends(self, n: int) -> bool: ...

    def server(self) -> State: ...

    def client(self, k: int) -> State: ...

    def download(self, server: State, k: Who, n: int) -> Any: ...

    def receive(self, client: State, k: Who, n: int, message: Any) -> None: ...

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None: ...

    def upload(self, client: State, k: Who, n: int) -> Any: ...

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None: ...

    def encode(self, message: Array, up: bool) -> bytes: ...

    def decode(self, data: bytes, up: bool) -> Array: ...

    def lengths(self, n: int) -> tuple[int, ...] | None: ...

    def downloads(self, k: int, n: int) -> tuple[int | None, ...]: ...

    def own(self, client: State) -> Message: ...

    def models(self, server: State, clients: State) -> Array: ...


class Averaged:
    """Any method, judged by an average of its models that costs D numbers and no bytes.

    The average of Shamir and Zhang (2013): v_{n+1} = v_n + (w_{n+1} - v_n) 4 / (n + 4), in which
    model n weighs as n^3, so that the last fifth of the rounds has more than half of the weight.
    """

    def __init__(self, method: Method) -> None:
        self.method = method

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def server(self) -> State:
        """And v."""
        return self.method.server() | {"average": self.method.task.zeros(self.method.task.dim)}

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """As the method does; then v follows."""
        self.method.fold(server, n, uploads, weights)
        v = server["average"]
        v += (self.method.models(server, {}) - v) * v.dtype.type(4 / (n + 4))

    def models(self, server: State, clients: State) -> Array:
        """v."""
        return server["average"]


class Plain:
    """What most methods share: the task's cohorts, plain values on the wire, a global model `w`."""

    idle = False
    common = False
    peers = False
    lazy = False
    setup = 8  # the seed: features, masks and all later draws follow from it

    def __init__(self, options: Options, task: Task) -> None:
        self.policy = _bound(options, task)
        if self.policy is not None:
            cohorts = UniformCohorts(task.seeds, task.clients, self.policy.size)
            task = replace(task, cohorts=cohorts)
        self.task = task
        self.step = task.step if options.step is None else options.step
        self.lms: Learner = learner.lms  # an executor may put a compiled one in its place

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

    def downloads(self, k: int, n: int) -> tuple[int | None, ...]:
        """How many entries a download of round n can have; None stands for no message.

        Where that depends on the server's state, a method has to say so itself.
        """
        message = self.download(self.server(), k, n)
        return (None if message is None else len(message),)

    def download(self, server: State, k: Who, n: int) -> Any:
        """What goes down; every method has its own."""
        raise NotImplementedError

    def own(self, client: State) -> Message:
        """The model by which a client answers questions; None if it has none."""
        return client.get("w")

    def models(self, server: State, clients: State) -> Array:
        """What is evaluated: one model, or one per client, whose errors are then averaged."""
        return server["w"]


def _bound(options: Options, task: Task) -> Policy | None:
    if options.policy is None:
        return None
    cohort, model_bytes = getattr(task.cohorts, "size", 1), task.dim * payload.size(task.wire)
    federation = policies.Federation(task.clients, cohort, model_bytes, task.seeds)
    return policies.bind(options.policy, federation)


def is_stacked(method: object) -> bool:
    """Whether the class of this method says so; what a class above it says does not count."""
    inner = getattr(
        method, "method", method
    )  # what only averages handles as many as what it averages
    return bool(vars(type(inner)).get("stacked", False))


class Rows(Mapping[int, Message]):
    """The uploads of a cohort that are rows of one array."""

    def __init__(self, clients: Indices, array: Array) -> None:
        self.clients, self.array = clients, array
        self.ids: list[int] = clients.tolist()

    def __getitem__(self, k: int) -> Message:
        row: Array = self.array[self.ids.index(k)]
        return row

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


def stack(
    uploads: Mapping[int, Message], weights: Mapping[int, float]
) -> tuple[Indices, Any, Array]:
    """Who sent anything, the messages as rows, or as a list if their lengths differ; weights."""
    if isinstance(uploads, Rows):
        array = uploads.array
        return uploads.clients, array, np.array([weights[k] for k in uploads.ids], array.dtype)
    heard = {k: m for k, m in uploads.items() if m is not None and len(m)}
    if not heard:
        return np.empty(0, np.intp), np.empty((0, 0)), np.empty(0)
    ids, messages = np.array(list(heard)), list(heard.values())
    shares = np.array([weights[k] for k in heard], messages[0].dtype)
    if len(set(map(len, messages))) > 1:
        return ids, messages, shares
    return ids, np.concatenate(messages).reshape(len(ids), -1), shares


def traffic(method: Method, up: Sequence[int], down: Sequence[int]) -> tuple[int, int, int]:
    """Bytes of a round from those of its messages: up, down, and down where equal ones go once.

    Neighbours hear what a node says once (multicast); point to point, it says it to each of them.
    """
    if method.peers:
        return sum(up), max(sum(down) - sum(up), 0), 0
    return sum(up), sum(down), sum(down[:1] if method.common else down)
