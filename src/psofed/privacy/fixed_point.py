"""Values as whole numbers mod 2^32, so that a sum is exact and a mask can hide what is summed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.privacy.settings import WORDS

Array = NDArray[Any]


def words(values: Array, scale: int, most: float) -> NDArray[np.uint32]:
    """Values in steps of 1/scale, those beyond `most` clipped to it; negative ones from 2^32 down.

    Each is off by half a step at most. A value that is not a number stays one end can see: `most`.

    >>> words(np.array([0.25, -0.25, 99.0]), 8, 64.0).tolist()
    [2, 4294967294, 512]
    """
    known = np.nan_to_num(np.asarray(values, np.float64), nan=most, posinf=most, neginf=-most)
    steps = np.rint(np.clip(known, -most, most) * scale).astype(np.int64)
    return (steps % WORDS).astype(np.uint32)


def added(parts: Array) -> NDArray[np.uint32]:
    """The sum of words [..., s, m] over s, mod 2^32.

    >>> added(np.array([[1, 2], [4294967295, 5]], np.uint32)).tolist()
    [0, 7]
    """
    return parts.astype(np.uint32).sum(axis=-2, dtype=np.uint32)


def mean(total: Array, scale: int, most: float, count: int) -> NDArray[np.float64]:
    """What a sum of `count` values within `most` stands for, divided by their number.

    >>> mean(words(np.array([3.0, -3.0]), 8, 64.0), 8, 64.0, 4).tolist()
    [0.75, -0.75]
    >>> mean(words(np.array([300.0]), 8, 900.0), 8, 64.0, 4)
    Traceback (most recent call last):
    ValueError: no sum of 4 values within 64 is that: their masks do not cancel
    """
    signed = total.astype(np.uint32).astype(np.int32).astype(np.float64)
    if np.abs(signed).max(initial=0) > count * (most * scale + 0.5):
        found = f"no sum of {count} values within {most:g} is that"
        raise ValueError(f"{found}: their masks do not cancel")
    return signed / (scale * count)
