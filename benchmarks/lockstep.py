"""What every method of a comparison costs: CPU per run and round, and what all cost together.

    python benchmarks/lockstep.py [--rounds 400] [--runs 16] [--repeats 2] [--fit 0.2]

The methods of `psofed compare` in the paper's setting at its budget (`--fit`), as it computes them:
a batch of runs on one thread, evaluated as often. They are in three groups, as it has them:
compiled, several runs at once, and one run after the other. Samples, features and test errors serve
several methods, so they have lines of their own. What is done once in a run is taken out: each time
is that of the rounds between a short batch and a long one, the least of some repeats, because other
work on the machine can only make a time longer. In MEMO-Fed the first contact of each client is the
dear one, so it has a run of 2,000 rounds of its own.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any
from unittest.mock import patch

from threadpoolctl import threadpool_limits

from psofed.compare import budget
from psofed.experiment import Experiment
from psofed.simulate import any_method, family, kernel, onerun

RUNS, ROUNDS, CORES = 100, 5000, 2  # what the minutes are told for
MARKS, FIRST = 1000, 20  # marks of a whole run; runs before the first one also compute levels
SHORT, LONG = 40, 2000  # rounds of the short batch, and of MEMO-Fed's run
SAMPLES, TESTS, COMPILED = "(samples, features)", "(test errors, traffic)", "(compiled: {} methods)"


class Clock:
    """CPU seconds by name; what is timed inside something else is not counted twice."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
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

    def watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose time is noted."""
        return lambda *args: self(name, call, *args)

    def steps(self, names: Iterator[str], play: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        """A generator function; the time of each of its iterators is noted under the next name."""

        def timed(*args: Any) -> Iterator[Any]:
            name, steps, end = next(names), play(*args), object()
            return iter(lambda: self(name, next, steps, end), end)

        return timed


def comparison(share: float) -> Experiment:
    """What `psofed compare` computes, before its steps are tuned."""
    experiment = Experiment(rounds=ROUNDS, runs=RUNS)
    fitted = [budget.fit(experiment, o, share) for o in budget.everything(experiment.dim)]
    methods = tuple(each.options for each in fitted if each.options is not None)
    return replace(experiment, methods=methods, evaluate_every=ROUNDS // MARKS)


def groups(experiment: Experiment) -> list[list[str]]:
    """The titles of the methods that are compiled, take several runs at once, and neither."""
    methods = experiment.start(kernel.faster(experiment.task(FIRST)))
    return [[experiment.titles[j] for j in group] for group in onerun._groups(experiment, methods)]


def whole(experiment: Experiment, runs: int) -> float:
    """CPU seconds of a batch, with nothing in it timed."""
    begin = time.process_time()
    onerun.some_runs(experiment, range(FIRST, FIRST + runs))
    return time.process_time() - begin


def parts(experiment: Experiment, runs: int) -> dict[str, float]:
    """CPU seconds of a batch by name, everything in it timed."""
    clock = Clock()
    compiled, stacked, others = groups(experiment)
    with ExitStack() as stack:

        def change(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(owner, name, value))

        samples = any_method.RunSamples
        for name in ("__init__", "move_to", "of", "past"):
            change(samples, name, clock.watched(SAMPLES, getattr(samples, name)))
        change(onerun.Recorder, "see", clock.watched(TESTS, onerun.Recorder.see))
        change(family, "run", clock.watched(COMPILED.format(len(compiled)), family.run))
        change(any_method, "play", clock.steps(cycle([*others * runs, *stacked]), any_method.play))
        clock("(the rest)", onerun.some_runs, experiment, range(FIRST, FIRST + runs))
    return clock.seconds


@dataclass(frozen=True)
class Found:
    """CPU seconds of one run and round: by name, and of all methods with nothing timed."""

    each: dict[str, float]
    total: float
    once: float  # seconds of a run besides its rounds
    experiment: Experiment

    @property
    def minutes(self) -> float:
        """By the clock, for the comparison on all cores."""
        return (self.total * ROUNDS + self.once) * RUNS / CORES / 60


def measured(experiment: Experiment, rounds: int, runs: int, repeats: int) -> Found:
    """All methods, MEMO-Fed apart."""
    memo = tuple(o for o in experiment.methods if o.name == "memofed")
    rest = tuple(o for o in experiment.methods if o.name != "memofed")
    short, long = (replace(experiment, methods=rest, rounds=n) for n in (SHORT, SHORT + rounds))
    alone = replace(experiment, methods=memo, rounds=LONG)
    with threadpool_limits(1):
        whole(replace(short, rounds=20), 2)  # fills caches
        timed = [(parts(short, runs), parts(long, runs)) for _ in range(repeats)]
        totals = [(whole(short, runs), whole(long, runs)) for _ in range(repeats)]
        contacts = min(parts(alone, 1)[alone.titles[0]] for _ in range(repeats)) / LONG
    before, after = (min(pair[i] for pair in totals) / runs for i in (0, 1))
    each = {
        name: (min(b[name] for _, b in timed) - min(a[name] for a, _ in timed)) / runs / rounds
        for name in timed[0][1]
    } | {alone.titles[0]: contacts}
    a_round = (after - before) / rounds
    return Found(each, a_round + contacts, before - SHORT * a_round, experiment)


def measure(quick: bool) -> dict[str, float]:
    """Milliseconds of a round, minutes of the whole comparison."""
    found = measured(comparison(0.2), 160 if quick else 400, 16, 1 if quick else 3)
    return {
        "methods": len(found.experiment.methods),
        "round_ms": 1e3 * found.total,
        "minutes": found.minutes,
    }


def show(found: Found) -> None:
    """The table, the dearest of each group first."""
    each, known = found.each, groups(found.experiment)
    shared = [name for name in each if name.startswith("(")]
    for title, names in zip(("several runs at once", "one by one"), known[1:], strict=True):
        print(f"\n{title}:")
        for name in sorted(names, key=lambda name: -each[name]):
            print(f"{1e3 * each[name]:8.4f} ms  {name}")
    print("\nall methods together:")
    for name in sorted(shared, key=lambda name: -each[name]):
        print(f"{1e3 * each[name]:8.4f} ms  {name}")
    print(f"\n{1e3 * sum(each.values()):8.4f} ms a round: the sum of all lines")
    count = len(found.experiment.methods)
    print(f"{1e3 * found.total:8.4f} ms a round: {count} methods, in which nothing is timed")
    job = f"for {RUNS} runs of {ROUNDS} rounds on {CORES} cores"
    print(f"{found.minutes:8.1f} minutes {job}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--fit", type=float, default=0.2)
    asked = parser.parse_args()
    show(measured(comparison(asked.fit), asked.rounds, asked.runs, asked.repeats))


if __name__ == "__main__":
    main()
