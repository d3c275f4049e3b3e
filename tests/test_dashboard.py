"""The live dashboard: in a real browser, over real processes, and what it must never do."""

import http.client
import json
import re
import shutil
import socket
import time

import numpy as np
import pytest

from devices import Team, free_port, listening, wait_for
from psofed.deploy import access, listener, mqtt
from psofed.deploy import dashboard as dashboards
from psofed.deploy.access import Access
from psofed.deploy.coordinator import Coordinator
from psofed.deploy.dashboard import Dashboard
from psofed.deploy.history import LINES, RECENT, ROWS, History, thinned
from psofed.deploy.join import Device
from psofed.deploy.member import Member
from psofed.deploy.plan import read as read_plan
from psofed.deploy.serve import Server
from psofed.deploy.sources import replay
from psofed.deploy.store import Folder
from psofed.deploy.watch import Note, Row
from psofed.errors import InputError
from psofed.methods import psofed as pso
from psofed.report.twin import deployed
from psofed.web.page import CHART_STYLES, CHARTS, asset
from test_deploy import Line, connect, disk, plan
from test_web import HOSTILE

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
TOKEN = "a-token-of-some-length"
ABOUT = {"run": "p"}
DOWN = ("net::ERR_", "EventSource")  # what a browser says while the server is down


class Stage:
    """A server without a network, in this process, and its dashboard."""

    def __init__(self, folder, token=None, shown=True, **changes):
        self.plan = plan(rounds=10_000, **changes)
        self.folder = Folder(folder)
        self.server = Server(Coordinator(self.plan, self.folder), Line())
        self.devices = {}
        self.dashboard = Dashboard("0", token) if shown else None
        self.mse = -1.5
        if shown:
            self.dashboard.open(self.server, self.folder.path, None)
            self.server.on_close = lambda closed: self.dashboard.watch.close(closed, self.mse)
        self.server._handle(mqtt.Event("up"))

    def play(self, rounds):
        """So many more rounds with all clients."""
        if not self.devices:
            given = self.plan
            for k in range(given.experiment.clients):
                member = Member(given, k, disk(), replay(given.experiment, k))
                self.devices[k] = Device(member, Line())
            connect(self.server, self.devices)
        self.server.run(self.server.coordinator.n + rounds)

    def get(self, path, method="GET", body=None, **headers):
        """The reply and its body."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            line.request(method, path, body, headers)
            reply = line.getresponse()
            return reply, reply.read().decode()
        finally:
            line.close()

    def state(self):
        self.server._handle(None)  # as the loop does all the time
        return json.loads(self.get("/state.json")[1])

    @property
    def port(self):
        return self.dashboard.listener.server_port

    @property
    def ledger(self):
        return self.server.coordinator.server.ledger

    def close(self):
        if self.dashboard is not None:
            self.dashboard.close()
        self.folder.close()


@pytest.fixture
def stage(tmp_path):
    made = []

    def make(name="server", **options):
        made.append(Stage(tmp_path / name, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def events(port, count=1):
    """The first events that a watcher is sent."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    line.request("GET", "/events")
    reply, found = line.getresponse(), []
    while len(found) < count:
        kind, data = reply.readline(), reply.readline()
        assert reply.readline() == b"\n"
        found.append((kind.decode()[7:-1], json.loads(data[6:])))
    line.close()
    return found


# ---- what can be read


def test_the_state_says_what_the_ledger_says(stage):
    shown = stage()
    shown.play(20)
    state = wait_for(lambda: (s := shown.state())["n"] == 20 and len(s["rows"]) == 20 and s)
    ledger, coordinator = shown.ledger, shown.server.coordinator
    assert state["counts"] == ledger.counts
    assert [state["up"], state["down"]] == coordinator.traffic.tolist()
    assert state["rows"][-1][3:] == [*coordinator.traffic.tolist(), 40, 0, 0]
    assert state["mse"] == -1.5
    rows = state["clients"]
    for column, array in (("accepted", ledger.accepted), ("last", ledger.accepted_at)):
        j = state["about"]["columns"].index(column)
        assert [rows[str(k)][j] for k in range(5)] == array.tolist()
    assert {rows[str(k)][0] for k in range(5)} == {"ok"}


