"""Does the defence silence a station that is unlike the others? Ozone at twelve stations.

python benchmarks/odd_station.py FOLDER

The experiment of docs/tables.md (PSO-Fed, M = 40), learned with and without the defence clip
on the same rounds; then the error of the frozen model and, by station, how often it was in
quarantine and which weight it had on average.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from air_quality import SENSOR

from psofed.curves import to_db
from psofed.experiment import Experiment
from psofed.methods import psofed
from psofed.simulate import any_method, kernel
from psofed.simulate.draws import draw, draw_test
from psofed.stages.defences import clip
from psofed.streams.data import reading
from psofed.streams.data import recipe as recipes
from psofed.streams.data.rounds import Rounds
from psofed.tables import fitting
from psofed.tables.plan import Plan

WIDTH, STEP = 2.739, 0.1  # what `psofed fit` finds on the warm-up


def main() -> None:
    """Two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    plan = Plan(SENSOR, label_delay=24, methods=(psofed.Options(40),), width=WIDTH, step=STEP)
    table = reading.read(given.folder, plan.columns)
    span = fitting.spans(table, plan)
    rounds = Rounds(table, recipes.learn(table, span.first))
    made = plan.experiment(rounds, span, given.folder)
    made = replace(made, methods=made.methods[:1])
    for defence in (None, clip.Options()):
        error, seen = learned(replace(made, defence=defence))
        print(f"{'clip' if defence else 'none'}: test MSE {error:.2f} dB (scaled target)")
        if seen is not None:
            for name, (quarantined, weight) in zip(table.clients, seen, strict=True):
                print(f"  {name:<16} in quarantine {quarantined:6.2%}, mean weight {weight:.2f}")


def learned(experiment: Experiment) -> tuple[float, np.ndarray | None]:
    """The test error at the end, and of each client the share of quarantine and its weight."""
    task = kernel.faster(experiment.task(0))
    draws = draw(experiment, task, everybody=True)
    (method,) = experiment.start(task)
    found = []

    class Watched(clip.Defence):
        def defended(self, state, n, k, changes, entries):
            left = super().defended(state, n, k, changes, entries)
            if n % 50 == 0:
                big = clip.fallen(np.sqrt(state["size"] / state["usual"]) / clip.BIG)
                weight = state["weight"] * big
                found.append(np.stack([self.opinion(state).quarantined, weight], axis=1))
            return left

    if task.defence is not None:
        watched = Watched(task.defence.options, task.defence.setting)
        (method,) = experiment.start(replace(task, defence=watched))
    for moment in any_method.play(method, any_method.RunSamples(draws)):
        last = moment
    judge = draw_test(experiment, task)
    mse = judge.mse(method.models(last.server, last.clients)[None], np.zeros(1))
    return float(to_db(mse)[0]), np.mean(found, axis=0) if found else None


if __name__ == "__main__":
    main()
