"""The engine's Python side: methods of the PSO-Fed family as the tables that the kernel reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psofed.core import native
from psofed.core.schedule import Rotating, Sequential, Stochastic
from psofed.federation import progress
from psofed.federation.contract import Array, Method, summed
from psofed.federation.learners import nlms
from psofed.federation.membership import FleetCohorts
from psofed.federation.stage import around, within
from psofed.methods import onlinefed, psofed
from psofed.simulate import kernel
from psofed.simulate.draws import Chunk, Draws, TestSet
from psofed.simulate.kernel import feature_map, pad, padded
from psofed.stages.average import Average

ROOM = 2**23  # features of a user's own map that are in memory at once


@dataclass(frozen=True, eq=False)
class Start:
    """Initial models, if they are not zero: w_0 [D] and w_{k,0} [client, D]."""

    w: Array
    local: Array


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Test errors [method, mark]; if asked for, judged [mark, method, D] and local models."""

    mse: Array
    w: Array
    local: Array  # [round, client, method, D]
    finished: bool


def supports(method: Method) -> bool:
    """Whether the kernel has the method with all of its stages, and the features it learns from."""
    plain: Any = within(method)
    if type(plain) not in (psofed.Method, onlinefed.Method) or plain.pace != 1:
        return False
    compiled = all(type(stage) is Average for stage in around(method))
    task, windows = method.task, (Rotating, Sequential, Stochastic)
    learns = task.learner.in_engine and plain.learner is task.learner
    cohorts = task.cohorts
    changes = isinstance(cohorts, FleetCohorts) and cohorts.history.changes
    fixed = isinstance(plain.schedule, windows) and not changes
    return compiled and learns and fixed and kernel.supports(task.features) and native.available()


def run(
    draws: Draws,
    methods: Sequence[Method],
    marks: Array,
    test: TestSet,
    shares: Array | None = None,
    stop: Array | None = None,
    part: float = 0.0,
    *,
    start: Start | None = None,
    keep: bool = False,
    lazy: bool = True,
) -> Trajectory:
    """The test errors of all `methods`, in lockstep on the same draws, at the rounds `marks`.

    `shares` says how far f has changed at each of them, `part` which part of a run this is. Models
    are returned if they are to be kept, local ones too if clients are not lazy.
    """
    # Those that learn when idle come first: the kernel treats them as one stack.
    order = sorted(range(len(methods)), key=lambda j: not methods[j].idle)
    dtype, dim = np.dtype(methods[0].task.dtype), draws.features.dim
    models = _models(draws, len(order), dtype, start, padded(test.factor.shape[1]))
    features, windows = feature_map(draws.features, dtype), _Tables(draws, methods, order, marks)
    shares = np.zeros(len(marks)) if shares is None else shares
    judge = _judge(test, marks, shares, models, keep)
    stop = np.zeros(1, np.int64) if stop is None else stop
    mark, local = 0, [] if lazy else [models.local.copy()]
    for chunk in _chunks(draws, lazy):
        data = _data(draws, chunk, dtype)
        job = kernel.Job(data, features, windows.plans(chunk), models, judge, _scratch(models, dim))
        mark = kernel.simulate(job, mark, stop)
        if mark < 0:
            break
        local += [] if lazy else [models.local.copy()]
        progress.beat(part * chunk.y.shape[1] / draws.rounds)
    back = [order.index(j) for j in range(len(methods))]
    return Trajectory(
        judge.mse.T[back],
        judge.history[:, back, :dim],
        np.array(local)[:, :, back, :dim] if local else np.empty(0),
        mark >= 0,
    )


def replay(
    draws: Draws, methods: Sequence[Method], start: Start | None = None, lazy: bool = True
) -> Trajectory:
    """The models themselves before every round; the local ones too if clients are not lazy."""
    marks, dim = np.arange(draws.rounds + 1), draws.features.dim
    nothing = TestSet(np.zeros((dim, 1)), np.zeros(1), np.zeros(1), 1.0, np.zeros((2, 2)))
    return run(draws, methods, marks, nothing, start=start, keep=True, lazy=lazy)


