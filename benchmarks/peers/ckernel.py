"""The ceiling: `kernel.c`, compiled at run time for this machine and this shape, float32."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from job import Array, Inputs, Windows

# No -ffast-math: the kernel adds up in vectors by itself, and rounds by adding a large number.
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
POINTER = ctypes.c_void_p
FIELDS = (
    ("K", ctypes.c_int), ("N", ctypes.c_int), ("cohort", ctypes.c_int),
    *((name, POINTER) for name in ("x", "y", "slope", "offset", "members", "step")),
    *((name, POINTER) for name in ("shared", "shift", "common", "sparse", "start", "R", "r")),
    ("power", ctypes.c_double), ("mse", POINTER),
)  # fmt: skip


class Job(ctypes.Structure):
    """The struct of the same name in kernel.c."""

    _fields_ = FIELDS


def available() -> bool:
    """Whether there is a compiler."""
    return shutil.which("gcc") is not None


def compiled(source: str, **shape: float) -> ctypes.CDLL:
    """A C file of this folder as a library."""
    file = Path(__file__).with_name(source)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kernel.so"
        defines = [f"-D{name}={value}" for name, value in shape.items()]
        command = ["gcc", *FLAGS, "-shared", "-fPIC", *defines, str(file), "-o", str(library)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))


@lru_cache(maxsize=4)
def kernel(dim: int, taps: int, idle: int) -> ctypes.CDLL:
    """The kernel for one shape."""
    return compiled("kernel.c", D=dim, TAPS=taps, J=idle, SCALE=float(np.sqrt(2 / dim)))


def run(inputs: Inputs) -> Array:
    """The test error of each method before every round and after the last."""
    (clients, rounds, taps), dim = inputs.x.shape, len(inputs.b)
    order = sorted(range(len(inputs.methods)), key=lambda j: not inputs.methods[j].idle)
    *idle, online = (inputs.methods[j] for j in order)
    fits = dim % 8 == 0 and len(idle) < 8 and not online.idle and all(m.idle for m in idle)
    assert fits, "written for the paper's job"
    library = kernel(dim, taps, len(idle))
    slope, offset = aligned(inputs.W.T / (2 * np.pi)), aligned(inputs.b / (2 * np.pi))
    R, r = moments(library, inputs, slope, offset)
    mse = np.empty((len(order), rounds + 1))
    arrays = {
        "x": np.ascontiguousarray(inputs.x), "y": np.ascontiguousarray(inputs.y),
        "slope": slope, "offset": offset, "members": inputs.cohorts.astype(np.int32),
        "R": R, "r": r, "mse": mse, **tables(idle, online, inputs.cohorts.shape[1], dim),
    }  # fmt: skip
    starts = [method.start.astype(np.int32) for method in idle]
    arrays["start"] = np.array([start.ctypes.data for start in starts], np.uintp)
    job = Job(K=clients, N=rounds, cohort=inputs.cohorts.shape[1])
    job.power = float(np.mean(np.square(inputs.y_test, dtype=np.float64)))
    for name, array in arrays.items():
        setattr(job, name, array.ctypes.data)
    if library.simulate(ctypes.byref(job)):
        raise MemoryError
    return mse[np.argsort(order)]


def tables(idle: list[Windows], online: Windows, cohort: int, dim: int) -> dict[str, Array]:
    """The methods' options, one array each."""
    common = [len(method.start) == 1 for method in idle]
    changed = [m.shared * (1 if c else cohort) for m, c in zip(idle, common, strict=True)]
    steps = [method.step for method in (*idle, online)]
    columns: dict[str, Any] = {
        "shared": [method.shared for method in idle],
        "shift": [method.shift for method in idle],
        "common": common,
        # Rows of R are added up where that is less than the half of R that one product needs.
        "sparse": [2 * count <= dim for count in changed],
    }
    table = {name: np.array(values, np.int32) for name, values in columns.items()}
    return table | {"step": np.array(steps + [0.0] * (8 - len(steps)), np.float32)}


def moments(library: ctypes.CDLL, inputs: Inputs, slope: Array, offset: Array) -> tuple[Any, Any]:
    """R = mean of z z^T and r = mean of z y over the test set."""
    count = len(inputs.y_test)
    x, z = np.ascontiguousarray(inputs.x_test), aligned(np.empty((count, len(offset)), np.float32))
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in (x, slope, offset, z))
    library.features(ctypes.c_int(count), *pointers)
    R, r = z.T @ z / np.float32(count), z.T @ inputs.y_test / np.float32(count)
    return aligned(R), aligned(r)


def aligned(array: Array) -> Array:
    """A float32 copy that begins on a cache line, as vector loads want it."""
    memory = np.empty(array.size + 16, np.float32)
    begin = -(memory.ctypes.data // 4) % 16
    copy: Array = memory[begin : begin + array.size].reshape(array.shape)
    copy[...] = array
    return copy
