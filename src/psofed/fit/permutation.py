"""On which columns a model rests: importance by permutation, on a bounded sample.

The importance of a column is the rise of the frozen error when that column is shuffled in time
within each client. All inputs that come from the column move together: its lags, the categories of
a text, the indicator of a missing value, sine and cosine of a calendar.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import FeatureMap
from psofed.core.seeds import Seeds
from psofed.data.encoder import Encoder
from psofed.fit.scores import Scores

Array = NDArray[Any]
SAMPLES = 4_000
EACH = 50  # samples of a client, so that there is something to shuffle
WORK = 60_000_000  # features that are computed, at most
REPEATS = 2


def sources(encoder: Encoder) -> dict[str, list[int]]:
    """From each source column to the places of its inputs in x."""
    columns = encoder.columns
    owners = [*encoder.numeric]
    owners += [encoder.numeric[j] for js in encoder.lagged.values() for j in js]
    owners += encoder.flagged
    owners += [name for name, values in encoder.categories.items() for _ in values]
    owners += [",".join(columns.time)] * (2 * len(columns.calendar))
    owners += [columns.target] * len(columns.target_lags)
    found: dict[str, list[int]] = {}
    for place, owner in enumerate(owners):
        found.setdefault(owner, []).append(place)
    return found


def guess(features: FeatureMap, w: Array, x: Array, k: Array) -> Array:
    """Predictions for x [S, L] of clients k [S], by one model or by one of each client."""
    z = features(x)
    return np.asarray(z @ w if w.ndim == 1 else np.vecdot(z, w[k]))


class Shuffled:
    """Some samples of the judged part, of few enough clients that each has many."""

    def __init__(self, encoder: Encoder, counts: Array, seeds: Seeds) -> None:
        self.encoder, self.seeds = encoder, seeds
        there = np.flatnonzero(counts)
        most = SAMPLES // EACH
        if len(there) > most:
            order = seeds.generator("importance, clients").permutation(len(there))
            there = there[order[:most]]
        self.taken = np.zeros(len(counts), bool)
        self.taken[there] = True
        self.share = SAMPLES / max(float(counts[there].sum()), 1.0)
        self.parts: list[tuple[Array, Array, Array]] = []

    def add(self, x: Array, y: Array, k: Array, draw: Array) -> None:
        """Some of these: those whose number in [0, 1) is small."""
        some = self.taken[k] & (draw < self.share)
        if some.any():
            self.parts.append((x[some], y[some], k[some]))

    def result(self, features: FeatureMap, w: Array, scores: Scores) -> dict[str, Any]:
        """The rise of the error over the variance for each column, the largest first."""
        if not self.parts:
            return {}
        x, y, k = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        groups = sources(self.encoder)
        repeats = int(np.clip(WORK // (len(groups) * len(x) * features.dim), 1, REPEATS))
        fewer = min(len(x), max(WORK // (len(groups) * repeats * features.dim), EACH))
        some = np.linspace(0, len(x) - 1, fewer).astype(int)
        some = some[np.argsort(k[some], kind="stable")]
        x, y, k = x[some], y[some], k[some]
        variance = scores.truths["frozen"].variance
        base = _error(guess(features, w, x, k), y, variance)
        rows: list[dict[str, Any]] = []
        for column, places in groups.items():
            errors = []
            for again in range(repeats):
                shuffled = x.copy()
                shuffled[:, places] = x[self._shuffle(k, column, again)][:, places]
                errors.append(_error(guess(features, w, shuffled, k), y, variance))
            rows.append({"column": column, "inputs": len(places),
                         "rise": _plain(float(np.mean(errors)) - base)})  # fmt: skip
        rows.sort(key=lambda row: -(row["rise"] if row["rise"] is not None else -np.inf))
        return {"samples": len(x), "clients": len(np.unique(k)), "repeats": repeats,
                "error": _plain(base), "columns": rows}  # fmt: skip

    def _shuffle(self, k: Array, column: str, again: int) -> Array:
        """An order of the samples, which are sorted by client, that stays within clients."""
        g = self.seeds.generator(f"importance of {column}", round=again)
        return np.lexsort((g.random(len(k)), k))


def _error(found: Array, y: Array, variance: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return float(np.mean(np.square(found.astype(np.float64) - y)) / np.float64(variance))


def _plain(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None
