"""Quadratic models of many clients, and the minimum of their sum."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed import native

Array = NDArray[Any]


class Quadratic(NamedTuple):
    """The loss of a client near its reference r, or the sum of many: curvature, gradient, B r."""

    B: Array  # [d, d]
    g: Array  # [d]
    Br: Array  # [d]


def renew(
    sums: Quadratic, weight: float, count: float, old: Quadratic, r: Array, g: Array, dr: Array
) -> tuple[float, float]:
    """A client, so far with this weight in the sums, has the gradient g at r, and a new weight.

    The sums and its quadratic change in place. Returns dr^T dg and dr^T B dr, where r has moved by
    dr and the gradient by dg.
    """
    if not native.available():
        return renew_plainly(sums, weight, count, old, r, g, dr)
    found = np.empty(2)
    given = *sums, *old, r, g, dr, found, float(weight), float(count), len(r)
    native.function("renew")(*given)
    true, assumed = found.tolist()
    return true, assumed


def renew_plainly(
    sums: Quadratic, weight: float, count: float, old: Quadratic, r: Array, g: Array, dr: Array
) -> tuple[float, float]:
    """`renew` in NumPy."""
    sum_B, sum_g, sum_Br = sums
    Br = old.B @ r
    sum_B += (count - weight) * old.B
    sum_g += count * g - weight * old.g
    sum_Br += count * Br - weight * old.Br
    seen = float(dr @ (g - old.g)), float(dr @ (Br - old.Br))
    old.g[:], old.Br[:] = g, Br
    return seen


def minimum(A: Array, factor: float, prior: Array, b: Array) -> Array:
    """c = (factor A + diag(prior))^-1 b."""
    found, dim = np.empty_like(b), len(b)
    size = -(-dim // 4) * 4
    if native.available():
        memory = np.empty((size, size))
        if native.function("minimise")(A, prior, b, found, memory, size, dim, float(factor)):
            return found
    found[:] = np.linalg.solve(factor * A + np.diag(prior), b)
    return found
