"""What an honest-but-curious server sees: bytes down and up, and the equations that they are.

Attacks get a `ServerView` and nothing else. What the samples really were, `truth` says, to the
judge only.

Both ends know w_0, features, windows and step. An entry whose value was known after sample s (it
went up then) or before sample s (it came down) and that comes up after sample n has changed by the
sum of a_t z(x_t) over the samples t between: eq. (10), a_t = mu e_t. Downloads overwrite (eq. 9),
so entries that go down and come up in the same contact have changed by one sample alone. Under
masks the same holds for the sum over a cohort; a client that sends alone is a cohort of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from psofed.core import payload
from psofed.experiment import Experiment
from psofed.federation.bases import Compressed
from psofed.federation.contract import Array, Method, rows
from psofed.federation.stage import around, within
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.server import Server
from psofed.fleet.samples import replay
from psofed.rivals import topk
from psofed.stages import mask as masks
from psofed.stages.mask import Masked
from psofed.stages.noise import Noise

NONE = np.empty(0, np.intp)
TrueSamples = dict[int, tuple[Array, Array]]  # by client: x [N, L] and y [N]; NaN: there is none


@dataclass(frozen=True)
class Contact:
    """A client in a round: bytes down and up; or, under masks, a cohort and its sum mod 2^32."""

    n: int
    clients: tuple[int, ...]
    down: bytes
    up: bytes


@dataclass(frozen=True)
class ServerView:
    """All that was seen of rounds first..stop-1."""

    plan: Deployment
    first: int
    stop: int
    contacts: tuple[Contact, ...]

    @property
    def method(self) -> Method:
        """The method, which follows from the plan."""
        return self.plan.method()

    @property
    def masked(self) -> bool:
        """Whether contacts are sums over cohorts."""
        privacy = self.plan.experiment.privacy
        return privacy is not None and privacy.masks

    def of(self, k: int) -> tuple[Contact, ...]:
        """The contacts of client k, in order."""
        return tuple(contact for contact in self.contacts if k in contact.clients)

    @property
    def bytes_up(self) -> float:
        """Bytes that come up in a round, on average over the rounds in which any do."""
        sent: dict[int, int] = {}
        for each in self.contacts:
            sent[each.n] = sent.get(each.n, 0) + len(each.clients) * len(each.up)
        counts = [size for size in sent.values() if size]
        return sum(counts) / max(len(counts), 1)


def seen(plan: Deployment, contacts: Iterable[Contact], first: int, stop: int) -> ServerView:
    """The view of a server that got these messages: under masks it knows sums, and no more."""
    view = ServerView(plan, first, stop, tuple(sorted(contacts, key=lambda c: (c.n, c.clients))))
    if not view.masked:
        return view
    rounds: dict[int, list[Contact]] = {}
    for each in view.contacts:
        rounds.setdefault(each.n, []).append(each)
    size = plan.method().task.cohorts.size
    return replace(view, contacts=tuple(_summed(cohort, size) for cohort in rounds.values()))


def _summed(cohort: list[Contact], size: int) -> Contact:
    """With fewer than all of a cohort the masks do not cancel: nothing comes up."""
    ups, total = [each.up for each in cohort], b""
    lengths = {0 if up == payload.NOTHING else len(up) for up in ups}
    if len(cohort) == size and len(lengths) == 1 and 0 not in lengths:
        words = np.stack([np.frombuffer(up, "<u4") for up in ups])
        total = masks.added(words).astype("<u4").tobytes()
    members = tuple(k for each in cohort for k in each.clients)
    return Contact(cohort[0].n, members, cohort[0].down, total)


def deployed(experiment: Experiment, j: int, deploy: Deploy) -> Deployment:
    """Method j of an experiment in lockstep, where sample n belongs to round n."""
    return Deployment(experiment, replace(deploy, method=j, clock="lockstep"))


def play(
    plan: Deployment, rounds: int, report: Callable[[int, int], None] = lambda done, of: None
) -> ServerView:
    """The messages of the first rounds in which anybody takes part, as the server sees them."""
    method, world = plan.method(), plan.world
    server, clients = Server(method), dict[int, Client]()
    contacts: list[Contact] = []
    busy = 0
    with np.errstate(over="ignore", invalid="ignore"):
        while server.n < world.rounds and busy < rounds:
            n, invitations = server.n, server.invite()
            busy += bool(invitations)
            for k, down in invitations.items():
                if k not in clients:
                    clients[k] = Client(method, k, replay(world, k))
                up = clients[k].take_part(n, down)
                server.collect(k, n, up)
                contacts.append(Contact(n, (k,), down, up))
            server.commit()
            report(busy, rounds)
    return seen(plan, contacts, 0, server.n)


def truth(plan: Deployment, clients: list[int], stop: int) -> TrueSamples:
    """The samples of rounds 0..stop-1, which no attack gets."""
    return {k: replay(plan.world, k)(0, stop) for k in clients}


@dataclass(frozen=True, eq=False)
class Equations:
    """Entries of E sums over c clients, and by what they have changed through which samples."""

    entry: Array  # [E]
    who: Array  # [E, c]: the clients
    since: Array  # [E, c]: of each, the sample after which the change begins
    until: Array  # [E]: and the one with which it ends
    change: Array  # [E]
    noise: Array  # [E]

    def __len__(self) -> int:
        return len(self.entry)

    def __getitem__(self, chosen: Any) -> Equations:
        return Equations(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def and_these(self, more: Equations) -> Equations:
        """All of both."""
        pairs = ((getattr(self, field.name), getattr(more, field.name)) for field in fields(self))
        return Equations(*(np.concatenate(pair) for pair in pairs))

    def holding(self, k: Any, n: Any) -> Array:
        """Which of samples n [T] of clients k [T] are in each equation [E, T]."""
        k, n = np.asarray(k), np.asarray(n)
        here = (self.who[..., None] == k) & (self.since[..., None] < n)
        return here.any(axis=1) & (n <= self.until[:, None])


@dataclass(frozen=True, eq=False)
class Exchanged:
    """One contact, decoded: which entries had which values before sample n, and after it."""

    n: int
    who: tuple[int, ...]
    down: Array  # entries [M]
    before: Array  # their values
    up: Array
    after: Array  # of a cohort, the sum
    owed: bool = False  # `after` are changes, with all that was held back since they were last sent


def decoded(method: Method, contact: Contact, masked: bool) -> Exchanged:
    """A contact, as the server decodes it."""
    k, n, who = contact.clients[0], contact.n, contact.clients
    down, before = _values(method, contact.down, window(method, k, n, False), up=False)
    if contact.up in (b"", payload.NOTHING):
        return Exchanged(n, who, down, before, NONE, np.empty(0))
    if masked:
        stage = next(each for each in around(method) if isinstance(each, Masked))
        words = np.frombuffer(contact.up, "<u4")
        after = len(who) * masks.mean(words, stage.scale, stage.range, len(who))
        return Exchanged(n, who, down, before, window(method, k, n, True), after)
    plain = within(method)
    if not isinstance(plain, Compressed):
        up = _values(method, contact.up, window(method, k, n, True), up=True)
        return Exchanged(n, who, down, before, *up)
    message = rows([method.decode(contact.up, up=True)], method.task.dtype)
    update = plain.unpack(message, np.array([k]), n)[0].astype(np.float64)
    sent = np.flatnonzero(update)
    return Exchanged(n, who, down, before, sent, update[sent], owed=True)


def window(method: Method, k: int, n: int, up: bool) -> Array:
    """S_{k,n} down, S_{k,n+1} up; of a whole model, all entries."""
    return method.entries(np.array([k]), n, up)[0]


def _values(method: Method, data: bytes, entries: Array, up: bool) -> tuple[Array, Array]:
    """The entries and their values; nothing if no values were sent, or others than expected."""
    if data in (b"", payload.NOTHING):
        return NONE, np.empty(0)
    values = np.asarray(method.decode(data, up), np.float64)
    if len(values) == len(entries):
        return entries, values
    if len(values) == method.task.dim:  # of a client that starts over: the whole model
        return np.arange(method.task.dim), values
    return NONE, np.empty(0)


class Track:
    """What is known of the models of clients, entry by entry: values, and the sample they follow.

    A download tells each member's value, an upload the sum over a cohort.
    """

    def __init__(self, method: Method, known: Array, count: int = 1) -> None:
        """`known` [K]: whether nothing that came down to a client is missing."""
        dim = method.task.dim
        start = np.where(known[:, None], np.asarray(method.task.initial(), np.float64), np.nan)
        self.value, self.since = start, np.full((len(known), dim), -1)
        # The sum of a cohort's entry that came up last: its value, sample and cohort.
        self.total, self.at = np.full(dim, np.nan), np.full(dim, -1.0 if known.all() else np.nan)
        self.of, self._cohorts = np.full(dim, -1), dict[tuple[int, ...], int]()
        self.rounding, self.floor = rounding(method, count)
        self.own = float(np.finfo(method.task.dtype).eps)
        # What it did not send, it sends later.
        plain = within(method)
        self.remembers = isinstance(plain, topk.Method) and plain.memory == 1

    def meet(self, exchanged: Exchanged) -> Equations:
        """Eq. (9), then what came up; the noise is the deviation of what rounding adds."""
        n, up, who = exchanged.n, exchanged.up, np.array(exchanged.who)
        here = np.ix_(who, exchanged.down)
        self.value[here], self.since[here] = exchanged.before, n - 1
        value, since = self.value[who][:, up].sum(axis=0), self.since[who][:, up]
        cohort = self._cohorts.setdefault(exchanged.who, len(self._cohorts))
        # The same clients' sum again, and nothing that came down since tells more.
        again = (self.of[up] == cohort) & (since < self.at[up]).all(axis=0)
        value, since = (np.where(again, now, old) for now, old in
                        ((self.total[up], value), (self.at[up], since)))  # fmt: skip
        size, change = np.abs(exchanged.after) + np.abs(value), exchanged.after - value
        if exchanged.owed:
            since = self.at[None, up] if self.remembers else since
            size, change = np.nan_to_num(size), exchanged.after
        else:
            self.total[up], self.of[up] = exchanged.after, cohort
        self.at[up] = n
        steps = np.sqrt(np.maximum(n - since.min(axis=0, initial=n), 1))
        # The clients' own arithmetic rounds, too, and so do their features.
        noise = (size + 1e-9) * (self.rounding + self.own * steps) / 3 + self.floor
        noise += 2 * self.own * np.abs(np.nan_to_num(change)).max(initial=0)
        members, until = np.broadcast_to(who, (len(up), len(who))), np.full(len(up), n)
        finite = np.isfinite(change + since.sum(axis=0))
        return Equations(up, members, since.T, until, change, noise)[finite]


def rounding(method: Method, count: int) -> tuple[float, float]:
    """Deviation of a value on the wire: relative, and absolute by masked words and by noise."""
    kinds = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
    noises = (float(stage.sigma) for stage in around(method) if isinstance(stage, Noise))
    noise = sum(noises) * np.sqrt(count)  # how much there is, is public
    for stage in around(method):
        if isinstance(stage, Masked):
            # Less than it is: a search then goes on for longer, and what it finds is surer.
            words = np.sqrt(count / 12) / stage.scale / 2
            return 0.0, float(np.hypot(noise, words))
    return kinds[method.task.wire], noise