def _chunks(draws: Draws, lazy: bool) -> Iterator[Chunk]:
    """The samples; a user's map is applied to so few rounds that their features have room."""
    own = kernel.outside(draws.features)
    for chunk in draws.chunks(None if lazy else 1):
        clients, rounds, _ = chunk.x.shape
        length = rounds if own is None else max(ROOM // (clients * own.dim), 1)
        for begin in range(0, rounds, length):
            x, y = (each[:, begin : begin + length] for each in (chunk.x, chunk.y))
            yield Chunk(chunk.first + begin, x if own is None else own(x), y)


def _models(
    draws: Draws, methods: int, dtype: Any, start: Start | None, rows: int
) -> kernel.Models:
    clients, dim = len(draws.ids), draws.features.dim
    w = native.aligned((methods, padded(dim)), dtype)
    local = native.aligned((clients, methods, padded(dim)), dtype)
    if start is not None:
        w[:, :dim] = start.w
        local[:, :, :dim] = start.local[:, None]
    fit = native.aligned((methods, rows), dtype)
    return kernel.Models(w, local, np.zeros(clients, np.int64), fit, w.copy())


def _scratch(models: kernel.Models, dim: int) -> kernel.Scratch:
    """Empty working memory."""
    methods, size = models.w.shape
    dtype, rows = models.w.dtype, models.fit.shape[1]
    return kernel.Scratch(
        z=native.aligned((kernel.BLOCK, size), dtype),
        change=native.aligned((methods, size), dtype),
        stamp=np.full((methods, dim), -1, np.int64),
        touched=np.empty((methods, dim + 1), np.int64),
        counts=np.zeros(methods, np.int64),
        every=np.arange(dim, dtype=np.int64),
        held=native.aligned((kernel.HOLD, size), dtype),
        owner=np.zeros((kernel.HOLD, 2), np.int64),
        fits=native.aligned((kernel.HOLD, rows), dtype),
        shift=np.zeros((2, methods), np.int32),
    )


def _data(draws: Draws, chunk: Chunk, dtype: Any) -> kernel.Data:
    clients, rounds, _ = chunk.x.shape
    first, last = draws.start[chunk.first], draws.start[chunk.first + rounds]
    x = chunk.x.astype(dtype, copy=False)
    return kernel.Data(
        chunk.first, clients, rounds,
        x,
        np.array(x.strides) // x.itemsize,
        np.ascontiguousarray(chunk.y, dtype),
        (draws.start[chunk.first : chunk.first + rounds + 1] - first).astype(np.int64),
        draws.members[first:last].astype(np.int64),
        draws.last[:clients] >= chunk.first + rounds,
    )  # fmt: skip


def _judge(
    test: TestSet, marks: Array, shares: Array, models: kernel.Models, keep: bool
) -> kernel.Judge:
    methods, dim = models.w.shape
    dtype, rows = models.w.dtype, models.fit.shape[1]
    return kernel.Judge(
        rows,
        int(test.triangular),
        len(marks),
        pad(test.factor, (dim, rows), dtype),
        pad(test.target, (rows,), dtype),
        pad(test.shift, (rows,), dtype),
        shares.astype(dtype),
        test.scale,
        np.asarray(test.rest(shares), np.float64),
        np.ascontiguousarray(marks, np.int64),
        np.empty((len(marks), methods)),
        int(keep),
        np.empty((len(marks) if keep else 0, methods, dim), dtype),
    )


class _Tables:
    """The windows of all methods: drawn once if they rotate, for each chunk if they are fresh."""

    def __init__(
        self, draws: Draws, methods: Sequence[Method], order: list[int], marks: Array
    ) -> None:
        self.draws = draws
        self.methods: list[Any] = [within(methods[j]) for j in order]
        self.idle = sum(method.idle for method in methods)
        self.step = np.array([m.step for m in self.methods] + [0.0] * 3, methods[0].task.dtype)
        learner = methods[0].task.learner
        self.epsilon = learner.epsilon if isinstance(learner, nlms.Options) else 0.0
        # Tracking the changes is faster where few entries change from one mark to the next.
        every, cohort = max(np.diff(marks), default=1), len(draws.members) / draws.rounds
        changes = [
            m.shared * (1 if m.delivery == "common" else cohort) * every for m in self.methods
        ]
        self.averaged = np.array([any(around(methods[j])) for j in order])
        self.dense = (np.array(changes) > draws.features.dim / 3) | self.averaged
        self.rotating = {
            j: _rotating(draws, method)
            for j, method in enumerate(self.methods)
            if not isinstance(method.schedule, Stochastic)
        }

        self.length = 2 * draws.features.dim + kernel.LEAST
        self.masked, self.masks = self._masks()

    def _masks(self) -> tuple[Array, Array]:
        """Rotating windows of many entries as masks: where each method's begin, and all of them."""
        begin, parts = np.full(len(self.methods), -1), [np.empty(0, np.int8)]
        for j, (_, _, table) in self.rotating.items():
            if kernel.MANY < table.shape[1] < self.draws.features.dim:
                begin[j] = sum(part.size for part in parts)
                mask = np.zeros(len(table) * self.length, np.int8)
                places = table + self.length * np.arange(len(table))[:, None]
                mask[places] = mask[places + self.draws.features.dim] = -1
                parts.append(mask)
        return begin, np.concatenate(parts)

    def plans(self, chunk: Chunk) -> kernel.Plans:
        """What the kernel needs to know about the windows in a chunk."""
        rows = [
            self.rotating.get(j) or _fresh(self.draws, method, chunk)
            for j, method in enumerate(self.methods)
        ]
        sizes = [table.size for _, _, table in rows]
        return kernel.Plans(
            dim=self.draws.features.dim,
            methods=len(rows),
            idle=self.idle,
            step=self.step,
            rows=np.array([kind for kind, _, _ in rows], np.int64),
            shift=np.array([shift for _, shift, _ in rows], np.int64),
            shared=np.array([table.shape[1] for _, _, table in rows], np.int64),
            first=np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int64),
            table=np.concatenate([table.ravel() for _, _, table in rows]).astype(np.int32),
            dense=self.dense,
            averaged=self.averaged,
            masked=self.masked,
            masks=self.masks,
            length=self.length,
            epsilon=self.epsilon,
        )


