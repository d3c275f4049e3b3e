"""What the dashboard says: state, events and metrics are those of the ledger."""

import http.client
import json
import time

from helpers.devices import wait_for
from helpers.loopback import connect, disk, plan
from psofed.deploy.roll_call import RollCall
from psofed.deploy.samples import replay
from psofed.methods import psofed as pso
from psofed.protocol import wire
from psofed.protocol.client import Member
from psofed.protocol.coordinator import Coordinator
from psofed.web.page import CHART_STYLES, CHARTS, asset


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


def test_a_client_that_is_asleep_is_gone_until_it_wakes(stage):
    shown = stage()
    shown.play(20)
    shown.server.roll_call = roll = RollCall()
    roll.ask([3], 0.0)
    roll.put_to_sleep([3], 0.0)
    wait_for(lambda: shown.state()["clients"]["3"][0] == "gone")
    assert shown.state()["asleep"] == 1
    assert b"psofed_asleep 1.0" in shown.get("/metrics")[1].encode()
    shown.server._message(3, Member(shown.server.coordinator.plan, 3, disk()).hello())
    wait_for(lambda: shown.state()["clients"]["3"][0] == "back")
    assert shown.state()["asleep"] == 0


def test_a_client_that_tells_its_coverage_is_shown_with_it(stage):
    shown = stage()
    coordinator = shown.server.coordinator
    frame = wire.Frame(wire.HELLO, coordinator.plan.digest, 0, body=wire.coverage(200, 179))
    shown.server._message(2, wire.encode(frame))
    shown.play(1)
    j = shown.state()["about"]["columns"].index("coverage")
    wait_for(lambda: shown.state()["clients"]["2"][j] == 0.895)
    assert shown.state()["clients"]["1"][j] is None
    assert 'psofed_client_coverage{client="2"} 0.895' in shown.get("/metrics")[1]


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


def test_a_client_that_never_came_is_not_gone_and_one_that_went_is(stage, monkeypatch):
    monkeypatch.setattr("psofed.dashboard.board.GRACE", 0.0)
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


def test_who_is_removed_is_not_shown_any_more_and_who_is_excluded_is(stage):
    shown = stage(cohort=5)
    shown.play(2)
    shown.server.coordinator.change("exclude", [1])
    shown.server.coordinator.change("remove", [2])
    wait_for(lambda: shown.state()["clients"].keys() == {"0", "1", "3", "4"})
    assert shown.state()["clients"]["1"][0] == "excluded"
