"""The contract of a method: what goes down, what the client does, what goes up, how it is folded.

A method is one file with two classes, in this folder or anywhere else. `Options` is a frozen
dataclass: the keys of its table in an experiment file. `Method(options, task)` has the handlers
below. State is a plain dict of arrays, changed in place by the handlers and owned by their caller:
the engine stacks clients along a leading axis, a deployed client keeps its own. Handlers use no
other state, no clock and no randomness but `task.seeds`, so every executor gives the same numbers.

`round.py` calls them, for every executor and for both ends of a deployment:

    for k in cohort(n, server):  receive(client_k, k, n, download(server, k, n))
    for k that learn:            learn(client_k, x, z, y)       all if `idle`, else the cohort
    for k in cohort(n, server):  uploads[k] = upload(client_k, k, n)
    fold(server, n, uploads, weights)                           in client order, weights 1/|S_n|

An empty cohort is folded too. A policy (see `policies/contract.py`) may replace the cohort: it
decides who takes part, who of them uploads, and the weights, which then need not sum to 1: `fold`
adds weighted differences to w. On a live clock, samples come between rounds. A client learns from
them at once or, if the method `waits`, after the next download and before the upload.

A message is an array; None means that nothing is sent, and costs nothing. Its bytes are
`encode(message, up)`: the two directions may have different forms, and the number of bytes
depends on the number of entries only. A member that decides not to send its update sends an empty
array instead, which is one byte, and still counts in |S_n|.

A class declares what it can do. These flags are not inherited, because a subclass may change a
handler. `lazy`: what an idle client has learned is read at its contacts only, and the class also
has `absorb(client, x, z, y)`, which learns from many samples of one client at once, also from older
ones after a download. `foresees`: to learn is to `correct(client, gains, z, y)`, samples in a row
[T, ...], with gains that depend on the inputs alone. `foresee(client, z)` returns those of one
client's samples and moves its state past them, but for what `correct` changes. A method that is
lazy and foresees needs no `absorb`, and its older samples come before a download. `compiled`: it is
Algorithm 1, which the kernel and the theory implement. `scripted`: many of its rounds can be
computed in one call (see `stretch.py`), because its clients learn by eq. (10) and exchange by eq.
(9) and (11), downloads where a block `begins` and uploads where it `ends`, and the class also has
`entries(k, n, up)`, the entries that travel; or because it `relays` samples, and the server makes a
mean step with them. `stacked`: its handlers also take several clients at once, which is faster. `k`
is then an array [s] and state has a leading axis, as in `learn`. `download` and `upload` return
None, an array [s, m] or a list of messages, and `download` may return one message [m] that is the
same for all; `receive` gets what `download` returned. `fold`
always gets one message for each client.

Handlers of psofed's own stacked methods have one more axis: several Monte-Carlo runs R are computed
in one call (see `core/several.py`). `k` is then [R, s], a client's state [R, s, ...], the server's
[R, ...]; a download for all members is [R, m], and a list has the messages of all runs, one run
after another, which are then folded run by run. `Partly` has those of the clients that sent any;
in `fold` the others have the weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Literal, Protocol, Self
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from psofed import plugins, schema
from psofed.core import payload
from psofed.core.features import FeatureMap
from psofed.core.schedule import GivenCohorts, Indices, UniformCohorts
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.learners import lms
from psofed.learners.contract import Learner
from psofed.methods.guard import guarded
from psofed.policies import contract as policies
from psofed.policies.contract import Policy

Array = NDArray[Any]
State = dict[str, Array]
Message = Array | None
Who = Any  # one client, or an array [s] of several; a method that is not stacked has an int
Learns = Literal["any", "descending", "linear"]
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
    learner: Learner = field(default_factory=lms.Options)  # an executor may have a compiled one
    room: int = 0  # clients that have a place in arrays, if not all have

    @property
    def places(self) -> int:
        """Rows of arrays over clients."""
        return self.room or self.clients

    def zeros(self, *shape: int) -> Array:
        """Initial values in the precision of this task."""
        return np.zeros(shape, self.dtype)

    def initial(self) -> Array:
        """w_0, the model of the server and of every client before round 0."""
        return self.learner.initial(self.seeds, self.taps, self.dim).astype(self.dtype)


@dataclass(frozen=True)
class Knob:
    """The option that decides a method's traffic: its name, its effect and its range."""

    field: str
    more: bool = True  # whether a larger value sends more
    least: int = 1
    most: Callable[[int, int], int] = lambda dim, rounds: dim  # from D and the number of rounds
    keeps: bool = False  # whether a budget may lower the traffic, but not raise it
    bytes: bool = False  # whether it is the budget itself: bytes a round, up and down
    beyond: str = ""  # why it cannot go beyond its end; {} stands for the value there

    def of(self, options: Common) -> Any:
        """Its value in these options."""
        return getattr(options, self.field)


