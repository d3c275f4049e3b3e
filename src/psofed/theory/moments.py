"""What the theory needs from the data: moments of features and targets, per client.

Second moments R_k, r_k and c_k, and what the noise of the gradients adds to a covariance, which
needs fourth moments and has a closure that needs no sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from psofed.experiment import Experiment
from psofed.federation.contract import Array, Task
from psofed.streams import contract
from psofed.streams.contract import about

WINDOWS = 4000  # sampled per client
MOST_CLIENTS = 500  # that are followed; of more, evenly spread ones
MOST_NUMBERS = 2 * 10**7  # in the matrices R_k that are kept
RANK = 1e-7  # squared singular values of all R_k, relative to the largest, that count as zero
TAIL = 2e-5  # share of the trace of R that the means may leave out


@dataclass(frozen=True, eq=False)
class Moments:
    """R_k = E[z z^T], r_k = E[z f], c_k = E[f^2] and the noise variance v_k of some clients."""

    clients: Array  # [J], ids of the clients that are followed
    R: Array  # [J, D, D]
    r: Array  # [J, D]
    c: Array  # [J]
    v: Array  # [J]
    analytic: bool  # whether R_k is exact; r_k, c_k and v_k are sampled
    windows: int  # samples per client

    def largest(self) -> Array:
        """lambda_max(R_k) of each client."""
        return np.linalg.eigvalsh(self.R)[:, -1]


@dataclass(frozen=True, eq=False)
class Yardstick:
    """The moments of a test set: MSE(w) = c - 2 g^T w + w^T G w."""

    G: Array
    g: Array
    c: float

    def mse(self, mean: Array, covariance: Array | None = None) -> float:
        """E MSE(w) of a model with this mean and covariance A: MSE(mean) + tr(G A)."""
        bias = self.c - 2 * self.g @ mean + mean @ self.G @ mean
        return float(bias if covariance is None else bias + np.vdot(self.G, covariance))


def followed(clients: int, dim: int) -> Array:
    """The clients that are followed: all, or evenly spread ones if there are too many."""
    some = min(clients, MOST_CLIENTS, max(MOST_NUMBERS // dim**2, 1))
    return np.arange(some) * clients // some


def sample(experiment: Experiment, task: Task, windows: int, purpose: str, clients: Array) -> Any:
    """Independent samples of each of `clients`: x [J, windows, L], f(x) and noise [J, windows]."""
    drawn = contract.snapshot(
        experiment.stream, task.seeds, purpose, clients, windows * len(clients)
    )
    x, clean, noise = (
        np.moveaxis(values.reshape(windows, len(clients), -1), 0, 1)
        for values in (drawn.x, drawn.clean, drawn.noise)
    )
    return x, clean[..., 0], noise[..., 0]


def moments(
    experiment: Experiment,
    task: Task,
    windows: int = WINDOWS,
    purpose: str = "moments",
) -> Moments:
    """The moments of the followed clients of one world.

    R_k is exact where the stream knows the law of its inputs. The rest is sampled, with the
    regression on the features as control variate: only what they do not explain is left to chance.
    """
    clients = followed(task.clients, task.dim)
    x, f, noise = sample(experiment, task, windows, purpose, clients)
    R = analytic(experiment, task, clients)
    sampled = R is None
    R = np.empty((len(clients), task.dim, task.dim)) if R is None else R
    r = np.empty((len(clients), task.dim))
    for k in range(len(clients)):
        z = task.features(x[k]).astype(np.float64, copy=False)
        r[k] = z.T @ f[k] / windows
        if sampled:
            R[k] = z.T @ z / windows
    r, c = _controlled(task, x, f, R, r)
    v = np.square(noise).mean(axis=1)
    return Moments(clients, R, r, c, v, not sampled, windows)


def _controlled(task: Task, x: Array, f: Array, R: Array, r: Array) -> tuple[Array, Array]:
    """E[z f] = R w + E[z (f - z^T w)], E[f^2] = E[(f - z^T w)^2] + 2 w^T r - w^T R w, for any w."""
    pooled = R.mean(axis=0)
    ridge = 1e-6 * np.trace(pooled) / task.dim
    w = np.linalg.solve(pooled + ridge * np.eye(task.dim), r.mean(axis=0))
    r, c = R @ w, np.empty(len(R))
    for k in range(len(R)):
        z = task.features(x[k]).astype(np.float64, copy=False)
        rest = f[k] - z @ w
        r[k] += z.T @ rest / len(rest)
        c[k] = np.square(rest).mean() + 2 * w @ r[k] - w @ R[k] @ w
    return r, c


def analytic(experiment: Experiment, task: Task, clients: Array) -> Array | None:
    """R_k in closed form, or None where the inputs or the features have none."""
    law = about(experiment.stream).input_law(task.seeds, clients)
    if law is None or not task.features.exact:
        return None
    means, covariances = law
    R = np.empty((len(clients), task.dim, task.dim))
    for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        R[k] = task.features.correlation(mean, covariance)
    return R


def yardstick(experiment: Experiment, task: Task) -> Yardstick:
    """The moments of the run's own test set, so that theory and simulation use the same one."""
    x, y, _ = experiment.draw_test(task.seeds)
    z = task.features(x).astype(np.float64)
    count = len(z)
    return Yardstick(z.T @ z / count, z.T @ y / count, float(y @ y / count))


