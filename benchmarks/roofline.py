"""The least CPU time one run of the job can take on one core of this machine, part by part.

`python benchmarks/roofline.py` measures four peaks and divides the job's operation counts by them.
Moving data, indices and everything in Python are taken to be free.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from job import FIRST, Inputs, Windows, inputs, paper
from peers import ckernel
from threadpoolctl import threadpool_limits

from psofed.core.seeds import Seeds

REPEATS = 15


@dataclass(frozen=True)
class Peaks:
    """Per second and core."""

    multiply_adds: float
    cosines: float  # with the phase W x + b
    sgemm: float  # multiply-adds in NumPy's matrix product
    normals: float


def best(work: Callable[[], Any]) -> float:
    """The least CPU seconds of several tries."""
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def measure(dim: int, taps: int, idle: int) -> Peaks:
    """The peaks of this machine."""
    scale = float(np.sqrt(2 / dim))
    library = ckernel.compiled("peaks.c", D=dim, TAPS=taps, J=idle, SCALE=scale)
    a, b = np.ones((2000, dim), np.float32), np.ones((dim, dim), np.float32)
    clients = np.arange(100)
    return Peaks(
        multiply_adds=12 * 8 * 100_000 / best(lambda: library.multiply_adds(100_000)),
        cosines=4 * dim * 5000 / best(lambda: library.cosines(5000)),
        sgemm=a.size * dim / best(lambda: a @ b),
        normals=100_000 / best(lambda: Seeds(0).normals("peak", clients, 1000)),
    )


def counts(job: Inputs) -> dict[str, float]:
    """What the job cannot do without."""
    clients, rounds, taps = job.x.shape
    dim, tests, cohort = len(job.b), len(job.y_test), job.cohorts.shape[1]
    last = np.full(clients, -1)
    last[job.cohorts.ravel()] = np.repeat(np.arange(rounds), cohort)  # the latest write stays
    samples = int((last + 1).sum())  # what clients saw until they were last selected
    learners = sum(m.idle for m in job.methods) * samples
    learners += sum(not m.idle for m in job.methods) * job.cohorts.size
    return {
        "normals": 2 * samples + (taps - 1) * clients + (taps + 1) * tests + taps * dim,
        "targets": 2 * (samples + tests),  # a sine and an exponential each, taken as cosines
        "features": dim * (samples + tests),
        "LMS": 2 * dim * learners,
        "test moments": tests * dim * (dim + 1) / 2,
        "test error": rounds * sum(per_round(m, cohort, dim) for m in job.methods),
    }


def per_round(method: Windows, cohort: int, dim: int) -> float:
    """Multiply-adds for the test error of the next model, from the last or afresh.

    With R w - r at hand, changed entries cost one row of R each; afresh, w^T R w needs half of R.
    """
    uploads = 1 if len(method.start) == 1 else cohort
    changed = dim * (1 - (1 - method.shared / dim) ** uploads)  # two members may overlap
    return min(dim * changed, dim * (dim + 1) / 2)


def parts(job: Inputs, peaks: Peaks) -> dict[str, float]:
    """CPU seconds of each part at the machine's peaks."""
    rates = {
        "normals": peaks.normals,
        "targets": peaks.cosines,
        "features": peaks.cosines,
        "LMS": peaks.multiply_adds,
        "test moments": peaks.sgemm,
        "test error": peaks.multiply_adds,
    }
    return {name: count / rates[name] for name, count in counts(job).items()}


def show(job: Inputs, peaks: Peaks) -> None:
    """Print the peaks and the parts."""
    print("Peaks of one core:")
    print(f"  float32 multiply-adds {peaks.multiply_adds / 1e9:8.1f} G/s")
    print(f"  cosines with phase    {peaks.cosines / 1e9:8.2f} G/s")
    print(f"  NumPy SGEMM           {peaks.sgemm / 1e9:8.1f} G multiply-adds/s")
    print(f"  Philox normals        {peaks.normals / 1e9:8.3f} G/s")
    print("Least CPU time of one run:")
    seconds, operations = parts(job, peaks), counts(job)
    for name, value in seconds.items():
        print(f"  {name:13s} {operations[name] / 1e6:8.2f} M operations {value * 1e3:8.2f} ms")
    print(f"  {'sum':13s} {sum(seconds.values()) * 1e3:32.2f} ms")


def of_job(job: Inputs) -> Peaks:
    """The peaks for the job's shape."""
    idle = sum(method.idle for method in job.methods)
    return measure(len(job.b), job.x.shape[2], idle)


def main() -> None:
    """Print this machine's roofline."""
    if not ckernel.available():
        raise SystemExit("gcc is not installed")
    with threadpool_limits(1):
        job = inputs(paper("float32"), FIRST)
        show(job, of_job(job))


if __name__ == "__main__":
    main()