@dataclass(frozen=True, kw_only=True)
class Common(schema.Named):
    """The options of every method: a step, averaging at the server, a label and a policy.

    The class variables declare what a method is, for all that run or compare it.
    """

    knob: ClassVar[Knob | None] = None  # what decides its traffic, if anything does
    # Shares of traffic are those of the reference; controls are not federated learning.
    role: ClassVar[Literal["reference", "method", "control"]] = "method"
    expected: ClassVar[bool] = False  # whether every fair comparison needs it
    everybody: ClassVar[bool] = False  # whether all clients send in every round
    alone: ClassVar[bool] = False  # whether clients learn alone, without any message
    steps: ClassVar[bool] = True  # whether it has a step to tune
    serves: ClassVar[bool] = True  # whether the server has the model that is judged
    selects: ClassVar[bool] = False  # whether it decides itself who takes part
    gapless: ClassVar[bool] = False  # whether it needs a sample of everybody in every round
    simulated: ClassVar[str] = ""  # the reason, if it can only be simulated, not deployed
    # Models that it can learn: any; those whose step is mu e g(w, z); those that are w^T z.
    learners: ClassVar[Learns] = "any"
    step: float | None = None  # mu of this method; not set: the experiment's
    average: bool = False  # judge a weighted mean of the server's late models
    label: str = ""  # the title in tables and figures; not set: made from the options
    policy: policies.Options | None = None  # who takes part; not set: a uniform cohort

    @classmethod
    def readers(cls) -> Mapping[str, schema.Reader]:
        """A policy is a table within that of the method."""
        return {"policy": schema.reader("psofed.policies")}

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """The forms that are worth comparing with other methods, for this D."""
        return (cls(),)

    @property
    def all_matter(self) -> bool:
        """Whether also clients that are never selected change the result."""
        return self.everybody or self.alone

    @property
    def pace(self) -> int:
        """Rounds from one upload to the next."""
        return 1

    @property
    def sharing(self) -> tuple[int | None, str]:
        """M and the scheme of the windows, for tables; None and nothing where there are none."""
        return None, ""

    @property
    def not_live(self) -> str:
        """Why it cannot be deployed on a live clock, on which messages may be lost; or nothing."""
        return ""

    def turned(self, value: Any, dim: int) -> Self:
        """The same with the knob at this value, or at the next that is allowed and sends less."""
        assert self.knob is not None
        return replace(self, **{self.knob.field: value})

    def title(self) -> str:
        """The name in tables and figures."""
        by = "" if self.policy is None else f", {self.policy.describe()}"
        return self.label or self.describe() + by + (", averaged" if self.average else "")

    def describe(self) -> str:
        """The method and its options, in short."""
        raise NotImplementedError

    def check(self, dim: int, clients: int) -> None:
        """Refuse options that do not fit the experiment."""

    @classmethod
    def learns(cls, learner: Learner) -> bool:
        """Whether the method can learn such a model."""
        needs = {"any": True, "descending": learner.descends, "linear": learner.linear}
        return needs[cls.learners]

    def check_learner(self, learner: Learner) -> None:
        """Refuse a model that the method cannot learn."""
        if self.learns(learner):
            return
        found = f"is {self.name}, which needs a linear model, and {learner.name} is not one"
        right = 'use the learner "lms", "nlms" or "linear", or a method such as psofed'
        if self.learners == "descending":
            found = f"is {self.name}, which changes the step, and {learner.name} has its own rule"
            right = 'use the learner "lms" or "network", or a method such as psofed'
        raise InputError("name", found, right)

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

    stacked: bool  # handlers take several clients at once
    several: bool  # and several runs
    lazy: bool  # what a client learned is read at its contacts only
    foresees: bool  # the gains of samples can be computed ahead
    compiled: bool  # it is Algorithm 1, which kernel and theory implement
    scripted: bool  # what happens in a round is known ahead, but for the numbers
    idle: bool  # clients learn also in rounds in which they do not take part
    relays: bool  # clients keep no model: they take part with a new sample, or with nothing
    restless: bool  # a round without uploads changes its state, too
    common: bool  # the whole cohort gets the same download, so a multicast sends it once
    peers: bool  # there is no server: what goes down is what neighbours have sent
    setup: int  # bytes that every client gets once, before round 0
    task: Task
    step: float
    policy: Policy | None  # decides who takes part, instead of the cohort

    @property
    def waits(self) -> bool: ...

    def cohort(self, n: int, server: State) -> Indices: ...

    def begins(self, n: int) -> bool: ...

    def ends(self, n: int) -> bool: ...

    def server(self) -> State: ...

    def client(self, k: int) -> State: ...

    def download(self, server: State, k: Who, n: int) -> Any: ...

    def receive(self, client: State, k: Who, n: int, message: Any) -> None: ...

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None: ...

    def absorb(self, client: State, x: Array, z: Array, y: Array) -> None: ...

    def foresee(self, client: State, z: Array) -> Array: ...

    def correct(self, client: State, gains: Array, z: Array, y: Array) -> None: ...

    def upload(self, client: State, k: Who, n: int) -> Any: ...

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None: ...

    def touched(self, server: State, n: int, uploads: Mapping[int, Message]) -> Any: ...

    def encode(self, message: Array, up: bool) -> bytes: ...

    def decode(self, data: bytes, up: bool) -> Array: ...

    def lengths(self, n: int) -> tuple[int, ...] | None: ...

    def downloads(self, k: int, n: int) -> tuple[int | None, ...]: ...

    def entries(self, k: Indices, n: Indices, up: bool) -> Indices: ...

    def own(self, client: State) -> Message: ...

    def models(self, server: State, clients: State) -> Array: ...


