"""Methods that differ only in their step and in averaging: one computation for all of them.

Steps stand on the axis of the runs, and the average of a method's models is judged beside the last
of them. Each gets the numbers that it has alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from psofed.experiment import Experiment
from psofed.methods import contract
from psofed.methods.contract import Array, Method, Options, Task

LOCKSTEP = 24  # families that share their samples; the models of more would leave the caches


@dataclass(frozen=True, eq=False)
class Family:
    """A method without its step, the steps, and whose they are."""

    options: Options
    steps: tuple[float, ...]
    members: dict[int, tuple[int, bool]]  # place in the experiment: which step, averaged or not

    @property
    def first(self) -> int:
        """The first of them that is judged by its average, if any is."""
        averaged = [j for j, (_, average) in self.members.items() if average]
        return (averaged or list(self.members))[0]

    def start(self, task: Task, runs: int) -> Method:
        """The method for all runs, each with every step, the steps of a run side by side."""
        averaged = any(average for _, average in self.members.values())
        options = replace(self.options, average=averaged)
        if len(self.steps) == 1:
            return contract.start(replace(options, step=self.steps[0]), task)
        return contract.start(options, replace(task, step=np.tile(self.steps, runs)))

    def judged(self, method: Any) -> list[tuple[bool, Callable[[Any, Any], Array]]]:
        """What is judged, from the states: the average of the models, the last of them, or both."""
        kinds = {average for _, average in self.members.values()}
        if kinds == {True, False}:
            return [(True, method.models), (False, lambda server, _: method.unaveraged(server))]
        return [(average, method.models) for average in kinds]


def families(experiment: Experiment, places: list[int]) -> list[Family]:
    """The methods at these places, together where only the step and averaging differ."""
    found: dict[Options, list[int]] = {}
    for j in places:
        options = experiment.methods[j]
        found.setdefault(replace(options, step=None, average=False, label=""), []).append(j)
    return [_family(experiment, options, some) for options, some in found.items()]


def averaged(experiment: Experiment, places: list[int]) -> Iterator[Family]:
    """The methods at these places, together where only averaging differs."""
    for each in families(experiment, places):
        for i, step in enumerate(each.steps):
            mine = {j: (0, average) for j, (s, average) in each.members.items() if s == i}
            yield Family(each.options, (step,), mine)


def _family(experiment: Experiment, options: Options, places: list[int]) -> Family:
    methods = experiment.methods
    used = [methods[j].step for j in places]
    mine = [experiment.step if step is None else step for step in used]
    steps = tuple(dict.fromkeys(mine))
    members = {j: (steps.index(mu), methods[j].average) for j, mu in zip(places, mine, strict=True)}
    return Family(options, steps, members)