def test_refused_and_lost_answers_are_counted_by_client_as_in_all():
    coordinator = Coordinator(plan(cohort=5), disk())
    for n in range(3):
        late = {
            k: Member(coordinator.plan, k, disk(), replay(coordinator.plan.experiment, k))
            for k in range(5)
        }
        answers = {k: late[k].take(f)[0] for k, f in coordinator.frames().items()}
        coordinator.take(1, answers[1][:-1])
        if n:
            coordinator.take(2, answers[2])
        coordinator.commit()
        coordinator.take(3, answers[3])
    ledger = coordinator.server.ledger
    for name in ("accepted", "refused", "lost"):
        assert getattr(ledger, name).sum() == ledger.counts[name]
    assert ledger.refused.tolist() == [0, 3, 0, 3, 0]
    assert ledger.lost.tolist() == [3, 0, 1, 0, 3]
    assert ledger.accepted_at.tolist() == [-1, -1, 2, -1, -1]
    again = Coordinator(coordinator.plan, coordinator.store.disk)
    saved = again.server.ledger
    assert saved.refused.tolist() == [0, 3, 0, 2, 0], "as of the last commit"
    assert saved.lost.sum() == saved.counts["lost"]
    assert again.traffic.tolist() == coordinator.traffic.tolist()
    assert again.traffic[1] == 15 * len(next(iter(coordinator.frames().values())))


def test_a_record_of_an_older_server_is_read():
    coordinator = Coordinator(plan(), disk())
    coordinator.commit()
    arrays = coordinator.store.load()
    for name in ("accepted_at", "refused", "lost", "traffic"):
        del arrays[name]
    coordinator.store.save(arrays)
    again = Coordinator(coordinator.plan, coordinator.store.disk)
    assert again.n == 1
    assert again.server.ledger.counts["lost"] == 2
    assert again.traffic.tolist() == again.server.ledger.lost.tolist()[:2] == [0, 0]


def test_metrics_are_well_formed_and_equal_the_ledger(stage):
    from prometheus_client.parser import text_string_to_metric_families

    shown = stage(methods=(pso.Options(shared=3, label='"}\n# <b>'),))
    shown.play(15)
    shown.server._message(2, b"nonsense")
    wait_for(lambda: shown.state()["counts"]["rejected"] == 1)
    reply, text = shown.get("/metrics")
    assert reply.getheader("Content-Type").startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert all(
        name.startswith("psofed_") and family.documentation for name, family in families.items()
    )
    found = {(s.name, *s.labels.values()): s.value for f in families.values() for s in f.samples}
    counts, coordinator = shown.ledger.counts, shown.server.coordinator
    assert found["psofed_round",] == 15
    assert found["psofed_mse_db",] == -1.5
    assert found["psofed_bytes_total", "up"] == coordinator.traffic[0]
    assert found["psofed_bytes_total", "down"] == coordinator.traffic[1]
    for outcome in ("accepted", "refused", "lost"):
        assert found["psofed_answers_total", outcome] == counts[outcome]
    for outcome in ("accepted", "repeated", "rejected"):
        assert found["psofed_messages_total", outcome] == counts[outcome]
    assert found["psofed_refused_total", "size"] == shown.ledger.reasons["size"] == 1
    assert found["psofed_broker_connected",] == 1
    assert found["psofed_broker_reconnects_total",] == 0
    for k in range(5):
        assert found["psofed_client_answers_total", str(k), "accepted"] == shown.ledger.accepted[k]
        assert found["psofed_client_lag_rounds", str(k)] == 14 - shown.ledger.accepted_at[k]
        age = time.time() - found["psofed_client_last_contact_timestamp_seconds", str(k)]
        assert -1 < age < 60
    assert families["psofed_run_info"].samples[0].labels["method"] == '"}\n# <b>'


def test_metrics_of_many_clients_have_no_series_by_client(stage):
    text = stage(clients=201, cohort=1).get("/metrics")[1]
    assert "psofed_clients{" in text
    assert "client=" not in text


def test_a_watcher_gets_everything_once_and_then_only_what_changed(stage):
    shown = stage(clients=300, cohort=1)
    wait_for(lambda: shown.state()["connected"])
    shown.play(30)
    before = wait_for(lambda: len((s := shown.state())["rows"]) == 30 and s)
    (kind, whole), *changes = _watch_while(shown, lambda: shown.play(1))
    assert kind == "state"
    assert whole["clients"].keys() == {str(k) for k in range(300)}
    change = next(data for kind, data in changes if kind == "change" and "rows" in data)
    assert len(change["clients"]) <= 2
    assert change["n"] == before["n"] + 1
    assert "about" not in change
    assert len(json.dumps(change)) < 700


