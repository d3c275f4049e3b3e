"""Where x+ = L x + b is after n rounds, seen through g, from far fewer products with L.

Arnoldi's method: let V be an orthonormal basis of b, Lb, ..., L^(m-1) b and H = V^T L V. Then xi+ =
H xi + |b| e_1 is the same recursion with m numbers, V xi is near x, and n of its rounds are a power
of a small matrix. What no round has reached yet is not in V, so that nothing is asked of an n that
is infinite: slow directions would never settle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
STRIDE = 5  # vectors between two values
RECENT = 5  # values that have to agree
MOST = 200  # vectors
NOTHING = 1e-6  # of a product that is left when it lies in the space already


def seen(
    push: Callable[[Array], Array], g: Array, rounds: int, agree: Callable[[Array], bool]
) -> float:
    """g^T x after `rounds` rounds from x = 0, when the last values `agree`; push(x) = L x + b.

    The values are those of 5 more vectors each; a slow direction shows when it is found, so the
    last alone would not tell. They end by themselves where the space holds all that is reached;
    nan where it would need more vectors than there is room for.
    """
    b = push(np.zeros_like(g))
    size = float(np.linalg.norm(b))
    if size == 0:
        return 0.0
    most = min(MOST, len(g))
    V, H = np.empty((most + 1, len(b)), b.dtype), np.zeros((most + 1, most))
    V[0] = b / size
    values: list[float] = []
    for m in range(1, most + 1):
        new = (push(V[m - 1] * b.dtype.type(size)) - b) / b.dtype.type(size)
        before = float(np.linalg.norm(new))
        for _ in range(2):  # once would leave rounding errors that grow
            parts = V[:m] @ new
            new -= parts @ V[:m]
            H[:m, m - 1] += parts
        left = float(np.linalg.norm(new))
        done = not left > NOTHING * before
        if done or m % STRIDE == 0 or m == most:
            values.append(float(V[:m] @ g @ _after(H[:m, :m], size, rounds)))
        if done or (len(values) >= RECENT and agree(np.array(values[-RECENT:]))):
            return values[-1]
        H[m, m - 1] = left
        V[m] = new / b.dtype.type(left)
    return values[-1] if most == len(g) else float("nan")


def _after(H: Array, size: float, rounds: int) -> Array:
    """xi after `rounds` rounds of xi+ = H xi + size e_1, from zero."""
    m = len(H)
    whole = np.zeros((m + 1, m + 1))
    whole[:m, :m], whole[0, m], whole[m, m] = H, size, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        found: Array = np.linalg.matrix_power(whole, rounds)[:m, m]
    return found
