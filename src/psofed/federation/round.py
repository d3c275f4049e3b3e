"""The round: the one place in which the handlers of a method are called, in their order.

    k    = members(method, n, server)                    a cohort, or a policy's choice
    down = open_round(method, server, k, n)              the server's first half
    up   = take_part(method, client, k, n, down, learn)  the clients' half
           close_round(method, server, k, n, up)         the server's second half

`play` joins the halves for clients of this process. A deployed server calls the first and the last,
a deployed client the one between them, with the wire in the middle. Clients that are `new` begin
with a fresh state. A round without members is folded too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation.clients import NOBODY, Clients, SampleFeed, among, learn, stacked
from psofed.federation.contract import (
    ABSENT,
    BEFORE,
    Array,
    Message,
    Method,
    State,
    exchanged,
    nothing,
    rows,
    summed,
)
from psofed.federation.foreign import broken, kind
from psofed.federation.stage import CONTRACT, around, within

SEED = 8  # bytes: features, masks and all later draws follow from it
SURPRISE = 1000.0  # a sample after which event-triggered clients upload, too
New = Collection[int]  # clients that start over


def play(
    n: int, server: State, clients: Clients, feed: SampleFeed, sizes: Sizes,
    begin: Callable[[int, Indices], New] = lambda n, k: (),
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Round n of the clients of this process. Returns its bytes: up, down, multicast down.

    `begin` says who of the members starts over.
    """
    method = clients.method
    k = members(method, n, server, feed.known(n))
    new = begin(n, k)
    clients.renew(new)
    down = open_round(method, server, k, n, new)
    feed.before(n, k, new)
    some = clients.members(k)
    up = take_part(method, some.stack, k, n, down, lambda: feed.now(n, some), new)
    some.put_back()
    close_round(method, server, k, n, up)
    return sizes.traffic(up, down)


def skip(n: int, clients: Clients, feed: SampleFeed) -> None:
    """Round n, if nobody is asked and nothing is folded: clients that learn when idle do."""
    feed.before(n, NOBODY, ())
    feed.now(n, clients.members(NOBODY))


def members(method: Method, n: int, server: State, known: Indices | None = None) -> Indices:
    """Who takes part in round n, where `known` have a sample (None: all have one).

    A round in which nobody has one is silent, and clients that only pass on their samples need one.
    """
    cohorts = method.task.cohorts
    silent = cohorts.is_silent(n) or (known is not None and not len(known))
    if silent and method.pace == 1:
        return NOBODY  # within a block members download and upload whatever they have learned
    k: Any = method.cohort(n, server)
    if not (isinstance(k, np.ndarray) and k.dtype.kind in "iu"):
        found = f"returns {kind(k)}, not an array of whole numbers"
        raise broken(type(within(method)), "cohort", found, CONTRACT)
    if cohorts.changes:  # that of a block may have been left since
        k = k[among(k, cohorts.there(n))]
    here = None if known is None else among(k, known)
    return k if here is None or here.all() or not relays(method) else k[here]


def relays(method: Method) -> bool:
    """Whether clients keep no model: they pass on each new sample."""
    return not within(method).lazy and "w" not in method.client()


def waits(method: Method) -> bool:
    """Whether samples wait for the next download, which overwrites most of what was learned."""
    if not method.idle or within(method).lazy:
        return not method.idle
    down, up = exchanged(method, up=False), exchanged(method, up=True, n=method.pace - 1)
    # Where what comes down is what goes up, nothing would have been learned in between.
    return 2 * down.shape[-1] >= method.task.dim or (down.size > 0 and np.array_equal(down, up))


def setup(method: Method) -> int:
    """Bytes that every client gets once, before round 0: the seed, unless it sends samples only."""
    return SEED if exchanged(method, up=True).size and not relays(method) else 0


def opens(method: Method, n: int) -> bool:
    """Whether a block begins with round n."""
    return n % method.pace == 0


def closes(method: Method, n: int) -> bool:
    """Whether a block ends with round n."""
    return (n + 1) % method.pace == 0


def begins(method: Method, n: int) -> int:
    """The round whose download a client gets that starts over in round n."""
    return BEFORE if method.idle and method.entrywise else n - n % method.pace


def open_round(method: Method, server: State, k: Indices, n: int, new: New = ()) -> Message:
    """The server's first half of round n: what goes down to each member."""
    if not new:
        asked = opens(method, n) and k.size
        return _shaped(
            method, "download", k, method.download(server, k, n) if asked else nothing(k)
        )
    found: list[Array | None] = []
    for one in k[:, None]:
        when = begins(method, n) if int(one[0]) in new else n
        asked = when != n or opens(method, n)
        found.append(method.download(server, one, when).row(0) if asked else None)
    return rows(found, method.task.dtype)


