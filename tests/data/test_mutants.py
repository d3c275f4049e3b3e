"""Whatever is wrong with a table or a plan: no traceback, and no row is lost in silence."""

from collections import Counter

import pytest

from helpers import mutants


@pytest.mark.parametrize("part", range(4))
def test_mutated_tables_are_used_or_refused_and_every_row_is_counted(tmp_path, part):
    found = Counter(mutants.table(100 * part + i, tmp_path, learn=i % 10 == 0) for i in range(100))
    assert found["used"]
    assert found["refused"]


def test_mutated_plans_are_used_or_refused(tmp_path):
    found = Counter(mutants.toml(i, tmp_path) for i in range(400))
    assert found["refused"] > 100
