"""The round: the one place in which the handlers of a method are called, in their order.

    members = who.members(n, server)                          a cohort, or a policy's choice
    down    = open_round(method, server, n, members)          the server's first half
    up      = take_part(n, members, down, lessons, who)       the clients' half
    weights = who.weights(n, server, up)
              close_round(method, server, n, up, weights)     the server's second half

`play` joins the halves for clients of this process. A deployed server calls the first and the last,
a deployed client the one between them, with the wire in the middle. What differs between uses is an
argument: `who` decides who takes part and with which weight, `lessons` what clients learn from and
when, `sizes` what the messages cost, `treason` what malicious members send, `guard` what is done
about it, `terms` who begins anew. A round without members is folded too.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from psofed.core.schedule import Indices
from psofed.methods.contract import Array, Message, Messages, Method, Partly, State
from psofed.methods.masked import unmasking
from psofed.methods.members import Apart, Clients, Members, RoundSamples, among

NOBODY = np.empty(0, np.intp)


class Selection(Protocol):
    """Who takes part in a round, who of them uploads, and with which weights a_k."""

    def members(self, n: int, server: State) -> Indices: ...

    def received(self, n: int, members: Members) -> None: ...

    def speakers(self, n: int, members: Members) -> Members: ...

    def weights(
        self, n: int, server: State, uploads: Mapping[int, Message]
    ) -> Mapping[int, float]: ...

    def side(self) -> tuple[int, int]: ...


class Lessons(Protocol):
    """What clients learn from: older samples before the download, the others after it."""

    def before(self, n: int, members: Members) -> None: ...

    def now(self, n: int, members: Members) -> None: ...


class Treason(Protocol):
    """What members upload in a round, of whom some are malicious."""

    def upload(self, n: int, members: Members) -> Messages: ...


class Terms(Protocol):
    """Who of the members of a round begins anew."""

    def begin(self, n: int, members: Indices) -> Collection[int]: ...


class Guard(Protocol):
    """What is folded in, if not everything is."""

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None: ...


def play(
    n: int, server: State, clients: Clients, who: Selection, lessons: Lessons, sizes: Sizes,
    treason: Treason | None = None, guard: Guard | None = None, terms: Terms | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Round n of the clients of this process. Returns its bytes: up, down, multicast down."""
    method = clients.method
    cohort = who.members(n, server)
    new = () if terms is None else terms.begin(n, cohort)
    members = clients.some(cohort, new)
    down = open_round(method, server, n, members.keys, new)
    speakers, up = take_part(n, members, down, lessons, who, treason)
    uploads = speakers.by_client(up)
    close_round(method, server, n, uploads, who.weights(n, server, uploads), guard)
    sent = sizes.traffic(up, len(speakers.ids), down, len(members.ids), clients.runs)
    more_up, more_down = who.side()
    return sent[0] + more_up, sent[1] + more_down, sent[2] + more_down


def skip(n: int, clients: Clients, lessons: Lessons) -> None:
    """Round n, if nobody is asked and nothing is folded: clients that learn when idle do."""
    nobody = clients.some(NOBODY)
    lessons.before(n, nobody)
    lessons.now(n, nobody)


def open_round(
    method: Method, server: State, n: int, members: Indices | list[int], new: Container[int] = ()
) -> Any:
    """The server's first half of round n: what goes down to each member, or to all at once."""
    if isinstance(members, np.ndarray):
        return method.download(server, members, n)
    return [(method.welcome if k in new else method.download)(server, k, n) for k in members]


def take_part(
    n: int,
    members: Members,
    down: Any,
    lessons: Lessons,
    who: Selection,
    treason: Treason | None = None,
) -> tuple[Members, Messages]:
    """The clients' half of round n: receive, learn, upload. Returns who uploads, and what."""
    lessons.before(n, members)
    members.receive(n, down)
    who.received(n, members)
    lessons.now(n, members)
    speakers = who.speakers(n, members)
    up = speakers.upload(n) if treason is None else treason.upload(n, speakers)
    speakers.put_back()
    return speakers, up


def close_round(
    method: Method,
    server: State,
    n: int,
    uploads: Mapping[int, Message],
    weights: Mapping[int, float],
    guard: Guard | None = None,
) -> None:
    """The server's second half of round n: fold what came up, also when nothing did."""
    if guard is not None:
        guard.fold(server, n, uploads, weights)
        return
    if isinstance(uploads, Apart):
        for r, of_run in enumerate(uploads.runs):
            alone = {name: array[r, ...] for name, array in server.items()}
            method.fold(alone, n, of_run, dict.fromkeys(of_run, 1 / len(of_run)))
        return
    method.fold(server, n, uploads, weights)


class EachRound:
    """One sample a round: for all clients if they learn when idle, else for the members."""

    def __init__(self, clients: Clients, samples: RoundSamples) -> None:
        self.clients, self.samples = clients, samples

    def before(self, n: int, members: Members) -> None:
        """Everything older has been learned, or is never learned."""

    def now(self, n: int, members: Members) -> None:
        """Eq. (10) for those who have a sample."""
        if self.clients.method.idle:
            members.put_back()
            self.clients.learn(n, self.samples)
            members.fetch()
        else:
            members.learn(n, self.samples)