def _watch_while(shown, work):
    line = http.client.HTTPConnection("127.0.0.1", shown.port, timeout=20)
    line.request("GET", "/events")
    reply, found = line.getresponse(), []
    while not any("rows" in data for kind, data in found[1:]):
        kind, data = reply.readline(), reply.readline()
        reply.readline()
        found.append((kind.decode()[7:-1], json.loads(data[6:])))
        if len(found) == 1:
            work()
    line.close()
    return found


def test_the_page_is_small():
    own = sum(len(asset(name)) for name in ("dashboard.js", "dashboard.css"))
    base = sum(len(asset(name)) for name in ("base.css", *CHART_STYLES, *CHARTS))
    assert own < 25_000
    assert own + base < 100_000


# ---- who may read


def test_a_page_that_came_by_another_name_is_refused_on_loopback(stage):
    shown = stage()
    for host in (
        "evil.example",
        f"evil.example:{shown.port}",
        "",
        "127.0.0.1.evil.example",
        "[",
        "a@b",
    ):
        for path in ("/", "/events", "/state.json", "/metrics"):
            assert shown.get(path, Host=host)[0].status == 403, host
    for host in ("localhost", "127.0.0.1:1", "[::1]:80", "LOCALHOST:9"):
        assert shown.get("/state.json", Host=host)[0].status == 200, host


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"]
)
def test_it_only_reads(stage, method):
    shown = stage()
    for path in ("/", "/events", "/state.json", "/login"):
        reply, text = shown.get(path, method, body="x" if method == "POST" else None)
        assert reply.status in (405, 501)
        assert "BREW" not in text
    assert shown.get("/state.json", "HEAD")[1] == ""


def test_every_reply_forbids_what_is_not_needed(stage):
    shown = stage(token=TOKEN)
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for path, headers in (
        ("/", {}),
        ("/", bearer),
        ("/nothing", bearer),
        ("/state.json", bearer),
        ("/metrics", {}),
    ):
        reply, _ = shown.get(path, **headers)
        assert reply.getheader("Cache-Control") == "no-store"
        assert reply.getheader("X-Content-Type-Options") == "nosniff"
        assert reply.getheader("Referrer-Policy") == "no-referrer"
        policy = reply.getheader("Content-Security-Policy")
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.getheader("Access-Control-Allow-Origin") is None


def test_with_a_token_only_those_who_know_it_read(stage):
    shown = stage(token=TOKEN)
    for path in ("/events", "/state.json", "/metrics", "/nothing", f"/state.json?token={TOKEN}"):
        assert shown.get(path)[0].status == 401
        assert shown.get(path, Authorization="Bearer wrong")[0].status == 401
        assert shown.get(path, Cookie=f"psofed-{shown.port}={TOKEN}")[0].status == 401
    reply, login = shown.get("/")
    assert (reply.status, "EventSource" in login) == (200, False)
    assert shown.get("/metrics", Authorization=f"Bearer {TOKEN}")[0].status == 200
    assert (
        shown.get("/state.json", Authorization=f"bearer {TOKEN}", Host="elsewhere")[0].status == 200
    )
    reply, _ = shown.get("/login", "POST", body="not it")
    assert (reply.status, reply.getheader("Set-Cookie")) == (401, None)
    for body in ("x" * 1001, ""):
        assert shown.get("/login", "POST", body=body)[0].status in (400, 401)
    reply, _ = shown.get("/login", "POST", body=TOKEN)
    cookie = reply.getheader("Set-Cookie")
    assert reply.status == 204
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert shown.get("/state.json", Cookie=cookie.partition(";")[0])[0].status == 200


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared = []
    same = access.hmac.compare_digest
    monkeypatch.setattr(
        access.hmac, "compare_digest", lambda a, b: compared.append(a) or same(a, b)
    )
    given = Access.parse("0.0.0.0:1", TOKEN)
    assert (given.knows(TOKEN), given.knows("x"), given.knows("\ud800é")) == (True, False, False)
    assert len(compared) == 3
    assert TOKEN not in repr(given)


