"""What an honest-but-curious server sees: bytes down and up, and the equations that they are.

Attacks get a `ServerView` and nothing else. What the samples really were, `truth` says, to the
judge only.

Both ends know w_0, features, windows and step. An entry whose value was known after sample s (it
went up then) or before sample s (it came down) and that comes up after sample n has changed by the
sum of a_t z(x_t) over the samples t between: eq. (10), a_t = mu e_t. Downloads overwrite (eq. 9),
so entries that go down and come up in the same contact have changed by one sample alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

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
    # With fewer than all of a cohort the masks do not cancel: that round tells nothing.
    size = plan.method().task.cohorts.size
    sums = (_summed(cohort) for cohort in rounds.values() if len(cohort) == size)
    return replace(view, contacts=tuple(each for each in sums if each is not None))


def _summed(cohort: list[Contact]) -> Contact | None:
    ups = [each.up for each in cohort]
    if any(up in (b"", payload.NOTHING) or len(up) != len(ups[0]) for up in ups):
        return None
    total = masks.added(np.stack([np.frombuffer(up, "<u4") for up in ups]))
    members = tuple(k for each in cohort for k in each.clients)
    return Contact(cohort[0].n, members, cohort[0].down, total.astype("<u4").tobytes())


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


class Column(IntEnum):
    """Of equations [E, 5]: an entry, the samples since and until which it changed, and by what."""

    ENTRY, SINCE, UNTIL, CHANGE, NOISE = range(5)


@dataclass(frozen=True, eq=False)
class Exchanged:
    """One contact, decoded: which entries had which values before sample n, and after it."""

    n: int
    down: Array  # entries [M]
    before: Array  # their values; of a cohort, c times
    up: Array
    after: Array  # of a cohort, the sum
    owed: bool = False  # `after` are changes, with all that was held back since they were last sent


def decoded(method: Method, contact: Contact, masked: bool) -> Exchanged:
    """A contact, as the server decodes it."""
    k, n, count = contact.clients[0], contact.n, len(contact.clients)
    down, before = _values(method, contact.down, window(method, k, n, False), up=False)
    if masked:
        stage = next(each for each in around(method) if isinstance(each, Masked))
        words = np.frombuffer(contact.up, "<u4")
        after = count * masks.mean(words, stage.scale, stage.range, count)
        return Exchanged(n, down, count * before, window(method, k, n, True), after)
    plain = within(method)
    if not isinstance(plain, Compressed):
        return Exchanged(
            n, down, before, *_values(method, contact.up, window(method, k, n, True), up=True)
        )
    if contact.up in (b"", payload.NOTHING):
        return Exchanged(n, down, before, NONE, np.empty(0))
    message = rows([method.decode(contact.up, up=True)], method.task.dtype)
    update = plain.unpack(message, np.array([k]), n)[0].astype(np.float64)
    sent = np.flatnonzero(update)
    return Exchanged(n, down, before, sent, update[sent], owed=True)


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
    """What is known of one client's model, entry by entry: a value, and the sample it follows."""

    def __init__(self, method: Method, known: bool, count: int = 1) -> None:
        dim = method.task.dim
        start = count * np.asarray(method.task.initial(), np.float64)
        self.value = start if known else np.full(dim, np.nan)
        self.since, self.sent = np.full(dim, -1), np.where(np.isnan(self.value), np.nan, -1.0)
        self.rounding, self.floor = rounding(method, count)
        self.own = float(np.finfo(method.task.dtype).eps)
        # What it did not send, it sends later.
        plain = within(method)
        self.remembers = isinstance(plain, topk.Method) and plain.memory == 1

    def meet(self, exchanged: Exchanged) -> Array:
        """Eq. (9), then what came up, as equations [E, 5].

        Entry i has changed by this much through the samples after `since`, up to n; the noise is
        the deviation of what rounding adds.
        """
        n, up = exchanged.n, exchanged.up
        self.value[exchanged.down], self.since[exchanged.down] = exchanged.before, n - 1
        since = self.since[up].astype(np.float64)
        size = np.abs(exchanged.after) + np.abs(self.value[up])
        if exchanged.owed:
            since = self.sent[up] if self.remembers else since
            change, self.sent[up] = exchanged.after, n
        else:
            change = exchanged.after - self.value[up]
            self.value[up], self.since[up] = exchanged.after, n
        known = np.isfinite(change + since)
        change, since, size = change[known], since[known], np.nan_to_num(size[known])
        steps = np.sqrt(np.maximum(n - since, 1))  # the client's own arithmetic rounds, too
        noise = (size + 1e-9) * (self.rounding + self.own * steps) / 3 + self.floor
        noise += 2 * self.own * np.abs(change).max(initial=0)  # and so do its features
        return np.column_stack([up[known], since, np.full(len(change), n), change, noise])

    def against(self, exchanged: Exchanged, w: Array, count: int) -> Array:
        """A sum whose members' models are not known: as if it had changed from the global one."""
        n, up = exchanged.n, exchanged.up
        change = exchanged.after - count * w[up]
        noise = self.floor + 1e-9 + np.abs(change) * self.rounding
        since, until = np.full(len(up), n - 1), np.full(len(up), n)
        return np.column_stack([up, since, until, change, noise])


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
