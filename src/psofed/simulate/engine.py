"""The compiled executor of the PSO-Fed family: lazy clients, several methods in lockstep.

This is the only file that imports Numba. All that the kernel calls stands here, because Numba's
disk cache does not see changes in other files. The kernel restates `core` to be fast, and tests
pin it to the originals:

- Features are a polynomial cosine, computed once and used by all methods.
- A client that is not selected touches only its own data, so its idle learning is done when it is
  next selected, in blocks that stay in the first-level cache, four samples at a time.
- The test error follows each change of the model through a factor of the test moments.

Arrays over features are padded with zeros to a multiple of `PAD`, so that no loop has a remainder.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

PAD = 16
TAPS = 4  # inputs are padded to a multiple of this
CACHE = 27_000  # bytes of features that are kept at once: they should stay in the first-level cache
REFRESH = 256  # rounds after which the tracked test error is computed anew, against drift
WAVES, BUMPS = 0, 1
PER_CLIENT, COMMON, FRESH = 0, 1, 2

# sin(2 pi s) = s P(s^2) for |s| <= 1/4, highest power first, by Remez' exchange.
# Errors 6.0e-7 (float32) and 9.0e-17 (float64); a test measures them.
SINE = {
    "float32": (-70.993433507852926, 81.340768928948785, -41.337142372774878, 6.2831640443090222),
    "float64": (-0.69093588489952203, 3.8169974288948175, -15.094471616682207, 42.058688305392075,
                -76.705859647469572, 81.605249275026290, -41.341702240395083, 6.2831853071795804),
}  # fmt: skip


class Data(NamedTuple):
    """The samples of a chunk of rounds, and who is selected in them."""

    first: int  # the chunk's first round
    x: Array  # [client, round, tap]
    y: Array  # [client, round]
    start: Array  # the cohort of the chunk's i-th round is members[start[i]:start[i + 1]]
    members: Array
    again: Array  # [client]: selected in a later chunk, so it must be up to date at this one's end


class Map(NamedTuple):
    """The feature map: slope and offset in turns (waves), or centres and zeros (bumps)."""

    kind: int
    slope: Array  # [tap, feature]
    offset: Array  # [feature]
    scale: Array  # [feature]
    constant: Any  # waves: a quarter turn; bumps: 1 / (2 sigma^2)
    sine: tuple[Any, ...]  # times the scale


class Plans(NamedTuple):
    """The windows of each method: a table of positions, and how to find the row in it."""

    dim: int
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
    fit: Array  # [method, row]: the test set's outputs, see `Judge`


class Judge(NamedTuple):
    """The test error: mse = scale |factor^T w - target|^2 + rest, and when it is taken."""

    factor: Array  # [feature, row]; with as many rows as features it is lower triangular
    target: Array  # [row]
    scale: float
    rest: float
    marks: Array  # the rounds n whose w_n is judged
    mse: Array  # [mark, method]: the result
    track: bool  # follow each change, or compute anew at each mark
    history: Array  # [mark, method, feature]: the models themselves, or nothing


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
    slope, offset, sine, constant = (
        features.slope,
        features.offset,
        features.sine,
        features.constant,
    )
    last = slope.shape[0] - TAPS
    for i in range(x.shape[0]):
        if features.kind == BUMPS:
            fill_bumps(x[i], features, z[i])
            continue
        phase = offset
        if last > 0:
            phase = z[i]
            phase[:] = offset
            for tap in range(last):
                for d in range(z.shape[1]):
                    phase[d] += x[i, tap] * slope[tap, d]
        x0, x1, x2, x3 = x[i, last], x[i, last + 1], x[i, last + 2], x[i, last + 3]
        for d in range(z.shape[1]):
            turns = phase[d] + x0 * slope[last, d] + x1 * slope[last + 1, d]
            turns += x2 * slope[last + 2, d] + x3 * slope[last + 3, d]
            s = constant - abs(turns - np.rint(turns))
            p = sine[0]
            for m in range(1, len(sine)):
                p = p * (s * s) + sine[m]
            z[i, d] = s * p


@_compiled
def fill_bumps(x: Array, features: Map, z: Array) -> None:
    """z_i = exp(-|x - c_i|^2 / (2 sigma^2)) / sqrt(D)."""
    for d in range(z.shape[0]):
        z[d] = features.offset[d]
    for tap in range(features.slope.shape[0]):
        for d in range(z.shape[0]):
            z[d] += (x[tap] - features.slope[tap, d]) ** 2
    for d in range(z.shape[0]):
        z[d] = features.scale[d] * np.exp(-features.constant * z[d])


@_compiled
def learn_one(w: Array, z: Array, i: int, y: Any, step: Any) -> None:
    """Eq. (10) for one sample: row i of z."""
    estimate = step - step
    for d in range(w.shape[0]):
        estimate += w[d] * z[i, d]
    scaled = step * (y - estimate)
    for d in range(w.shape[0]):
        w[d] += scaled * z[i, d]


@_compiled
def learn_four(w: Array, z: Array, y: Array, i: int, step: Array) -> None:
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
        for d in range(w.shape[1]):
            w[j, d] += e0 * z[i, d] + e1 * z[i + 1, d] + e2 * z[i + 2, d] + e3 * z[i + 3, d]


@_compiled
def catch_up(
    c: int, n: int, data: Data, features: Map, plans: Plans, models: Models, z: Array
) -> None:
    """Idle learning of client c up to, but not with, sample n."""
    if plans.idle > 0:
        w = models.local[c, : plans.idle]
        block = z.shape[0]
        for begin in range(models.position[c], n, block):
            end = min(begin + block, n)
            fill_features(data.x[c, begin - data.first : end - data.first], features, z)
            y = data.y[c, begin - data.first : end - data.first]
            fours = (end - begin) // 4 * 4
            for i in range(0, fours, 4):
                learn_four(w, z, y, i, plans.step)
            for i in range(fours, end - begin):
                for j in range(plans.idle):
                    learn_one(w[j], z, i, y[i], plans.step[j])
    models.position[c] = n


@_compiled
def window_at(plans: Plans, j: int, c: int, p: int, n: int, up: int) -> tuple[int, int]:
    """Where the window of method j starts in the table, and by how much it has been shifted."""
    if plans.rows[j] == FRESH:
        return plans.first[j] + (2 * p + up) * plans.shared[j], 0
    row = c if plans.rows[j] == PER_CLIENT else 0
    return plans.first[j] + row * plans.shared[j], plans.shift[j] * (n + up) % plans.dim


@_compiled
def take_part(
    p: int, n: int, data: Data, features: Map, plans: Plans, models: Models, change: Array,
    z: Array,
) -> None:  # fmt: skip
    """Round n of one member of the cohort: eq. (9), eq. (10), and its share of eq. (11)."""
    c, dim = data.members[p], plans.dim
    i = n - data.first
    fill_features(data.x[c, i : i + 1], features, z)
    for j in range(models.w.shape[0]):
        w, w_k = models.w[j], models.local[c, j]
        if plans.shared[j] == dim:  # all of it: no window to look up
            for d in range(w.shape[0]):
                w_k[d] = w[d]
            learn_one(w_k, z, 0, data.y[c, i], plans.step[j])
            for d in range(w.shape[0]):
                change[j, d] += w_k[d] - w[d]
            continue
        at, shift = window_at(plans, j, c, p, n, 0)
        for m in range(plans.shared[j]):
            entry = plans.table[at + m] + shift
            entry -= dim if entry >= dim else 0
            w_k[entry] = w[entry]
        learn_one(w_k, z, 0, data.y[c, i], plans.step[j])
        at, shift = window_at(plans, j, c, p, n, 1)
        for m in range(plans.shared[j]):
            entry = plans.table[at + m] + shift
            entry -= dim if entry >= dim else 0
            change[j, entry] += w_k[entry] - w[entry]
    models.position[c] = n + 1


@_compiled
def follow(fit: Array, factor: Array, change: Array, dim: int) -> None:
    """fit += factor^T change, four entries of the change at a time, passing over zeros."""
    triangular = factor.shape[0] == factor.shape[1]
    i = 0
    while i < dim:
        zero = change[0] - change[0]
        e0, e1, e2, e3 = zero, zero, zero, zero
        i0, i1, i2, i3 = 0, 0, 0, 0
        found = 0
        while i < dim and found < 4:
            if change[i] != 0:
                e0, e1, e2, e3 = e1, e2, e3, change[i]
                i0, i1, i2, i3 = i1, i2, i3, i
                found += 1
            i += 1
        end = fit.shape[0]
        if triangular:
            end = min((i3 // PAD + 1) * PAD, end)
        for d in range(end if found > 0 else 0):
            fit[d] += (e0 * factor[i0, d] + e1 * factor[i1, d]) + (
                e2 * factor[i2, d] + e3 * factor[i3, d]
            )


@_compiled
def judge_models(mark: int, judge: Judge, models: Models, fresh: bool, dim: int) -> None:
    """The test error of each global model; `fresh` computes the fit from nothing."""
    for j in range(models.w.shape[0]):
        fit = models.fit[j]
        if fresh:
            fit[:] = 0
            follow(fit, judge.factor, models.w[j], dim)
        total = judge.target[0] - judge.target[0]
        for d in range(fit.shape[0]):
            total += (fit[d] - judge.target[d]) ** 2
        judge.mse[mark, j] = judge.scale * total + judge.rest


@_compiled
def simulate(
    data: Data, features: Map, plans: Plans, models: Models, judge: Judge, mark: int, stop: Array
) -> int:
    """Eq. (8)-(11) for the rounds of a chunk, judging w_n at each mark n, the chunk's end too.

    Returns the number of the next mark, or -1 if it was told to stop.
    """
    rounds = data.start.shape[0] - 1
    change = np.zeros_like(models.w)
    fours = CACHE // (4 * models.w.shape[1] * models.w.itemsize)
    z = np.empty((4 * max(fours, 1), models.w.shape[1]), models.w.dtype)
    for n in range(data.first, data.first + rounds + 1):
        if stop[0]:
            return -1
        i = n - data.first
        if mark < judge.marks.shape[0] and judge.marks[mark] == n:
            fresh = not judge.track or mark % REFRESH == 0
            judge_models(mark, judge, models, fresh, plans.dim)
            if judge.history.shape[0] > 0:
                judge.history[mark] = models.w
            mark += 1
        if i == rounds:
            break
        size = data.start[i + 1] - data.start[i]
        if size == 0:
            continue
        change[:] = 0
        for p in range(data.start[i], data.start[i + 1]):
            catch_up(data.members[p], n, data, features, plans, models, z)
            take_part(p, n, data, features, plans, models, change, z)
        # Eq. (11): divided by |S_n| for every entry, however many uploaded it.
        share = change.dtype.type(1) / change.dtype.type(size)
        for j in range(change.shape[0]):
            for d in range(change.shape[1]):
                change[j, d] *= share
                models.w[j, d] += change[j, d]
            if judge.track:
                follow(models.fit[j], judge.factor, change[j], plans.dim)
    for c in range(data.again.shape[0]):
        if data.again[c]:
            catch_up(c, data.first + rounds, data, features, plans, models, z)
    return mark
