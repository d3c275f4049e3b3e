"""Which steps are safe: eq. (14), the limit of the mean-square error, and the paper's norms.

Eq. (14) bounds the mean of the error only. Two other numbers bound its square:

- a step below 2 / max|z|^2 is safe whatever happens: no sample can enlarge the error of a model;
- a step above the mean-square limit lets the expected squared error grow without end. With L(P) =
  R P + P R and N(P) = E[z z^T (z^T P z)], one step of LMS maps Cov(w) to P - mu L(P) + mu^2 N(P);
  N and the inverse of L keep matrices positive, so the limit is 1 / rho(L^-1 N), rho the
  spectral radius.

With M < D an idle client learns alone for a long time, and its own limit counts. With M = D the
server averages |S_n| models at once, and N/|S_n| + (1 - 1/|S_n|) R P R takes the place of N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.experiment import Experiment
from psofed.methods import psofed
from psofed.methods.contract import Method, Task
from psofed.theory.moments import Moments, sample
from psofed.theory.system import System

Array = NDArray[Any]
Verdict = Literal["safe", "doubtful", "unsafe"]
WINDOWS = 1000  # per client, for fourth moments
CLIENTS = 100  # whose limits are computed; of more, evenly spread ones
FILLED = 1e-7  # eigenvalues of R below this share of the largest are directions without data
POWER_STEPS = 12  # the ratio settles in three or four
QUICK = 200_000  # features that the check before a run looks at


@dataclass(frozen=True)
class Bounds:
    """The limits of the step, and what they are computed from."""

    mean: float  # eq. (14)
    sure: float  # 2 / max|z|^2
    alone: float  # mean-square limit of the client that bears least, learning alone
    averaged: float  # mean-square limit with M = D
    largest: float  # max_k lambda_max(R_k)
    energy: float  # max|z|^2 of the windows seen
    energy_mean: float  # E|z|^2
    seen: int  # windows
    flat: float  # the smallest eigenvalue of the mean of R_k

    def limit(self, whole: bool) -> float:
        """The mean-square limit of a method: with M = D, or with M < D."""
        return self.averaged if whole else self.alone

    def verdict(self, step: float, whole: bool) -> Verdict:
        """Safe: no sample enlarges the error. Unsafe: the mean-square error grows without end."""
        if step >= self.limit(whole):
            return "unsafe"
        return "safe" if step <= self.sure else "doubtful"


def bounds(experiment: Experiment, task: Task, moments: Moments) -> Bounds:
    """All limits of one world, from R_k and from sampled windows."""
    most = len(moments.clients)
    rows = np.arange(min(CLIENTS, most)) * most // min(CLIENTS, most)
    x, _, _ = sample(experiment, task, WINDOWS, "bounds", moments.clients[rows])
    energy, limits, pooled = [], [], []
    for each in x:
        z = task.features(each).astype(np.float64)
        energy.append(np.square(z).sum(axis=1))
        limits.append(_limit(z))
        pooled.append(z[: max(4000 // len(rows), 1)])
    squares = np.concatenate(energy)
    largest = float(moments.largest().max())
    return Bounds(
        mean=2 / largest,
        sure=float(2 / squares.max()),
        alone=min(limits),
        averaged=_limit(np.concatenate(pooled), experiment.cohort),
        largest=largest,
        energy=float(squares.max()),
        energy_mean=float(squares.mean()),
        seen=squares.size,
        flat=float(np.linalg.eigvalsh(moments.R.mean(axis=0))[0]),
    )


def _limit(z: Array, average: int = 1) -> float:
    """1 / rho(L^-1 N), for the mean of `average` independent steps, over the windows z [n, D].

    The power method in the eigenbasis of R, where L^-1 divides by lambda_i + lambda_j.
    """
    values, vectors = np.linalg.eigh(z.T @ z / len(z))
    filled = values > FILLED * values[-1]
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


def alarms(experiment: Experiment) -> list[Alarm]:
    """The methods whose steps are unsafe, from a quick look at some windows of the first run.

    The windows of all clients are taken together, so a single client may bear a little less.
    """
    task = experiment.task(0)
    methods: list[Method] = experiment.start(task)
    count = min(max(QUICK // task.dim, 10), 600)
    drawn = experiment.stream.snapshot(task.seeds, "alarm", task.clients, count)
    z = task.features(drawn.x.astype(task.dtype)).astype(np.float64)
    known = [method.step for method in methods if isinstance(method, psofed.Method)]
    if max(known, default=0.0) <= 2 / np.square(z).sum(axis=1).max():
        return []  # safe whatever happens, and nothing more to compute
    if count < task.dim:  # in the space that they span, which is smaller
        u, s, _ = np.linalg.svd(z, full_matrices=False)
        z = u * s
    limits: dict[int, float] = {}
    found = []
    for options, method in zip(experiment.methods, methods, strict=True):
        if not isinstance(method, psofed.Method):
            continue
        average = experiment.cohort if method.shared == task.dim else 1
        if average not in limits:
            limits[average] = _limit(z, average)
        if method.step >= limits[average]:
            found.append(Alarm(options.title(), method.step, limits[average]))
    return found


class Norm(NamedTuple):
    """One of the paper's norms, as it is."""

    what: str
    infinity: float
    two: float


def norms(system: System, moments: Moments) -> list[Norm]:
    """The norms in the step from eq. (13) to eq. (14), with E[S_k] = (M/D) I as in A4.

    The paper takes all of them as 1, or as smaller, "in any matrix norm".
    """
    K, q, p = system.total, system.method.shared / system.dim, system.p
    A = np.eye(min(K, 2000) + 1) * (1 - p * q)
    A[:, 0] += p * q
    B = np.eye(len(A))
    B[0] = q / (len(A) - 1)
    B[0, 0] = 1 - q
    spectrum = np.linalg.eigvalsh(moments.R)
    # The server's block of R_e is zero, and I minus nothing has norm 1.
    two = max(1.0, float(np.abs(1 - system.step * spectrum).max()))
    H = np.eye(system.dim) - system.step * moments.R
    rows = max(1.0, float(np.abs(H).sum(axis=2).max()))
    return [
        Norm("E[A]", float(np.abs(A).sum(axis=1).max()), float(np.linalg.norm(A, 2))),
        Norm("E[B]", float(np.abs(B).sum(axis=1).max()), float(np.linalg.norm(B, 2))),
        Norm("I - mu R_e", rows, two),
    ]
