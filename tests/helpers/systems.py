"""Small systems for the theory, whose answers are known or can be had by brute force."""

from dataclasses import dataclass

import numpy as np

from psofed.core.schedule import GivenCohorts, Rotating
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment, Features
from psofed.federation.contract import Task
from psofed.methods import onlinefed, psofed
from psofed.streams import paper
from psofed.theory import moments
from psofed.theory.exact import fourth
from psofed.theory.system import System


def line(x):
    """A linear f of three inputs."""
    return 0.5 * x[..., 0] - 0.3 * x[..., 1] + 0.2 * x[..., 2]


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


def equal_clients(small):
    """Four clients with the very same windows: these, their exact moments, and their population."""
    x, f, noise = moments.sample(small.experiment, small.task, 3000, "equal", np.arange(1))
    z = np.repeat(small.task.features(x), 4, axis=0)
    f, v = np.repeat(f, 4, axis=0), np.full(4, np.square(noise).mean())
    exact = fourth(z, f, v)
    c = np.square(f).mean(axis=1)
    data = moments.Moments(np.arange(4), exact.R, exact.r, c, v, False, 3000, np.zeros((2, 8)))
    return z[0], exact, moments.population(data, Sampled(z, f, v), np.float64, 1e-14)
