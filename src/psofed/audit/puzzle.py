"""What a curious server knows, as equations: change_i = sum_t a_t z_i(x_t), with x and a unknown.

A change of an entry between two moments at which its value is known is the sum of all that was
learned in between: of LMS a_t = mu e_t, of a sum over clients the terms of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.audit.tangents import Tangent, tangent
from psofed.core.features import FeatureMap
from psofed.errors import InputError

Array = NDArray[Any]
EXACT = 1e-15  # the least noise: float64 itself
# x [..., T, L] to misses [..., K], over their noise, and their slopes [..., T, L, K].
Clue = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Window:
    """Entries [M] of a model, by how much each changed, and what is known about that."""

    entries: Array
    change: Array
    terms: Any = None  # [T], or [M, T] by entry: the weight of each term; not set: all count
    noise: Any = EXACT  # deviation of the rounding of `change`: one number, or one an entry


@dataclass(frozen=True, eq=False)
class Guess:
    """What is guessed of inputs and of a: means and deviations, for each of L inputs or for all."""

    mean: Any = 0.0
    std: Any = 1.0
    a: float = 1.0  # the deviation of a

    @staticmethod
    def of(samples: Array, a: float = 1.0) -> Guess:
        """From samples [N, L] of the kind."""
        return Guess(samples.mean(axis=0), np.maximum(samples.std(axis=0), 1e-6), a)


def apart(terms: int, taps: int) -> Array:
    """Which unknown is input l of term t [T, L]: each its own.

    >>> apart(2, 3).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    return np.arange(terms * taps).reshape(terms, taps)


def delayed(terms: int, taps: int) -> Array:
    """A delay line: x_t = (u_t, u_{t-1}, ..., u_{t-L+1}), so T terms have T + L - 1 inputs.

    >>> delayed(2, 3).tolist()
    [[2, 1, 0], [3, 2, 1]]
    """
    return np.arange(terms)[:, None] + np.arange(taps)[::-1]


def beside(*layouts: Array) -> Array:
    """Several of them with unknowns of their own, such as those of the clients of a sum.

    >>> beside(delayed(2, 2), apart(1, 2)).tolist()
    [[1, 0], [2, 1], [3, 4]]
    """
    offsets = np.cumsum([0, *(int(each.max()) + 1 for each in layouts)])
    return np.vstack([each + first for each, first in zip(layouts, offsets, strict=False)])


@dataclass(frozen=True, eq=False)
class Puzzle:
    """All windows as one system; every row divided by its noise."""

    at: Tangent
    change: Array  # [E]
    weights: Array  # [E, T]: of each term in each equation, over the noise
    layout: Array  # [T, L]: which unknown each input is
    known: Array  # [U]: inputs that are known already; NaN: unknown
    mean: Array  # [U]
    std: Array  # [U]
    a: float
    clue: Clue | None = None  # what else is known of the inputs
    clues: int = 0  # equations of it

    @property
    def equations(self) -> int:
        return len(self.change) + self.clues

    @property
    def unknowns(self) -> int:
        """Inputs that are not known, and one a for each term."""
        return int(np.isnan(self.known).sum()) + len(self.layout)


def pose(
    features: FeatureMap, windows: list[Window], layout: Array, guess: Guess,
    known: Array | None = None,
) -> Puzzle:  # fmt: skip
    """The puzzle of some windows whose terms have the inputs that `layout` says."""
    T, count = len(layout), int(layout.max()) + 1
    rows, noises = [], []
    for window in windows:
        shape = (len(window.entries), T)
        if np.shape(window.change) != shape[:1]:
            found = f"has {np.shape(window.change)} values for {len(window.entries)} entries"
            raise InputError("change", found, "give one for each entry")
        terms = 1.0 if window.terms is None else np.asarray(window.terms, np.float64)
        rows.append(np.broadcast_to(terms, shape))
        noises.append(np.broadcast_to(window.noise, shape[:1]))
    # A few entries that are known far better than the others would rule the search, and spoil it.
    noise = np.concatenate(noises)
    noise = np.maximum(noise, max(float(np.median(noise)), EXACT))
    change, entries = (
        np.concatenate([getattr(window, name) for window in windows])
        for name in ("change", "entries")
    )
    mean, std = np.empty(count), np.empty(count)
    mean[layout], std[layout] = guess.mean, guess.std
    free = np.full(count, np.nan) if known is None else known
    return Puzzle(
        tangent(features, entries), change / noise, np.vstack(rows) / noise[:, None], layout, free,
        mean, std, guess.a,
    )  # fmt: skip