@pytest.mark.parametrize("where", ["0.0.0.0:80", "192.0.2.1:80", "[::]:80", "example.org:80"])
def test_beyond_this_machine_it_needs_a_token(where):
    with pytest.raises(InputError, match=r"can be read by others; give --dashboard-token-file"):
        Access.parse(where, None)
    assert "plain HTTP" in Access.parse(where, TOKEN).warning
    with pytest.raises(InputError, match="too short"):
        Access.parse(where, "short")


@pytest.mark.parametrize(
    "where", ["", "x", "host:", "127.0.0.1:99999", "127.0.0.1:1/x", "a@localhost:1", "[::1", "-1"]
)
def test_an_address_that_is_none_is_refused(where):
    with pytest.raises(InputError, match="--dashboard is"):
        Access.parse(where, None)


# ---- what it must never do


def test_results_do_not_depend_on_being_watched(stage):
    plain, watched = stage("plain", shown=False), stage("watched")
    for each in (plain, watched):
        each.play(1)
    stalled = socket.create_connection(("127.0.0.1", watched.port))
    stalled.sendall(b"GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n")
    for each in (plain, watched):
        each.play(60)
    stalled.close()
    for name in ("record.0", "record.1"):
        assert (plain.folder.path / name).read_bytes() == (watched.folder.path / name).read_bytes()


def test_a_watcher_who_takes_nothing_is_dropped_and_blocks_nobody(stage, monkeypatch):
    monkeypatch.setattr(dashboards, "BEHIND", 3)
    monkeypatch.setattr(dashboards, "PACE", 0.01)
    monkeypatch.setattr(listener, "STALLED", 0.5)
    shown = stage(clients=400, cohort=1)
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    stalled.connect(("127.0.0.1", shown.port))
    stalled.sendall(b"GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n")
    hub = shown.dashboard._hub
    wait_for(lambda: hub._streams)
    for _ in range(3000):
        if not hub._streams and not shown.dashboard.listener._until:
            break
        for _ in range(100):
            shown.dashboard.watch.tell("x" * 500)
        time.sleep(0.01)
    assert not hub._streams
    assert not shown.dashboard.listener._until, "nor does it hold a connection"
    stalled.close()
    shown.play(2)
    assert wait_for(lambda: shown.state()["n"] == 2)


def test_too_many_watchers_and_connections_are_turned_away(stage, monkeypatch):
    monkeypatch.setattr(dashboards, "WATCHERS", 2)
    monkeypatch.setattr(listener, "CONNECTIONS", 4)
    shown = stage()
    watching = []
    for _ in range(2):
        line = http.client.HTTPConnection("127.0.0.1", shown.port, timeout=20)
        line.request("GET", "/events")
        watching.append((line, line.getresponse()))
    assert shown.get("/events")[0].status == 503
    idle = [socket.create_connection(("127.0.0.1", shown.port)) for _ in range(2)]
    wait_for(lambda: len(shown.dashboard.listener._until) == 4)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        shown.get("/state.json")
    for line in idle:
        line.close()
    wait_for(lambda: len(shown.dashboard.listener._until) == 2)
    assert shown.get("/state.json")[0].status == 200
    for line, _ in watching:
        line.close()


def test_a_request_that_never_ends_is_ended(stage, monkeypatch):
    monkeypatch.setattr(listener, "PATIENCE", 0.5)
    shown = stage()
    slow = socket.create_connection(("127.0.0.1", shown.port))
    begun = time.monotonic()
    try:
        while time.monotonic() < begun + 10:  # a byte now and then keeps no thread
            slow.sendall(b"x")
            time.sleep(0.1)
    except OSError:
        pass
    assert time.monotonic() < begun + 5
    slow.close()


# ---- what is remembered


def row(n, **more):
    return Row(
        **{
            "n": n,
            "time": 100 + n,
            "mse": -n / 10,
            "up": 10 * n,
            "down": 20 * n,
            "accepted": 4 * n,
            "refused": 0,
            "lost": 0,
        }
        | more
    )


