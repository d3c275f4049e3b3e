"""Bytes until a curve has reached a target and stays there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.curves import Curves

Array = NDArray[Any]
STAYS = 100  # rounds for which a curve has to stay below a target to have reached it
LIKELY = 1.96  # standard errors


class Reached(NamedTuple):
    """Bytes at which a curve has reached a target, with an interval; infinite if it has not."""

    bytes: float
    low: float
    high: float
    round: int | None


def bytes_to_target(curves: Curves, j: int, target: float, total: str = "unicast") -> Reached:
    """Cumulative bytes at the first mark from which the mean stays at or below `target` dB.

    The interval is that of the mean plus and minus 1.96 standard errors.
    """
    cumulative = cumulative_bytes(curves, total)[j]
    error = LIKELY * np.nan_to_num(curves.stderr_db[j])
    found = [
        first(curves.rounds, curves.mse_db[j] + shift, target) for shift in (0.0, -error, error)
    ]
    value, low, high = (np.inf if i is None else float(cumulative[i]) for i in found)
    return Reached(value, low, high, None if found[0] is None else int(curves.rounds[found[0]]))


def first(rounds: Array, mse_db: Array, target: float) -> int | None:
    """The first mark from which the curve stays at or below the target for 100 rounds."""
    above = ~(mse_db <= target)
    for i in np.flatnonzero(~above):
        window = (rounds >= rounds[i]) & (rounds <= rounds[i] + STAYS)
        if not above[window].any():
            return int(i)
    return None


def cumulative_bytes(curves: Curves, total: str) -> Array:
    """Bytes before each mark: "up", "unicast" (up and down) or "multicast"."""
    down = {"up": 0 * curves.downlink, "unicast": curves.downlink, "multicast": curves.multicast}
    return np.cumsum(curves.uplink + down[total], axis=1)


def default_target(steady: float) -> float:
    """1 dB above the steady MSE of the reference, rounded to a tenth of a dB."""
    return round(steady + 1.0, 1)