def _rotating(draws: Draws, method: psofed.Method) -> tuple[int, int, Array]:
    """How rows are found, the shift, and the table of initial positions."""
    schedule = method.schedule
    assert isinstance(schedule, Rotating | Sequential)
    masks = schedule.initial(draws.ids) if isinstance(schedule, Sequential) else schedule.masks
    kind = kernel.COMMON if len(masks) == 1 else kernel.PER_CLIENT
    return kind, schedule.shift % schedule.dim, masks


def _fresh(draws: Draws, method: psofed.Method, chunk: Chunk) -> tuple[int, int, Array]:
    """The same for windows redrawn: two rows for each time that a client takes part."""
    schedule = method.schedule
    assert isinstance(schedule, Stochastic)
    n = np.arange(chunk.first, chunk.first + chunk.y.shape[1])
    first, last = draws.start[n[0]], draws.start[n[-1] + 1]
    clients = draws.ids[draws.members[first:last]]
    n = np.repeat(n, np.diff(draws.start[n[0] : n[-1] + 2]))
    both = schedule.draw(clients[:, None], n[:, None] + np.arange(2))
    return kernel.FRESH, 0, both.reshape(-1, schedule.shared)


def traffic(draws: Draws, methods: Sequence[Method], marks: Array) -> Array:
    """Bytes up, down and multicast down of each method since the mark before."""
    counts, which = np.unique(np.diff(draws.start), return_inverse=True)  # of the cohorts
    total = np.zeros((len(which) + 1, len(counts)))
    np.cumsum(which[:, None] == np.arange(len(counts)), axis=0, out=total[1:])
    rounds = np.diff(total[marks], axis=0, prepend=0)  # [mark, count]
    out = np.empty((3, len(methods), len(marks)))
    for j, method in enumerate(methods):
        plain: Any = within(method)
        size = len(method.encode(np.zeros(plain.shared), up=True))
        alike = [np.full(count, size) for count in counts]
        out[:, j] = (rounds @ np.array([summed(method, each, each) for each in alike])).T
    return out
