"""What `psofed reproduce` costs around its runs: CPU seconds of the whole command and of its parts.

    python benchmarks/commands.py [--quick]

The command is run with two numbers of runs, again and again in turn with the C peer of engine.py.
The best time of each counts, because other work on the machine can only make a time longer. What a
run more costs is the slope; what is left is the rest: the start, the figures' levels (of runs 2 to
11), the files, the figures and the page.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from engine import cpu
from job import FIRST, inputs, paper
from peers import ckernel
from threadpoolctl import threadpool_limits

RUNS, ROUNDS, FEW = 200, 1000, 12  # FEW: more than the runs that compute levels
TARGET, START = 1.5, 1.0  # at most: the command over the C peer; CPU seconds to the first run
# The command itself, but it ends with its first run and says what that took.
TO_FIRST_RUN = """
import os, sys, time
from psofed.simulate.finished import Accumulator

def first(self, run):
    print(time.process_time(), flush=True)
    os._exit(0)

Accumulator.add = first
from psofed.cli.main import main

main(sys.argv[1:])
"""


def reproduce(runs: int, folder: str) -> list[str]:
    """The arguments of the command."""
    out = Path(tempfile.mkdtemp(dir=folder)) / "result"
    return ["reproduce", f"--runs={runs}", f"--rounds={ROUNDS}", f"--out={out}"]


def environment() -> dict[str, str]:
    """That of this process, but modules are compiled once, as on a user's machine."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def command(runs: int, folder: str) -> float:
    """CPU seconds of the whole command, all its threads and processes."""
    before = os.times()
    words = [sys.executable, "-m", "psofed", *reproduce(runs, folder)]
    subprocess.run(words, env=environment(), check=True, capture_output=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def start(folder: str) -> float:
    """CPU seconds from the start of the process to its first finished run."""
    words = [sys.executable, "-c", TO_FIRST_RUN, *reproduce(1, folder)]
    one = environment() | {"PSOFED_JOBS": "1"}
    done = subprocess.run(words, env=one, check=True, capture_output=True, text=True)
    return float(done.stdout)


def peer() -> float:
    """CPU seconds of a run of the C peer, draws included; not a number without a compiler."""
    if not ckernel.available():
        return float("nan")
    experiment = paper("float32")
    assert experiment.rounds == ROUNDS
    with threadpool_limits(1):
        return min(cpu(lambda: ckernel.run(inputs(experiment, FIRST))) for _ in range(10))


def measure(quick: bool) -> dict[str, float]:
    """CPU seconds of each part, and the whole over the C peer's time for as many runs."""
    many, repeats = (60, 2) if quick else (RUNS, 4)
    with tempfile.TemporaryDirectory() as folder:
        work = {
            "few": lambda: command(FEW, folder),
            "many": lambda: command(many, folder),
            "start": lambda: start(folder),
            "peer": peer,
        }
        work["few"](), peer()  # compile, once
        rounds = [{name: each() for name, each in work.items()} for _ in range(repeats)]
    best = {name: min(each[name] for each in rounds) for name in work}
    run = (best["many"] - best["few"]) / (many - FEW)
    rest = best["few"] - FEW * run
    return {
        "run": run,
        "rest": rest,
        "whole": rest + RUNS * run,
        "start": best["start"],
        "peer_run": best["peer"],
        "run_over_c": run / best["peer"],
        "whole_over_c": (rest + RUNS * run) / (RUNS * best["peer"]),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer runs, less exact")
    found = measure(parser.parse_args().quick)
    print(f"psofed reproduce --runs {RUNS} --rounds {ROUNDS}, CPU seconds:")
    print(f"  {RUNS} runs   {RUNS * found['run']:6.2f}   ({1e3 * found['run']:.1f} ms each,")
    print(f"             {found['run_over_c']:13.2f} x the C peer's {1e3 * found['peer_run']:.1f})")
    print(f"  the rest   {found['rest']:6.2f}")
    met = "met" if found["whole_over_c"] <= TARGET else "missed"
    ratio = f"{found['whole_over_c']:.2f} x the C peer, target <= {TARGET} x {met}"
    print(f"  the whole  {found['whole']:6.2f}   {ratio}")
    met = "met" if found["start"] <= START else "missed"
    print(f"  to the first run {found['start']:.2f}, target <= {START:g} {met}")


if __name__ == "__main__":
    main()
