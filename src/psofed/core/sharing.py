"""What partial sharing does to a model: receive a window, share a window, fold windows in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Window = NDArray[np.intp]


def receive(w_k: NDArray[Any], window: Window, values: NDArray[Any]) -> None:
    """Eq. (9): w_k <- S_{k,n} w_n + (I - S_{k,n}) w_k, where `values` are w_n on the window."""
    w_k[window] = values


def share(w: NDArray[Any], window: Window) -> NDArray[Any]:
    """The entries that travel: w_n on S_{k,n} going down, w_{k,n+1} on S_{k,n+1} going up."""
    return w[window]


def fold(w: NDArray[Any], uploads: Iterable[tuple[Window, NDArray[Any], float]]) -> None:
    """Eq. (11): w_{n+1} = sum_k a_k (S_{k,n+1} w_{k,n+1} + (I - S_{k,n+1}) w_n), a_k = 1/|S_n|.

    Written as w_n + sum_k a_k S_{k,n+1} (w_{k,n+1} - w_n), which is the same when the weights
    a_k sum to one and does not scale the model itself when they do not.
    """
    change = np.zeros_like(w)
    for window, values, weight in uploads:
        change[window] += weight * (values - w[window])
    w += change
