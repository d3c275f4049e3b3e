"""By how much one model is better than another, with an interval over blocks of time.

Errors of neighbouring rounds are alike, so rounds do not count as independent samples; blocks of
time nearly do, if they are long enough. An interval is about these models on other times like the
judged ones. It does not cover other seeds or another training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psofed.core.native import Array
from psofed.tables.scores import FEWEST

LEAST = 8  # blocks, below which nothing is said
ALIKE = 0.1  # correlation of neighbours, above which they are joined
NORMAL = 1.959964  # its 97.5 % point


@dataclass(frozen=True)
class Gain:
    """By which share the error falls from one model to another, with its 95 % interval.

    >>> Gain(0.14, 0.09, 0.18).verdict, Gain(0.02, -0.01, 0.05).verdict
    ('gains', 'cannot be told')
    """

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether the second model is better, worse, or cannot be told from the first."""
        return "gains" if self.low > 0 else "loses" if self.high < 0 else "cannot be told"

    @property
    def known(self) -> bool:
        """Whether there are numbers at all."""
        return bool(np.isfinite(self.value))


UNKNOWN = Gain(float("nan"), float("nan"), float("nan"))


def gains(new: Array, old: Array) -> list[Gain]:
    """By how much errors fall, from block sums [B, K] of squares of both models, for each k.

    Blocks are joined alike for all of them.

    With the sums over blocks A of the new and B of the old model, ratio r = A / B. The log of r has
    the standard error sqrt(n / (n - 1) sum_b d_b^2) / A, with d_b = a_b - r b_b, if blocks are
    independent. With the correlation c that neighbours still have, n blocks are worth
    m = n (1 - c) / (1 + c): the variance is n / m times as large, and t has m - 1 degrees of
    freedom.
    """
    new, old = joined(new.astype(np.float64), old.astype(np.float64))
    left = _correlation(new.sum(axis=1), old.sum(axis=1))
    worth = (1 - left) / (1 + left)
    return [_gain(a, b, worth) for a, b in zip(new.T, old.T, strict=True)]


def joined(new: Array, old: Array) -> tuple[Array, Array]:
    """Neighbouring blocks are joined, in pairs, until their differences are hardly correlated."""
    there = (new.sum(axis=1) > 0) | (old.sum(axis=1) > 0)  # some blocks have no samples
    new, old = new[there], old[there]
    while len(new) >= 2 * FEWEST and _correlation(new.sum(axis=1), old.sum(axis=1)) > ALIKE:
        starts = np.arange(0, len(new) - len(new) % 2, 2)
        new, old = np.add.reduceat(new, starts), np.add.reduceat(old, starts)
    return new, old


def _correlation(a: Array, b: Array) -> float:
    """Of the differences of neighbouring blocks, from 0 to 0.8; estimates of it are too low."""
    if not (np.isfinite(a).all() and np.isfinite(b).all() and b.sum() > 0 and len(a) > 4):
        return 0.0
    d = a - a.sum() / b.sum() * b
    found = float(d[1:] @ d[:-1] / max(d @ d, 1e-300))
    return float(np.clip(found + (1 + 3 * found) / len(d), 0.0, 0.8))


def _gain(a: Array, b: Array, worth: float) -> Gain:
    there = (a > 0) | (b > 0)
    a, b = a[there], b[there]
    count, above, below = len(a), float(a.sum()), float(b.sum())
    if not (0 < below < np.inf and 0 < above < np.inf):
        return UNKNOWN
    ratio = above / below
    if count < LEAST:
        return Gain(1 - ratio, -np.inf, 1.0)
    d = a - ratio * b
    spread = float(np.sqrt(count / (count - 1) / worth * np.square(d).sum()) / above)
    wide = np.exp(min(student(max(count * worth - 1, 3)) * spread, 700.0))
    return Gain(1 - ratio, 1 - ratio * wide, 1 - ratio / wide)


def student(freedom: float) -> float:
    """The 97.5 % point of Student's t, by the expansion of Cornish and Fisher.

    >>> round(student(19), 2), round(student(7), 2)
    (2.09, 2.36)
    """
    z, v = NORMAL, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3
