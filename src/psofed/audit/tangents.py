"""Features and their slopes: z(x) at some entries, and dz/dx, for many x at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import Bumps, FeatureMap, Linear, Waves
from psofed.core.whitening import Whitened

Array = NDArray[Any]
Tangent = Callable[[Array], tuple[Array, Array]]
NUDGE = 1e-5  # of central differences, where there is no formula: errors of about 1e-10


def tangent(features: FeatureMap, entries: Array) -> Tangent:
    """x [..., L] to z [..., E] at `entries` and its slopes [..., L, E], in float64.

    >>> line = tangent(Linear(3), np.array([0, 2]))
    >>> [part.tolist() for part in line(np.array([7.0, 8.0, 9.0]))]
    [[0.5, 4.0], [[0.0, 0.0], [0.0, 0.5], [0.0, 0.0]]]
    """
    features = features.astype(np.float64)
    if isinstance(features, Waves):
        return _waves(features.W[entries], features.b[entries], np.sqrt(2 / features.dim))
    if isinstance(features, Bumps):
        return _bumps(features.centres[entries], features.width, features.dim)
    if isinstance(features, Linear):
        slope = np.eye(features.dim)[entries, 1:] / np.sqrt(features.dim)
        return _line(slope, (entries == 0) / np.sqrt(features.dim))
    if isinstance(features, Whitened):
        return _whitened(features, entries)
    return _differences(features, entries)


def _waves(W: Array, b: Array, height: float) -> Tangent:
    slopes = np.ascontiguousarray(-height * W.T)

    def at(x: Array) -> tuple[Array, Array]:
        phase = x @ W.T + b
        return height * np.cos(phase), np.sin(phase)[..., None, :] * slopes

    return at


def _bumps(centres: Array, width: float, dim: int) -> Tangent:
    def at(x: Array) -> tuple[Array, Array]:
        away = x[..., None, :] - centres
        z = np.exp(np.square(away).sum(axis=-1) * (-0.5 / width**2)) / np.sqrt(dim)
        return z, np.swapaxes(away, -1, -2) * (z / -(width**2))[..., None, :]

    return at


def _line(slope: Array, offset: Array) -> Tangent:
    def at(x: Array) -> tuple[Array, Array]:
        z = x @ slope.T + offset
        return z, np.broadcast_to(slope.T, (*x.shape, len(slope)))

    return at


def _whitened(features: Whitened, entries: Array) -> Tangent:
    below, T = tangent(features.base, np.arange(features.base.dim)), features.T[:, entries]

    def at(x: Array) -> tuple[Array, Array]:
        z, slope = below(x)
        return z @ T, slope @ T

    return at


def _differences(features: FeatureMap, entries: Array) -> Tangent:
    def z(x: Array) -> Array:
        flat = np.asarray(features(x.reshape(-1, x.shape[-1])), np.float64)[:, entries]
        return flat.reshape(*x.shape[:-1], len(entries))

    def at(x: Array) -> tuple[Array, Array]:
        nudges = NUDGE * np.eye(x.shape[-1])
        up, down = z(x[..., None, :] + nudges), z(x[..., None, :] - nudges)
        return z(x), (up - down) / (2 * NUDGE)

    return at
