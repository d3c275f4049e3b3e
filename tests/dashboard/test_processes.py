"""The live dashboard over real processes: commits, kills, mistakes, the demo."""

import http.client
import json
import re
import socket
import time

import numpy as np
import pytest

from helpers.devices import Team, free_port, listening, wait_for
from psofed.protocol.deployment import read as read_plan
from psofed.verify.twin import deployed

SETTING = """
clients = 3
rounds = 2000
cohort = 2
dtype = "float64"
test_samples = 100
[features]
dim = 20
[[methods]]
name = "psofed"
shared = 4
[deploy]
wire = "float64"
"""

DOWN = ("net::ERR_", "EventSource")  # what a browser says while the server is down


class Played(Team):
    """A server with an embedded broker and a dashboard, and clients."""

    def __init__(self, folder, text=SETTING, serve=("--every", "0.05")):
        file = folder / "run.toml"
        file.write_text(text)
        self.broker, self.port = free_port(), free_port()
        where = ("--listen", f"127.0.0.1:{self.broker}", "--dashboard", self.port)
        super().__init__(folder, file, "", (*where, *serve))

    def start(self, who):
        self.url = "" if who == "server" else f"mqtt://127.0.0.1:{self.broker}"
        super().start(who)
        if who == "server":
            wait_for(lambda: listening(self.port))

    def start_all(self):
        for who in ("server", 0, 1, 2):
            self.start(who)

    def n(self):
        """The last round of which the server has said that it is committed."""
        return int(re.findall(r"^round (\d+):", self.log("server"), re.M)[-1])

    def state(self):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        line.request("GET", "/state.json")
        state = json.loads(line.getresponse().read())
        line.close()
        return state


@pytest.fixture
def team(tmp_path):
    made = Played(tmp_path)
    yield made
    made.stop()


def until(page, condition, seconds):
    """Playwright's own way needs eval, which the page forbids."""
    wait_for(lambda: page.evaluate(condition), seconds, 0.05)


def client_state(page, k):
    return page.locator(f"#clients tbody tr:has(th:text-is('{k}')) td").first


def is_sound(state):
    """No number contradicts another."""
    counts, rows = state["counts"], state["rows"]
    columns = state["about"]["columns"]
    assert counts["asked"] == counts["accepted"] + counts["refused"] + counts["lost"]
    assert counts["asked"] == 2 * state["n"]
    for name in ("accepted", "refused", "lost"):
        j = columns.index(name)
        assert sum(one[j] for one in state["clients"].values()) == counts[name]
    table = np.array([[r[0], *r[3:]] for r in rows])
    assert (np.diff(table, axis=0) >= 0).all()
    assert (np.diff(table[:, 0]) > 0).all()
    assert table[-1, 0] < state["n"]
    assert table[-1, 1] <= state["up"]
    assert table[-1, 3] <= counts["accepted"]
    return True


@pytest.mark.long
def test_the_page_shows_a_commit_within_two_seconds_and_who_is_gone_and_back(team, tab):
    team.start_all()
    page = tab(f"http://127.0.0.1:{team.port}/")
    page.get_by_role("heading", name="all 3 clients heard").wait_for()
    for _ in range(5):
        n = team.n()
        until(page, f"shown.n > {n} && Number(at['round-big'].textContent) > {n}", 2.0)
        time.sleep(0.3)
    page.locator(".u-over").nth(1).wait_for()
    team.kill(1)
    page.get_by_role("heading", name="waits for client 1, which does not answer").wait_for(
        timeout=15_000
    )
    assert client_state(page, 1).inner_text() == "gone"
    page.get_by_text("client 1 does not answer", exact=True).wait_for()
    assert client_state(page, 0).inner_text() == "answering"
    team.start(1)
    page.get_by_text("client 1 is back", exact=True).wait_for(timeout=15_000)
    assert client_state(page, 1).inner_text() == "back"
    n = team.n()
    until(page, f"shown.n > {n + 3}", 15.0)


@pytest.mark.long
def test_kills_of_the_server_keep_the_history_and_contradict_nothing(team, tab):
    team.start_all()
    one, other = (tab(f"http://127.0.0.1:{team.port}/", expect=DOWN) for _ in range(2))
    for page in (one, other):
        until(page, "shown && shown.rows.length > 20", 20.0)
    for start in (2, 3):
        before = one.evaluate("shown.rows")
        counts = one.evaluate("shown.counts")
        team.kill("server")
        one.get_by_role("heading", name="No connection to the server").wait_for()
        time.sleep(0.5)
        team.start("server")
        for page in (one, other):
            last = before[-1][0]
            until(page, f"linked && shown.start === {start} && shown.n > {last + 8}", 30.0)
            after = page.evaluate("shown.rows")
            assert after[: len(before)] == before
            again = page.evaluate("shown.counts")
            assert all(again[name] >= counts[name] for name in ("asked", "accepted"))
        assert is_sound(team.state())
    one.reload()
    until(one, "shown && shown.rows.length > 30", 10.0)
    assert one.evaluate("shown.rows")[: len(before)] == before
    one.get_by_text("the server was started again (start 3)").wait_for()
    lost = one.evaluate("shown.n - shown.rows.length")
    assert 0 <= lost <= 2 * 10, "of each kill a few rounds at most are not remembered"
    team.running["server"].terminate()
    one.get_by_role("heading", name="The server was stopped").wait_for()
    assert team.running["server"].wait(20) == 0
    team.stop()
    folders = [team.folder / str(k) for k in range(3)]
    state, _ = deployed(read_plan(team.file), team.folder / "server", folders)
    assert state.ledger.counts == one.evaluate("shown.counts")


def test_mistakes_about_the_dashboard_are_one_clear_line_each(psofed, tmp_path):
    (tmp_path / "a.toml").write_text(SETTING)
    serve = ("serve", "a.toml", "--state", "s", "--listen", f"127.0.0.1:{free_port()}")

    def wrong(*more, parts):
        result = psofed(*serve, *more)
        assert result.returncode == 2, result.stderr
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
        assert all(part in result.stderr for part in parts), result.stderr
        assert not (tmp_path / "s").exists(), "before anything else starts"

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        wrong("--dashboard", port, parts=[f"cannot listen at 127.0.0.1:{port}", "another port"])
    wrong("--dashboard", "0.0.0.0:0", parts=["can be read by others", "--dashboard-token-file"])
    wrong("--dashboard", "here", parts=["--dashboard is 'here'", "HOST:PORT"])
    wrong("--dashboard", "0", "--dashboard-token-file", "none", parts=["none cannot be read"])
    wrong("--dashboard-token-file", "none", parts=["without a --dashboard"])
    (tmp_path / "token").write_text("a-token-of-some-length\n")
    (tmp_path / "token").chmod(0o644)
    wrong("--dashboard", "0", "--dashboard-token-file", "token", parts=["chmod 600 token"])
    (tmp_path / "token").write_text("short\n")
    (tmp_path / "token").chmod(0o600)
    wrong("--dashboard", "0", "--dashboard-token-file", "token", parts=["too short"])


def test_the_demo_opens_no_browser_where_nobody_looks(monkeypatch):
    from psofed.cli import demo

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    assert not demo._is_watched()
    monkeypatch.setenv("DISPLAY", ":0")
    assert demo._is_watched()
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert not demo._is_watched()
