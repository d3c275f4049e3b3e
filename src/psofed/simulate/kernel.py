"""The compiled executor of the PSO-Fed family: lazy clients, several methods in lockstep.

This is the only file that imports Numba. All that the kernel calls is in it, because Numba's
disk cache does not see changes in other files. The kernel restates `core` to be fast, and tests
pin it to the originals:

- Features are a polynomial cosine, computed once and used by all methods.
- A client that is not selected touches only its own data, so its idle learning is done when it is
  next selected, in blocks that stay in the first-level cache, four samples at a time.
- The test error goes through a factor of the test moments: it follows each change of the model
  where few entries change in a round, and takes four models at a time where many do.

Arrays over features are padded with zeros to a multiple of `PAD`, so that no loop has a remainder.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.core import event
from numpy.typing import NDArray

from psofed.simulate import pulse
from psofed.simulate.layout import (
    BUMPS,
    FRESH,
    GIVEN,
    PER_CLIENT,
    Data,
    Judge,
    Map,
    Models,
    Plans,
    Scratch,
)

Array = NDArray[Any]

PAD = 8
TAPS = 4  # inputs are padded to a multiple of this
CACHE = 14_000  # bytes of features that are kept at once: they should stay in the first-level cache
HOLD = 4  # models that are judged together
REFRESH = 256  # rounds after which the tracked test error is computed anew, to stop drift

# sin(2 pi s) = s P(s^2) for |s| <= 1/4, highest power first, by Remez' exchange.
# Errors 6.0e-7 (float32) and 9.0e-17 (float64); a test measures them.
SINE = {
    "float32": (-70.993433507852926, 81.340768928948785, -41.337142372774878, 6.2831640443090222),
    "float64": (-0.69093588489952203, 3.8169974288948175, -15.094471616682207, 42.058688305392075,
                -76.705859647469572, 81.605249275026290, -41.341702240395083, 6.2831853071795804),
}  # fmt: skip


class _Teller(event.Listener):
    """Tells when Numba compiles, which it does only if its cache does not hold the code."""

    def on_start(self, event: Any) -> None:
        pulse.begin(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event: Any) -> None:
        pulse.end(event.data["dispatcher"].py_func.__name__)


event.register("numba:compile", _Teller())


def _compiled(function: Any) -> Any:
    """Compile on first use and keep the code on disk; a read-only folder only costs time."""
    # Sums may be reordered and fused, but NaN and infinity keep their meaning.
    fast = {"reassoc", "contract", "nsz", "arcp"}
    options: Any = {"nogil": True, "fastmath": fast, "error_model": "numpy", "forceinline": True}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)


@_compiled
def fill_features(x: Array, features: Map, z: Array) -> None:
    """z = sqrt(2/D) cos(W x + b) for each row of x, through sin(2 pi s); or bumps, or as given."""
    slope, offset = features.slope, features.offset
    sine, constant = features.sine, features.constant
    last = slope.shape[0] - TAPS
    for i in range(x.shape[0]):
        if features.kind == BUMPS:
            fill_bumps(x[i], features, z[i])
            continue
        if features.kind == GIVEN:
            for d in range(z.shape[1]):
                z[i, d] = x[i, d]
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
def learn_one(w: Array, z: Array, i: int, y: Any, step: Array) -> None:
    """Eq. (10) for one sample, row i of z, and each of an even number of methods.

    Where y is not a number, there is no sample.
    """
    if np.isnan(y):
        return
    for j in range(0, w.shape[0], 2):
        p, q = step[0] - step[0], step[0] - step[0]
        for d in range(w.shape[1]):
            p += w[j, d] * z[i, d]
            q += w[j + 1, d] * z[i, d]
        p, q = step[j] * (y - p), step[j + 1] * (y - q)
        for d in range(w.shape[1]):
            w[j, d] += p * z[i, d]
            w[j + 1, d] += q * z[i, d]


@_compiled
def learn_rows(w: Array, z: Array, y: Array, step: Any, error: Array) -> None:
    """Eq. (10) for one sample of each client: rows of w and z belong together."""
    for c in range(w.shape[0]):
        p = step - step
        for d in range(w.shape[1]):
            p += w[c, d] * z[c, d]
        error[c] = y[c] - p
        e = step * error[c]
        for d in range(w.shape[1]):
            w[c, d] += e * z[c, d]


@_compiled
def errors_of_four(p: Any, g: Any, y: Array, i: int, step: Any) -> Any:
    """mu epsilon of samples i..i+3, from w^T z before the first of them and from their z^T z."""
    e0 = step * (y[i] - p[0])
    e1 = step * (y[i + 1] - p[1] - e0 * g[0])
    e2 = step * (y[i + 2] - p[2] - e0 * g[1] - e1 * g[2])
    e3 = step * (y[i + 3] - p[3] - e0 * g[3] - e1 * g[4] - e2 * g[5])
    return e0, e1, e2, e3


@_compiled
def learn_four(w: Array, z: Array, y: Array, i: int, step: Array) -> None:
    """Eq. (10) for samples i..i+3 of each method, in two passes over the weights.

    The error of a sample depends on the earlier ones only through z^T z, which all methods share:
    e_1 = y_1 - w^T z_1 - mu e_0 z_0^T z_1, and so on. Two methods at a time, so that each loaded
    feature serves twice.
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
    g = (g10, g20, g21, g30, g31, g32)
    for j in range(0, w.shape[0], 2):
        p0, p1, p2, p3, q0, q1, q2, q3 = zero, zero, zero, zero, zero, zero, zero, zero
        for d in range(w.shape[1]):
            z0, z1, z2, z3 = z[i, d], z[i + 1, d], z[i + 2, d], z[i + 3, d]
            a, b = w[j, d], w[j + 1, d]
            p0 += a * z0
            p1 += a * z1
            p2 += a * z2
            p3 += a * z3
            q0 += b * z0
            q1 += b * z1
            q2 += b * z2
            q3 += b * z3
        e0, e1, e2, e3 = errors_of_four((p0, p1, p2, p3), g, y, i, step[j])
        f0, f1, f2, f3 = errors_of_four((q0, q1, q2, q3), g, y, i, step[j + 1])
        for d in range(w.shape[1]):
            z0, z1, z2, z3 = z[i, d], z[i + 1, d], z[i + 2, d], z[i + 3, d]
            w[j, d] += e0 * z0 + e1 * z1 + e2 * z2 + e3 * z3
            w[j + 1, d] += f0 * z0 + f1 * z1 + f2 * z2 + f3 * z3


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
                if np.isnan(y[i] + y[i + 1] + y[i + 2] + y[i + 3]):  # not four samples
                    for j in range(i, i + 4):
                        learn_one(w, z, j, y[j], plans.step)
                else:
                    learn_four(w, z, y, i, plans.step)
            for i in range(fours, end - begin):
                learn_one(w, z, i, y[i], plans.step)
    models.position[c] = n


