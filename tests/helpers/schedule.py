"""Which test runs when, and where, if several workers share them."""

from __future__ import annotations

import pytest
from _pytest.doctest import DoctestModule
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
    """Does not import a file to look for examples that it does not have.

    Nor does every worker pay for scikit-learn and River, whose adapters' examples are run by
    tests/estimators.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path):
        found = yield
        late = file_path.parent == ROOT / "src" / "psofed" / "tables" / "estimators"
        if file_path.suffix == ".py" and (late or ">>>" not in file_path.read_text("utf-8")):
            found = [each for each in found if not isinstance(each, DoctestModule)]
        return found


def is_long(item: pytest.Item) -> bool:
    """Whether others should not have to wait for it at the end."""
    return item.nodeid.startswith(TOGETHER) or item.get_closest_marker("long") is not None
