"""A federation over a table: any methods of the contract, in lockstep on the same samples.

One round n, for every contender:

    predict the sample of round n, with the models as they are          (prequential)
    the label of round n - d arrives: exchange and learn                 (the contract's round)

A label is known from round n + d on, and no model sees it before. Rounds in which no label arrives
do not happen: nobody learns and nothing is sent. A client takes part from its first sample until
its last label; without a label in a round it exchanges, but does not learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import FeatureMap
from psofed.core.schedule import Indices, UniformCohorts
from psofed.errors import InputError
from psofed.methods.contract import Message, Method, State, Task, traffic
from psofed.rows.rounds import Block, Delay, Rounds
from psofed.tables.scores import BINS, Score, Scores, Truth

Array = NDArray[Any]
PERSISTENCE = "Persistence"


@dataclass(frozen=True, eq=False)
class Present(UniformCohorts):
    """A uniform cohort, of which those answer who have begun and not stopped."""

    first: Any = None
    stop: Any = None

    def cohort(self, n: Any) -> Indices:
        """S_n without those who are not there."""
        drawn = super().cohort(n)  # remembered for a while: all contenders ask for the same
        return drawn[(self.first[drawn] <= n) & (n < self.stop[drawn])]


@dataclass(frozen=True, eq=False)
class Contender:
    """A method on a feature map, ready to run. Without a method: persistence."""

    title: str
    method: Method | None = None
    features: FeatureMap | None = None


@dataclass(frozen=True)
class Span:
    """Learning and scoring begin with round `first`; models are frozen, and judged, at `frozen`."""

    first: int
    frozen: int
    stop: int


class Player:
    """One contender's state, its models frozen at one moment, and its score."""

    def __init__(self, contender: Contender, rounds: Rounds) -> None:
        assert contender.method is not None
        assert contender.features is not None
        self.method: Method = contender.method
        if self.method.policy is not None or self.method.peers:
            found = f"is {contender.title!r}, which needs its own kind of rounds"
            raise InputError("method", found, "use one with a server and no policy")
        self.features = contender.features
        self.server = self.method.server()
        states = [self.method.client(k) for k in range(rounds.clients)]
        self.clients = {name: np.stack([s[name] for s in states]) for name in states[0]}
        self.rows = [{n: a[k, ...] for n, a in self.clients.items()} for k in range(rounds.clients)]
        self.score = Score(contender.title, rounds.clients, setup=self.method.setup)
        self.frozen: tuple[Array, Array | None] | None = None
        self._sizes: dict[tuple[bool, int], int] = {}

    @property
    def shared(self) -> Array:
        """The model that is judged: the server's [D], or one for each client [K, D]."""
        return self.method.models(self.server, self.clients)

    @property
    def own(self) -> Array | None:
        """The clients' own models, if they keep any."""
        return self.clients.get("w")

    def freeze(self) -> None:
        """Remember the models as they are."""
        own = None if self.own is None else self.own.copy()
        self.frozen = self.shared.copy(), own

    def round(self, n: int, x: Array, z: Array, y: Array, known: Array) -> None:
        """The contract's round n, with the samples of the clients `known`."""
        method, server = self.method, self.server
        cohort = [int(k) for k in method.cohort(n, server)]
        if self.own is None:  # who sends samples has something to say only when there is a new one
            fresh = set(known.tolist())
            cohort = [k for k in cohort if k in fresh]
        downloads = {k: method.download(server, k, n) for k in cohort}
        for k, message in downloads.items():
            method.receive(self.rows[k], k, n, message)
        self._learn(cohort, x, z, y, known)
        uploads = {k: method.upload(self.rows[k], k, n) for k in cohort}
        method.fold(server, n, uploads, dict.fromkeys(cohort, 1 / max(len(cohort), 1)))
        self._count(uploads, downloads)

    def _learn(self, cohort: list[int], x: Array, z: Array, y: Array, known: Array) -> None:
        method = self.method
        if not method.idle:
            fresh = set(known.tolist())
            for k in cohort:
                if k in fresh:
                    method.learn(self.rows[k], x[k], z[k], y[k])
        elif len(known) == len(self.rows):
            method.learn(self.clients, x, z, y)
        else:
            some: State = {name: array[known] for name, array in self.clients.items()}
            method.learn(some, x[known], z[known], y[known])
            for name, array in self.clients.items():
                array[known] = some[name]

    def _count(self, uploads: dict[int, Message], downloads: dict[int, Message]) -> None:
        """Bytes, as the method's encoder makes them."""
        up = [self._size(m, True) for m in uploads.values() if m is not None]
        down = [self._size(m, False) for m in downloads.values() if m is not None]
        score, (a, b, c) = self.score, traffic(self.method, up, down)
        score.up, score.down, score.multicast = score.up + a, score.down + b, score.multicast + c
        score.messages += len(up) + len(down)
        score.largest = max(score.largest, *up, *down) if up or down else score.largest

    def _size(self, message: Array, up: bool) -> int:
        """The number of bytes depends on the number of entries only; the encoder is asked once."""
        key = up, len(message)
        if key not in self._sizes:
            self._sizes[key] = len(self.method.encode(message, up))
        return self._sizes[key]


