"""The live dashboard over real processes: commits, kills, mistakes, the demo."""

import http.client
import json

import pytest

from helpers.devices import Team, free_port, listening, wait_for
from helpers.runs import SMALL

SETTING = SMALL.replace("rounds = 40", "rounds = 2000")
DOWN = ("net::ERR_",)  # what a browser says while the server is down


class Played(Team):
    """A server with a dashboard, and clients."""

    def __init__(self, folder, url):
        file = folder / "run.toml"
        file.write_text(SETTING)
        self.port = free_port()
        super().__init__(folder, file, url, ("--dashboard", self.port, "--set", "every=0.05"))

    def _start(self, who):
        super()._start(who)
        if who == "server":
            wait_for(lambda: listening(self.port))

    def state(self):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        line.request("GET", "/state.json")
        state = json.loads(line.getresponse().read())
        line.close()
        return state


@pytest.fixture
def team(tmp_path, broker):
    made = Played(tmp_path, broker.url)
    yield made
    made.stop()


def until(page, condition, seconds):
    """Playwright's own way needs eval, which the page forbids."""
    wait_for(lambda: page.evaluate(condition), seconds, 0.05)


def client_state(page, k):
    return page.locator(f"#clients tbody tr:has(th:text-is('{k}')) td").first


def is_sound(state):
    """No number contradicts another."""
    counts, columns = state["counts"], state["about"]["columns"]
    assert counts["asked"] == counts["accepted"] + counts["refused"] + counts["lost"]
    assert counts["asked"] == 2 * state["n"]
    for name in ("accepted", "refused", "lost"):
        j = columns.index(name)
        assert sum(one[j] for one in state["clients"].values()) == counts[name]
    rounds = [row[0] for row in state["rows"]]
    assert rounds == list(range(state["n"] - len(rounds), state["n"]))  # none after a start
    assert sum(row[2] for row in state["rows"]) <= state["up"]


@pytest.mark.long
def test_a_page_shows_who_is_gone_and_back_and_finds_a_server_that_was_killed(team, tab):
    team.start("server", 0, 1, 2)
    page = tab(f"http://127.0.0.1:{team.port}/", expect=DOWN)
    page.get_by_role("heading", name="all 3 clients heard").wait_for()
    page.locator(".u-over").nth(1).wait_for()
    team.kill(1)
    waits = page.get_by_role("heading", name="waits for client 1, which does not answer")
    waits.wait_for(timeout=15_000)
    assert client_state(page, 1).inner_text() == "gone"
    team.start(1)
    page.get_by_role("heading", name="all 3 clients heard").wait_for()
    before, n = page.evaluate("shown.counts"), page.evaluate("shown.n")
    team.kill("server")
    page.get_by_role("heading", name="No connection to the server").wait_for()
    team.start("server")
    until(page, f"linked && shown.start === 2 && shown.n > {n + 8}", 30.0)
    again = page.evaluate("shown.counts")
    assert all(again[name] >= before[name] for name in ("asked", "accepted"))
    is_sound(team.state())
    team.running["server"].terminate()
    assert team.running["server"].wait(20) == 0
    page.get_by_role("heading", name="No connection to the server: it was stopped").wait_for()
