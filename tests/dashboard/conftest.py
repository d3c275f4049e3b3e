"""What the tests of the dashboard share."""

import pytest

from helpers.stage import Stage
from psofed.fleet import alarms


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Alarms look at every step, not once a second."""
    look = alarms.Alarms.look

    def at_once(self, *more):
        self._next = 0.0
        look(self, *more)

    monkeypatch.setattr(alarms.Alarms, "look", at_once)


@pytest.fixture
def stage(tmp_path):
    made = []

    def make(name="server", **options):
        made.append(Stage(tmp_path / name, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def open_page(tab, monkeypatch):
    """Show a stage in a browser; while a test waits for the page, nobody runs the loop."""
    monkeypatch.setattr("psofed.fleet.dashboard.board.WAIT", 0.05)

    def show(shown, **options):
        shown.state()
        return tab(shown.url, **options)

    return show