def take_part(
    method: Method, client: State, k: Indices, n: int, down: Message,
    learn: Callable[[], None], new: New = (),
) -> Message:  # fmt: skip
    """The clients' half of round n: receive, learn, upload."""
    receive(method, client, k, n, down, new)
    learn()
    return upload(method, client, k, n)


def receive(
    method: Method, client: State, k: Indices, n: int, down: Message, new: New = ()
) -> None:
    """The first part of the clients' half, before they learn."""
    if new:
        _receive_anew(method, client, k, n, down, new)
    elif k.size and opens(method, n):
        method.receive(client, k, n, down)


def upload(method: Method, client: State, k: Indices, n: int) -> Message:
    """Its last part, after they have learned."""
    if not k.size or not closes(method, n):
        return nothing(k)
    return _shaped(method, "upload", k, method.upload(client, k, n))


def _receive_anew(
    method: Method, client: State, k: Indices, n: int, down: Message, new: New
) -> None:
    """What comes down where some start over: they and the others have different messages."""
    fresh = np.isin(k, list(new))
    for when, which in ((begins(method, n), fresh), (n, ~fresh)):
        if which.any() and (when != n or opens(method, n)):
            length, some = down.length[which], {name: a[which] for name, a in client.items()}
            values = down.values[which][:, : max(length.max(), 0)]
            method.receive(some, k[which], when, Message(values, length))
            for name, array in client.items():
                array[which] = some[name]


def close_round(method: Method, server: State, k: Indices, n: int, up: Message) -> None:
    """The server's second half of round n: fold what came up, also when nothing did."""
    if not closes(method, n):
        k, up = k[..., :0], nothing(k[..., :0])
    share = up.values.dtype.type(1 / max(k.shape[-1], 1))
    method.fold(server, k, n, up, np.where(up.heard, share, up.values.dtype.type(0)))


def _shaped(method: Method, handler: str, k: Indices, message: Any) -> Message:
    """The message, if it has a row for each client."""
    if (
        isinstance(message, Message)
        and message.values.shape[:-1] == message.length.shape == k.shape
    ):
        return message
    found = "does not return a Message with a row for each k"
    raise broken(type(within(method)), handler, found, CONTRACT)


class Sizes:
    """Bytes of a message: taken from the encoder once for each direction and number of values."""

    def __init__(self, method: Method) -> None:
        self.method, self.stages = method, list(around(method))
        self.messages = 0  # that were counted
        self._known: dict[tuple[bool, int], int] = {}
        self._rounds: dict[Any, tuple[int, tuple[Any, Any, Any]]] = {}

    def __call__(self, values: Array, up: bool) -> int:
        key = up, len(values)
        if key not in self._known:
            self._known[key] = len(self.method.encode(values, up))
        return self._known[key]

    @property
    def largest(self) -> int:
        """Bytes of the longest message so far."""
        return max(self._known.values(), default=0)

    def of(self, message: Message, up: bool) -> Array:
        """Bytes of each row [..., s]."""
        size = np.zeros(message.length.shape, np.int64)
        for length in np.unique(message.length).tolist():
            if length != ABSENT:
                here = message.length == length
                size[here] = self(message.values[here][0, :length], up)
        return size

    def traffic(self, up: Message, down: Message, times: int = 1) -> tuple[Any, Any, Any]:
        """Bytes of a round: up, down, and down where equal ones go once.

        Of several runs there are three arrays [run]. A round like several others counts `times`.
        """
        key = up.length.shape, up.length.tobytes(), down.length.shape, down.length.tobytes()
        if key not in self._rounds:
            if len(self._rounds) > 256:  # of messages whose lengths differ, few come again
                self._rounds.clear()
            self._rounds[key] = self._round(up, down)
        count, sent = self._rounds[key]
        self.messages += times * count
        for stage in self.stages:
            more = stage.extra(int((up.length != ABSENT).sum(axis=-1).max(initial=0)))
            sent = sent[0] + more[0], sent[1] + more[1], sent[2] + more[2]
        return sent if times == 1 else (times * sent[0], times * sent[1], times * sent[2])

    def _round(self, up: Message, down: Message) -> tuple[int, tuple[Any, Any, Any]]:
        count = int((up.length != ABSENT).sum() + (down.length != ABSENT).sum())
        return count, summed(self.method, self.of(up, True), self.of(down, False))


def rehearse(method: Method) -> tuple[Message, Message]:
    """What goes up and down in one exchange of a server and a client made for this purpose."""
    task, run = method.task, method.task.seeds.run
    shape = () if isinstance(run, int) else (len(run),)
    k, server = np.zeros((*shape, 1), np.intp), stacked(method.server(), *shape)
    client = stacked(method.client(), *shape, 1)
    down = method.download(server, k, 0)
    method.receive(client, k, 0, down)
    x, z = task.zeros(*k.shape, task.taps), np.ones((*k.shape, task.features.dim), task.dtype)
    learn(method, client, x, z, np.full(k.shape, SURPRISE, task.dtype))
    return method.upload(client, k, method.pace - 1), down
