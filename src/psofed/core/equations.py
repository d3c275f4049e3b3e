"""The algorithm: learn from a sample, receive a window, share a window, fold windows in.

All of it for one client, or for several at once: models [s, D], windows [s, M], values [s, M].
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core import native

Window = NDArray[np.intp]
FEW = 32


def descent(error: Any, g: NDArray[Any], step: Any) -> NDArray[Any]:
    """Eq. (5) and (10): mu epsilon g, by which a sample changes a model; with LMS, g is z."""
    change: NDArray[Any] = (step * error)[..., None] * g
    return change


def lms(w: NDArray[Any], z: NDArray[Any], y: Any, step: float) -> Any:
    """LMS: w <- w + mu z epsilon, epsilon = y - w^T z. In place; returns epsilon.

    Leading axes broadcast, so that one call serves one client or all of them.

    >>> w = np.zeros(2)
    >>> float(lms(w, np.array([1.0, 0.5]), 2.0, step=0.5))
    2.0
    >>> w.tolist()
    [1.0, 0.5]
    """
    error = y - np.vecdot(w, z)
    w += descent(error, z, step)
    return error


def at(window: Window) -> Any:
    """The index of entries [..., M] of models [..., D]; of clients [..., s] in [..., K]."""
    return (*_rows(window.shape[:-1]), window)


@lru_cache(maxsize=64)
def _rows(shape: tuple[int, ...]) -> tuple[NDArray[np.intp], ...]:
    """0, 1, ... along each axis, for rows that have one more."""
    return tuple(row[..., None] for row in np.ogrid[tuple(map(slice, shape))])


def receive(w_k: NDArray[Any], window: Window, values: NDArray[Any]) -> None:
    """Eq. (9): w_k <- S_{k,n} w_n + (I - S_{k,n}) w_k, where `values` are w_n on the window."""
    w_k[at(window)] = values


def share(w: NDArray[Any], window: Window) -> NDArray[Any]:
    """The entries that travel: w_n on S_{k,n} going down, w_{k,n+1} on S_{k,n+1} going up.

    A global model [..., D] is shared with several clients by the windows [..., s, M] of each.
    """
    if w.ndim == 1:
        return w[window]
    if window.ndim > 2 and native.available() and w.flags.c_contiguous:
        return _gather(w, window)
    if w.ndim < window.ndim:  # of several runs
        return w[(*(row[..., None] for row in _rows(w.shape[:-1])), window)]
    return w[at(window)]


def _gather(w: NDArray[Any], window: Window) -> NDArray[Any]:
    """The same, compiled."""
    out, models = np.empty(window.shape, w.dtype), w[..., 0].size
    window = np.ascontiguousarray(window)
    native.function("gather", w.dtype)(w, window, out, models, out.size // models, w.shape[-1])
    return out


def fold(w: NDArray[Any], window: Window, values: NDArray[Any], weights: NDArray[Any]) -> None:
    """Eq. (11): w_{n+1} = sum_k a_k (S_{k,n+1} w_{k,n+1} + (I - S_{k,n+1}) w_n), a_k = 1/|S_n|.

    Written as w_n + sum_k a_k S_{k,n+1} (w_{k,n+1} - w_n), which is the same when the weights
    a_k sum to one and does not scale the model itself when they do not.
    """
    change = weights[..., None] * (values - share(w, window))
    add_at(w, window, change)


def add_at(w: NDArray[Any], window: Window, change: NDArray[Any]) -> None:
    """w[window] += change, entries that occur more than once added up; w [..., D] in place."""
    if native.available() and w.flags.c_contiguous and w.dtype == change.dtype and window.size:
        total, models = np.zeros(w.shape[-1]), w[..., 0].size
        window, change = np.ascontiguousarray(window), np.ascontiguousarray(change)
        each = window.size // models
        native.function("add_at", w.dtype)(w, window, change, total, models, each, w.shape[-1])
        return
    if w.ndim > 1:  # of several runs: one long model
        first = w.shape[-1] * np.arange(w[..., 0].size).reshape(w.shape[:-1])
        window = window + first[..., None, None]
    w += np.bincount(window.ravel(), change.ravel(), minlength=w.size).reshape(w.shape)


def largest(v: NDArray[Any], kept: int) -> Window:
    """The positions of the `kept` largest |v_j| of v [..., D], in order; of equal ones the first.

    >>> largest(np.array([1.0, -3.0, 3.0, 0.0, 2.0]), 2).tolist()
    [1, 2]
    """
    # One by one into a short list: a sort of all is faster if many are kept.
    if native.available() and kept <= FEW and np.isfinite(v).all():
        v, out = np.ascontiguousarray(v), np.empty((*v.shape[:-1], kept), np.intp)
        native.function("largest", v.dtype)(v, out, out[..., 0].size, v.shape[-1], kept)
        return out
    return np.sort(np.argsort(-np.abs(v), kind="stable")[..., :kept])


def rls(w: NDArray[Any], Q: NDArray[np.float64], z: NDArray[Any], y: Any, forget: float) -> Any:
    """RLS: g = Q z / (lambda + z^T Q z), w <- w + g epsilon, Q <- (Q - g z^T Q) / lambda.

    In place; returns epsilon. Leading axes broadcast. Q is always float64, because it spans many
    orders of magnitude; it stays exactly symmetric, as g z^T Q is computed as v v^T.

    >>> w, Q = np.zeros(2), 3 * np.eye(2)
    >>> float(rls(w, Q, np.array([1.0, 0.0]), 2.0, forget=1.0))
    2.0
    >>> w.tolist(), Q.tolist()
    ([1.5, 0.0], [[0.75, 0.0], [0.0, 3.0]])
    """
    error = y - np.vecdot(w, z)
    v = (Q @ z[..., None].astype(np.float64))[..., 0]
    scale = forget + np.vecdot(z, v)
    w += (error / scale)[..., None] * v
    v /= np.sqrt(scale)[..., None]
    _lower(Q, v, forget)
    return error


def inform(Q: NDArray[np.float64], i: Any, amount: float) -> None:
    """Q^-1 <- Q^-1 + a e_i e_i^T: entry i is held where it is, as if by samples. In place.

    Leading axes broadcast: `i` has one entry for each matrix.

    >>> Q = 2 * np.eye(2)
    >>> inform(Q, np.array(1), 0.5)
    >>> Q.tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    v = np.take_along_axis(Q, i[..., None, None], axis=-1)[..., 0]
    v *= np.sqrt(amount / (1 + amount * np.take_along_axis(v, i[..., None], axis=-1)))
    _lower(Q, v)


def _lower(Q: NDArray[np.float64], v: NDArray[np.float64], forget: float = 1.0) -> None:
    """Q <- (Q - v v^T) / lambda, matrix by matrix: one fits into a cache, all do not."""
    for i in np.ndindex(Q.shape[:-2]):
        one = Q[i]
        one -= np.multiply.outer(v[i], v[i])
        if forget != 1:
            one *= 1 / forget