def test_a_history_is_found_again_and_forgets_rounds_that_were_taken_back(tmp_path):
    first = History(tmp_path, ABOUT, 0)
    first.add(
        [row(n) for n in range(10)], [Note(1, 2, "gone", "client 3 does not answer")], {3: 99.0}
    )
    again = History(tmp_path, ABOUT, 8)
    assert again.rows == [row(n) for n in range(8)]
    assert again.notes[0].text == "client 3 does not answer"
    assert again.contacts == {3: 99.0}
    assert not again.warnings
    for each in (first, again):
        each.close()


def test_a_kill_costs_the_last_entry_at_most(tmp_path):
    history = History(tmp_path, ABOUT, 0)
    history.add([row(n) for n in range(10)])
    history.close()
    data = (tmp_path / "history").read_bytes()
    for cut in range(1, len(data.splitlines()[-1]) + 2):
        (tmp_path / "history").write_bytes(data[:-cut])
        again = History(tmp_path, ABOUT, 10)
        assert again.rows == [row(n) for n in range(9)]
        assert not again.warnings
        again.add([row(9)])
        again.close()
        last = History(tmp_path, ABOUT, 10)
        assert last.rows[-1] == row(9)
        last.close()


def test_a_damaged_history_is_dropped_with_a_note_and_never_fatal(tmp_path):
    history = History(tmp_path, ABOUT, 0)
    history.add([row(n) for n in range(10)])
    history.close()
    whole = (tmp_path / "history").read_bytes()
    chance = np.random.default_rng(0)
    for at in chance.integers(0, len(whole), 60):
        data = bytearray(whole)
        data[at] ^= 1 << int(chance.integers(8))
        (tmp_path / "history").write_bytes(data)
        again = History(tmp_path, ABOUT, 10)
        assert again.rows == [row(n) for n in range(len(again.rows))]
        assert again.warnings or len(again.rows) >= 9
        again.close()
    for nonsense in (b"", b"\0" * 100, b"{}\n", b"\n\n"):
        (tmp_path / "history").write_bytes(nonsense)
        again = History(tmp_path, ABOUT, 10)
        assert again.rows == []
        assert "begins anew" in again.warnings[0]
        again.close()
    (tmp_path / "history").write_bytes(whole)
    other = History(tmp_path, {"run": "q"}, 10)
    assert (other.rows, len(other.warnings)) == ([], 1)
    other.close()


def test_a_history_that_cannot_be_written_is_given_up_with_a_note(tmp_path, stage, monkeypatch):
    shown = stage()
    shown.play(3)
    wait_for(lambda: len(shown.state()["rows"]) == 3)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("psofed.deploy.history.os.write", full)
    shown.play(3)
    state = wait_for(lambda: (s := shown.state())["n"] == 6 and len(s["rows"]) == 6 and s)
    assert state["n"] == 6
    assert shown.dashboard._hub._board.history.warnings == [
        "history is no longer kept: No space left on device"
    ]
    (tmp_path / "gone").mkdir()
    lost = History(tmp_path / "gone", ABOUT, 0)
    shutil.rmtree(tmp_path / "gone")
    lost.add([row(n) for n in range(LINES + 10)])
    lost.close()


def test_old_rounds_are_thinned_and_the_file_stays_small(tmp_path):
    history = History(tmp_path, ABOUT, 0)
    for start in range(0, 40_000, 10):
        history.add([row(n) for n in range(start, start + 10)])
    rows = history.rows
    assert ROWS / 2 < len(rows) < 2 * ROWS
    assert [r.n for r in rows[-RECENT:]] == list(range(40_000 - RECENT, 40_000))
    gaps = np.diff([r.n for r in rows])
    assert (gaps > 0).all()
    assert gaps.max() <= 256
    assert rows[0].n == 0
    assert (tmp_path / "history").stat().st_size < 400_000
    history.close()
    again = History(tmp_path, ABOUT, 40_000)
    assert again.rows[-1] == rows[-1]
    again.close()
    assert thinned([row(n) for n in range(ROWS + 1)])[:3] == [row(0), row(2), row(4)]


