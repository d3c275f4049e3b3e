"""Small systems for the theory, whose answers are known or can be had by brute force."""

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from psofed.core.schedule import GivenCohorts, Rotating
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment, Features
from psofed.federation.contract import Task
from psofed.methods import onlinefed, psofed
from psofed.simulate.reference import matrix_A, matrix_B
from psofed.streams import paper
from psofed.theory import moments
from psofed.theory.system import System


def given_system(masks, shift, dim, clients, cohort, step, idle=True):
    """PSO-Fed with windows as given: one row for all clients, or one for each."""
    masks = np.atleast_2d(masks)
    task = Task(clients, dim, dim, step, Seeds(0), None, GivenCohorts(()))
    scheme = "coordinated" if len(masks) == 1 else "uncoordinated"
    options = psofed.Options(
        shared=masks.shape[1], scheme=scheme, shift=shift, idle=idle, allow_uneven=True
    )
    method = psofed.Method(options, task, Rotating(masks, shift, dim))
    return System(method, np.arange(clients), clients, cohort)


def given_moments(R, r=None):
    K, D = R.shape[:2]
    r = np.zeros((K, D)) if r is None else r
    return moments.Moments(np.arange(K), R, r, np.ones(K), np.ones(K), True, 1)


def linear_case(seed=3):
    """K = 4, D = 6: Gaussian regressors, each client with its own R_k and its own w_k."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(4, 6, 6)) / 4 + 0.5 * np.eye(6)
    R, truth = L @ np.swapaxes(L, 1, 2), rng.normal(size=(4, 6))

    def sample(rng, count):
        z = np.einsum("kij,ckj->cki", L, rng.normal(size=(count, 4, 6)))
        return z, np.vecdot(z, truth) + 0.1 * rng.normal(size=(count, 4))

    return R, (R @ truth[:, :, None])[:, :, 0], sample


WORLD = Experiment(
    clients=4, cohort=2, rounds=100, world=0, stream=paper.Options(inputs="iid"), features=Features(dim=8),
    dtype="float64", test_samples=400, runs=300,
    methods=(
        onlinefed.Options(),
        psofed.Options(shared=1, scheme="coordinated"),
        psofed.Options(shared=3, scheme="coordinated"),
        psofed.Options(shared=3),
        psofed.Options(shared=5),
        psofed.Options(shared=3, idle=False),
        psofed.Options(shared=3, selection="stochastic", label="fresh"),
        psofed.Options(shared=2, mask="block", label="blocks"),
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sampled:
    """N(P, m) over windows z [J, n, D] with targets f [J, n] and noise variances v [J]."""

    z: np.ndarray
    f: np.ndarray
    v: np.ndarray

    def __call__(self, P, m, squares):
        flat = self.z.reshape(-1, self.z.shape[-1])
        error = self.f - (self.z @ m[:, :, None])[:, :, 0]
        weights = ((flat @ P) * flat).sum(axis=1)
        weights += (np.square(error) + self.v[:, None]).reshape(-1)
        return flat.T @ (flat * weights[:, None]) / len(flat)


def equal_population(z, f, v=0.0, clients=4):
    """Clients with the very same windows z [n, D], targets f [n] and noise variance v."""
    z, f = np.tile(z, (clients, 1, 1)), np.tile(f, (clients, 1))
    R, r = np.swapaxes(z, 1, 2) @ z / len(z[0]), (f[:, None] @ z)[:, 0] / len(z[0])
    c, v = np.square(f).mean(axis=1), np.full(clients, v)
    data = moments.Moments(np.arange(clients), R, r, c, v, False, len(z[0]))
    return moments.population(data, Sampled(z, f, v), np.float64, 1e-14)


def enumerated(system, z, y, rounds, follows=None):
    """Mean and covariance of w before each round, over all cohorts and all that can be drawn.

    Client k draws one of the windows z [K, n, D], with its y [K, n], others in every round, or the
    next ones of a chain: `follows` [n, n], in which all are equally frequent. The models and a 1
    are one vector, so that a round is a matrix, and Q its mean square where these come last.
    """
    (K, D), count = (system.total, system.dim), z.shape[1]
    follows = np.full((count, count), 1 / count) if follows is None else follows
    last = list(product(range(count), repeat=K))
    chances = np.array([[np.prod(follows[i, j]) for j in last] for i in map(list, last)])
    Q = np.zeros((len(last), *(D * (K + 1) + 1,) * 2))
    Q[:, -1, -1] = 1 / len(last)
    for n in range(rounds + 1):
        total = Q.sum(axis=0)
        mean = total[:D, -1]
        yield mean, total[:D, :D] - np.outer(mean, mean)
        S, S1 = ([np.diag(d) for d in np.broadcast_to(system.masks(i), (K, D))] for i in (n, n + 1))
        Q, cohorts = np.tensordot(chances.T, Q, 1), list(combinations(range(K), system.cohort))
        outcomes = np.zeros((len(cohorts), *Q.shape))
        for cohort, outcome in zip(cohorts, outcomes, strict=True):
            a = np.isin(np.arange(K), cohort).astype(float)
            A, B = matrix_A(S, a), matrix_B(S1, a)
            for T, drawn in zip(outcome, last, strict=True):
                Z, targets = np.zeros((len(A), K)), np.zeros(K)
                for k in range(K):
                    if system.idle or a[k]:
                        Z[D * (k + 1) : D * (k + 2), k] = z[k, drawn[k]]
                        targets[k] = y[k, drawn[k]]
                T[:-1, :-1] = B @ (np.eye(len(A)) - system.step * Z @ Z.T) @ A
                T[:-1, -1], T[-1, -1] = system.step * B @ Z @ targets, 1
        Q = (outcomes @ Q @ np.swapaxes(outcomes, 2, 3)).mean(axis=0)
