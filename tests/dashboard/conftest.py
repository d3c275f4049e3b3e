"""What the tests of the dashboard share."""

import pytest

from helpers.stage import Stage


@pytest.fixture
def stage(tmp_path):
    made = []

    def make(name="server", **options):
        made.append(Stage(tmp_path / name, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
