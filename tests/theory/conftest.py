"""What the tests of the theory share."""

import numpy as np
import pytest

from helpers.systems import WORLD, equal_population
from psofed.theory import moments, prediction


@pytest.fixture(scope="session")
def small():
    return prediction.world(WORLD)


@pytest.fixture(scope="session")
def predicted(small):
    """The curves of the small world, in double precision; nobody changes them."""
    data = moments.population(small.moments, kind=np.float64)
    return [prediction.one(small, t, s, data) for t, s in prediction.systems(small).items()]


@pytest.fixture(scope="session")
def equal(small):
    """The windows of four equal clients, and their population."""
    x, f, noise = moments.sample(small.experiment, small.task, 3000, "equal", np.arange(1))
    z = small.task.features(x)[0]
    return z, equal_population(z, f[0], np.square(noise).mean())
