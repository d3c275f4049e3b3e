"""Prediction intervals that keep their promise: a radius that follows the errors of late labels.

The interval of a prediction is y^ - q .. y^ + q. For a promised level 1 - alpha, q follows the
errors e = y - y^ of predictions whose labels have become known since:

    theta <- theta + eta ((|e| > q) - alpha),   q = exp(theta)

where q is the radius that was promised with that prediction. This is the pinball rule, taken on
log |e|: a miss widens the interval a lot, a hit narrows it a little, both relative to its width, so
that the units of the target do not matter. The sum of all steps is the way that theta has gone;
hence, whatever the data are and however late labels come, after N labels

    |share of misses - alpha| <= (range of theta) / (eta N).

The first steps are larger, as 1 / (alpha n), and steps are smaller where labels are late: those who
made d promises since then, and none of them was judged, must not correct d times what they see.

A client does this alone, with numbers that it has anyway: nothing is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import NormalDist

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
ALPHA = 1 - np.array(LEVELS)
_FALL = 1 / ALPHA
_PAIRS = list(zip(ALPHA.tolist(), _FALL.tolist(), strict=True))
STEP = 0.03  # eta, once there are 1 / (eta alpha) labels
FIRST_STEP = 0.2  # the largest one
GAIN = 0.75  # eta (1 + d) is not above it: with more, radii swing when labels are late
SMALLEST, LARGEST = 1e-9, 1e30  # errors beyond count as these, so that the range is finite
# As if errors were normal with unit spread, which scaled targets have before anything is learned.
NORMAL = np.array([NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS])


def which(level: float, field: str = "interval") -> int:
    """The number of a level among those for which radii are kept; another one is refused.

    Between two levels there is no promise to keep, so nothing is interpolated.

    >>> which(0.9)
    2
    """
    if not isinstance(level, bool) and isinstance(level, int | float | np.number):
        for j, known in enumerate(LEVELS):
            if abs(known - level) < 1e-9:
                return j
    found = f"is {level!r}"
    raise InputError(field, found, "use " + ", ".join(f"{known:g}" for known in LEVELS))


def start(*shape: int, scale: float = 1.0) -> Array:
    """theta [*shape, levels] before any label, for errors of about this size."""
    theta = np.log(max(scale, SMALLEST) * NORMAL)
    return np.broadcast_to(theta, (*shape, len(LEVELS))).copy()


def issued(theta: Array) -> Array:
    """log q as it is promised: a higher level never has the smaller interval."""
    return np.maximum.accumulate(theta, axis=-1)


def radius(theta: Array) -> Array:
    """q [..., levels], in the units of the errors.

    >>> radius(start()).round(2).tolist()
    [0.67, 1.28, 1.64, 1.96, 2.58]
    """
    return np.exp(issued(theta))


def logs(errors: Array) -> Array:
    """log |e|; NaN where there is no error, because there was no label."""
    size = np.abs(errors, dtype=np.float64)
    return np.log(np.minimum(np.maximum(size, SMALLEST), LARGEST))


def step(count: Array, lag: int = 0) -> Array:
    """eta [..., levels] after `count` labels, if `lag` promises were made before one is judged.

    >>> step(np.array(0)).tolist(), step(np.array(10_000), lag=74)[0].tolist()
    ([0.2, 0.2, 0.2, 0.2, 0.2], 0.01)
    """
    falling = _FALL / (1 + count[..., None])
    return np.minimum(np.maximum(falling, STEP), min(FIRST_STEP, GAIN / (1 + lag)))


def adapt(theta: Array, count: Array, errors: Array, promised: Array, lag: int = 0) -> None:
    """theta <- theta + eta ((log |e| > log q) - alpha), with the q that was promised then.

    In place. `errors` [...] are log |e|, NaN for clients without a label, and `promised`
    [..., levels] is what `issued` was when the prediction was made, `lag` promises ago. `count`
    [...] labels were known before.
    """
    known = errors == errors
    change = step(count, lag) * ((errors[..., None] > promised) - ALPHA)
    theta += change if known.all() else np.where(known[..., None], change, 0)
    count += known


def adapt_one(
    theta: list[float], count: int, size: float, promised: Sequence[float], lag: int = 0
) -> None:
    """`adapt` for one client and one label, several times as fast: for devices. In place."""
    most = min(FIRST_STEP, GAIN / (1 + lag))
    for j, (alpha, fall) in enumerate(_PAIRS):
        step = min(max(fall / (1 + count), STEP), most)
        theta[j] += step * ((size > promised[j]) - alpha)


def follow(theta: Array, count: Array, errors: Array) -> None:
    """`adapt` for labels that come one after the other without delay; errors [N]. In place."""
    values, labels = theta.tolist(), int(count)
    for size in logs(errors).tolist():
        adapt_one(values, labels, size, list(accumulate(values, max)))
        labels += 1
    theta[:], count[...] = values, labels


def settled(errors: Array) -> Array:
    """theta for N errors of a model that is not changed: the ceil((N + 1) p)-th smallest of each.

    Split conformal. If there are too few errors for a level, the largest.

    >>> radius(settled(np.arange(1.0, 100.0))).round().tolist()
    [50.0, 80.0, 90.0, 95.0, 99.0]
    """
    sizes = np.sort(logs(errors))
    ranks = np.ceil((len(sizes) + 1) * np.array(LEVELS) - 1e-9).astype(int)
    return np.asarray(sizes[np.minimum(ranks, len(sizes)) - 1])
