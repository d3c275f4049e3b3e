"""What chance gives to a small federation, for transcriptions of papers that share nothing else."""

from typing import Any, NamedTuple

import numpy as np

from psofed.cli.laws.drivers import prepare, samples, simulate, small
from psofed.experiment import Features

K, D, N = 6, 12, 45


class Drawn(NamedTuple):
    """Features z [K, N, D] and targets y [K, N] of all samples, the cohorts S_n, mu, the method."""

    z: Any
    y: Any
    cohorts: list[list[int]]
    step: float
    method: Any  # for masks, delays and graphs that were drawn


def drawn(options, cohort=3):
    """The draws of a federation with one method, and the models that the simulator has for it."""
    features = Features(dim=D, width=1.5)
    experiment = small(options, clients=K, cohort=cohort, rounds=N, features=features)
    method, draws = prepare(experiment)
    x, y = samples(draws)
    cohorts = [method.task.cohorts.cohort(n).tolist() for n in range(N)]
    return Drawn(draws.features(x), y, cohorts, method.step, method), simulate(experiment)


def agree(transcribed, simulated):
    """Equal at 1e-12, and neither of them nothing."""
    assert simulated.shape == transcribed.shape
    assert np.abs(transcribed[-1]).max() > 1e-3
    assert np.abs(simulated - transcribed).max() <= 1e-12
