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
mean step with them. `entrywise`: an upload is the `entries` of a model, and its fold adds a_k times
their differences to w. `sums`: it is entrywise, every member uploads, and the mean of the uploads
is enough for the fold where all have the same entries. `stacked`: its handlers also take several
clients at once, which is faster.
`k` is then an array [s] and state has a leading axis, as in `learn`. `download` and `upload` return
None, an array [s, m] or a list of messages, and `download` may return one message [m] that is the
same for all; `receive` gets what `download` returned. `fold` always gets one message for each
client.

Handlers of psofed's own stacked methods have one more axis: several Monte-Carlo runs R are computed
in one call (see `core/several.py`). `k` is then [R, s], a client's state [R, s, ...], the server's
[R, ...]; a download for all members is [R, m], and a list has the messages of all runs, one run
after another, which are then folded run by run. `Partly` has those of the clients that sent any;
in `fold` the others have the weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from warnings import warn

import numpy as np

from psofed import plugins, schema
from psofed.attacks.contract import Attack
from psofed.core import payload
from psofed.core.features import FeatureMap
from psofed.core.schedule import GivenCohorts, Indices, UniformCohorts
from psofed.core.seeds import Seeds
from psofed.defences.contract import Defence
from psofed.errors import InputError
from psofed.learners import lms
from psofed.learners.contract import Learner
from psofed.methods.averaging import averaged as averaged
from psofed.methods.guard import guarded
from psofed.methods.messages import Array as Array
from psofed.methods.messages import Message as Message
from psofed.methods.messages import Messages as Messages
from psofed.methods.messages import Partly as Partly
from psofed.methods.messages import Rows as Rows
from psofed.methods.messages import State as State
from psofed.methods.messages import Who as Who
from psofed.methods.messages import stack as stack
from psofed.methods.options import LOST as LOST
from psofed.methods.options import Coded as Coded
from psofed.methods.options import Common as Common
from psofed.methods.options import Knob as Knob
from psofed.methods.options import Learns as Learns
from psofed.methods.options import Options as Options
from psofed.methods.options import Wire as Wire
from psofed.methods.options import geometric as geometric
from psofed.policies import contract as policies
from psofed.policies.contract import Policy
from psofed.privacy.mechanism import Mechanism
from psofed.privacy.settings import Privacy
from psofed.sample_checks.contract import SampleCheck


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
    room: int = 0  # clients that have a place in arrays, if not all have
    attack: Attack | None = None  # what malicious clients do
    defence: Defence | None = None  # what the server does about it
    check: SampleCheck | None = None  # what clients do not learn from; None: they do from all
    privacy: Privacy | None = None  # what the server may learn of a client; None: what is sent
    rounds: int = 1  # that are planned, for which a budget of privacy is
    longest: float | None = None  # the largest |z| of any input, if it is known
    secret: bool = False  # noise comes from this machine, as on a device, not from the seeds

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


class Method(Protocol):
    """The handlers of a method. See the module's first lines for the order of the calls."""

    stacked: bool  # handlers take several clients at once
    several: bool  # and several runs
    lazy: bool  # what a client learned is read at its contacts only
    foresees: bool  # the gains of samples can be computed ahead
    compiled: bool  # it is Algorithm 1, which kernel and theory implement
    entrywise: bool  # an upload is entries of a model, and its fold adds their differences to w
    sums: bool  # all members upload, and where they do so on the same entries a mean is enough
    scripted: bool  # what happens in a round is known ahead, but for the numbers
    idle: bool  # clients learn also in rounds in which they do not take part
    relays: bool  # clients keep no model: they take part with a new sample, or with nothing
    restless: bool  # a round without uploads changes its state, too
    common: bool  # the whole cohort gets the same download, so a multicast sends it once
    peers: bool  # there is no server: what goes down is what neighbours have sent
    averages: bool  # it is judged by an average of its models
    defends: tuple[str, ...]  # the defences, by name, that its own fold has a form of
    setup: int  # bytes that every client gets once, before round 0
    task: Task
    step: Any
    policy: Policy | None  # decides who takes part, instead of the cohort
    noise: Mechanism | None  # what clients add to what they upload

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

    def numbers(self, upload: Array) -> Array: ...

    def lengths(self, n: int) -> tuple[int, ...] | None: ...

    def downloads(self, k: int, n: int) -> tuple[int | None, ...]: ...

    def entries(self, k: Indices, n: Indices, up: bool) -> Indices: ...

    def welcome(self, server: State, k: int, n: int) -> Any: ...

    def welcomed(self, client: State, k: int, n: int, message: Any) -> None: ...

    def welcomes(self, k: int, n: int) -> tuple[int | None, ...]: ...

    def own(self, client: State) -> Message: ...

    def models(self, server: State, clients: State) -> Array: ...


FLAGS = ("stacked", "lazy", "foresees", "compiled", "scripted", "entrywise", "sums")


