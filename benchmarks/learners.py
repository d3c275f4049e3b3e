"""Learners on the paper's stream at equal bytes.

python benchmarks/learners.py --rounds 5000 --runs 5

Each learner and method has its own step, the best of a pilot on another seed.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from psofed.compare.search import SEED as PILOT_SEED
from psofed.experiment import Experiment
from psofed.federation.learners import linear, lms, nlms
from psofed.methods import onlinefed, psofed
from psofed.simulate import montecarlo

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import network_learner as network

LEARNERS = (
    lms.Options(), nlms.Options(), network.Options(33), network.Options(100), linear.Options(),
)  # fmt: skip
STEPS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.55, 0.75, 1.0, 1.4, 2.0, 2.8)
PILOT = {"rounds": 1500, "runs": 2, "evaluate_every": 50}


def tuned(experiment: Experiment) -> tuple[Any, ...]:
    """The methods, each with the step that ended lowest on another seed."""
    found = []
    rounds = min(PILOT["rounds"], experiment.rounds)
    for options in experiment.methods:
        trials = tuple(replace(options, step=mu, label=f"{mu}") for mu in STEPS)
        pilot = replace(experiment, seed=PILOT_SEED, methods=trials, **PILOT | {"rounds": rounds})
        ends = montecarlo.run(pilot).mse[:, -5:].mean(axis=1)
        found.append(replace(options, step=STEPS[int(np.nanargmin(ends))]))
    return tuple(found)


def rows(learner: Any, rounds: int, runs: int) -> list[list[str]]:
    """The table's rows of one learner."""
    experiment = Experiment(
        rounds=rounds, runs=runs, learner=learner, methods=(onlinefed.Options(),),
        evaluate_every=max(rounds // 100, 1),
    )  # fmt: skip
    shares = [m for m in (5, 40) if m < experiment.dim]
    methods = (onlinefed.Options(), *(psofed.Options(shared=m) for m in shares))
    experiment = replace(experiment, methods=methods)
    experiment = replace(experiment, methods=tuned(experiment))
    curves = montecarlo.run(experiment)
    made = []
    for j, options in enumerate(experiment.methods):
        end, sent = curves.point(j, "steady"), curves.cumulative[j, -1] / rounds
        made.append([
            learner.describe(), str(experiment.dim), options.title(), f"{options.step:g}",
            f"{sent:,.0f}", f"{end.value:.2f} ± {end.stderr:.2f}",
        ])  # fmt: skip
    return made


def main() -> None:
    """The table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    print(
        "| learner | D | method | step | bytes a round | dB at the end |\n|---|---|---|---|---|---|"
    )
    for learner in LEARNERS:
        for row in rows(learner, given.rounds, given.runs):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
