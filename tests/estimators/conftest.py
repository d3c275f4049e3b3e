"""What the tests of the estimators share.

Importing scikit-learn and River takes seconds, which only the process that runs these tests has to spend.
"""

from importlib import import_module

import pytest


@pytest.fixture(scope="session")
def estimators():
    for name in ("sklearn", "river"):
        pytest.importorskip(name)
    return import_module("psofed.tables.estimators")
