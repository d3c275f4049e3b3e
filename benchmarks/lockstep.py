"""What every method of a comparison costs: CPU per round, and what all of them cost together.

    python benchmarks/lockstep.py [--rounds 200] [--repeats 5] [--fit 0.2]

One Monte-Carlo run of the paper's setting on one thread, all methods in lockstep on the same draws,
evaluated as often as `psofed compare` does. `--fit` first turns each method's knob to that share of
Online-Fed's traffic, as a comparison does. Features, samples and test errors serve several methods
at once: they have lines of their own. Each is the least of several runs of the same rounds, because
other work on the machine can only make a time longer.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.compare import budget
from psofed.experiment import Experiment
from psofed.simulate import any_method, family, onerun
from psofed.simulate.draws import draw
from psofed.simulate.evaluate import draw_test

RUNS, ROUNDS, CORES = 100, 5000, 2
MARKS = 1000  # of a run of so many rounds


class Clock:
    """CPU seconds by name; what is timed inside something else is not counted twice."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.inside = 0.0

    def __call__(self, name: str, call: Callable[..., Any], *args: Any) -> Any:
        outer, self.inside = self.inside, 0.0
        begin = time.process_time()
        try:
            return call(*args)
        finally:
            spent = time.process_time() - begin
            self.seconds[name] += spent - self.inside
            self.inside = outer + spent


def watched(clock: Clock, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose time is noted."""
    return lambda *args: clock(name, call, *args)


def watched_steps(clock: Clock, name: str, steps: Iterator[Any]) -> Iterator[Any]:
    """An iterator whose time is noted."""
    end = object()
    while (item := clock(name, next, steps, end)) is not end:
        yield item


def whole(experiment: Experiment) -> float:
    """CPU seconds of one run, with nothing in it timed."""
    begin = time.process_time()
    onerun.one_run(experiment, 0)
    return time.process_time() - begin


def measure(experiment: Experiment) -> Clock:
    """One run, everything in it timed."""
    clock = Clock()
    task = any_method.faster(experiment.task(0))
    methods = experiment.start(task)
    titles = {id(m): o.title() for m, o in zip(methods, experiment.methods, strict=True)}
    compiled: list[Any] = [m for m in methods if m.compiled]
    others = [m for m in methods if not m.compiled]
    draws = draw(experiment, task, everybody=True)
    test, marks, stop = draw_test(experiment, task), experiment.evaluated, np.zeros(1, np.int64)
    clock("(compiled: all of them)", family.run, draws, compiled, marks, test)
    play, chunks = any_method.play, type(draws).chunks

    def timed_play(draws: Any, method: Any, samples: Any) -> Iterator[Any]:
        return watched_steps(clock, titles[id(method)], play(draws, method, samples))

    object.__setattr__(draws, "chunks", lambda: watched_steps(clock, "(samples)", chunks(draws)))
    object.__setattr__(draws, "features", watched(clock, "(features)", draws.features))
    any_method.play = timed_play
    try:
        rest = draws, others, marks, test, np.zeros(len(marks)), stop, 1.0
        clock("(evaluation and the rest)", onerun._in_lockstep, *rest)
    finally:
        any_method.play = play
    return clock


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--fit", type=float)
    asked = parser.parse_args()
    experiment = Experiment(rounds=ROUNDS, runs=1)
    methods: Any = budget.everything(experiment.features.dim)
    if asked.fit:
        methods = [budget.fit(experiment, options, asked.fit).options for options in methods]
    methods = tuple(options for options in methods if options is not None)
    experiment = replace(experiment, methods=methods, evaluate_every=ROUNDS // MARKS)
    with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
        measure(replace(experiment, rounds=20))  # compiles, fills caches
        short = replace(experiment, rounds=asked.rounds)
        clocks = [measure(short) for _ in range(asked.repeats)]
        # What is done once in a run shall not count for each of so few rounds.
        once = min(whole(replace(experiment, rounds=20)) for _ in range(asked.repeats))
        all_of_it = min(
            whole(replace(short, rounds=asked.rounds + 20)) for _ in range(asked.repeats)
        )
    least = {name: min(clock.seconds[name] for clock in clocks) for name in clocks[0].seconds}
    for name, seconds in Counter(least).most_common():
        print(f"{1e3 * seconds / asked.rounds:8.4f} ms  {name}")
    total = (all_of_it - once) / asked.rounds
    print(f"{1e3 * sum(least.values()) / asked.rounds:8.4f} ms a round: the sum")
    print(f"{1e3 * total:8.4f} ms a round: a run in which nothing is timed")
    print(f"{1e3 * total / len(methods):8.4f} ms a method and round")
    minutes = (total * (ROUNDS - 20) + once) * RUNS / CORES / 60
    print(f"{minutes:8.1f} minutes for {RUNS} runs of {ROUNDS} rounds on {CORES} cores")


if __name__ == "__main__":
    main()
