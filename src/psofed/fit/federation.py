"""A federation over a table: any methods of the contract, in lockstep on the same samples.

One round n, for every contender:

    predict the sample of round n, with the models as they are          (prequential)
    the label of round n - d arrives: exchange and learn                 (the contract's round)

A label is known from round n + d on, and no model sees it before. Rounds in which no label arrives
are silent: no client learns and nothing is sent. A client takes part from its first sample until
its last label; without a label in a round it exchanges, but does not learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import FeatureMap
from psofed.core.schedule import PresentCohorts
from psofed.data.rounds import Block, Delay, Rounds
from psofed.fit.certainty import block_marks
from psofed.fit.intervals import Promises, Seasons
from psofed.fit.player import Contender, Lot, Player
from psofed.fit.scores import BINS, Score, Scores, Truth
from psofed.methods import checked
from psofed.methods.contract import Task
from psofed.sample_checks.contract import SampleCheck

Array = NDArray[Any]
PERSISTENCE = "Persistence"


@dataclass(frozen=True)
class Span:
    """Learning and scoring begin with round `first`; models are frozen, and judged, at `frozen`.

    With `choice`, they are also frozen there and judged until `frozen`: to choose by.
    """

    first: int
    frozen: int
    stop: int
    choice: int | None = None

    @property
    def parts(self) -> dict[str, tuple[int, int]]:
        """The rounds in which models are judged that were frozen when the part began."""
        last = {"frozen": (self.frozen, self.stop)}
        return last if self.choice is None else last | {"choice": (self.choice, self.frozen)}


def federate(
    rounds: Rounds,
    contenders: list[Contender],
    delay: int,
    span: Span,
    on_round: Callable[[int, int], None] | None = None,
    intervals: bool = False,
) -> tuple[Scores, list[Player]]:
    """All contenders over rounds span.first..span.stop-1, each judged on the same samples.

    With `intervals`, clients also learn how far the first contender's predictions may be off.
    """
    run = _Run(rounds, contenders, delay, span)
    if intervals:
        run.promises = _promises(rounds, run, delay)
    with np.errstate(over="ignore", invalid="ignore"):
        for block in rounds.blocks(span.stop, linger=delay):
            run.block(block)
            if on_round is not None:
                on_round(block.first, span.stop)
    run.conserve()
    days = (span.stop - span.first) * rounds.table.tick / 86400
    names = rounds.table.clients
    learned = None if run.promises is None else run.promises.result()
    found = Scores(run.scores, run.truths, run.marks, run.counts, days, names, learned)
    return found, run.players


def _promises(rounds: Rounds, run: _Run, delay: int) -> Promises:
    """The intervals of the first contender, with its models, before any label."""
    table, player = rounds.table, run.players[0]
    models = ("global",) if player.own is None else ("global", "own")
    seasons = Seasons.of(run.span, rounds.origin, table.tick, table.calendar)
    return Promises(rounds.clients, models, delay, run.span, run.marks, seasons)


class _Run:
    def __init__(self, rounds: Rounds, contenders: list[Contender], delay: int, span: Span) -> None:
        self.rounds, self.span, self.delay = rounds, span, delay
        self.next = span.first  # the round that comes next
        self.delayed = Delay(delay, rounds.clients, rounds.encoder.taps)
        self.players = [Player(c, rounds) for c in contenders if c.method is not None]
        wanted = any(c.method is None for c in contenders)
        self.persistence = Score(PERSISTENCE, rounds.clients) if wanted else None
        self.known = np.zeros(rounds.clients, np.float32)  # the last label of each; 0 is the mean
        self.truths = {p: Truth.empty(rounds.clients) for p in ("prequential", *span.parts)}
        self.marks = np.unique(np.linspace(span.first, span.stop, BINS + 1).astype(int))[1:]
        if not len(self.marks):
            self.marks = np.array([span.stop])
        self.counts = np.zeros(len(self.marks))
        self.arrived = 0  # labels, which clients that learn when idle have all seen
        self.promises: Promises | None = None
        table = rounds.table
        daily = 86400 / table.tick if table.calendar else None
        self.blocks = block_marks(span.frozen, span.stop, daily)
        for score in self.scores:
            score.curve = np.zeros(len(self.marks))

    @property
    def scores(self) -> list[Score]:
        """Of the players, then of persistence."""
        last = [] if self.persistence is None else [self.persistence]
        return [player.score for player in self.players] + last

    def block(self, block: Block) -> None:
        """Predict, exchange and learn in every round of a block; then judge it as a whole."""
        x, y = self.delayed(block)
        if block.first + len(y) <= self.span.first:  # the warm-up
            self._persist(y)
            return
        z_new, z_known = self._features(block.x, x)
        begin = max(self.span.first - block.first, 0)
        self._silence(block.first + begin)
        who = [np.flatnonzero(row) for row in ~np.isnan(y[begin:])]
        self.arrived += sum(map(len, who))
        guesses = []
        for player in self.players:
            new, late = z_new[id(player.features)], z_known[id(player.features)]
            lot = Lot(block.first + begin, new[begin:], x[begin:], late[begin:], y[begin:], who)
            made = player.play(lot, self.span.parts)
            empty = np.zeros((begin, self.rounds.clients), y.dtype)
            guesses.append({model: np.concatenate([empty, guess]) for model, guess in made.items()})
        self.next = block.first + len(y)
        self._judge(block, guesses, z_new, self._persist(y))

    def conserve(self) -> None:
        """Samples seen = learned + clipped + refused, and a check has seen all that arrived."""
        for player in self.players:
            found = player.score.checked = checked.found(player.clients)
            if found and player.method.idle:
                assert found["seen"] == self.arrived

    def _silence(self, stop: int) -> None:
        """The rounds of a long silence, which no block has, for those whom silence changes."""
        for player in (p for p in self.players if p.method.restless):
            for n in range(self.next, stop):
                player.freeze(n, self.span.parts)
                player.silence(n)
        self.next = stop

    def _features(self, new: Array, known: Array) -> tuple[dict[int, Array], dict[int, Array]]:
        """Of the inputs of a block, and of those whose labels arrive in it, some rounds late."""
        maps = {id(p.features): p.features for p in self.players}
        z = {i: _flat(f, new) for i, f in maps.items()}
        if not self.delay:
            return z, z
        late = known[: self.delay]  # the others are of this block
        rest = len(known) - len(late)
        return z, {i: np.concatenate([_flat(f, late), z[i][:rest]]) for i, f in maps.items()}

    def _persist(self, arrived: Array) -> Array:
        """The last label that was known at each round: at the same delay as the models."""
        labels = np.vstack([self.known, arrived])
        seen = np.where(np.isnan(labels), 0, np.arange(len(labels))[:, None])
        filled = np.take_along_axis(labels, np.maximum.accumulate(seen, axis=0), axis=0)
        self.known = filled[-1]
        return filled[1:] if self.delay else filled[:-1]

    def _judge(
        self, block: Block, made: list[dict[str, Array]], z: dict[int, Array], last: Array
    ) -> None:
        n = block.first + np.arange(len(block.y))
        counted = block.has & ~np.isnan(block.y) & (n >= self.span.first)[:, None]
        parts = {"prequential": counted}
        for part, (start, stop) in self.span.parts.items():
            parts[part] = counted & ((n >= start) & (n < stop))[:, None]
        y = np.where(counted, block.y, 0)
        for part, where in parts.items():
            self.truths[part].add(y, where)
        bins = np.searchsorted(self.marks, n, side="right").clip(max=len(self.marks) - 1)
        np.add.at(self.counts, bins, counted.sum(axis=1))
        if self.promises is not None:
            guesses = np.stack(list(made[0].values()))
            self.promises.block(block.first, _known(y - guesses, counted), bins)
        for player, predictions in zip(self.players, made, strict=True):
            score = player.score
            for model, guess in predictions.items():
                squares = score.add("prequential", model, np.where(counted, y - guess, 0))
                if score.trace is not None and model == "own":
                    score.trace.append((block.first, np.where(counted, squares, np.nan)))
                if model == "global":
                    np.add.at(score.curve, bins, squares.sum(axis=1))
            for part, models in player.frozen.items():
                if parts[part].any():
                    some = y, parts[part], n
                    found = self._frozen(score, part, models, z[id(player.features)], *some)
                    if self.promises is not None and player is self.players[0]:
                        self.promises.judged(_known(found, parts[part]))
        if self.persistence is not None:
            for part, where in parts.items():
                squares = self._count(
                    self.persistence, part, "global", np.where(where, y - last, 0), n
                )
                if part == "prequential":
                    np.add.at(self.persistence.curve, bins, squares.sum(axis=1))

    def _frozen(
        self, score: Score, part: str, models: tuple[Array, Array | None], z: Array, y: Array,
        where: Array, n: Array,
    ) -> Array:  # fmt: skip
        """Judge models that are not changed any more; their errors [models, B, K]."""
        found = []
        for model, w in zip(("global", "own"), models, strict=True):
            if w is not None:
                errors = y - (z @ w if w.ndim == 1 else np.vecdot(z, w))
                self._count(score, part, model, np.where(where, errors, 0), n)
                found.append(errors)
        return np.stack(found)

    def _count(self, score: Score, part: str, model: str, errors: Array, n: Array) -> Array:
        """Errors of the rounds n in a part; those of the last part also by block of time."""
        squares = score.add(part, model, errors)
        if part == "frozen":
            ids = np.searchsorted(self.blocks, n, side="right").clip(max=len(self.blocks) - 1)
            score.add_blocks(model, squares, ids, len(self.blocks))
        return squares


def _flat(features: FeatureMap, x: Array) -> Array:
    """z of x [B, K, L]: one product of long matrices is faster than one for each round."""
    z = features(x.reshape(-1, x.shape[-1]))
    return z.reshape(*x.shape[:-1], z.shape[-1])


def _known(errors: Array, counted: Array) -> Array:
    """NaN where nothing is counted, and infinite where a model has no number to say."""
    return np.where(counted, np.where(np.isnan(errors), np.inf, errors), np.nan)


def task(
    rounds: Rounds, features: FeatureMap, seeds: Any, step: float, cohort: int, delay: int,
    wire: str = "float32", begin: int = 0, check: SampleCheck | None = None,
) -> Task:  # fmt: skip
    """What methods may know of a federation over this table, whose rounds start with `begin`."""
    first, stop = np.maximum(rounds.first + delay, begin), rounds.last + delay + 1
    here: Any = {"first": first, "stop": stop}
    cohorts = PresentCohorts(seeds, rounds.clients, min(cohort, rounds.clients), **here)
    return Task(
        clients=rounds.clients, dim=features.dim, taps=rounds.encoder.taps, step=step, seeds=seeds,
        features=features, cohorts=cohorts, dtype="float32", wire=wire, check=check,
    )  # fmt: skip


def with_features(base: Task, features: FeatureMap) -> Task:
    """The same federation with another feature map."""
    return replace(base, dim=features.dim, features=features)