class Plain:
    """What most methods share: the task's cohorts, plain values on the wire, a global model `w`."""

    stacked = lazy = foresees = compiled = scripted = False
    idle = False
    relays = False
    restless = False
    common = False
    peers = False
    several = True  # if stacked: its handlers take several runs at once, too
    setup = 8  # the seed: features, masks and all later draws follow from it

    def __init_subclass__(cls) -> None:
        for name in ("stacked", "lazy", "foresees", "compiled", "scripted"):
            setattr(cls, name, cls.__dict__.get(name, False))

    def __init__(self, options: Options, task: Task) -> None:
        self.policy = _bound(options, task)
        if self.policy is not None:
            self.compiled = False  # the kernel has no policies
            cohorts = UniformCohorts(task.seeds, task.clients, self.policy.size)
            task = replace(task, cohorts=cohorts)
        if not task.learner.compiled:
            self.compiled = False  # the kernel has LMS on random features only
        self.task, self.learner = task, task.learner
        self.step = task.step if options.step is None else options.step

    @property
    def lms(self) -> Callable[[Array, Array, Any, float], Any]:
        """The old name of `learner.learn`."""
        warn("self.lms is now self.learner.learn", DeprecationWarning, stacklevel=2)
        return self.learner.learn

    @property
    def waits(self) -> bool:
        """Whether a download overwrites what was learned before it, so that samples wait for it."""
        return not self.idle

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
        """The server's state before round 0: w_0, which is 0 with LMS."""
        return {"w": self.task.initial()}

    def client(self, k: int) -> State:
        """The state of client k before round 0: w_{k,0} = w_0."""
        return {"w": self.task.initial()}

    def absorb(self, client: State, x: Array, z: Array, y: Array) -> None:
        """Learn from many samples of one client, one after another."""
        for i in range(len(y)):
            self.learn(client, x[i], z[i], y[i])

    def foresee(self, client: State, z: Array) -> Array:
        """The gains of many samples; a method that `foresees` has its own."""
        raise NotImplementedError

    def correct(self, client: State, gains: Array, z: Array, y: Array) -> None:
        """Learn with these gains; a method that `foresees` has its own."""
        raise NotImplementedError

    def touched(self, server: State, n: int, uploads: Mapping[int, Message]) -> Any:
        """The entries of the model that these uploads change, asked before their fold."""
        heard = any(message is not None and len(message) for message in uploads.values())
        return slice(None) if heard else slice(0)

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """What a client does with a sample; every method has its own."""
        raise NotImplementedError

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

        A method where that depends on the server's state has to override this.
        """
        message = self.download(self.server(), k, n)
        return (None if message is None else len(message),)

    def download(self, server: State, k: Who, n: int) -> Any:
        """What goes down; every method has its own."""
        raise NotImplementedError

    def entries(self, k: Indices, n: Indices, up: bool) -> Indices:
        """The entries [..., M] that clients `k` exchange in rounds `n`, up or down."""
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
    cohort, model_bytes = task.cohorts.size, task.dim * payload.size(task.wire)
    federation = policies.Federation(task.clients, cohort, model_bytes, task.seeds)
    return policies.bind(options.policy, federation)


def start(options: Options, task: Task) -> Method:
    """The method of these options, bound to a federation."""
    bound: Method = kind(options)(options, task)
    return bound


def kind(options: Options) -> Any:
    """The class of the method of these options."""
    plain = schema.beside(options, "Method")
    plain = plain if plugins.is_ours(plain) else guarded(plain)
    return averaged(plain) if options.average else plain


@cache
def averaged(plain: Any) -> Any:
    """The same method, judged by an average of its models. It costs D numbers and no bytes.

    The average of Shamir and Zhang (2013): v_{n+1} = v_n + (w_{n+1} - v_n) 4 / (n + 4), in which
    model n weighs as n^3, so that the last fifth of the rounds has more than half of the weight.
    """

    class Averaged(plain):  # type: ignore[misc]
        stacked, lazy, foresees = plain.stacked, plain.lazy, plain.foresees
        restless = True

        def server(self) -> State:
            """The state of the method, and v."""
            state: State = super().server() | {"average": self.task.initial()}
            return state

        def fold(
            self,
            server: State,
            n: int,
            uploads: Mapping[int, Message],
            weights: Mapping[int, float],
        ) -> None:
            """The fold of the method, then v."""
            super().fold(server, n, uploads, weights)
            v = server["average"]
            v += (super().models(server, {}) - v) * v.dtype.type(4 / (n + 4))

        def models(self, server: State, clients: State) -> Array:
            """v."""
            return server["average"]

    return Averaged


@dataclass(frozen=True, eq=False)
class Partly:
    """Uploads [R, s, m] of several runs, where some clients send an empty message instead."""

    array: Array
    sent: Array  # [R, s]


class Rows(Mapping[int, Message]):
    """The uploads of a cohort, or of those of several runs, that are rows of one array."""

    def __init__(self, clients: Indices, array: Array, sent: Array | None = None) -> None:
        self.clients, self.array, self.sent = clients, array, sent
        self.ids: list[int] = (clients if clients.ndim == 1 else clients[0]).tolist()

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
        if array.ndim == 3:  # of several runs, where all weights are equal
            shares = np.full(array.shape[1], 1 / array.shape[1], array.dtype)
            return uploads.clients, array, shares if uploads.sent is None else shares * uploads.sent
        return uploads.clients, array, np.array([weights[k] for k in uploads.ids], array.dtype)
    heard = {k: m for k, m in uploads.items() if m is not None and len(m)}
    if not heard:
        return np.empty(0, np.intp), np.empty((0, 0)), np.empty(0)
    ids, messages = np.array(list(heard)), list(heard.values())
    shares = np.array([weights[k] for k in heard], messages[0].dtype)
    if len(set(map(len, messages))) > 1:
        return ids, messages, shares
    return ids, np.concatenate(messages).reshape(len(ids), -1), shares