class Plain:
    """What most methods share: the task's cohorts, plain values on the wire, a global model `w`."""

    stacked = lazy = foresees = compiled = scripted = entrywise = sums = False
    idle = False
    relays = False
    restless = False
    common = False
    peers = False
    averages = False
    defends: tuple[str, ...] = ()
    several = True  # if stacked: its handlers take several runs at once, too
    noise: Mechanism | None = None
    setup = 8  # the seed: features, masks and all later draws follow from it

    def __init_subclass__(cls) -> None:
        for name in FLAGS:
            setattr(cls, name, cls.__dict__.get(name, False))

    def __init__(self, options: Options, task: Task) -> None:
        self.policy = _bound(options, task)
        if self.policy is not None:
            self.compiled = False  # the kernel has no policies
            cohorts = UniformCohorts(task.seeds, task.clients, self.policy.size)
            task = replace(task, cohorts=cohorts)
        if not task.learner.in_engine:
            self.compiled = False  # the kernel has LMS on random features only, normalised or not
        self.task, self.learner = task, task.learner
        self.mu = task.step if options.step is None else options.step
        self.step = self.times(1.0)

    def times(self, factor: float, axes: int = 1) -> Any:
        """mu times a factor; where runs have steps of their own, [R, 1, ...] with so many ones."""
        if isinstance(self.mu, float | int):
            return self.mu * factor
        return (self.mu * factor).astype(self.task.dtype).reshape(-1, *(1,) * axes)

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

    def receive(self, client: State, k: Who, n: int, message: Any) -> None:
        """What a client does with a download; every method has its own."""
        raise NotImplementedError

    def encode(self, message: Array, up: bool) -> bytes:
        """The bytes that travel: up to the server, or down to a client."""
        return payload.encode(message, self.task.wire) if len(message) else payload.NOTHING

    def decode(self, data: bytes, up: bool) -> Array:
        """The message that `encode` was given, as exact as the wire format allows."""
        return np.empty(0) if data == payload.NOTHING else payload.decode(data, self.task.wire)

    def numbers(self, upload: Array) -> Array:
        """What an upload stands for, which a server bounds: codes are not what they stand for."""
        return upload

    def lengths(self, n: int) -> tuple[int, ...] | None:
        """How many entries an upload of round n can have, or None if only `decode` knows."""
        return None

    def downloads(self, k: int, n: int) -> tuple[int | None, ...]:
        """How many entries a download of round n can have; None stands for no message.

        A method where that depends on the server's state has to override this.
        """
        # A client that has joined later has no row there; it gets as many as the others.
        message = self.download(self.server(), min(k, self.task.places - 1), n)
        return (None if message is None else len(message),)

    def download(self, server: State, k: Who, n: int) -> Any:
        """What goes down; every method has its own."""
        raise NotImplementedError

    # Of a fleet that changes: a client that is added or readmitted begins anew.

    def welcome(self, server: State, k: int, n: int) -> Any:
        """What goes down at the first contact of a client that begins anew: what always does."""
        return self.download(server, k, n)

    def welcomed(self, client: State, k: int, n: int, message: Any) -> None:
        """What such a client, whose state is fresh, does with it."""
        self.receive(client, k, n, message)

    def welcomes(self, k: int, n: int) -> tuple[int | None, ...]:
        """How many entries a welcome can have; None stands for no message."""
        return self.downloads(k, n)

    def entries(self, k: Any, n: Any, up: bool) -> Indices:
        """The entries [..., M] that clients `k` exchange in rounds `n`, up or down: all."""
        return np.broadcast_to(np.arange(self.task.dim), (*np.shape(k), self.task.dim))

    def head(self, up: bool) -> int:
        """How many numbers stand before the entries of the model in a message."""
        return 0

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
    if options.apart:  # a task has the features and the learner of all its methods
        what = "learner" if options.features is None else "features"
        found = f"is that of {options.name} alone, which cannot be had here"
        raise InputError(what, found, "give it to the whole experiment, or see Experiment.alone")
    cls = kind(options)
    if task.privacy is not None and task.privacy.noisy:
        from psofed.methods.noisy import noisy  # it builds on this module

        cls = noisy(cls)
    if task.privacy is not None and task.privacy.masks:
        from psofed.methods.masked import masked  # it builds on this module

        cls = masked(cls)
    if task.check is not None and task.check.acts:
        from psofed.methods.checked import checked  # it builds on this module

        cls = checked(cls)
    bound: Method = cls(options, task)
    return bound


def kind(options: Options) -> Any:
    """The class of the method of these options."""
    plain = schema.beside(options, "Method")
    plain = plain if plugins.is_ours(plain) else guarded(plain)
    if options.wire is not None:
        from psofed.methods.wired import wired  # it builds on this module

        plain = wired(plain, options.differs)
    return averaged(plain) if options.average else plain
