"""Small systems for the theory, whose answers are known or can be had by brute force."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from psofed.core.schedule import GivenCohorts, Rotating
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment, Features
from psofed.federation.contract import Task
from psofed.methods import onlinefed, psofed
from psofed.simulate.reference import matrix_A, matrix_B
from psofed.streams import iid
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
    return moments.Moments(np.arange(K), R, r, np.ones(K), np.ones(K), True, 1, np.zeros((2, D)))


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
    clients=4, cohort=2, rounds=100, world=0, stream=iid.Options(), features=Features(dim=8),
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
        return np.mean([self.of(k, P, m[k]) for k in range(len(self.z))], axis=0)

    def of(self, k, P, m):
        """E_k[zz^T (z^T P z + (y - z^T m)^2)]."""
        z = self.z[k]
        weights = ((z @ P) * z).sum(axis=1) + np.square(self.f[k] - z @ m) + self.v[k]
        return z.T @ (z * weights[:, None]) / len(z)

    @property
    def R(self):
        return np.swapaxes(self.z, 1, 2) @ self.z / self.z.shape[1]

    @property
    def r(self):
        return np.einsum("knd,kn->kd", self.z, self.f) / self.z.shape[1]


def dense(system, data, rounds):
    """Mean and covariance of all models as one vector, by eq. (10) and every cohort there is."""
    K, D, mu = system.total, system.dim, system.step
    R, b = data.R, mu * np.concatenate([np.zeros(D), data.r.ravel()])
    cohorts = list(combinations(range(K), system.cohort))
    mean, square = np.zeros((K + 1) * D), np.zeros(((K + 1) * D,) * 2)
    for n in range(rounds + 1):
        yield mean, square - np.outer(mean, mean)
        S, S1 = ([np.diag(d) for d in np.broadcast_to(system.masks(i), (K, D))] for i in (n, n + 1))
        ends = []
        for cohort in cohorts:
            a = np.isin(np.arange(K), cohort).astype(float)
            A, B, H, c = matrix_A(S, a), matrix_B(S1, a), np.eye((K + 1) * D), b.copy()
            m, M = A @ mean, A @ square @ A.T
            learners = [k for k in range(K) if system.idle or a[k]]
            for k in range(K):
                here = slice((k + 1) * D, (k + 2) * D)
                if k in learners:
                    H[here, here] -= mu * R[k]
                else:
                    c[here] = 0
            after = H @ m + c
            both = np.outer(H @ m, c)
            learned = H @ M @ H.T + both + both.T + np.outer(c, c)
            for k in learners:
                here = slice((k + 1) * D, (k + 2) * D)
                P = M[here, here] - np.outer(m[here], m[here])
                step = np.outer(m[here], data.r[k]) - M[here, here] @ R[k]
                own = mu * (step + step.T) + mu**2 * data.of(k, P, m[here])
                learned[here, here] = M[here, here] + own
            ends.append((B @ after, B @ learned @ B.T))
        mean, square = (np.mean(each, axis=0) for each in zip(*ends, strict=True))
        if (poison := system.poison(n)) is not None:
            square[range(D), range(D)] += poison


def drawn(world, windows, equal=False):
    """Windows of the clients of a world, and what the reduced recursion makes of them.

    `equal`: all clients have those of the first.
    """
    K = world.task.clients
    who = np.zeros(1, int) if equal else np.arange(K)
    x, f, noise = moments.sample(world.experiment, world.task, windows, "drawn", who)
    z, times = world.task.features(x), K // len(who)
    z, f, noise = (np.repeat(each, times, axis=0) for each in (z, f, noise))
    data = Sampled(z, f, np.square(noise).mean(axis=1))
    c, none = np.square(f).mean(axis=1), np.zeros((2, world.task.dim))
    found = moments.Moments(np.arange(K), data.R, data.r, c, data.v, False, windows, none)
    return data, moments.population(found, data, np.float64, 1e-14)
