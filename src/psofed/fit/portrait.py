"""What a fit looks like: how its frozen model errs, where, when, and on which columns it rests.

One more pass over the table, after the learning, with the model of the first method as it was
frozen. Everything that is kept is bounded, whatever the size of the table, and is plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from heapq import nlargest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import FeatureMap
from psofed.core.seeds import Seeds
from psofed.data.encoder import NO_PAST, SKIPPED, Encoder, Past
from psofed.data.reading import Table
from psofed.data.rounds import Block, Rounds
from psofed.fit import permutation
from psofed.fit.player import Player
from psofed.fit.scores import Scores

Array = NDArray[Any]
POINTS = 1_500  # pairs of prediction and label that are kept
WORST = 10
TIMES = 24  # bins of the rows that were not used
CLIENTS = 100  # whose errors are kept by season
SEASONS = ("Dec-Feb", "Mar-May", "Jun-Aug", "Sep-Nov")
UNLABELLED = "without target: predicted, not learned"


@dataclass(frozen=True, eq=False)
class _Watched(Encoder):
    """An encoder that counts when it leaves rows out, and why."""

    edges: Array = field(default_factory=lambda: np.empty(0))  # of the bins of time
    counts: dict[str, Array] = field(default_factory=dict)

    def encode(self, past: Past, ticks: Array, rows: Array) -> tuple[Array, Array, Array]:
        """As the encoder does."""
        x, skip, short = super().encode(past, ticks, rows)
        for reason, left in ((SKIPPED, skip), (NO_PAST, short & ~skip)):
            self.count(reason, rows[left, 0])
        return x, skip, short

    def count(self, reason: str, times: Array) -> None:
        """Rows that are not used, by the bin of their time."""
        if len(times):
            bins = np.searchsorted(self.edges[1:-1], times, side="right")
            found = self.counts.setdefault(reason, np.zeros(TIMES, int))
            np.add.at(found, bins, 1)


def paint(
    table: Table, encoder: Encoder, player: Player, scores: Scores, frozen: int, stop: int,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The portrait as plain values; empty if nothing was judged."""
    models = player.frozen.get("frozen")
    if models is None or not scores.truths["frozen"].count.sum():
        return {}
    edges = table.start + np.linspace(0, max(stop, 1), TIMES + 1) * table.tick
    kept = {f.name: getattr(encoder, f.name) for f in fields(encoder)}
    rounds = Rounds(table, _Watched(**kept, edges=edges))
    made = _Painter(rounds, player.features, models[0], scores, frozen, Seeds(seed))
    with np.errstate(over="ignore", invalid="ignore"):
        for block in rounds.blocks(stop):
            made.block(block)
        return made.result()


