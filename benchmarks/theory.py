"""How good and how dear the theory is at the paper's scale: theory minus Monte Carlo, in dB.

    python benchmarks/theory.py [--rounds 5000] [--runs 200] [--world 0] [--jobs 2]
    python benchmarks/theory.py --time [--rounds 5000] [--jobs 2]
    python benchmarks/theory.py --small STEP [--rounds 400] [--runs 2000] [--world 0]

K = 100, D = 200, |S_n| = 4, mu = 0.75; Online-Fed and PSO-Fed with M = 1, 5, 40, both schemes;
first on independent windows, for which the theory is made, then on the paper's AR(1) windows, for
which it is not. Prints the deviation of each curve, the time of the predictions and peak memory.

With --small: five clients and D = 8 at this step, on AR(1) windows, by the recursion that is given
the state of the inputs and by the one that takes windows as independent.

With --time: what `psofed study theory` of the paper's setting takes, the curves alone and with
100 simulated runs.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.experiment import Experiment, Features
from psofed.methods import onlinefed, psofed
from psofed.report.files import Grid
from psofed.simulate import montecarlo
from psofed.streams import paper
from psofed.theory import prediction, study


def main() -> None:
    """Both streams, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--world", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--small", type=float)
    wanted = parser.parse_args()
    if wanted.time:
        time_commands(wanted.rounds, wanted.jobs)
        return
    if wanted.small:
        small(wanted.small, wanted.rounds, wanted.runs, wanted.world)
        return
    for stream in (paper.Options(inputs="iid"), paper.Options()):
        experiment = Experiment(rounds=wanted.rounds, runs=wanted.runs, stream=stream)
        compare(prediction.fix_world(experiment, wanted.world), wanted.jobs)


def measure(quick: bool) -> dict[str, float]:
    """Seconds by the clock of the seven curves of the paper's setting, with two processes."""
    experiment = prediction.fix_world(Experiment(rounds=500 if quick else 5000, runs=1), 0)
    return {"seconds": predicted(experiment, 2)[1]}


def predicted(experiment: Experiment, jobs: int) -> tuple[Any, float]:
    """The theory's curves, and the seconds that they took."""
    with threadpool_limits(1):
        begin = perf_counter()
        found = prediction.predict(prediction.world(experiment), jobs)
        return found, perf_counter() - begin


def time_commands(rounds: int, jobs: int) -> None:
    """Wall and CPU seconds and peak memory of the two commands, each in a new process."""
    rows = [["", "s", "CPU s", "MB in a process"]]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "paper.toml")
        file.write_text(f"rounds = {rounds}\n")
        for i, more in enumerate(([], ["--runs", "100"])):
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
            command = [
                "study",
                "theory",
                str(file),
                *more,
                "--out",
                f"{folder}/{i}",
            ]
            words, env = [sys.executable, "-m", "psofed", *command], {"PSOFED_JOBS": str(jobs)}
            subprocess.run(words, env=os.environ | env, check=True, stdout=subprocess.DEVNULL)
            after, took = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter() - begin
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            name = " ".join(["psofed study theory", *more])
            rows.append([name, f"{took:.0f}", f"{used:.0f}", f"{after.ru_maxrss / 1e3:.0f}"])
    print(Grid(rows))


def small(step: float, rounds: int, runs: int, number: int) -> None:
    """Both recursions against the same simulation of five clients, two of which take part."""
    methods = (
        onlinefed.Options(),
        psofed.Options(shared=1, scheme="coordinated"),
        psofed.Options(shared=4),
    )
    experiment = Experiment(
        clients=5, cohort=2, rounds=rounds, runs=runs, world=number, step=step, methods=methods,
        features=Features(dim=8), test_samples=4000,
    )  # fmt: skip
    curves = montecarlo.run(experiment)
    with threadpool_limits(1):
        world, begin = prediction.world(experiment), process_time()
        known = prediction.systems(world).items()
        found = [prediction.one(world, *each) for each in known]
        took = process_time() - begin
        independent = [prediction.one(world, *each, world.population) for each in known]
    print(f"K = 5, D = 8, |S_n| = 2, mu = {step:g}, world {number}, {runs} runs of {rounds} rounds")
    for how, predictions in (("given inputs", found), ("independence", independent)):
        print(f"\n{how}\n{deviations(predictions, curves)}")
    print(f"\n{len(found)} curves given the inputs' state: {took:.0f} CPU s")


def deviations(predictions: Any, curves: Any) -> Grid:
    """Theory minus simulation in dB."""
    gaps = study.deviations(predictions, curves.titles, curves.mse_db, curves.rounds)
    rows = [
        ["theory - simulation, dB", "largest, n >= 50", "at n", "rms", "last fifth", "MC error"]
    ]
    for title, gap in gaps.items():
        error = np.median(curves.stderr_db[curves.titles.index(title)][50:])
        numbers = (f"{gap['largest_db']:+.2f}", str(gap["at"]), f"{gap['rms_db']:.3f}")
        rows.append([title, *numbers, f"{gap['late_db']:+.3f}", f"{error:.3f}"])
    return Grid(rows)


def compare(experiment: Experiment, jobs: int) -> None:
    """The deviations on one stream."""
    predictions, took = predicted(experiment, jobs)
    curves = montecarlo.run(replace(experiment, dtype="float32"))
    print(f"\nstream {experiment.stream.name!r}, world {experiment.world}, {curves.runs} runs")
    print(deviations(predictions, curves))
    parts = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    mine, child = (resource.getrusage(who).ru_maxrss / 1e3 for who in parts)
    count, rounds = len(predictions), experiment.rounds
    print(f"{count} curves of {rounds} rounds in {took:.0f} s on {jobs} processes;")
    print(f"peak memory {mine:.0f} MB here (simulation included), {child:.0f} MB in a process")


if __name__ == "__main__":
    main()