# N(P, m) of P [D, D], means m [J, D] and the squares E_k (y - z^T m_k)^2 [J].
GradientNoise = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Closure:
    """N(P, m) = mean_k R_k (tr(R_k P) + E_k (y - z^T m_k)^2), as if zz^T were independent of it.

    It is exact for P = c I if |z|^2 does not vary; beyond that it is an approximation, which was
    found good for cosine features (docs/theory.md).

    Clients whose laws have a few parameters have R_k = sum_q L_kq E_q with a few E_q: then the two
    passes over all R_k are passes over those.
    """

    L: Array  # [J, q]
    E: Array  # [q, D^2]

    def __call__(self, P: Array, m: Array, squares: Array) -> Array:
        weights = self.L @ (self.E @ P.reshape(-1)) + squares
        return (weights @ self.L / len(self.L) @ self.E).reshape(P.shape)


def closure(moments: Moments, kind: Any = np.float32, rank: float = RANK) -> Closure:
    """The closure for these clients; it is the same for every method and step."""
    flat = moments.R.reshape(len(moments.R), -1)
    values, vectors = np.linalg.eigh(flat @ flat.T)
    L = vectors[:, values > rank * values[-1]]
    return Closure(L.astype(kind), (L.T @ flat).astype(kind))


class Correlations:
    """All R_k as U T_k U^T, in the space that the features fill: `m @ it` is as with an array."""

    __array_ufunc__ = None  # NumPy leaves the product to this class

    def __init__(self, R: Array, kind: Any, tail: float) -> None:
        values, vectors = np.linalg.eigh(R.mean(axis=0))
        rank = int(np.count_nonzero(np.cumsum(values) > tail * values.sum()))
        self.U = vectors[:, -rank:].astype(kind)
        self.T = (self.U.T @ R.astype(kind, copy=False)) @ self.U
        self.shape, self.dtype = R.shape, self.U.dtype

    def __rmatmul__(self, m: Array) -> Array:
        """m [J, c, D] times R_k."""
        J, c, D = m.shape
        inside = (m.reshape(J * c, D) @ self.U).reshape(J, c, -1) @ self.T
        return (inside.reshape(J * c, -1) @ self.U.T).reshape(J, c, D)


@dataclass(frozen=True, eq=False)
class Population:
    """What all methods and steps of one world share, in one precision."""

    moments: Moments
    R_k: Correlations
    R: Array  # the mean of R_k
    noise: GradientNoise
    kind: Any


def population(
    moments: Moments, noise: GradientNoise | None = None, kind: Any = np.float32, tail: float = TAIL
) -> Population:
    """The data of a world; in float32 the recursion is twice as fast and exact to 0.001 dB."""
    R = moments.R.mean(axis=0).astype(kind)
    R_k = Correlations(moments.R, kind, tail)
    return Population(moments, R_k, R, noise or closure(moments, kind), kind)
