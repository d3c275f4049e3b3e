"""The compiled functions by their equations: the engine, features and LMS of many clients."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import native
from psofed.simulate import layout
from psofed.simulate.layout import Job, Map

Array = NDArray[Any]

# sin(2 pi s) = s P(s^2) for |s| <= 1/4, highest power first, by Remez' exchange.
# Errors 6.0e-7 (float32) and 9.0e-17 (float64); a test measures them.
SINE = {
    "float32": (-70.993433507852926, 81.340768928948785, -41.337142372774878, 6.2831640443090222),
    "float64": (-0.69093588489952203, 3.8169974288948175, -15.094471616682207, 42.058688305392075,
                -76.705859647469572, 81.605249275026290, -41.341702240395083, 6.2831853071795804),
}  # fmt: skip


def simulate(job: Job, mark: int, stop: Array) -> int:
    """Eq. (8)-(11) for the rounds of a chunk, judging w_n at each mark n, the chunk's end too.

    Returns the number of the next mark, or -1 if it was told to stop.
    """
    done = native.function("simulate", job.models.w.dtype)(native.struct(job), mark, stop)
    return int(done)


def fill_features(x: Array, features: Map, z: Array) -> None:
    """z = sqrt(2/D) cos(W x + b) for each row of x, padded as the map is; or bumps, or as given."""
    native.function("features", z.dtype)(native.struct(features), x, len(x), z)


def learn_rows(w: Array, z: Array, y: Array, step: Any, epsilon: float = 0.0) -> Array:
    """Eq. (10) for one sample of each client: rows of w and z belong together. Returns the errors.

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
    width = -(-(dim + further) // layout.COLUMNS) * layout.COLUMNS
    panels, out = np.empty((width, layout.SAMPLES)), native.aligned((width, width), np.float64)
    native.function("moments", z.dtype)(z, count, dim, more, further, panels, width, out)
    return out[: dim + further, : dim + further]
