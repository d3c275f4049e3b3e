"""The compiled executor of the PSO-Fed family: lazy clients, several methods in lockstep.

This is the only file that imports Numba. All that the kernel calls stands here, because Numba's
disk cache does not see changes in other files. The kernel restates `core` to be fast: features by
a polynomial, LMS four samples at a time; tests pin both to the originals.

A client that is not selected touches only its own data, so its idle learning is done when it is
next selected, in blocks that stay in the first-level cache. Features are computed once and serve
all methods.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

BLOCK = 32  # samples whose features are kept at once: 32 x 200 float32 fill 25 kB of 32
WAVES, BUMPS = 0, 1
PER_CLIENT, COMMON, FRESH = 0, 1, 2

# sin(2 pi s) = s P(s^2) for |s| <= 1/4, highest power first, by Remez' exchange.
# Errors 3.4e-9 (float32) and 9.0e-17 (float64); a test measures them.
SINE = {
    "float32": (39.536706727807157, -76.549782386454099, 81.601004077554929, -41.341655031489118,
                6.2831851600897856),
    "float64": (-0.69093588489952203, 3.8169974288948175, -15.094471616682207, 42.058688305392075,
                -76.705859647469572, 81.605249275026290, -41.341702240395083, 6.2831853071795804),
}  # fmt: skip


class Data(NamedTuple):
    """Samples of the clients that matter, and the rounds in which each is selected."""

    x: Array  # [client, round, tap]
    y: Array  # [client, round]
    start: Array  # the cohort of round n is members[start[n]:start[n + 1]]
    members: Array


class Map(NamedTuple):
    """The feature map: slope and offset in turns (waves), or centres and zeros (bumps)."""

    kind: int
    slope: Array  # [tap, feature]
    offset: Array  # [feature]
    scale: Any
    constant: Any  # waves: a quarter turn; bumps: 1 / (2 sigma^2)
    sine: tuple[Any, ...]


class Plans(NamedTuple):
    """The windows of each method: a table of positions, and how to find the row in it."""

    step: Array
    idle: int  # the first `idle` methods learn when they are not selected
    rows: Array  # PER_CLIENT, COMMON or FRESH
    shift: Array
    shared: Array
    first: Array  # where the table of method j begins in `table`
    table: Array


class Models(NamedTuple):
    """What the recursion changes: global models [method, D] and local ones [client, method, D]."""

    w: Array
    local: Array
    position: Array  # the next sample of each client


def _compiled(function: Any) -> Any:
    """Compile on first use and keep the code on disk; a read-only folder only costs time."""
    # Sums may be reordered and fused, but NaN and infinity keep their meaning.
    fast = {"reassoc", "contract", "nsz", "arcp"}
    options: Any = {"nogil": True, "fastmath": fast, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)


@_compiled
def fill_features(x: Array, features: Map, z: Array) -> None:
    """z = sqrt(2/D) cos(W x + b) for each row of x, through sin(2 pi s); or Gaussian bumps."""
    taps, dim = features.slope.shape
    for i in range(x.shape[0]):
        for d in range(dim):
            z[i, d] = features.offset[d]
        if features.kind == BUMPS:
            for tap in range(taps):
                for d in range(dim):
                    z[i, d] += (x[i, tap] - features.slope[tap, d]) ** 2
            for d in range(dim):
                z[i, d] = features.scale * np.exp(-features.constant * z[i, d])
        else:
            for tap in range(taps):
                for d in range(dim):
                    z[i, d] += x[i, tap] * features.slope[tap, d]
            for d in range(dim):
                s = features.constant - abs(z[i, d] - np.rint(z[i, d]))
                p = features.sine[0]
                for m in range(1, len(features.sine)):
                    p = p * (s * s) + features.sine[m]
                z[i, d] = features.scale * (s * p)


@_compiled
def learn_one(w: Array, z: Array, y: Array, i: int, step: Any) -> None:
    """Eq. (10) for sample i."""
    estimate = step - step
    for d in range(w.shape[0]):
        estimate += w[d] * z[i, d]
    scaled = step * (y[i] - estimate)
    for d in range(w.shape[0]):
        w[d] += scaled * z[i, d]


@_compiled
def learn_four(w: Array, z: Array, y: Array, i: int, step: Array, e: Array) -> None:
    """Eq. (10) for samples i..i+3 of each method, in two passes over the weights.

    The error of a sample depends on the earlier ones only through z^T z, which all methods share:
    e_1 = y_1 - w^T z_1 - mu e_0 z_0^T z_1, and so on.
    """
    zero = step[0] - step[0]
    g10, g20, g21, g30, g31, g32 = zero, zero, zero, zero, zero, zero
    for d in range(w.shape[1]):
        z0, z1, z2, z3 = z[i, d], z[i + 1, d], z[i + 2, d], z[i + 3, d]
        g10 += z0 * z1
        g20 += z0 * z2
        g21 += z1 * z2
        g30 += z0 * z3
        g31 += z1 * z3
        g32 += z2 * z3
    for j in range(w.shape[0]):
        p0, p1, p2, p3 = zero, zero, zero, zero
        for d in range(w.shape[1]):
            p0 += w[j, d] * z[i, d]
            p1 += w[j, d] * z[i + 1, d]
            p2 += w[j, d] * z[i + 2, d]
            p3 += w[j, d] * z[i + 3, d]
        mu = step[j]
        e0 = mu * (y[i] - p0)
        e1 = mu * (y[i + 1] - p1 - e0 * g10)
        e2 = mu * (y[i + 2] - p2 - e0 * g20 - e1 * g21)
        e3 = mu * (y[i + 3] - p3 - e0 * g30 - e1 * g31 - e2 * g32)
        e[j, 0], e[j, 1], e[j, 2], e[j, 3] = e0, e1, e2, e3
    for j in range(w.shape[0]):
        e0, e1, e2, e3 = e[j, 0], e[j, 1], e[j, 2], e[j, 3]
        for d in range(w.shape[1]):
            w[j, d] += e0 * z[i, d] + e1 * z[i + 1, d] + e2 * z[i + 2, d] + e3 * z[i + 3, d]


@_compiled
def catch_up(c: int, n: int, data: Data, features: Map, plans: Plans, models: Models) -> None:
    """Idle learning of client c up to, but not with, sample n."""
    z = np.empty((BLOCK, features.offset.shape[0]), models.w.dtype)
    e = np.empty((plans.idle, 4), models.w.dtype)
    w = models.local[c, : plans.idle]
    for begin in range(models.position[c], n, BLOCK):
        end = min(begin + BLOCK, n)
        fill_features(data.x[c, begin:end], features, z)
        y = data.y[c, begin:end]
        fours = (end - begin) // 4 * 4
        for i in range(0, fours, 4):
            learn_four(w, z, y, i, plans.step, e)
        for i in range(fours, end - begin):
            for j in range(plans.idle):
                learn_one(w[j], z, y, i, plans.step[j])
    models.position[c] = n


@_compiled
def window_at(plans: Plans, j: int, c: int, p: int, n: int, up: int, dim: int) -> tuple[int, int]:
    """Where the window of method j starts in the table, and by how much it has been shifted."""
    if plans.rows[j] == FRESH:
        return plans.first[j] + (2 * p + up) * plans.shared[j], 0
    row = c if plans.rows[j] == PER_CLIENT else 0
    return plans.first[j] + row * plans.shared[j], plans.shift[j] * (n + up) % dim


@_compiled
def take_part(
    p: int, n: int, data: Data, features: Map, plans: Plans, models: Models, change: Array
) -> None:
    """Round n of one member of the cohort: eq. (9), eq. (10), and its share of eq. (11)."""
    c = data.members[p]
    methods, dim = models.w.shape
    z = np.empty((1, dim), models.w.dtype)
    fill_features(data.x[c, n : n + 1], features, z)
    y = data.y[c, n : n + 1]
    for j in range(methods):
        w, w_k = models.w[j], models.local[c, j]
        at, shift = window_at(plans, j, c, p, n, 0, dim)
        for m in range(plans.shared[j]):
            i = plans.table[at + m] + shift
            i -= dim if i >= dim else 0
            w_k[i] = w[i]
        learn_one(w_k, z, y, 0, plans.step[j])
        at, shift = window_at(plans, j, c, p, n, 1, dim)
        for m in range(plans.shared[j]):
            i = plans.table[at + m] + shift
            i -= dim if i >= dim else 0
            change[j, i] += w_k[i] - w[i]
    models.position[c] = n + 1


@_compiled
def simulate(
    data: Data, features: Map, plans: Plans, models: Models, marks: Array, history: Array,
    local_history: Array, stop: Array,
) -> bool:  # fmt: skip
    """Eq. (8)-(11) for all rounds; stores w_n for n in `marks`. False if it was stopped.

    With a `local_history` of as many rounds, every client is brought up to date after each round.
    """
    rounds = data.start.shape[0] - 1
    change = np.zeros_like(models.w)
    mark = 0
    for n in range(rounds + 1):
        if mark < len(marks) and marks[mark] == n:
            history[mark] = models.w
            mark += 1
        if n < len(local_history):
            for c in range(models.local.shape[0]):
                catch_up(c, n, data, features, plans, models)
            local_history[n] = models.local
        if n == rounds or stop[0]:
            break
        size = data.start[n + 1] - data.start[n]
        if size == 0:
            continue
        change[:] = 0
        for p in range(data.start[n], data.start[n + 1]):
            if plans.idle > 0:
                catch_up(data.members[p], n, data, features, plans, models)
            take_part(p, n, data, features, plans, models, change)
        share = 1.0 / size
        # Eq. (11): divided by |S_n| for every entry, however many uploaded it.
        for j in range(change.shape[0]):
            for d in range(change.shape[1]):
                models.w[j, d] += change[j, d] * share
    return mark == len(marks)
