"""How far runs are and what is compiled, as told by the runs themselves."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import pytest

from psofed.experiment import Experiment
from psofed.methods import fedavg, psofed
from psofed.pace import KERNELS
from psofed.simulate import montecarlo, pools, pulse

SMALL = Experiment(clients=4, cohort=2, rounds=70, runs=3, test_samples=20)


@pytest.mark.parametrize("rounds", [1, 31, 32, 33, 70])
def test_the_parts_of_a_run_add_up_to_one(rounds):
    methods = (psofed.Options(shared=2), fedavg.Options())
    before = pulse.worked()
    montecarlo.run(Experiment(clients=4, cohort=2, rounds=rounds, runs=2, test_samples=20,
                              methods=methods), 1)  # fmt: skip
    assert pulse.worked() - before == pytest.approx(2)


def test_processes_tell_how_far_they_are():
    experiment = Experiment(clients=4, cohort=2, rounds=40, runs=2, methods=(fedavg.Options(),))
    before, seen = pulse.worked(), []
    montecarlo.run(
        experiment, pool=pools.fresh_processes(2), on_run=lambda total: seen.append(pulse.worked())
    )
    assert seen[-1] - before == pytest.approx(2)
    assert pulse.worked() - before == pytest.approx(2)


def test_what_a_worker_compiles_is_known_outside():
    shared = pulse.counters(multiprocessing.get_context("spawn"))
    try:
        assert pulse.compiling() == ()
        shared[1 + list(KERNELS).index("learn_rows")] += 1
        assert pulse.compiling() == ("learn_rows",)
    finally:
        pulse.leave()
    assert pulse.compiling() == ()


def test_numba_says_when_it_compiles_and_only_then(tmp_path):
    """A small kernel: the first process compiles it, the second finds it on disk."""
    code = (
        "import numpy as np\n"
        "from psofed.simulate import kernel, pulse\n"
        "seen, begin = [], pulse.begin\n"
        "pulse.begin = lambda name: (begin(name), seen.append(pulse.compiling()[0]))\n"
        "a = np.zeros((1, 8))\n"
        "kernel.learn_rows(a, a, a[:, 0].copy(), 0.1, a[:, 0].copy())\n"
        "print(seen, pulse.compiling())\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    told = [
        subprocess.run([sys.executable, "-c", code], env=environment, text=True, check=True,
                       capture_output=True).stdout.strip()
        for _ in range(2)
    ]  # fmt: skip
    assert told == ["['learn_rows'] ()", "[] ()"]
