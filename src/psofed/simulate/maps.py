"""Feature maps as the compiled code needs them: in its padded arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import native
from psofed.core.features import Bumps, FeatureMap, OwnMap, Waves
from psofed.core.whitening import Whitened
from psofed.simulate import kernel, layout

Array = NDArray[Any]


def padded(dim: int) -> int:
    """How many numbers there is room for."""
    return max(-(-dim // layout.PAD) * layout.PAD, layout.LEAST)


def pad(array: Array, shape: tuple[int, ...], dtype: Any, value: float = 0) -> Array:
    """`array` in the corner of a larger one."""
    padded = native.aligned(shape, dtype)
    if value:
        padded += padded.dtype.type(value)
    padded[tuple(slice(size) for size in array.shape)] = array
    return padded


def knows(features: FeatureMap) -> bool:
    """Whether the kernel has the map, or is given what a user's own returns."""
    return isinstance(_base(features), Waves | Bumps | OwnMap)


def outside(features: FeatureMap) -> OwnMap | None:
    """The part of a map that is a user's own: the compiled code is given what it returns."""
    base = _base(features)
    return base if isinstance(base, OwnMap) else None


def _base(features: FeatureMap) -> FeatureMap:
    return features.base if isinstance(features, Whitened) else features


def feature_map(features: FeatureMap, dtype: Any) -> layout.Map:
    """The feature map as the kernel needs it: phases in turns, so that a period is 1."""
    known: Any = features
    return _feature_map(known, dtype)


@lru_cache(maxsize=1)  # of the run that is simulated: its models and its test set need it
def _feature_map(features: Any, dtype: Any) -> layout.Map:
    if isinstance(features, Whitened):
        plain, entries = _map(features.base, dtype), padded(features.dim)
        T = pad(features.T, (plain.size, entries), dtype)
        return plain._replace(size=entries, turned=1, basis=T)
    return _map(features, dtype)


def _map(features: Any, dtype: Any) -> layout.Map:
    dim = features.dim
    size = padded(dim)
    if isinstance(features, Waves):
        kind, constant = layout.WAVES, 0.0
        scale, rows = np.sqrt(2 / dim), features.W / (2 * np.pi)
        # The features that pad are cosines of a quarter turn: zero.
        offset = pad(features.b / (2 * np.pi), (size,), dtype, 0.25)
    elif isinstance(features, OwnMap):
        kind, constant = layout.GIVEN, 0.0
        scale, rows, offset = 1.0, np.zeros((dim, 0)), native.aligned(size, dtype)
    else:
        assert isinstance(features, Bumps)
        kind, constant = layout.BUMPS, 0.5 / features.width**2
        scale, rows = 1 / np.sqrt(dim), features.centres
        offset = native.aligned(size, dtype)
    taps, sine = rows.shape[1] or dim, np.array(kernel.SINE[dtype.name])
    slope = pad(rows.T, (rows.shape[1], size), dtype)
    scales = pad(np.full(dim, scale), (size,), dtype)
    terms = (scale * sine).astype(dtype)
    none = native.aligned((0, 0), dtype)
    return layout.Map(kind, taps, size, slope, offset, scales, constant, terms, size, 0, none)


def compiled(features: FeatureMap, dtype: Any) -> Callable[[Array], Array]:
    """z = features(x) for x of this precision, of any shape [..., L]; compiled where possible."""
    if isinstance(features, OwnMap) or not (knows(features) and native.available()):
        return features
    given = outside(features)
    table = feature_map(features, np.dtype(dtype))
    structs = [native.struct(table)]

    def call(x: Array) -> Array:
        z = np.empty((*x.shape[:-1], features.dim), dtype)
        x = x if given is None else given(x)
        rows = np.ascontiguousarray(x, dtype).reshape(1, 1, -1, x.shape[-1])
        kernel.fill_features_of_runs(rows, structs, z)
        return z

    return call
