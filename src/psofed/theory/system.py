"""One method of the PSO-Fed family as the theory sees it, and its safe steps: eq. (14).

The windows of one world are known for every round, so the theory averages over cohorts and data
and over nothing else.

Eq. (14) bounds the mean of the error only. Two other numbers bound its square:

- below 2 / max|z|^2 no sample enlarges the error of the model that learns it. Exchanging entries
  may still do so (docs/theory.md has a case), so the radius of the mean error decides;
- a step above the mean-square limit lets the expected squared error grow without bound. With L(P) =
  R P + P R and N(P) = E[z z^T (z^T P z)], one step of LMS maps Cov(w) to P - mu L(P) + mu^2 N(P);
  N and the inverse of L keep matrices positive, so the limit is 1 / rho(L^-1 N), rho the
  spectral radius.

With M = D the server averages |S_n| models at once, and N/|S_n| + (1 - 1/|S_n|) R P R takes the
place of N. With M < D a client learns alone between exchanges. Where exchanges replace less than
one entry in twenty for each sample learned, as in the paper, the limit of a client alone decides.
Where they replace more, they may stabilise it, and the range between the two limits is called
doubtful.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any, Literal, NamedTuple

import numpy as np

from psofed.core.schedule import Rotating, Sequential, Stochastic
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation.contract import Array, Method, Task
from psofed.federation.learners import lms
from psofed.federation.stage import around, within
from psofed.methods import onlinefed, psofed
from psofed.stages.attacks.contract import Attacked
from psofed.stages.defences.contract import Defended
from psofed.streams import contract
from psofed.theory.moments import Moments, sample

Verdict = Literal["safe", "doubtful", "unsafe"]
WINDOWS = 1000  # per client, for fourth moments
CLIENTS = 100  # whose limits are computed; of more, evenly spread ones
FILLED = 1e-7  # eigenvalues of R below this share of the largest are directions without data
TINY = 1e-100  # features that are as good as zero
POWER_STEPS = 12  # the ratio settles in three or four
LONELY = 0.05  # entries exchanged per entry and sample, below which a client learns alone
GROWS = 1e-6  # a radius above 1 by less cannot be distinguished from 1
QUICK = 200_000  # features that the check before a run uses


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
        return self.method.delivery == "common"

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
    """The method as a system of recursions, or None if the theory does not cover it.

    Of attacks and defences, `unknown_threat` has the error.
    """
    plain: Any = within(method)
    stages = list(around(method))
    if type(plain) not in (psofed.Method, onlinefed.Method):
        return None
    windows = isinstance(plain.schedule, Rotating | Sequential | Stochastic)
    bare = all(isinstance(stage, Attacked | Defended) for stage in stages)
    learner = plain.learner
    learns = learner is plain.task.learner and learner.lms and learner.in_engine
    if not (windows and bare and learns):
        return None
    return System(plain, clients, plain.task.clients, cohort)


def unknown_threat(experiment: Experiment) -> InputError | None:
    """The error about an attack or a defence, if there is one: the theory covers neither."""
    attack, defence = experiment.attack, experiment.defence
    if attack is not None and attack.share:
        found = f"is {attack.name!r}, but the theory is that of honest clients"
        return InputError("attack.name", found, "leave [attack] out, or simulate: `psofed run`")
    if defence is not None:
        found = f"is {defence.name!r}, but the theory is that of a server without a defence"
        return InputError("defence.name", found, "leave [defence] out, or simulate: `psofed run`")
    return None


@dataclass(frozen=True)
class Bounds:
    """The limits of the step, and what they are computed from."""

    mean: float  # eq. (14)
    sure: float  # 2 / max|z|^2
    alone: float  # smallest mean-square limit of a followed client that learns alone
    averaged: float  # mean-square limit with M = D
    largest: float  # max_k lambda_max(R_k)
    energy: float  # max|z|^2 of the windows seen
    seen: int  # windows
    flat: float  # the smallest eigenvalue of the mean of R_k

    def limit(self, system: System) -> float:
        """The mean-square limit above which a method is unsafe."""
        return self.alone if is_lonely(system) else self.averaged

    def verdict(self, system: System, radius: float | None = None) -> Verdict:
        """Safe, doubtful or unsafe; `radius` is that of the mean error, if it is known."""
        if system.step >= self.limit(system) or (radius is not None and radius > 1 + GROWS):
            return "unsafe"
        return "safe" if system.step <= self.sure else "doubtful"


def is_lonely(system: System) -> bool:
    """Whether clients learn almost alone: exchanges replace few entries per sample learned."""
    share = system.method.shared / system.dim
    touched = share * system.p if system.idle else share
    return not system.whole and touched < LONELY


def bounds(experiment: Experiment, task: Task, moments: Moments) -> Bounds:
    """All limits of one world, from R_k and from sampled windows."""
    most = len(moments.clients)
    rows = np.arange(min(CLIENTS, most)) * most // min(CLIENTS, most)
    x, _, _ = sample(experiment, task, WINDOWS, "bounds", moments.clients[rows])
    energy, limits, pooled = [], [], []
    for each in x:
        z = task.features(each).astype(np.float64)
        energy.append(np.square(z).sum(axis=1))
        limits.append(mean_square_limit(z))
        pooled.append(z[: max(4000 // len(rows), 1)])
    squares = np.concatenate(energy)
    largest = float(moments.largest().max())
    return Bounds(
        mean=2 / largest if largest > 0 else np.inf,
        sure=float(2 / squares.max()) if squares.max() > 0 else np.inf,
        alone=min(limits),
        averaged=mean_square_limit(np.concatenate(pooled), experiment.cohort),
        largest=largest,
        energy=float(squares.max()),
        seen=squares.size,
        flat=float(np.linalg.eigvalsh(moments.R.mean(axis=0))[0]),
    )


def mean_square_limit(z: Array, average: int = 1) -> float:
    """1 / rho(L^-1 N), for the mean of `average` independent steps, over the windows z [n, D].

    The power method in the eigenbasis of R, where L^-1 divides by lambda_i + lambda_j.
    """
    values, vectors = np.linalg.eigh(z.T @ z / len(z))
    filled = values > max(FILLED * values[-1], TINY)
    if not filled.any():
        return np.inf  # no data, no noise
    values, z = values[filled], z @ vectors[:, filled]
    sums = np.add.outer(values, values)
    P, ratio = np.diag(np.ones(len(values))), 0.0
    for _ in range(POWER_STEPS):
        weights = ((z @ P) * z).sum(axis=1) / len(z)
        N = z.T @ (z * weights[:, None]) / average
        N += (1 - 1 / average) * values[:, None] * P * values
        after = N / sums
        # Judged by the trace of R P, the error that P means for the data.
        before, ratio = ratio, float(values @ np.diag(after) / (values @ np.diag(P)))
        P = after / ratio
        if abs(ratio - before) < 1e-4 * ratio:
            break
    return 1 / ratio


class Alarm(NamedTuple):
    """A method whose step is too large, and the limit that it exceeds."""

    title: str
    step: float
    limit: float
    sure: bool = True  # the theory knows the method; of others, only that they learn by LMS


def alarms(experiment: Experiment) -> list[Alarm]:
    """The methods whose steps are unsafe, from a quick look at some windows of the first run.

    The windows of all clients are taken together; the limit of a single client may be lower.
    """
    return [alarm for _, part in experiment.parts() for alarm in _alarms(part)]


def _alarms(experiment: Experiment) -> list[Alarm]:
    """Of methods that share features and a learner."""
    task = experiment.task(0)
    strange = unknown_threat(experiment) is not None
    methods = started(experiment, task)
    found = [system(method, np.arange(1), experiment.cohort) for method in methods]
    titled = list(zip(experiment.titles, found, strict=True))
    known = {title: each for title, each in titled if each is not None and not strange}
    others = {
        title: experiment.step if options.step is None else options.step
        for (title, each), options in zip(titled, experiment.methods, strict=True)
        if title not in known and options.steps and task.learner.lms
    }
    count = min(max(QUICK // task.dim, 10), 600)
    drawn = contract.snapshot(experiment.stream, task.seeds, "alarm", task.clients, count)
    z = task.features(drawn.x.astype(task.dtype)).astype(np.float64)
    largest = np.square(z).sum(axis=1).max()
    if all(step * largest <= 2 for step in (*(s.step for s in known.values()), *others.values())):
        return []  # no alarm is possible
    if count < task.dim:  # in the space that they span, which is smaller
        u, s, _ = np.linalg.svd(z, full_matrices=False)
        z = u * s
    alone, averaged = mean_square_limit(z), mean_square_limit(z, experiment.cohort)
    limits = {title: alone if is_lonely(each) else averaged for title, each in known.items()}
    sure = [Alarm(t, each.step, limits[t]) for t, each in known.items() if each.step >= limits[t]]
    limit = max(alone, averaged)
    return sure + [Alarm(t, step, limit, False) for t, step in others.items() if step >= limit]