def federate(
    rounds: Rounds,
    contenders: list[Contender],
    delay: int,
    span: Span,
    on_round: Callable[[int, int], None] | None = None,
) -> tuple[Scores, list[Player]]:
    """All contenders over rounds span.first..span.stop-1, each judged on the same samples."""
    run = _Run(rounds, contenders, delay, span)
    with np.errstate(over="ignore", invalid="ignore"):
        for block in rounds.blocks(span.stop, linger=delay):
            run.block(block)
            if on_round is not None:
                on_round(block.first, span.stop)
    days = (span.stop - span.first) * rounds.table.tick / 86400
    scores = [player.score for player in run.players]
    scores += [run.persistence] if run.persistence is not None else []
    names = rounds.table.clients
    return Scores(scores, *run.truths, run.marks, run.counts, days, names), run.players


class _Run:
    def __init__(self, rounds: Rounds, contenders: list[Contender], delay: int, span: Span) -> None:
        self.rounds, self.span, self.delay = rounds, span, delay
        self.delayed = Delay(delay, rounds.clients, rounds.encoder.taps)
        self.players = [Player(c, rounds) for c in contenders if c.method is not None]
        wanted = any(c.method is None for c in contenders)
        self.persistence = Score(PERSISTENCE, rounds.clients) if wanted else None
        self.known = np.zeros(rounds.clients, np.float32)  # the last label of each; 0 is the mean
        self.truths = Truth.empty(rounds.clients), Truth.empty(rounds.clients)
        self.marks = np.unique(np.linspace(span.first, span.stop, BINS + 1).astype(int))[1:]
        if not len(self.marks):
            self.marks = np.array([span.stop])
        self.counts = np.zeros(len(self.marks))
        for player in self.players:
            player.score.curve = np.zeros(len(self.marks))

    def block(self, block: Block) -> None:
        """Predict, exchange and learn in every round of a block; then judge it as a whole."""
        x, y = self.delayed(block)
        if block.first + len(y) <= self.span.first:  # the warm-up
            self._persist(y)
            return
        z_new, z_known = self._features(block.x, x)
        predictions = [_Predictions(p, block.y.shape) for p in self.players]
        arrived = np.asarray(~np.isnan(y))
        rounds = np.asarray(arrived.any(axis=1))
        begin = max(self.span.first - block.first, 0)
        for i in range(begin, len(y)):
            n = block.first + i
            known = np.flatnonzero(arrived[i]) if rounds[i] else None
            for player, made in zip(self.players, predictions, strict=True):
                if n == self.span.frozen:
                    player.freeze()
                made.at(i, z_new[id(player.features)][i])
                if known is not None:
                    player.round(n, x[i], z_known[id(player.features)][i], y[i], known)
        self._judge(block, predictions, z_new, self._persist(y))

    def _features(self, new: Array, known: Array) -> tuple[dict[int, Array], dict[int, Array]]:
        maps = {id(p.features): p.features for p in self.players}
        z = {i: f(new) for i, f in maps.items()}
        return z, z if known is new else {i: f(known) for i, f in maps.items()}

    def _persist(self, arrived: Array) -> Array:
        """The last label that was known at each round: at the same delay as the models."""
        labels = np.vstack([self.known, arrived])
        seen = np.where(np.isnan(labels), 0, np.arange(len(labels))[:, None])
        filled = np.take_along_axis(labels, np.maximum.accumulate(seen, axis=0), axis=0)
        self.known = filled[-1]
        return filled[1:] if self.delay else filled[:-1]

    def _judge(
        self, block: Block, made: list[_Predictions], z: dict[int, Array], last: Array
    ) -> None:
        n = block.first + np.arange(len(block.y))
        counted = block.has & ~np.isnan(block.y) & (n >= self.span.first)[:, None]
        late = counted & (n >= self.span.frozen)[:, None]
        y = np.where(counted, block.y, 0)
        self.truths[0].add(y, counted)
        self.truths[1].add(y, late)
        bins = np.searchsorted(self.marks, n, side="right").clip(max=len(self.marks) - 1)
        np.add.at(self.counts, bins, counted.sum(axis=1))
        for player, predictions in zip(self.players, made, strict=True):
            score = player.score
            for model, guess in predictions.items():
                errors = np.where(counted, np.square(y - guess, dtype=np.float64), 0)
                score.add("prequential", model, errors)
                if model == "global":
                    np.add.at(score.curve, bins, errors.sum(axis=1))
            if late.any() and player.frozen is not None:
                features = z[id(player.features)]
                for model, w in zip(("global", "own"), player.frozen, strict=True):
                    if w is not None:
                        guess = features @ w if w.ndim == 1 else np.vecdot(features, w)
                        score.add("frozen", model, np.where(late, np.square(y - guess), 0))
        if self.persistence is not None:
            errors = np.square(y - last, dtype=np.float64)
            self.persistence.add("prequential", "global", np.where(counted, errors, 0))
            self.persistence.add("frozen", "global", np.where(late, errors, 0))
            if len(self.persistence.curve) != len(self.marks):
                self.persistence.curve = np.zeros(len(self.marks))
            np.add.at(self.persistence.curve, bins, np.where(counted, errors, 0).sum(axis=1))


