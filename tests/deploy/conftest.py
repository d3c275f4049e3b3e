"""What the tests of deployment share."""

import pytest

from helpers.devices import Mosquitto, Team


@pytest.fixture
def broker(tmp_path):
    started = Mosquitto(tmp_path)
    yield started
    started.stop()


@pytest.fixture
def team(tmp_path):
    made = []

    def make(text, url, **options):
        file = tmp_path / "run.toml"
        file.write_text(text)
        made.append(Team(tmp_path, file, url, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()
