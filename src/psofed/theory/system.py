"""One method of the PSO-Fed family as the theory sees it: step, cohort, and the windows of a world.

The windows of one world are known for every round, so the theory averages over cohorts and data
and over nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import Rotating, Sequential, Stochastic
from psofed.experiment import Experiment
from psofed.learners import lms
from psofed.methods import psofed
from psofed.methods.contract import Method, Task

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class System:
    """The constants of the recursions. The clients of its arrays are those that are followed."""

    method: psofed.Method
    clients: Array  # ids of those that are followed
    total: int  # K
    cohort: int  # |S_n|

    @property
    def step(self) -> float:
        """mu."""
        return self.method.step

    @property
    def idle(self) -> bool:
        """Whether clients that are not selected learn."""
        return self.method.idle

    @property
    def p(self) -> float:
        """P(k in S_n)."""
        return self.cohort / self.total

    @property
    def p2(self) -> float:
        """P(k and l in S_n) of two clients."""
        return self.p * (self.cohort - 1) / max(self.total - 1, 1)

    @property
    def dim(self) -> int:
        """D."""
        return self.method.task.dim

    @property
    def whole(self) -> bool:
        """M = D: what idle clients learn is overwritten, and only the server's model counts."""
        return self.method.shared == self.dim

    @property
    def coordinated(self) -> bool:
        """Whether all clients share the same entries."""
        return self.method.common

    @property
    def period(self) -> int | None:
        """Rounds after which the windows repeat; None if they never do."""
        schedule: Any = self.method.schedule
        if self.whole:
            return 1
        if isinstance(schedule, Stochastic):
            return None
        return self.dim // gcd(schedule.shift, self.dim)

    def turned(self, n: int) -> int | None:
        """By how many entries the windows of round n are those of round 0, turned; None: fresh."""
        schedule: Any = self.method.schedule
        if self.whole:
            return 0
        return None if isinstance(schedule, Stochastic) else schedule.shift * n % self.dim

    def masks(self, n: int) -> Array:
        """The diagonals of S_{k,n}: one row per followed client, or a single row for all."""
        turn = self.turned(n)
        if turn is not None:
            return np.roll(self._first, turn, axis=1)
        schedule: Any = self.method.schedule
        return self._diagonals(schedule.draw(self._ids, n))

    def poison(self, n: int) -> Array | None:
        """What malicious members add to the variances of w_{n+1} [D]; None if there are none.

        The sum of the noise in their uploads, over |S_n|: E over cohorts of the sum over k in S_n
        of S1_k p_a sigma^2 / |S_n|^2, which is (p_a sigma^2 / (|S_n| K)) sum_k S1_k.
        """
        attack = self.method.task.attack
        if attack is None:
            return None
        variance = attack.options.added_variance
        assert variance is not None  # `coverage` refuses all others
        count = len(self._insiders.clients)
        windows = self._insiders.masks(n + 1)
        found: Array = windows.mean(axis=0) * (variance * count / (self.cohort * self.total))
        return found

    @cached_property
    def _insiders(self) -> System:
        """The same with the malicious clients of this world as those that are followed."""
        attack = self.method.task.attack
        assert attack is not None
        return replace(self, clients=attack.insiders.ids)

    @cached_property
    def _first(self) -> Array:
        """S_{k,0}."""
        return np.ones((1, self.dim)) if self.whole else self._diagonals(self._initial())

    @property
    def _ids(self) -> Array:
        return self.clients[:1] if self.coordinated else self.clients

    def _diagonals(self, entries: Array) -> Array:
        d = np.zeros((len(self._ids), self.dim))
        np.put_along_axis(d, entries, 1.0, axis=1)
        return d

    def _initial(self) -> Array:
        """The entries of S_{k,0}."""
        schedule, ids = self.method.schedule, self._ids
        if isinstance(schedule, Sequential):
            return np.atleast_2d(schedule.initial(ids))
        assert isinstance(schedule, Rotating)
        return schedule.masks if len(schedule.masks) == 1 else schedule.masks[ids]


def started(experiment: Experiment, task: Task) -> list[Method]:
    """The methods as the theory sees them: LMS on z, and it does not matter what z is made of."""
    if task.learner.has_theory:
        task = replace(task, learner=lms.Options())
    return experiment.start(task)


def system(method: Method, clients: Array, cohort: int) -> System | None:
    """The method as a system of recursions, or None if the theory does not cover it."""
    if not (method.compiled and method.task.learner.compiled) or method.averages:
        return None
    assert isinstance(method, psofed.Method)
    return System(method, clients, method.task.clients, cohort)
