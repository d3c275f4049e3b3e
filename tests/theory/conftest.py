"""What the tests of the theory share."""

import pytest

from helpers.systems import WORLD, equal_clients
from psofed.theory import prediction


@pytest.fixture(scope="session")
def small():
    return prediction.world(WORLD)


@pytest.fixture(scope="session")
def predicted(small):
    """The exact curves of the small world; nobody changes them."""
    return prediction.predict(small)


@pytest.fixture(scope="session")
def equal(small):
    """Four clients with the very same windows."""
    return equal_clients(small)
