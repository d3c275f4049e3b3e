"""The back-test over a table: contenders in lockstep on the same samples, all judged alike.

One round n, for every contender:

    predict the sample of round n, with the models as they are          (prequential)
    the label of round n - d arrives: exchange and learn                 (the contract's round)

A label is known from round n + d on, and no model sees it before. Rounds in which no label arrives
are silent: no client learns and nothing is sent. A client takes part from its first sample until
its last label; without a label in a round it exchanges, but does not learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from psofed.core.features import FeatureMap
from psofed.core.native import Array
from psofed.streams.data.recipe import forward
from psofed.streams.data.rounds import Block, Delay, Rounds
from psofed.tables.intervals import Promises
from psofed.tables.plan import Span
from psofed.tables.player import Contender, Guesses, Lot
from psofed.tables.scores import BINS, Scores, Truth, Worst, block_marks


def run(
    rounds: Rounds,
    contenders: Sequence[Contender],
    delay: int,
    span: Span,
    on_round: Callable[[int, int], None] | None = None,
    watch: int = 0,
    season: int = 1,
) -> Scores:
    """All contenders over rounds span.first..span.stop-1, each judged on the same samples.

    Of the first ones, of which so many are to `watch`, the best on the part for choosing comes
    first in the scores; clients also learn how far its predictions may be off, and it is seen where
    it errs most when it is frozen. Of contenders, those that come last in the list play first.
    """
    test = _Backtest(rounds, contenders, delay, span, watch, season)
    with np.errstate(over="ignore", invalid="ignore"):
        for block in rounds.blocks(span.stop, linger=delay):
            test.block(block)
            if on_round is not None:
                on_round(block.first, span.stop)
    for contender in contenders:
        contender.close(test.arrived)
    return test.result()


class _Backtest:
    """What is remembered between two blocks of rounds."""

    def __init__(
        self, rounds: Rounds, contenders: Sequence[Contender], delay: int, span: Span,
        watch: int, season: int,
    ) -> None:  # fmt: skip
        self.rounds, self.contenders, self.span = rounds, contenders, span
        table, clients = rounds.table, rounds.clients
        self.delayed, self.delay = Delay(delay, clients, rounds.recipe.taps), delay
        self.known = np.zeros(clients, np.float32)  # the last label of each; 0 is the mean
        self.past, self.older = Season(season, clients), Delay(delay, clients, 2)
        self.arrived = 0  # labels, which clients that learn when idle have all seen
        self.truths = {part: Truth.empty(clients) for part in ("prequential", *span.parts)}
        marks = np.unique(np.linspace(span.first, span.stop, BINS + 1).astype(int))[1:]
        self.marks = marks if len(marks) else np.array([span.stop])
        self.counts = np.zeros(len(self.marks))
        per_day = 1 / table.ticks.days if table.ticks.dates else None
        self.blocks = block_marks(span.frozen, span.stop, per_day)
        for contender in contenders:
            contender.score.curve = np.zeros(len(self.marks))
        self.promises = [Promises(clients, delay, span) for _ in range(watch)]
        self.worst = [Worst() for _ in range(watch)]

    def block(self, block: Block) -> None:
        """Predict, exchange and learn in every round of a block; then judge it as a whole."""
        x, y = self.delayed(block)
        last, ago = self._last(y), self.past(block)
        older = np.stack([last, np.where(np.isnan(ago), last, ago)], axis=-1)
        before, _ = self.older(replace(block, x=older))
        begin = max(self.span.first - block.first, 0)
        for contender in self.contenders if begin else ():
            contender.warm(x[:begin], y[:begin], before[:begin])
        if begin >= len(y):
            return
        who = [np.flatnonzero(row) for row in ~np.isnan(y[begin:])]
        self.arrived += sum(map(len, who))
        lots = {}
        for features in {id(c.features): c.features for c in self.contenders}.values():
            fresh, z = self._features(features, block.x, x)
            arrays = (a[begin:] for a in (block.x, older, before, block.y))
            lots[id(features)] = Lot(block.first + begin, fresh[begin:], x[begin:], z[begin:],
                                     y[begin:], who, *arrays)  # fmt: skip
        # A mix, which is shown first, has to hear the others before.
        played = {id(c): c.play(lots[id(c.features)], self.span) for c in self.contenders[::-1]}
        made = [played[id(c)] for c in self.contenders]
        here = slice(begin, None)
        self._judge(block.first + begin, block.y[here], block.has[here], block.time[here], made)

    def _features(self, features: FeatureMap | None, new: Array, known: Array) -> Any:
        """Of the inputs of a block, and of those whose labels arrive in it, some rounds late."""
        if features is None:
            return new, known
        z = _flat(features, new)
        if not self.delay:
            return z, z
        late = known[: self.delay]  # the others are of this block
        return z, np.concatenate([_flat(features, late), z[: len(known) - len(late)]])

    def _last(self, arrived: Array) -> Array:
        """The last label that was known at each round: at the same delay as the models."""
        filled = forward(np.vstack([self.known, arrived]))
        self.known = filled[-1]
        return filled[1:] if self.delay else filled[:-1]

    def _judge(self, first: int, y: Array, has: Array, time: Array, made: list[Guesses]) -> None:
        n, counted = first + np.arange(len(y)), has & ~np.isnan(y)
        parts = {"prequential": counted}
        for part, (start, stop) in self.span.parts.items():
            parts[part] = counted & ((n >= start) & (n < stop))[:, None]
        y = np.where(counted, y, 0)
        for part, where in parts.items():
            self.truths[part].add(y, where)
        bins, ids = (
            np.searchsorted(marks, n, side="right").clip(max=len(marks) - 1)
            for marks in (self.marks, self.blocks)
        )
        np.add.at(self.counts, bins, counted.sum(axis=1))
        for contender, guesses in zip(self.contenders, made, strict=True):
            score = contender.score
            for part, models in guesses.items():
                if part not in parts or not (parts[part].any() or part == "prequential"):
                    continue
                for model, guess in models.items():
                    squares = score.add(part, model, np.where(parts[part], y - guess, 0))
                    if part == "frozen":
                        score.add_blocks(model, squares, ids, len(self.blocks))
                    elif part == "prequential" and model == "global":
                        np.add.at(score.curve, bins, squares.sum(axis=1))
        for promises, worst, guesses in zip(self.promises, self.worst, made, strict=False):
            errors = {p: y - models["global"] for p, models in guesses.items()}
            promises.block(first, _known(errors["prequential"], counted))
            if parts["frozen"].any():
                promises.judged(first, _known(errors["frozen"], parts["frozen"]))
                worst.add(y, guesses["frozen"]["global"], time, parts["frozen"])

    def result(self) -> Scores:
        """The scores of all."""
        span, table = self.span, self.rounds.table
        days = (span.stop - span.first) * table.ticks.days
        scores = [contender.score for contender in self.contenders]
        found = Scores(scores, self.truths, self.marks, self.counts, days, table.clients)
        if not self.promises:
            return found
        errors = [found.error(j, "choice") for j in range(len(self.promises))]
        best = int(np.nan_to_num(errors, nan=np.inf).argmin())
        scores.insert(0, scores.pop(best))
        worst = self.worst[best].result(scores[0], self.rounds)
        return replace(found, intervals=self.promises[best].result(), worst=worst)


class Season:
    """The label of a season ago, or the last one before it; NaN where there is none."""

    def __init__(self, season: int, clients: int) -> None:
        self.labels = np.full((season, clients), np.nan, np.float32)  # of the last rounds
        self.next: int | None = None

    def __call__(self, block: Block) -> Array:
        """Of the samples [B, K] of a block; rounds may have been left out before it."""
        gap = 0 if self.next is None else min(block.first - self.next, len(self.labels))
        held = np.repeat(self.labels[-1:], gap, axis=0)
        labels = forward(np.concatenate([self.labels, held, block.y]))
        self.next, size = block.first + len(block.y), len(self.labels)
        self.labels = labels[-size:]
        return labels[gap : gap + len(block.y)]


def _flat(features: FeatureMap, x: Array) -> Array:
    """z of x [B, K, L]: one product of long matrices is faster than one for each round."""
    z = features(x.reshape(-1, x.shape[-1]))
    return z.reshape(*x.shape[:-1], z.shape[-1])


def _known(errors: Array, counted: Array) -> Array:
    """NaN where nothing is counted, and infinite where a model has no number to say."""
    return np.where(counted, np.where(np.isnan(errors), np.inf, errors), np.nan)
