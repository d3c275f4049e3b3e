"""What the dashboard says: state and metrics are those of the ledger."""

import time

from prometheus_client.parser import text_string_to_metric_families

from helpers.loopback import World, connect, disk
from psofed.fleet.alarms import ALARMS
from psofed.fleet.dashboard.board import PATIENCE, RETRY
from psofed.fleet.protocol.member import Member
from psofed.fleet.timeouts import Timeouts
from psofed.methods import psofed as pso


def test_state_and_metrics_are_well_formed_and_equal_the_ledger(stage):
    shown = stage(methods=(pso.Options(shared=3, label='"}\n# <b>'),))
    shown.play(15)
    shown.server._message(2, b"nonsense")
    state, ledger, counts = shown.state(), shown.ledger, shown.ledger.counts
    up, down = shown.server.coordinator.server.now.traffic.tolist()
    n, mse, *moved = zip(*state["rows"], strict=True)
    assert (n, set(mse), state["n"], state["mse"]) == (tuple(range(15)), {-1.5}, 15, -1.5)
    assert list(map(sum, moved)) == [state["up"], state["down"]] == [up, down]
    assert (state["counts"], state["epsilon"]) == (counts, None)
    assert (counts["asked"], counts["accepted"], counts["rejected"]) == (30, 30, 1)
    rows = shown.rows().values()
    assert [row["accepted"] for row in rows] == ledger.accepted.tolist()
    assert [row["last"] for row in rows] == ledger.accepted_at.tolist()
    assert [row["state"] for row in rows] == ["ok", "ok", "refused", "ok", "ok"]
    reply, text = shown.get("/metrics")
    assert reply.getheader("Content-Type").startswith("text/plain; version=")
    for family in text_string_to_metric_families(text):
        assert family.name.startswith("psofed_")
        assert family.documentation
    found = shown.metrics()
    assert not any(found["psofed_alarm", name] for name in ALARMS)
    wanted = {("round",): 15, ("mse_db",): -1.5, ("broker_connected",): 1, ("refused_total", "size"): 1,
              ("broker_reconnects_total",): 0, ("bytes_total", "up"): up, ("bytes_total", "down"): down,
              **{("answers_total", name): counts[name] for name in ("accepted", "refused", "lost")},
              **{("messages_total", name): counts[name] for name in ("accepted", "repeated", "rejected")},
              **{("client_answers_total", str(k), "accepted"): ledger.accepted[k] for k in range(5)},
              **{("client_lag_rounds", str(k)): 14 - ledger.accepted_at[k] for k in range(5)}}  # fmt: skip
    assert {key: found[f"psofed_{key[0]}", *key[1:]] for key in wanted} == wanted
    for k in range(5):
        age = time.time() - found["psofed_client_last_contact_timestamp_seconds", str(k)]
        assert -1 < age < 60
    (info,) = (key for key in found if key[0] == "psofed_run_info")
    assert '"}\n# <b>' in info
    many = stage("many", clients=201, cohort=1).get("/metrics")[1]
    assert ("psofed_clients{" in many, "client=" in many) == (True, False)


def test_the_newest_rounds_are_kept_and_so_are_the_newest_notes(stage, monkeypatch):
    monkeypatch.setattr("psofed.fleet.dashboard.board.ROUNDS", 3)
    monkeypatch.setattr("psofed.fleet.dashboard.board.NOTES", 2)
    shown = stage()
    shown.play(5)
    for n in range(4):
        shown.board.note(f"{n}" * 1000)
    state = shown.state()
    assert [row[0] for row in state["rows"]] == [2, 3, 4]
    assert [text for _, _, text in state["notes"]] == ["2" * 500, "3" * 500]


def test_refused_and_lost_answers_are_counted_by_client_as_in_all():
    world = World(cohort=5)
    coordinator = world.server
    for n in range(3):
        answers = {k: world.member(k).take(f)[0] for k, f in coordinator.frames().items()}
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
    again = world.start()
    saved = again.server.ledger
    assert saved.refused.tolist() == [0, 3, 0, 2, 0], "as of the last commit"
    assert saved.lost.sum() == saved.counts["lost"]
    assert again.server.now.traffic.tolist() == coordinator.server.now.traffic.tolist()
    assert again.server.now.traffic[1] == 15 * len(next(iter(coordinator.frames().values())))


def test_a_client_that_is_asleep_is_gone_until_it_wakes(stage):
    shown = stage()
    shown.play(20)
    shown.server.timeouts = timeouts = Timeouts()
    timeouts.ask([3], 0.0)
    timeouts.put_to_sleep([3], 0.0)
    assert shown.rows()[3]["state"] == "gone"
    assert shown.state()["asleep"] == 1
    assert shown.metrics()["psofed_asleep",] == 1
    shown.server._message(3, Member(shown.server.coordinator.plan, 3, disk()).hello())
    assert shown.rows()[3]["state"] == "ok"
    assert shown.state()["asleep"] == 0


def test_a_client_that_never_came_is_not_gone_and_one_that_went_is(stage):
    shown = stage(cohort=5)
    shown.server.deadline = 0.05
    shown.play(2)
    shown.server.link.hand = lambda topic, data: None  # nobody is reached any more
    unheard = stage("other", cohort=5)
    unheard.server.deadline = 0.05
    for each in (shown, unheard):
        each.server.run(each.server.coordinator.n + 2)
    assert {row["state"] for row in shown.rows().values()} == {"gone"}
    assert {row["state"] for row in unheard.rows().values()} == {"new"}
    connect(shown.server, shown.devices)
    shown.play(1)
    assert {row["state"] for row in shown.rows().values()} == {"ok"}


def test_who_is_waited_for_is_gone_after_a_while(stage, monkeypatch):
    shown = stage(cohort=5)
    shown.play(2)
    shown.server.link.hand = lambda topic, data: None  # nobody is reached any more
    shown.server._ask()

    def states(seconds):
        now = time.monotonic() + seconds
        monkeypatch.setattr("psofed.fleet.dashboard.board.monotonic", lambda: now)
        return [row["state"] for row in shown.rows().values()]

    assert states(RETRY + 0.1) == 5 * ["waited"]
    assert shown.state()["waiting"] == [0, 1, 2, 3, 4]
    states(PATIENCE + 0.1)
    shown.server._message(0, shown.devices[0].member.hello())
    assert states(PATIENCE + 0.2) == ["ok"] + 4 * ["gone"]


def test_who_is_removed_is_not_shown_any_more_and_who_is_excluded_is(stage):
    shown = stage(cohort=5)
    shown.play(2)
    shown.server.coordinator.change("exclude", [1])
    shown.server.coordinator.change("remove", [2])
    assert {k: row["state"] for k, row in shown.rows().items()} == {
        0: "ok", 1: "excluded", 3: "ok", 4: "ok"
    }  # fmt: skip
