"""A contender of a back-test: any method of the contract over the ticks of a table.

A contender predicts the samples of some rounds, each before it learns from the labels that arrive
in that round. It says what it predicts in each part of the rounds: as it learns, and frozen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from psofed.core import native
from psofed.core.features import FeatureMap
from psofed.core.schedule import Indices, PresentCohorts
from psofed.errors import InputError
from psofed.federation import round as rounds
from psofed.federation.clients import Clients, EachRound
from psofed.federation.contract import Array, Method, Task, exchanged, nothing, whole
from psofed.federation.options import Options
from psofed.federation.round import Sizes
from psofed.federation.stage import around
from psofed.methods import centralised, fedavg, local, onlinefed, periodic, psofed
from psofed.rivals import raw
from psofed.stages.checks import contract as check
from psofed.stages.selection import Selected
from psofed.streams.data.recipe import Recipe
from psofed.streams.data.rounds import Rounds
from psofed.tables.plan import Span
from psofed.tables.scores import Kind, Score

Guesses = dict[str, dict[str, Array]]  # [B, K] by part of the rounds, then by model
OPENS, CLOSES, IDLE, POOLS = 1, 2, 4, 8  # what happens in a round; the same in C
ROOM = 2**20  # entries of the windows that are in memory at once
# A subclass may change a handler, so these are the classes themselves.
EXCHANGE = {psofed.Method, onlinefed.Method, periodic.Method, fedavg.Method, local.Method}
POOL = {centralised.Method, raw.Method}


@dataclass(frozen=True, eq=False)
class Lot:
    """Rounds first.. of all clients: what is to be predicted, and what becomes known in them."""

    first: int
    fresh: Array  # [B, K, D]: features of the samples to predict
    x: Array  # [B, K, L]: inputs of the samples whose labels arrive
    z: Array  # [B, K, D]: their features
    y: Array  # [B, K]: these labels; NaN: none
    who: list[Indices]  # the clients that have one
    now: Array  # [B, K, L]: inputs of the samples to predict
    # [B, K, 2]: the last label that is known when a sample is predicted, and that of a season ago.
    older: Array
    before: Array  # [B, K, 2]: the same of the samples whose labels arrive
    truth: Array  # [B, K]: labels of the samples to predict, which become known later

    def part(self, begin: int, end: int) -> Lot:
        """Rounds begin..end-1."""
        here = slice(begin - self.first, end - self.first)
        arrays = (self.fresh, self.x, self.z, self.y, self.who, self.now, self.older, self.before,
                  self.truth)  # fmt: skip
        return Lot(begin, *(each[here] for each in arrays))  # type: ignore[arg-type]

    def known(self, n: int) -> Indices:
        """Those who have a label in round n."""
        return self.who[n - self.first]

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]:
        """Samples of all clients, or of some."""
        i = n - self.first
        some = slice(None) if clients is None else clients
        return self.x[i][some], self.z[i][some], self.y[i][some]


def task(
    table: Rounds, features: FeatureMap, seeds: Any, step: float, cohort: int, delay: int,
    wire: str = "float32", begin: int = 0,
) -> Task:  # fmt: skip
    """What methods may know of a federation over this table, whose rounds start with `begin`."""
    first, stop = np.maximum(table.first + delay, begin), table.last + delay + 1
    here: Any = {"first": first, "stop": stop}
    cohorts = PresentCohorts(seeds, table.clients, min(cohort, table.clients), **here)
    return Task(
        clients=table.clients, dim=features.dim, taps=table.recipe.taps, step=step, seeds=seeds,
        features=features, cohorts=cohorts, dtype="float32", wire=wire,
    )  # fmt: skip


def scaling_bytes(recipe: Recipe, given: Mapping[str, Any]) -> int:
    """The largest number of bytes that a client sends and gets, once, for the common scaling.

    Up: count, mean and sum of squares of each number whose range is not given, and the texts of its
    categories. Down: centre and scale, and the texts of all. Numbers in 8 bytes, texts in UTF-8.
    """
    numbers = sum(name not in given for name in (*recipe.numeric, recipe.columns.target))
    texts = sum(len(t.encode()) + 1 for values in recipe.hot.values() for t in values)
    return 8 * (3 + 2) * numbers + 2 * texts


class Contender:
    """What can be in a back-test: any method (`Player`), or what needs none (experts.py)."""

    features: FeatureMap | None = None  # makes z in a `Lot`; None: it needs none
    score: Score  # its title, what it is among candidates, its errors and bytes
    answers: Guesses  # of the last rounds

    def warm(self, x: Array, y: Array, before: Array) -> None:
        """`x`, `y` and `before` of a lot of the warm-up, in which nobody exchanges anything."""

    def play(self, lot: Lot, span: Span) -> Guesses:
        """Predict, exchange and learn in some rounds."""
        raise NotImplementedError

    def close(self, labels: int) -> None:
        """After the last round: `labels` have arrived in all."""


class Player(Contender):
    """A method with its state, its models as they were frozen, and its score."""

    def __init__(
        self, title: str, method: Method, features: FeatureMap, table: Rounds,
        options: Options | None = None,
    ) -> None:  # fmt: skip
        selects = any(isinstance(stage, Selected) for stage in around(method))
        if selects or method.delivery == "peers":
            found = f"is {title!r}, which does not work with the rounds of a table"
            raise InputError("method", found, "use one with a server and no policy")
        self.method, self.features = method, features
        self.server, self.all = method.server(), Clients(method, table.clients)
        self.clients, self.sizes = self.all.states, Sizes(method)
        scaling = scaling_bytes(table.recipe, table.table.columns.ranges)
        sort = kind(method, options)
        held = None if sort == "raw" else options
        self.score = Score(title, table.clients, sort, held, setup=rounds.setup(method) + scaling)
        self.frozen: dict[str, dict[str, Array]] = {}  # by part, then by model
        self.next: int | None = None  # the round that comes next
        # Clients by the round of their first sample, and the shared model as it was then.
        self.joins = dict[int, list[int]]()
        for k, n in enumerate(table.first.tolist() if sort == "kernel" else ()):
            self.joins.setdefault(n, []).append(k)
        self.start = np.zeros((table.clients, features.dim), method.task.dtype)

    @property
    def shared(self) -> Array:
        """The model that is judged: the server's [D], or one for each client [K, D]."""
        return self.method.models(self.server, self.clients)

    @property
    def own(self) -> Array | None:
        """The clients' own models, if they keep any."""
        return self.clients.get("w")

    def play(self, lot: Lot, span: Span) -> Guesses:
        """Predict, exchange and learn in each round."""
        self._silence(span.first if self.next is None else self.next, lot.first, span)
        self.next = lot.first + len(lot.y)
        made = []
        for begin, end in span.cuts(lot.first, len(lot.y), self.joins):
            if begin > span.first and begin in self.joins:
                who, w = self.joins[begin], self.shared
                self.start[who] = w if w.ndim == 1 else w[who]
            self._freeze(begin, span)
            some = self._at_once if supports(self.method) else self._one_by_one
            made.append(some(lot.part(begin, end)))
        shared, own = (np.concatenate(each) for each in zip(*made, strict=True))
        found = {"prequential": {"global": shared} | ({} if self.own is None else {"own": own})}
        for part in span.overlap(lot.first, len(lot.y)):
            found[part] = {
                model: lot.fresh @ w if w.ndim == 1 else np.vecdot(lot.fresh, w)
                for model, w in self.frozen[part].items()
            }
        self.answers = found
        return found

    def close(self, labels: int) -> None:
        """Samples seen = learned + clipped + refused, and a check has seen all that arrived."""
        if check.COUNTS in self.clients:
            self.score.checked = check.found(self.clients)
        if self.score.checked and self.method.idle:
            assert self.score.checked["seen"] == labels

    def _freeze(self, n: int, span: Span) -> None:
        """Keep the models as they are when a part begins, or continues after a gap."""
        for part, (start, _) in span.freezes.items():
            if n >= start and part not in self.frozen:
                own = {} if self.own is None else {"own": self.own.copy()}
                self.frozen[part] = {"global": self.shared.copy()} | own

    def _silence(self, begin: int, stop: int, span: Span) -> None:
        """The rounds of a long silence, if one in which nobody has a label may change something.

        Within a block members upload anyway; a server that keeps more than w may go on.
        """
        if self.method.pace > 1 or self.server.keys() != {"w"}:
            none = np.empty((1, 0))
            for n in range(begin, stop):
                self._freeze(n, span)
                nobody = [np.empty(0, np.intp)]
                self._round(n, Lot(n, none, none, none, none, nobody, none, none, none, none))

    def _round(self, n: int, lot: Lot) -> None:
        self._send(rounds.play(n, self.server, self.all, EachRound(self.all, lot), self.sizes))

    def _one_by_one(self, lot: Lot) -> tuple[Array, Array]:
        """Predictions by w_n and by w_{k,n}, each made before learning."""
        shared, own = (np.zeros(lot.y.shape, lot.y.dtype) for _ in "so")
        predict = self.method.task.learner.predict
        for i, z in enumerate(lot.fresh):
            w, w_k = self.shared, self.own
            shared[i] = predict(w, z)
            if w_k is not None:
                own[i] = shared[i] if w_k is w else predict(w_k, z)
            self._round(lot.first + i, lot)
        return shared, own

    def _send(self, sent: Any) -> None:
        score, (up, down, multicast) = self.score, sent
        score.up, score.down = score.up + int(up), score.down + int(down)
        score.multicast += int(multicast)
        score.messages, score.largest = self.sizes.messages, self.sizes.largest

    def _at_once(self, lot: Lot) -> tuple[Array, Array]:
        """The same in compiled calls, some rounds in each: see `supports`."""
        method, w = self.method, self.server["w"]
        shared, own = (np.empty(lot.y.shape, w.dtype) for _ in "so")
        length = max(ROOM // (method.task.cohorts.size * method.task.dim), 1)
        for i in range(0, len(lot.y), length):
            some, here = lot.part(lot.first + i, lot.first + i + length), slice(i, i + length)
            known = enumerate(some.who, some.first)
            cohorts = [rounds.members(method, n, self.server, k) for n, k in known]
            self._send(_traffic(method, some.first, cohorts, self.sizes))
            local_models = self.clients.get("w", np.zeros((self.all.count, len(w)), w.dtype))
            job = _script(method, some, cohorts, w, local_models, shared[here], own[here])
            native.function("stretch", w.dtype)(native.struct(job))
        return (own if self.shared is self.own else shared), own


class Own(Contender):
    """A player judged by its clients' own models, as a mix has them; it plays after the player."""

    def __init__(self, player: Player) -> None:
        self.player, self.features = player, player.features
        self.score = Score(player.score.title, player.score.clients)

    def play(self, lot: Lot, span: Span) -> Guesses:
        """What the player has said, of clients that keep no model the shared one."""
        return {p: {"global": m.get("own", m["global"])} for p, m in self.player.answers.items()}


def kind(method: Method, options: Options | None) -> Kind:
    """What a method is among candidates."""
    if rounds.relays(method):
        return "raw"
    return "alone" if options is not None and options.alone else "kernel"


def supports(method: Method) -> bool:
    """Whether several rounds of the method can be computed in one compiled call.

    These exchange by eq. (9) and (11), and their learner is LMS, eq. (10); or their server makes a
    mean step with samples that clients send. A round is then the same few lines whatever the
    method's name, if no stage stands around it. They are restated in core/native/stretch.h, and a
    test pins them to `round.play`.
    """
    kind, plain = type(method), cast(Any, method)
    means = kind in POOL and plain.exact and not plain.sequential and "w" in method.server()
    return (kind in EXCHANGE or means) and method.task.learner.lms and native.available()


class Stretch(NamedTuple):
    """What the compiled code works on: the fields of its struct, in the same order."""

    rounds: int
    clients: int
    dim: int
    shared: int
    w: Array
    local: Array
    fresh: Array
    known: Array
    y: Array
    what: Array
    start: Array
    members: Array
    down: Array
    up: Array
    step: float
    of_server: Array
    of_client: Array
    total: Array


def _script(
    method: Method, lot: Lot, cohorts: list[Indices], w: Array, local_models: Array,
    of_server: Array, of_client: Array,
) -> Stretch:  # fmt: skip
    """What happens in each round, with the windows of all members, down and up."""
    ns, sizes = np.arange(lot.first, lot.first + len(lot.y)), [len(each) for each in cohorts]
    members, n = np.concatenate(cohorts), np.repeat(ns, sizes)
    if rounds.relays(method):
        what, down, up = np.full(len(ns), POOLS, np.uint8), *np.empty((2, 0, 0), np.int64)
    else:
        first, last = ns % method.pace == 0, (ns + 1) % method.pace == 0
        what = (IDLE * method.idle + OPENS * first + CLOSES * last).astype(np.uint8)
        down, up = (
            np.ascontiguousarray(method.entries(members[some], n[some], way), np.int64)
            for some, way in ((np.repeat(first, sizes), False), (np.repeat(last, sizes), True))
        )
    fresh, known, y = (np.ascontiguousarray(a, w.dtype) for a in (lot.fresh, lot.z, lot.y))
    assert w.dtype == local_models.dtype
    assert fresh.shape == known.shape == (len(y), *local_models.shape)
    return Stretch(
        rounds=len(y), clients=len(local_models), dim=len(w), shared=down.shape[-1], w=w,
        local=local_models, fresh=fresh, known=known, y=y, what=what,
        start=np.cumsum([0, *sizes]), members=members.astype(np.int64), down=down, up=up,
        step=float(method.step), of_server=of_server, of_client=of_client, total=np.zeros(len(w)),
    )  # fmt: skip


def _traffic(method: Method, first: int, cohorts: list[Indices], sizes: Sizes) -> Array:
    """The bytes of these rounds; the size of a message depends on the number of its entries."""
    pools = rounds.relays(method)
    length = method.task.taps + 1 if pools else exchanged(method, up=True).shape[-1]
    alike = Counter(
        (len(k), rounds.opens(method, n) and not pools, rounds.closes(method, n))
        for n, k in enumerate(cohorts, first)
    )
    sent = np.zeros(3, np.int64)
    for (count, down, up), times in alike.items():
        full, none = whole(np.zeros((count, length))), nothing(np.arange(count))
        if count:
            sent += sizes.traffic(full if up else none, full if down else none, times)
    return sent
