"""Rows: arrays over clients in a server's state, told from others, moved and cleared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from psofed.methods.contract import State


def row_axes(small: State, large: State) -> dict[str, int]:
    """The axis over clients of each array that has one: it is longer where there are more of them.

    >>> import numpy as np
    >>> small, large = ({"w": np.zeros(3), "b": np.zeros((2, k))} for k in (3, 4))
    >>> row_axes(small, large)
    {'b': 1}
    """
    return {
        name: next(i for i, side in enumerate(array.shape) if side != large[name].shape[i])
        for name, array in small.items()
        if array.shape != large[name].shape
    }


def moved(state: State, fresh: State) -> State:
    """A state in arrays that may be longer; what is new is fresh."""
    found = {}
    for name, array in fresh.items():
        old = state[name]
        found[name] = old if old.shape == array.shape else array.copy()
        if old.shape != array.shape:
            found[name][tuple(map(slice, old.shape))] = old
    return found


def cleared(state: State, fresh: State, axes: Mapping[str, int], rows: Iterable[int]) -> State:
    """The state, in which nothing is known of the clients in these rows."""
    which = list(rows)
    for name, axis in axes.items():
        at = (slice(None),) * axis + (which,)
        state[name][at] = fresh[name][at]
    return state