class _Painter:
    """What is remembered between two blocks."""

    def __init__(
        self, rounds: Rounds, features: FeatureMap, w: Array, scores: Scores, frozen: int,
        seeds: Seeds,
    ) -> None:  # fmt: skip
        self.rounds, self.features, self.w, self.scores = rounds, features, w, scores
        self.frozen, self.seeds = frozen, seeds
        self.calendar, self.names = rounds.table.calendar, rounds.table.clients
        self.seasons = np.zeros((2, len(SEASONS), rounds.clients))  # squared errors, counts
        self.hours = np.zeros((2, 24))
        self.worst: list[tuple[float, ...]] = []
        self.pairs: list[Array] = []
        self.sample = permutation.Shuffled(rounds.encoder, scores.truths["frozen"].count, seeds)
        self.share = POINTS / scores.truths["frozen"].count.sum()

    def block(self, block: Block) -> None:
        """Rows without a label, and, in the judged part, how the model errs."""
        watched = self.rounds.encoder
        assert isinstance(watched, _Watched)
        watched.count(UNLABELLED, block.time[block.has & np.isnan(block.y)])
        n = block.first + np.arange(len(block.y))
        i, k = np.nonzero(block.has & ~np.isnan(block.y) & (n >= self.frozen)[:, None])
        if not len(i):
            return
        x, y, time = block.x[i, k], block.y[i, k].astype(np.float64), block.time[i, k]
        guess = permutation.guess(self.features, self.w, x, k).astype(np.float64)
        error = np.nan_to_num(np.square(y - guess), nan=np.inf)
        if self.calendar:
            self._calendar(time, k, error)
        self._worst(error, k, time, guess, y)
        draw = self.seeds.generator("portrait", round=block.first).random((2, len(i)))
        few = draw[0] < self.share
        self.pairs.append(np.column_stack([y[few], guess[few]]))
        self.sample.add(x, y, k, draw[1])

    def _calendar(self, time: Array, k: Array, error: Array) -> None:
        moment = time.astype("datetime64[s]")
        month = moment.astype("datetime64[M]").astype(int) % 12
        hour = moment.astype("datetime64[h]").astype(int) % 24
        for sums, values in enumerate((error, np.ones(len(error)))):
            np.add.at(self.seasons[sums], ((month + 1) % 12 // 3, k), values)
            np.add.at(self.hours[sums], hour, values)

    def _worst(self, error: Array, k: Array, *rest: Array) -> None:
        most = np.argsort(-error, kind="stable")[:WORST]
        rows = zip(error[most], k[most], *(values[most] for values in rest), strict=True)
        self.worst = nlargest(WORST, [*self.worst, *(tuple(map(float, row)) for row in rows)],
                              key=lambda row: row[0])  # fmt: skip

    def result(self) -> dict[str, Any]:
        """Everything, in the units of the target; errors over its variance."""
        encoder, scores = self.rounds.encoder, self.scores
        assert isinstance(encoder, _Watched)
        score = scores.scores[0]
        found: dict[str, Any] = {
            "method": score.title,
            "curves": {
                "round": scores.marks.tolist(),
                "methods": {s.title: _list(scores.curve(j)) for j, s in enumerate(scores.scores)},
            },
            "pairs": _list(encoder.restore(np.concatenate(self.pairs).T)),
            "worst": [self._bad(row) for row in self.worst],
            "importance": self.sample.result(self.features, self.w, scores),
            "unused": {
                "edges": [self._when(edge) for edge in encoder.edges],
                "rounds": np.rint(
                    (encoder.edges[1:] - self.rounds.table.start) / self.rounds.table.tick
                ).tolist(),
                "counts": {reason: counts.tolist() for reason, counts in encoder.counts.items()},
            },
        }
        if self.calendar:
            found |= self._parts(scores.truths["frozen"].variance)
        return found

    def _parts(self, variance: float) -> dict[str, Any]:
        sums, counts = self.seasons
        some = np.flatnonzero(counts.sum(axis=1))
        rows = [
            {"client": self.names[k], "all": _ratio(sums[:, k].sum(), counts[:, k].sum(), variance),
             "seasons": [_ratio(sums[s, k], counts[s, k], variance) for s in some]}
            for k in np.flatnonzero(counts.sum(axis=0))[:CLIENTS]
        ]  # fmt: skip
        whole = [_ratio(sums[s].sum(), counts[s].sum(), variance) for s in some]
        errors = [_ratio(total, count, variance) for total, count in self.hours.T]
        return {
            "seasons": {"names": [SEASONS[s] for s in some], "all": whole, "by_client": rows},
            "hours": {"error": errors, "samples": self.hours[1].astype(int).tolist()},
        }

    def _bad(self, row: tuple[float, ...]) -> dict[str, Any]:
        error, k, time, guess, y = row
        guess, y = self.rounds.encoder.restore(np.array([guess, y])).tolist()
        total = float(self.scores.scores[0].errors["frozen"]["global"].sum())
        share = error / total if total > 0 else float("nan")
        return {"client": self.names[int(k)], "time": self._when(time), "predicted": _digits(guess),
                "actual": _digits(y), "share": _digits(share)}  # fmt: skip

    def _when(self, time: float) -> str:
        if not self.calendar:
            return f"{time:.12g}"
        return str(np.datetime64(round(time), "s"))[:16].replace("T", " ")


def _ratio(total: float, count: float, variance: float) -> float | None:
    with np.errstate(divide="ignore", invalid="ignore"):
        return _digits(np.float64(total) / np.float64(count) / variance)


def _digits(value: float) -> float | None:
    """A number with five digits, so that files stay small; nothing where there is none.

    >>> _digits(0.123456789), _digits(float("inf"))
    (0.12346, None)
    """
    return float(f"{value:.5g}") if np.isfinite(value) else None


def _list(values: Array) -> Any:
    return [_list(v) if np.ndim(v) else _digits(float(v)) for v in values]
