"""The compiled functions by their equations: the engine, features and LMS of many clients."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from psofed.core import equations, native
from psofed.core.features import Cosines, FeatureMap, Gaussians, OwnMap, Whitened
from psofed.federation.contract import Array, Task
from psofed.federation.learners import lms, nlms

# sin(2 pi s) = s P(s^2) for |s| <= 1/4, highest power first, by Remez' exchange.
# Errors 6.0e-7 (float32) and 9.0e-17 (float64); a test measures them.
SINE = {
    "float32": (-70.993433507852926, 81.340768928948785, -41.337142372774878, 6.2831640443090222),
    "float64": (-0.69093588489952203, 3.8169974288948175, -15.094471616682207, 42.058688305392075,
                -76.705859647469572, 81.605249275026290, -41.341702240395083, 6.2831853071795804),
}  # fmt: skip


def simulate(job: Job, mark: int, stop: Array) -> int:
    """The rounds of a chunk, judging w_n at each mark n, the chunk's end too.

    Returns the number of the next mark, or -1 if it was told to stop.
    """
    done = native.function("simulate", job.models.w.dtype)(native.struct(job), mark, stop)
    return int(done)


def learn_rows(w: Array, z: Array, y: Array, step: Any, epsilon: float = 0.0) -> Array:
    """`equations.lms` for one sample of each client: rows belong together. Returns the errors.

    The step is a number, or one for each run [run, 1]. With an epsilon it is divided by
    epsilon + |z|^2.
    """
    error, steps = np.empty(w.shape[:-1], w.dtype), np.array(step, np.float64, ndmin=1)
    each = max(error.size // steps.size, 1)
    native.function("learn_rows", w.dtype)(
        w, z, y, steps, each, float(epsilon), error, error.size, w.shape[-1]
    )
    return error


def fill_features_of_runs(x: Array, maps: list[Any], z: Array) -> None:
    """The same for several runs: x [..., run, client, input], z [..., run, client, D]."""
    outer, runs, rows, _ = x.shape
    found = np.array([ctypes.addressof(each) for each in maps], np.uintp)
    native.function("features_of_runs", z.dtype)(found, x, outer, runs, rows, z.shape[-1], z)


def products(z: Array, more: Array) -> Array:
    """The sums over all rows of the products of any two columns, of z and then of `more`.

    In float64, and above the diagonal only.
    """
    (count, dim), further = z.shape, more.shape[1]
    if not native.available():
        both = np.column_stack([z, more])
        return both.T @ both
    z = np.ascontiguousarray(z, np.result_type(z, np.float32))
    width = -(-(dim + further) // COLUMNS) * COLUMNS
    panels, out = np.empty((width, SAMPLES)), native.aligned((width, width), np.float64)
    native.function("moments", z.dtype)(z, count, dim, more, further, panels, width, out)
    return out[: dim + further, : dim + further]


def padded(dim: int) -> int:
    """How many numbers there is room for."""
    return max(-(-dim // PAD) * PAD, LEAST)


def pad(array: Array, shape: tuple[int, ...], dtype: Any, value: float = 0) -> Array:
    """`array` in the corner of a larger one."""
    padded = native.aligned(shape, dtype)
    if value:
        padded += padded.dtype.type(value)
    padded[tuple(slice(size) for size in array.shape)] = array
    return padded


def supports(features: FeatureMap) -> bool:
    """Whether the kernel has the map, or is given what a user's own returns."""
    return isinstance(_base(features), Cosines | Gaussians | OwnMap)


def outside(features: FeatureMap) -> OwnMap | None:
    """The part of a map that is a user's own: the compiled code is given what it returns."""
    base = _base(features)
    return base if isinstance(base, OwnMap) else None


def _base(features: FeatureMap) -> FeatureMap:
    return features.base if isinstance(features, Whitened) else features


def feature_map(features: FeatureMap, dtype: Any) -> Map:
    """The feature map as the kernel needs it: phases in turns, so that a period is 1."""
    known: Any = features
    return _feature_map(known, dtype)


