"""Which test runs when, and where, if several workers share them."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

from helpers import ROOT

# Each file or folder has a fixture that takes seconds to make, which one worker makes once.
TOGETHER = (
    "tests/compare/test_search.py",
    "tests/docs/test_site.py",
    "tests/estimators/",
    "tests/tables/test_fit.py",
    "tests/tables/test_served.py",
    "tests/report/",
    "tests/test_wheel.py",
)


class Dealer(LoadScopeScheduling):
    """Deals the tests in their order. (pytest 9 and xdist 3.8 lose the groups of `loadgroup`.)"""

    def __init__(self, config, log):
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)


class Examples:
    """Does not import a source file to look for examples that it does not have.

    Every worker would pay for matplotlib, and for scikit-learn and River, whose adapters'
    examples are run by tests/estimators.
    """

    def pytest_ignore_collect(self, collection_path):
        if collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT / "src"):
            return None
        late = collection_path.parent.name == "estimators"
        return True if late or ">>>" not in collection_path.read_text(encoding="utf-8") else None


def is_long(item: pytest.Item) -> bool:
    """Whether others should not have to wait for it at the end."""
    return item.nodeid.startswith(TOGETHER) or item.get_closest_marker("long") is not None
