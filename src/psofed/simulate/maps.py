"""Feature maps as the compiled code needs them: in its padded arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import native
from psofed.core.features import Bumps, FeatureMap, OwnMap, Waves
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


def feature_map(features: FeatureMap, dtype: Any) -> layout.Map:
    """The feature map as the kernel needs it: phases in turns, so that a period is 1."""
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
    return layout.Map(kind, taps, size, slope, offset, scales, constant, terms)


def computed(features: FeatureMap, x: Array) -> Array:
    """z = features(x) for each row of x, compiled where that is possible."""
    if not (isinstance(features, Waves | Bumps) and native.available()):
        return features(x)
    z = np.empty((len(x), padded(features.dim)), x.dtype)
    kernel.fill_features(np.ascontiguousarray(x), feature_map(features, x.dtype), z)
    return z[:, : features.dim]