def test_a_client_that_never_came_is_not_gone_and_one_that_went_is(stage, monkeypatch):
    monkeypatch.setattr("psofed.deploy.board.GRACE", 0.0)
    shown = stage(cohort=5)
    shown.server.deadline = 0.05
    shown.play(2)
    shown.server.link.hand = lambda topic, data: None  # nobody is reached any more
    unheard = stage("other", cohort=5)
    unheard.server.deadline = 0.05
    for each in (shown, unheard):
        each.server.run(each.server.coordinator.n + 2)
    wait_for(lambda: {row[0] for row in shown.state()["clients"].values()} == {"gone"})
    assert {row[0] for row in unheard.state()["clients"].values()} == {"new"}
    assert "clients 0, 1, 2, 3, 4 do not answer" in [note[3] for note in shown.state()["notes"]]
    connect(shown.server, shown.devices)
    shown.play(1)
    wait_for(lambda: {row[0] for row in shown.state()["clients"].values()} == {"back"})


# ---- in a browser, without processes


def test_texts_from_outside_are_texts(stage, tab):
    shown = stage(methods=(pso.Options(shared=3, label=HOSTILE[0]),))
    shown.play(2)
    shown.dashboard._hub._board.about["run"] = HOSTILE[1]
    for text in HOSTILE:
        shown.dashboard.watch.tell(text)
    page = tab(f"http://127.0.0.1:{shown.port}/")
    page.get_by_text(HOSTILE[2].strip()).wait_for()
    for text in HOSTILE[:3]:
        shown.server._handle(mqtt.Event("down", data=text))
        shown.dashboard.watch.tick()
        page.get_by_role("heading", level=1).get_by_text(f"No broker: {text};").wait_for()
    assert page.locator("header p").inner_text().startswith(f"Run {HOSTILE[1]}: {HOSTILE[0]}")
    assert page.evaluate("window.hacked") is None
    assert page.locator("#main script, #main img, #main svg[onload]").count() == 0


def test_a_thousand_clients_can_be_sorted_and_found_by_keyboard_too(stage, tab):
    shown = stage(clients=1000, cohort=3)
    shown.play(40)
    page = tab(f"http://127.0.0.1:{shown.port}/")
    page.locator(".map.dense i").nth(999).wait_for()
    assert page.locator("#clients tbody tr").count() == 50
    page.get_by_role("button", name="accepted").focus()
    page.keyboard.press("Enter")
    most = int(shown.ledger.accepted.max())
    best = int(np.flatnonzero(shown.ledger.accepted == most)[0])
    assert page.locator("#clients tbody tr").first.locator("th").inner_text() == str(best)
    assert (
        page.get_by_role("columnheader", name="accepted").get_attribute("aria-sort") == "descending"
    )
    page.get_by_label("Client", exact=False).first.fill("17, 999")
    assert sorted(page.locator("#clients tbody th").all_inner_texts()) == ["17", "999"]
    page.get_by_label("Client", exact=False).first.fill("")
    page.get_by_role("button", name="Show all 1,000").click()
    assert page.locator("#clients tbody tr").count() == 1000
    begun = time.monotonic()
    page.evaluate("render()")
    assert time.monotonic() - begun < 2


def test_a_phone_shows_it_without_scrolling_sideways(stage, tab):
    shown = stage(methods=(pso.Options(shared=3, label="M" * 300),))
    shown.play(30)
    page = tab(f"http://127.0.0.1:{shown.port}/", viewport={"width": 375, "height": 700})
    page.locator(".u-over").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_the_token_is_asked_for_once_and_is_in_no_address(stage, tab):
    shown = stage(token=TOKEN)
    shown.play(2)
    page = tab(f"http://127.0.0.1:{shown.port}/", expect=("401",))
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    page.get_by_text("That is not the token.").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Look").click()
    page.get_by_role("heading", name="Round 2").wait_for()
    assert page.url == f"http://127.0.0.1:{shown.port}/"
    assert page.evaluate("document.cookie") == ""
    page.reload()
    page.get_by_role("heading", name="Round 2").wait_for()


# ---- over real processes


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
    (tmp_path / "token").write_text("short\n")
    wrong("--dashboard", "0", "--dashboard-token-file", "token", parts=["too short"])


def test_the_demo_opens_its_dashboard_in_the_browser_it_is_told_to(psofed, tmp_path, monkeypatch):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    shown = psofed("demo", "--rounds", 12, "--open")
    assert shown.returncode == 0, shown.stderr
    (url,) = re.findall(r"Dashboard at (http://127\.0\.0\.1:\d+/)", shown.stderr)
    assert (tmp_path / "opened").read_text().strip() == url


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