@lru_cache(maxsize=1)  # of the run that is simulated: its models and its test set need it
def _feature_map(features: Any, dtype: Any) -> Map:
    if isinstance(features, Whitened):
        plain, entries = _map(features.base, dtype), padded(features.dim)
        T = pad(features.T, (plain.size, entries), dtype)
        return plain._replace(size=entries, turned=1, basis=T)
    return _map(features, dtype)


def _map(features: Any, dtype: Any) -> Map:
    dim = features.dim
    size = padded(dim)
    if isinstance(features, Cosines):
        kind, constant = WAVES, 0.0
        scale, rows = np.sqrt(2 / dim), features.W / (2 * np.pi)
        # The features that pad are cosines of a quarter turn: zero.
        offset = pad(features.b / (2 * np.pi), (size,), dtype, 0.25)
    elif isinstance(features, OwnMap):
        kind, constant = GIVEN, 0.0
        scale, rows, offset = 1.0, np.zeros((dim, 0)), native.aligned(size, dtype)
    else:
        assert isinstance(features, Gaussians)
        kind, constant = BUMPS, 0.5 / features.width**2
        scale, rows = 1 / np.sqrt(dim), features.centres
        offset = native.aligned(size, dtype)
    taps, sine = rows.shape[1] or dim, np.array(SINE[dtype.name])
    slope = pad(rows.T, (rows.shape[1], size), dtype)
    scales = pad(np.full(dim, scale), (size,), dtype)
    terms = (scale * sine).astype(dtype)
    none = native.aligned((0, 0), dtype)
    return Map(kind, taps, size, slope, offset, scales, constant, terms, size, 0, none)


def compiled(features: FeatureMap, dtype: Any) -> Callable[[Array], Array]:
    """z = features(x) for x of this precision, of any shape [..., L]; compiled where possible."""
    if isinstance(features, OwnMap) or not (supports(features) and native.available()):
        return features
    given = outside(features)
    table = feature_map(features, np.dtype(dtype))
    structs = [native.struct(table)]

    def call(x: Array) -> Array:
        z = np.empty((*x.shape[:-1], features.dim), dtype)
        x = x if given is None else given(x)
        rows = np.ascontiguousarray(x, dtype).reshape(1, 1, -1, x.shape[-1])
        fill_features_of_runs(rows, structs, z)
        return z

    return call


class Fast(lms.Options):
    """LMS, compiled for a stack of clients."""

    lms = descends = True

    def learn(self, w: Array, z: Array, y: Any, step: Any) -> Any:
        """`equations.lms`."""
        if not _rows(w, z, y):
            return equations.lms(w, z, y, step)
        return learn_rows(w, z, y, step)


class FastNormalised(nlms.Options):
    """Normalised LMS, compiled for a stack of clients."""

    normalised = descends = True

    def learn(self, w: Array, z: Array, y: Any, step: float) -> Any:
        """That of `nlms`."""
        if not _rows(w, z, y):
            return super().learn(w, z, y, step)
        return learn_rows(w, z, y, step, self.epsilon)


def _rows(w: Array, z: Array, y: Any) -> bool:
    """Whether these are arrays as the compiled code needs them."""
    if w.ndim < 2 or w.size != z.size or not w.dtype == z.dtype == y.dtype:
        return False
    return bool(w.flags.c_contiguous and z.flags.c_contiguous and y.flags.c_contiguous)


def faster(task: Task) -> Task:
    """The same task, with a compiled learner if there is one."""
    learner = task.learner
    if not (learner.in_engine and native.available()):
        return task
    fast = FastNormalised(learner.epsilon) if isinstance(learner, nlms.Options) else Fast()
    return replace(task, learner=fast)