@_compiled
def window_at(plans: Plans, j: int, c: int, p: int, n: int, up: int) -> tuple[int, int]:
    """Where the window of method j starts in the table, and by how much it has been shifted."""
    if plans.rows[j] == FRESH:
        return plans.first[j] + (2 * p + up) * plans.shared[j], 0
    row = c if plans.rows[j] == PER_CLIENT else 0
    return plans.first[j] + row * plans.shared[j], plans.shift[j] * (n + up) % plans.dim


@_compiled
def receive(c: int, p: int, n: int, plans: Plans, models: Models) -> None:
    """Eq. (9): the window of each method's global model overwrites that of the local one."""
    dim = plans.dim
    for j in range(models.w.shape[0]):
        w, w_k = models.w[j], models.local[c, j]
        if plans.shared[j] == dim:  # all of it: no window to look up
            for d in range(w.shape[0]):
                w_k[d] = w[d]
            continue
        at, shift = window_at(plans, j, c, p, n, 0)
        for m in range(plans.shared[j]):
            entry = plans.table[at + m] + shift
            entry -= dim if entry >= dim else 0
            w_k[entry] = w[entry]


@_compiled
def share(c: int, p: int, n: int, plans: Plans, models: Models, pad: Scratch) -> None:
    """One member's part of the sum in eq. (11), and which entries it touches."""
    dim = plans.dim
    for j in range(models.w.shape[0]):
        w, w_k, change = models.w[j], models.local[c, j], pad.change[j]
        if plans.shared[j] == dim:
            for d in range(w.shape[0]):
                change[d] += w_k[d] - w[d]
            continue
        at, shift = window_at(plans, j, c, p, n, 1)
        dense = plans.dense[j]
        for m in range(plans.shared[j]):
            entry = plans.table[at + m] + shift
            entry -= dim if entry >= dim else 0
            change[entry] += w_k[entry] - w[entry]
            # The first to upload this entry in this round notes it.
            if not dense and pad.stamp[j, entry] != n:
                pad.stamp[j, entry] = n
                pad.touched[j, pad.counts[j]] = entry
                pad.counts[j] += 1