class Uniform:
    """The cohort of the method, a_k = 1/|S_n|.

    Where samples are missing, a round without any is silent, and a method that only relays samples
    asks those who have a new one.
    """

    def __init__(self, method: Method, samples: RoundSamples | None = None) -> None:
        self.method, self.samples = method, samples

    def members(self, n: int, server: State) -> Indices:
        """S_n."""
        known = None if self.samples is None else self.samples.known(n)
        silent = self.method.task.cohorts.is_silent(n) or (known is not None and not len(known))
        if silent and self.method.begins(n) and self.method.ends(n):
            return NOBODY  # within a block members download and upload whatever they have learned
        cohort = self.method.cohort(n, server)
        if self.method.task.cohorts.changes:  # that of a block may have been left since
            cohort = cohort[among(cohort, self.method.task.cohorts.there(n))]
        return cohort if known is None or not self.method.relays else cohort[among(cohort, known)]

    def received(self, n: int, members: Members) -> None:
        """Without a policy, clients report nothing."""

    def speakers(self, n: int, members: Members) -> Members:
        """All of them."""
        return members

    def weights(self, n: int, server: State, uploads: Mapping[int, Message]) -> Mapping[int, float]:
        """1/|S_n|."""
        return dict.fromkeys(uploads, 1 / max(len(uploads), 1))

    def side(self) -> tuple[int, int]:
        """No bytes besides the messages."""
        return 0, 0


class Sizes:
    """Bytes of a message: taken from the encoder once for each direction and number of entries."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.messages = 0  # that were counted
        self._known: dict[tuple[bool, int], int] = {}
        self._rounds: dict[tuple[int, ...], tuple[int, tuple[int, int, int]]] = {}

    def __call__(self, message: Array, up: bool) -> int:
        key = up, len(message)
        if key not in self._known:
            self._known[key] = len(self.method.encode(message, up))
        return self._known[key]

    @property
    def largest(self) -> int:
        """Bytes of the longest message so far."""
        return max(self._known.values(), default=0)

    def of(self, messages: Messages, count: int, up: bool) -> list[int]:
        """Bytes of each message to or from this number of clients."""
        if messages is None or not count:
            return []
        if isinstance(messages, list):
            answers: Sequence[Message] = messages  # of those who were asked; None is silence
            return [self(message, up) for message in answers if message is not None]
        return [self(messages.reshape(-1, messages.shape[-1])[0], up)] * count

    def traffic(
        self, up: Messages, speakers: int, down: Messages, members: int, runs: int = 0,
        times: int = 1,
    ) -> Any:  # fmt: skip
        """Bytes of a round, from its messages; cached where all members send the same length.

        Of several runs whose messages differ in length, there are three arrays [run]. If there are
        rounds like it, it counts `times`.
        """
        if isinstance(up, Partly):
            rows = up.array.reshape(-1, up.array.shape[-1]), up.sent.ravel().tolist()
            up = [row if sent else row[:0] for row, sent in zip(*rows, strict=True)]
        if runs and (isinstance(up, list) or isinstance(down, list)):
            ups, downs = _by_run(up, speakers, runs), _by_run(down, members, runs)
            pairs = zip(ups, downs, strict=True)
            return np.array([self.traffic(u, speakers, d, members) for u, d in pairs]).T
        if isinstance(up, list) or isinstance(down, list):
            count, sent = self._round(up, speakers, down, members)
        else:
            lengths = (-1 if m is None else m.shape[-1] for m in (up, down))
            key = (*lengths, speakers, members)
            if key not in self._rounds:
                self._rounds[key] = self._round(up, speakers, down, members)
            count, sent = self._rounds[key]
        self.messages += times * count
        return sent if times == 1 else tuple(times * each for each in sent)

    def _round(
        self, up: Messages, speakers: int, down: Messages, members: int
    ) -> tuple[int, tuple[int, int, int]]:
        sizes = self.of(up, speakers, True), self.of(down, members, False)
        sent = traffic(self.method, *sizes)
        asked, told = unmasking(self.method.task.privacy, len(sizes[0]))
        if told:  # rule 19: each gets the same question, and tells its seeds
            self._known[True, -1] = told
            more = len(sizes[0]) * told, len(sizes[0]) * asked, asked
            sent = sent[0] + more[0], sent[1] + more[1], sent[2] + more[2]
        return len(sizes[0]) * (3 if told else 1) + len(sizes[1]), sent


def _by_run(messages: Messages, size: int, runs: int) -> list[Messages]:
    """The messages of several runs, as those of each."""
    if isinstance(messages, list):
        return [messages[r * size : (r + 1) * size] for r in range(runs)]
    return [None] * runs if messages is None else list(messages)


def traffic(method: Method, up: Sequence[int], down: Sequence[int]) -> tuple[int, int, int]:
    """Bytes of a round from those of its messages: up, down, and down where equal ones go once.

    A broadcast reaches all neighbours at once (multicast); otherwise each neighbour gets a copy.
    """
    if method.peers:
        return sum(up), max(sum(down) - sum(up), 0), 0
    return sum(up), sum(down), sum(set(down) if method.common else down)
