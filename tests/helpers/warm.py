"""Compile the kernel once, before the tests: python tests/helpers/warm.py float32

Numba keeps what it compiles on disk, but processes that start together all compile the same.
"""

import sys

from psofed.experiment import Experiment, Features
from psofed.methods import fedavg, onlinefed, psofed
from psofed.simulate import montecarlo


def warm(dtype: str) -> None:
    """A run that needs all of the kernel, in this precision."""
    methods = (onlinefed.Options(), psofed.Options(shared=2), fedavg.Options())
    for name in ("cosine", "gaussian"):
        tiny = Experiment(clients=3, cohort=2, rounds=4, runs=1, test_samples=20, dtype=dtype,
                          features=Features(name, dim=8), methods=methods)  # fmt: skip
        montecarlo.run(tiny, 1)


if __name__ == "__main__":
    warm(sys.argv[1])