@_compiled
def take_part(
    p: int, n: int, data: Data, features: Map, plans: Plans, models: Models, pad: Scratch
) -> None:
    """Round n of one member of the cohort: eq. (9), eq. (10), and its share of eq. (11)."""
    c, i = data.members[p], n - data.first
    receive(c, p, n, plans, models)
    fill_features(data.x[c, i : i + 1], features, pad.z)
    learn_one(models.local[c], pad.z, 0, data.y[c, i], plans.step)
    share(c, p, n, plans, models, pad)
    models.position[c] = n + 1


@_compiled
def follow(fit: Array, judge: Judge, change: Array, entries: Array, count: int) -> None:
    """fit += factor^T change, four of the `count` entries that changed at a time."""
    factor = judge.factor
    for k in range(0, count, 4):
        last = count - 1
        i0, i1 = entries[k], entries[min(k + 1, last)]
        i2, i3 = entries[min(k + 2, last)], entries[min(k + 3, last)]
        zero = change[i0] - change[i0]
        e0 = change[i0]
        e1 = change[i1] if k + 1 < count else zero
        e2 = change[i2] if k + 2 < count else zero
        e3 = change[i3] if k + 3 < count else zero
        end = fit.shape[0]
        if judge.triangular:
            end = min((max(max(i0, i1), max(i2, i3)) // PAD + 1) * PAD, end)
        for d in range(end):
            fit[d] += (e0 * factor[i0, d] + e1 * factor[i1, d]) + (
                e2 * factor[i2, d] + e3 * factor[i3, d]
            )


@_compiled
def fold_in(size: int, plans: Plans, models: Models, judge: Judge, pad: Scratch) -> None:
    """Eq. (11): divided by |S_n| for every entry, no matter how many uploaded it."""
    share = plans.step.dtype.type(1) / plans.step.dtype.type(size)
    for j in range(models.w.shape[0]):
        w, change = models.w[j], pad.change[j]
        for d in range(w.shape[0]):
            change[d] *= share
            w[d] += change[d]
        if not plans.dense[j]:
            follow(models.fit[j], judge, change, pad.touched[j], pad.counts[j])
        for d in range(w.shape[0]):
            change[d] = 0
        pad.counts[j] = 0


@_compiled
def judge_followed(mark: int, plans: Plans, models: Models, judge: Judge, pad: Scratch) -> None:
    """The test error of models whose changes are tracked; computed anew every REFRESH rounds."""
    for j in range(models.w.shape[0]):
        if plans.dense[j]:
            continue
        fit = models.fit[j]
        if mark % REFRESH == 0:
            fit[:] = 0
            follow(fit, judge, models.w[j], pad.every, plans.dim)
        judge.mse[mark, j] = error_of(fit, judge, mark)


@_compiled
def error_of(fit: Array, judge: Judge, mark: int) -> Any:
    """mse = scale |fit - target|^2 + rest, the target moved as far as f has changed."""
    total = judge.target[0] - judge.target[0]
    a = judge.shares[mark]
    for d in range(fit.shape[0]):
        total += (fit[d] - (judge.target[d] + a * judge.shift[d])) ** 2
    return judge.scale * total + judge.rest[mark]


@_compiled
def judge_held(mark: int, count: int, plans: Plans, judge: Judge, pad: Scratch) -> None:
    """The test error of the dense methods at the `count` marks before `mark`, all at once.

    Each row of the factor is read once for all the models that were held.
    """
    fits, factor = pad.fits, judge.factor
    for j in range(plans.dense.shape[0]):
        if not plans.dense[j]:
            continue
        fits[:] = 0
        for i in range(0, factor.shape[0], 2):
            a0, b0 = pad.held[0, j, i], pad.held[0, j, i + 1]
            a1, b1 = pad.held[1, j, i], pad.held[1, j, i + 1]
            a2, b2 = pad.held[2, j, i], pad.held[2, j, i + 1]
            a3, b3 = pad.held[3, j, i], pad.held[3, j, i + 1]
            end = fits.shape[1]
            if judge.triangular:
                end = min((i + 1) // PAD * PAD + PAD, end)
            for d in range(end):
                f, g = factor[i, d], factor[i + 1, d]
                fits[0, d] += a0 * f + b0 * g
                fits[1, d] += a1 * f + b1 * g
                fits[2, d] += a2 * f + b2 * g
                fits[3, d] += a3 * f + b3 * g
        for k in range(count):
            judge.mse[mark - count + k, j] = error_of(fits[k], judge, mark - count + k)


@_compiled
def scratch(plans: Plans, models: Models) -> Scratch:
    """Empty working memory."""
    methods, size = models.w.shape
    fours = CACHE // (4 * size * models.w.itemsize)
    z = np.empty((4 * max(fours, 1), size), models.w.dtype)
    touched = np.empty((methods, plans.dim), np.int64)
    counts = np.zeros(methods, np.int64)
    stamp = np.full((methods, plans.dim), -1)
    held = np.zeros((HOLD, methods, size), models.w.dtype)
    fits = np.zeros((HOLD, models.fit.shape[1]), models.w.dtype)
    every = np.arange(plans.dim)
    return Scratch(z, np.zeros_like(models.w), stamp, touched, counts, every, held, fits)


@_compiled
def simulate(
    data: Data, features: Map, plans: Plans, models: Models, judge: Judge, mark: int, stop: Array
) -> int:
    """Eq. (8)-(11) for the rounds of a chunk, judging w_n at each mark n, the chunk's end too.

    Returns the number of the next mark, or -1 if it was told to stop.
    """
    pad = scratch(plans, models)
    end = data.first + data.start.shape[0] - 1
    held = 0
    for n in range(data.first, end + 1):
        if stop[0]:
            return -1
        if mark < judge.marks.shape[0] and judge.marks[mark] == n:
            judge_followed(mark, plans, models, judge, pad)
            pad.held[held] = models.w
            if judge.history.shape[0] > 0:
                judge.history[mark] = models.w
            mark, held = mark + 1, held + 1
        if held == HOLD or n == end:
            judge_held(mark, held, plans, judge, pad)
            held = 0
        if n == end:
            break
        begin, stop_at = data.start[n - data.first], data.start[n - data.first + 1]
        for p in range(begin, stop_at):
            catch_up(data.members[p], n, data, features, plans, models, pad.z)
            take_part(p, n, data, features, plans, models, pad)
        if stop_at > begin:
            fold_in(stop_at - begin, plans, models, judge, pad)
    for c in range(data.again.shape[0]):
        if data.again[c]:
            catch_up(c, end, data, features, plans, models, pad.z)
    return mark
