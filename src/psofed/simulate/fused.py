"""The engine's Python side: methods of the PSO-Fed family as the tables that the kernel reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import Bumps, FeatureMap, Waves
from psofed.core.schedule import Rotating, Sequential, Stochastic
from psofed.methods import psofed
from psofed.simulate import engine
from psofed.simulate.draws import Draws

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Start:
    """Initial models, if they are not zero: w_0 [D] and w_{k,0} [client, D]."""

    w: Array
    local: Array


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Global models [mark, method, D]; local ones [round, client, method, D] if asked for."""

    w: Array
    local: Array
    finished: bool


def is_fused(method: Any) -> bool:
    """Whether the kernel computes exactly this method."""
    return getattr(method, "windowed", False)


def run(
    draws: Draws,
    methods: list[psofed.Method],
    marks: Array,
    *,
    start: Start | None = None,
    keep_local: bool = False,
    stop: Array | None = None,
) -> Trajectory:
    """All `methods` in lockstep on the same draws; w_n for n in `marks`."""
    # Those that learn when idle come first: the kernel treats them as one stack.
    order = sorted(range(len(methods)), key=lambda j: not methods[j].idle)
    dtype, dim = draws.x.dtype, draws.features.dim
    models = engine.Models(
        np.zeros((len(methods), dim), dtype),
        np.zeros((len(draws.ids), len(methods), dim), dtype),
        np.zeros(len(draws.ids), np.int64),
    )
    if start is not None:
        models.w[:] = start.w
        models.local[:] = start.local[:, None]
    history = np.empty((len(marks), *models.w.shape), dtype)
    local = np.empty((draws.rounds + 1 if keep_local else 0, *models.local.shape), dtype)
    members = np.searchsorted(draws.ids, draws.members)
    finished = engine.simulate(
        engine.Data(draws.x, draws.y, draws.start.astype(np.int64), members.astype(np.int64)),
        _map(draws.features, dtype),
        _plans(draws, [methods[j] for j in order], dtype),
        models,
        np.asarray(marks, np.int64),
        history,
        local,
        np.zeros(1, np.int64) if stop is None else stop,
    )
    back = np.argsort(order)
    return Trajectory(history[:, back], local[:, :, back], finished)


def _map(features: FeatureMap, dtype: Any) -> engine.Map:
    """The feature map as the kernel wants it: phases in turns, so that a period is 1."""
    scalar = dtype.type
    sine = tuple(scalar(c) for c in engine.SINE[dtype.name])
    if isinstance(features, Waves):
        slope = np.ascontiguousarray(features.W.T / (2 * np.pi), dtype)
        offset = (features.b / (2 * np.pi)).astype(dtype)
        scale = scalar(np.sqrt(2 / features.dim))
        return engine.Map(engine.WAVES, slope, offset, scale, scalar(0.25), sine)
    assert isinstance(features, Bumps)
    centres = np.ascontiguousarray(features.centres.T, dtype)
    nothing, scale = np.zeros(features.dim, dtype), scalar(1 / np.sqrt(features.dim))
    narrow = scalar(0.5 / features.width**2)
    return engine.Map(engine.BUMPS, centres, nothing, scale, narrow, sine)


def _plans(draws: Draws, methods: list[psofed.Method], dtype: Any) -> engine.Plans:
    tables = [_table(draws, method) for method in methods]
    sizes = [rows.size for _, _, rows in tables]
    return engine.Plans(
        step=np.array([method.step for method in methods], dtype),
        idle=sum(method.idle for method in methods),
        rows=np.array([kind for kind, _, _ in tables], np.int64),
        shift=np.array([shift for _, shift, _ in tables], np.int64),
        shared=np.array([rows.shape[1] for _, _, rows in tables], np.int64),
        first=np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int64),
        table=np.concatenate([rows.ravel() for _, _, rows in tables]).astype(np.int32),
    )


def _table(draws: Draws, method: psofed.Method) -> tuple[int, int, Array]:
    """How rows are found, the shift, and the table of positions itself."""
    schedule = method.schedule
    if isinstance(schedule, Stochastic):
        n = np.repeat(np.arange(draws.rounds), np.diff(draws.start))
        both = schedule.draw(draws.members[:, None], n[:, None] + np.arange(2))
        return engine.FRESH, 0, both.reshape(-1, schedule.shared)
    assert isinstance(schedule, Rotating | Sequential)
    masks = schedule.initial(draws.ids) if isinstance(schedule, Sequential) else schedule.masks
    kind = engine.COMMON if len(masks) == 1 else engine.PER_CLIENT
    return kind, schedule.shift, masks


def traffic(draws: Draws, methods: list[psofed.Method], marks: Array) -> Array:
    """Bytes up, down and multicast down of each method since the mark before.

    The size of a message is asked of its encoder.
    """
    sizes = np.append(0, np.diff(draws.start))
    per_round = np.zeros((3, len(methods), len(sizes)))
    for j, method in enumerate(methods):
        window = len(method.encode(np.zeros(method.shared)))
        copies = sizes > 0 if method.common else sizes
        per_round[:, j] = window * sizes, window * sizes, window * copies
    return since_last_mark(per_round, marks)


def since_last_mark(per_round: Array, marks: Array) -> Array:
    """Sums over the rounds up to each mark, after the mark before it. The last axis is rounds."""
    total = np.cumsum(per_round, axis=-1)[..., marks]
    return np.diff(total, axis=-1, prepend=0)
