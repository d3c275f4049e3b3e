"""The statistics that a client of MEMO-Fed adds up: A = sum u u^T, q = sum u y, n, and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
State = dict[str, Array]
SUMS = "A", "q", "n", "s", "C"


def empty(size: int, taps: int) -> State:
    """A, q and n, and of the inputs s = sum x and C = sum x x^T."""
    A, C = np.zeros((size, size)), np.zeros((taps, taps))
    return {"A": A, "q": np.zeros(size), "n": np.zeros(()), "s": np.zeros(taps), "C": C}


def scale(sums: State, part: float) -> None:
    """Keep a part of all of them, or nothing, whatever they are."""
    for name in SUMS:
        sums[name][...] = sums[name] * part if part else 0.0


def add(sums: State, x: Array, u: Array, y: Array, beta: float) -> None:
    """A <- beta A + u u^T, q <- beta q + u y, n <- beta n + 1, and the inputs: one sample.

    Or one of each of several clients: all arrays then have a leading axis.
    """
    squares, inputs = (v[..., :, None] * v[..., None, :] for v in (u, x))
    news = {"A": squares, "q": u * y[..., None], "n": 1.0, "s": x, "C": inputs}
    for name, new in news.items():
        sums[name] *= beta
        sums[name] += new


def add_many(sums: State, x: Array, u: Array, y: Array, beta: float) -> None:
    """`add` for samples x [T, L], u [T, d] and y [T], one after another."""
    count = len(y)
    left, weighed, inputs, total = u.T, y, x.T, float(count)
    if beta < 1:
        past = beta ** np.arange(count - 1.0, -1, -1)
        left, weighed, inputs, total = u.T * past, y * past, x.T * past, past.sum()
        scale(sums, beta**count)
    sums["A"] += left @ u
    sums["q"] += weighed @ u
    sums["n"] += total
    sums["s"] += inputs.sum(axis=1)
    sums["C"] += inputs @ x
