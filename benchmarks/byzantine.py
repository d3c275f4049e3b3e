"""Theory and simulation of PSO-Fed with malicious clients that add noise: p_a, sigma, M, the step.

python benchmarks/byzantine.py [--runs 200] [--jobs 2]

The experiment is in byzantine.toml. Steady MSE is the mean over the last fifth of the rounds.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import psofed
from psofed.experiment import Experiment
from psofed.methods import psofed as partial
from psofed.theory import prediction

ATTACKS = ((0.0, 0.5), (0.1, 0.5), (0.25, 0.5), (1.0, 0.5), (0.25, 1.0))  # p_a, sigma
STEPS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8)


def line(x: np.ndarray) -> np.ndarray:
    """f of byzantine.toml."""
    return x @ np.array([0.4, -0.3, 0.2, 0.5, -0.1], x.dtype)


def both(experiment: Experiment, jobs: int) -> list[tuple[str, float, float, float]]:
    """Of each method: title, steady MSE of theory and simulation in dB, the simulation's error."""
    curves = psofed.run(experiment, jobs=jobs)
    predicted = prediction.curves(experiment, jobs=jobs)
    late = curves.rounds >= 0.8 * experiment.rounds
    found = []
    for j, p in enumerate(predicted):
        ends = 10 * np.log10(p.mse[late].mean()), 10 * np.log10(curves.mse[j][late].mean())
        found.append((p.title, *ends, curves.point(j, "steady").stderr))
    return found


def show(name: str, found: list[tuple[str, float, float, float]]) -> None:
    """One line for each method."""
    for title, theory, simulated, error in found:
        gap = theory - simulated
        line = f"{name:22}{title:28}{theory:8.2f}{simulated:8.2f}{gap:+7.2f}{error:6.2f}"
        print(line, flush=True)


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    base = replace(psofed.read(Path(__file__).with_suffix(".toml")), runs=asked.runs)
    attack = base.attack
    assert attack is not None
    print(f"{'':22}{'steady MSE, dB':28}{'theory':>8}{'runs':>8}{'gap':>7}{'error':>6}")
    for chance, sigma in ATTACKS:
        attacked = replace(base, attack=replace(attack, chance=chance, sigma=sigma))
        show(f"p_a {chance:g}, sigma {sigma:g}", both(attacked, asked.jobs))
    methods = tuple(  # M = 1, and all entries
        partial.Options(shared=shared, scheme="coordinated", step=step)
        for shared in (1, base.dim)
        for step in STEPS
    )
    show("the step", both(replace(base, rounds=800, methods=methods), asked.jobs))


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