class _Predictions:
    """What a player says to the samples of a block, each before it has learned from it."""

    def __init__(self, player: Player, shape: tuple[int, ...]) -> None:
        self.player = player
        self.shared = np.zeros(shape, np.float32)
        self.own = None if player.own is None else np.zeros(shape, np.float32)

    def at(self, i: int, z: Array) -> None:
        """Round i of the block."""
        w = self.player.shared
        self.shared[i] = z @ w if w.ndim == 1 else np.vecdot(z, w)
        if self.own is not None and self.player.own is not None:
            self.own[i] = np.vecdot(z, self.player.own)

    def items(self) -> list[tuple[str, Array]]:
        """By model."""
        both = [("global", self.shared)]
        return both if self.own is None else [*both, ("own", self.own)]


def task(
    rounds: Rounds, features: FeatureMap, seeds: Any, step: float, cohort: int, delay: int,
    wire: str = "float32",
) -> Task:  # fmt: skip
    """What methods may know of a federation over this table."""
    here: Any = {"first": rounds.first + delay, "stop": rounds.last + delay + 1}
    cohorts = Present(seeds, rounds.clients, min(cohort, rounds.clients), **here)
    return Task(
        clients=rounds.clients, dim=features.dim, taps=rounds.encoder.taps, step=step, seeds=seeds,
        features=features, cohorts=cohorts, dtype="float32", wire=wire,
    )  # fmt: skip


def with_features(base: Task, features: FeatureMap) -> Task:
    """The same federation with another feature map."""
    return replace(base, dim=features.dim, features=features)
