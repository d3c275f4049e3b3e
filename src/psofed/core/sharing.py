"""What partial sharing does to a model: receive a window, share a window, fold windows in.

All of it for one client, or for several at once: models [s, D], windows [s, M], values [s, M].
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Window = NDArray[np.intp]


def at(window: Window) -> Any:
    """The index of the entries `window` [M] of a model, or [s, M] of the models of s clients."""
    return window if window.ndim == 1 else (_rows(len(window)), window)


@lru_cache(maxsize=64)
def _rows(count: int) -> NDArray[np.intp]:
    """0, 1, ... as a column."""
    return np.arange(count)[:, None]


def receive(w_k: NDArray[Any], window: Window, values: NDArray[Any]) -> None:
    """Eq. (9): w_k <- S_{k,n} w_n + (I - S_{k,n}) w_k, where `values` are w_n on the window."""
    w_k[at(window)] = values


def share(w: NDArray[Any], window: Window) -> NDArray[Any]:
    """The entries that travel: w_n on S_{k,n} going down, w_{k,n+1} on S_{k,n+1} going up.

    A global model [D] is shared with several clients by the windows of each.
    """
    return w[window] if w.ndim == 1 else w[at(window)]


def fold(w: NDArray[Any], window: Window, values: NDArray[Any], weights: NDArray[Any]) -> None:
    """Eq. (11): w_{n+1} = sum_k a_k (S_{k,n+1} w_{k,n+1} + (I - S_{k,n+1}) w_n), a_k = 1/|S_n|.

    Written as w_n + sum_k a_k S_{k,n+1} (w_{k,n+1} - w_n), which is the same when the weights
    a_k sum to one and does not scale the model itself when they do not.
    """
    change = weights[:, None] * (values - w[window])
    w += np.bincount(window.ravel(), change.ravel(), minlength=len(w))