WAVES, BUMPS, GIVEN = 0, 1, 2  # kinds of feature maps; given: x has the features themselves
PER_CLIENT, COMMON, FRESH = 0, 1, 2  # how the row of a window is found in its table
PAD, LEAST = 8, 16  # features are padded to a multiple of the first, and to the second at least
BLOCK = 16  # samples whose features are computed at once: they stay in the first-level cache
MANY = 16  # a window of more entries is a mask
COLUMNS, SAMPLES = 12, 128  # of the test set: those whose products are added up at once
HOLD = 16  # models that are judged together


class Data(NamedTuple):
    """The samples of a chunk of rounds, and who is selected in them."""

    first: int  # the chunk's first round
    clients: int
    rounds: int
    x: Array  # [client, round, input]: also windows of a series, which overlap
    x_strides: Array  # in numbers
    y: Array  # [client, round]
    start: Array  # the cohort of the chunk's i-th round is members[start[i]:start[i + 1]]
    members: Array
    again: Array  # [client]: selected in a later chunk, so it must be up to date at this one's end


class Map(NamedTuple):
    """The feature map: slope and offset in turns (cosines), or centres and zeros (Gaussians)."""

    kind: int
    taps: int
    size: int  # entries of a model, padded
    slope: Array  # [tap, feature]
    offset: Array  # [feature]
    scale: Array  # [feature]
    constant: float  # of Gaussians: 1 / (2 sigma^2)
    sine: Array  # of cosines: the polynomial, times the scale
    wide: int  # features before the basis, padded; without one, `size`
    turned: int  # whether there is a basis
    basis: Array  # [wide, size]: T


class Plans(NamedTuple):
    """The windows of each method: a table of positions, and how to find the row in it."""

    dim: int
    methods: int
    idle: int  # the first `idle` methods learn when they are not selected
    step: Array  # [method], and three more that are not used
    rows: Array  # PER_CLIENT, COMMON or FRESH
    shift: Array
    shared: Array
    first: Array  # where the table of method j begins in `table`
    table: Array
    dense: Array  # [method]: whether too many entries change to track them; always if M = D
    averaged: Array  # [method]: whether the average of its models is judged
    masked: Array  # [method]: where its masks begin, or -1 if it has none
    masks: Array  # rows of `length`: the window at n = 0 twice, -1 inside and 0 outside
    length: int
    epsilon: float  # of normalised LMS; 0: LMS


class Models(NamedTuple):
    """What the recursion changes: global models [method, D] and local ones [client, method, D]."""

    w: Array
    local: Array
    position: Array  # the next sample of each client
    fit: Array  # [method, row]: the test set's outputs, see `Judge`
    average: Array  # [method, feature]: weighted means of the global models


class Judge(NamedTuple):
    """The test error: mse = scale |factor^T w - target|^2 + rest, and when it is taken."""

    rows: int
    triangular: int  # factor[i, d] is zero for d > i
    last: int  # how many marks
    factor: Array  # [feature, row]
    target: Array  # [row]
    shift: Array  # [row]: how the target moves when f has changed
    shares: Array  # [mark]: how far it has
    scale: float
    rest: Array  # [mark]
    marks: Array  # the rounds n whose w_n is judged
    mse: Array  # [mark, method]: the result
    keep: int
    history: Array  # [mark, method, feature]: the models themselves, if they are kept


class Scratch(NamedTuple):
    """Working memory of the engine."""

    z: Array  # [sample, feature]
    change: Array  # [method, feature]: the sum of eq. (11) so far
    stamp: Array  # [method, feature]: the last round in which the entry changed
    touched: Array  # [method, i]: the entries that changed in this round
    counts: Array  # [method]: how many
    every: Array  # 0, 1, ..., D - 1
    held: Array  # [i, feature]: models of the last marks, to be judged together
    owner: Array  # [i, 2]: mark and method of each
    fits: Array  # [i, row]: the test outputs of some of them
    shift: Array  # [2, method]: how far the windows of a round have moved, down and up


class Job(NamedTuple):
    """All of it."""

    data: Data
    map: Map
    plans: Plans
    models: Models
    judge: Judge
    pad: Scratch
