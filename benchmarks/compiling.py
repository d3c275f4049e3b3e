"""Time to compile each kernel in units of a fixed piece of Python: the constants of psofed/pace.py.

    python benchmarks/compiling.py [--repeats 3]

Each repeat is a new process with an empty cache; the median counts. Other work on the machine makes
both times longer, so their ratio is what is kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from statistics import median

CHILD = """
import time
from psofed.experiment import Experiment
from psofed.methods import fedavg, psofed
from psofed.simulate import montecarlo, pulse

times, loops = {}, [pulse.loop()]
begin, end = pulse.begin, pulse.end

def began(name):
    begin(name)
    if pulse.compiling()[0] == name:
        times[name] = -time.perf_counter()

def ended(name):
    if pulse.compiling()[0] == name:
        times[name] += time.perf_counter()
    end(name)

pulse.begin, pulse.end = began, ended
for options in (psofed.Options(shared=2), fedavg.Options()):
    montecarlo.run(Experiment(clients=3, cohort=2, rounds=4, runs=1, methods=(options,)), 1)
loops.append(pulse.loop())
print(sum(loops) / 2, *(f"{name}={seconds}" for name, seconds in times.items()))
"""


def measure() -> tuple[float, dict[str, float]]:
    """The machine's measure and the seconds of each outermost kernel."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", CHILD]
        out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    loop, *rest = out.stdout.split()
    pairs = (each.split("=") for each in rest)
    return float(loop), {name: float(seconds) for name, seconds in pairs}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    found = [measure() for _ in range(parser.parse_args().repeats)]
    for loop, times in found:
        print(f"loop {loop:.3f} s;", *(f"{n} {s:.1f} s" for n, s in times.items()), file=sys.stderr)
    ratios = {n: median(times[n] / loop for loop, times in found) for n in found[0][1]}
    print(f"KERNELS = { ({name: round(ratio) for name, ratio in ratios.items()}) }")


if __name__ == "__main__":
    main()
