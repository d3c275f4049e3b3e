"""Whom the dashboard accuses: the attacker, and nobody that it has harmed."""

import numpy as np
import pytest

from psofed.experiment import Features
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.confidence import Report
from psofed.fleet.protocol.deployment import Deploy
from psofed.stages.attacks import constant
from psofed.stages.surroundings import attack_in

TEN = {"clients": 10, "cohort": 4, "features": Features(dim=50), "dtype": "float32"}


def live(shown, rounds, honest=()):
    """Rounds on the live clock with a sample for each client; `honest` ones attack no more."""
    if not shown.devices:
        shown.join()
    for k in honest:
        client = shown.devices[k].member.client
        client.method = client.method.inner  # without the stage of the attack
    for n in range(shown.server.coordinator.n, shown.server.coordinator.n + rounds):
        for k, device in shown.devices.items():
            device.member.client.learn(*shown.sources[k](n, n + 1))
        shown.server.run(n + 1)
        shown.server._handle(None)


def by_client(shown, name):
    found = (entry for entry in shown.metrics().items() if entry[0][0] == name)
    return {int(k): value for (_, k), value in found}


@pytest.fixture
def attacked(stage):
    """Ten live clients, of which one sends 9e8; which, and the stage."""
    attack = constant.Options(value=9e8, share=0.1)
    shown = stage(deploy=Deploy(clock="live"), attack=attack, **TEN)
    (who,) = attack_in(attack, shown.plan.method().task).attackers.ids.tolist()
    return shown, who


def test_the_attacker_is_named_within_a_few_contacts_and_nobody_else(attacked):
    shown, who = attacked
    while shown.ledger.accepted_at[who] < 0 or not shown.server.alarms.on:
        live(shown, 1)
        assert shown.ledger.accepted[who] <= 3
    live(shown, 60)
    found = shown.rows()
    assert found[who]["state"] == "quarantined"
    words = "its changes are at least 50 times the usual size"
    assert found[who]["why"] == words
    assert found[who]["score"] > 10
    assert found[who]["clipped"] > 0.5
    for k in set(range(10)) - {who}:
        assert (found[k]["state"], found[k]["why"], found[k]["quarantined"]) == ("ok", "", False)
        assert found[k]["score"] < 3
    lines = [line for line in shown.said if "quarantine" in line]
    assert lines[0] == f"client {who} is in quarantine: {words}"
    assert lines[1].startswith(f"Alarm (quarantine): client {who} is in quarantine")
    assert not any(f"client {k} " in line for line in lines for k in range(10) if k != who)
    assert shown.state()["quarantined"] == [who]
    assert by_client(shown, "psofed_client_quarantined") == {k: k == who for k in range(10)}
    assert max(by_client(shown, "psofed_client_score"), key=lambda k: found[k]["score"]) == who
    assert by_client(shown, "psofed_client_clipped")[who] == found[who]["clipped"]
    found = shown.metrics()
    assert found["psofed_quarantined",] == found["psofed_clients", "quarantined"] == 1


def test_who_behaves_again_is_released(attacked):
    shown, who = attacked
    live(shown, 20)
    assert "quarantine" in shown.server.alarms.on
    live(shown, 130, honest=[who])
    assert f"client {who} is released" in shown.said
    assert "Alarm over (quarantine)" in shown.said
    assert not any(row["quarantined"] for row in shown.rows().values())


def test_a_round_that_cannot_be_folded_is_told(stage):
    most = 1.7e308
    shown = stage(cohort=5, deploy=Deploy(wire="float64", bound=most))
    for n in range(2):
        for k in range(5):
            body = np.full(3, most * (-1) ** n).tobytes()
            frame = wire.Frame(wire.UPLOAD, shown.plan.digest, n, wire="float64", body=body)
            shown.server._message(k, wire.encode(frame))
        shown.server.run(n + 1)
    (told,) = [line for line in shown.said if "is left out" in line]
    assert shown.ledger.reasons["together"] == 5
    assert "the model would not be finite" in told
    assert any(row["reason"] == "together" for row in shown.rows().values())


def test_the_error_as_clients_see_it(stage):
    shown = stage()
    assert shown.state()["seen"] is None
    for k, (square, refused) in enumerate([(0.1, 0), (0.2, 7), (0.1, 0), (1e30, 0)]):
        trust = bytes([51, 0, 0, 204, 0, 0]) if k == 2 else b""
        body = Report(200, 179, square, 50, refused, trust).to_bytes()
        frame = wire.Frame(wire.HELLO, shown.plan.digest, 0, body=body)
        shown.server._message(k, wire.encode(frame))
    shown.play(1)
    assert shown.state()["seen"] == [-8.49, 1.51, 4]
    found = shown.metrics()
    told = [found[f"psofed_reported_error_{name}",] for name in ("db", "spread_db", "clients")]
    assert told == [-8.49, 1.51, 4]
    assert by_client(shown, "psofed_client_reported_error_db")[0] == -10
    assert by_client(shown, "psofed_client_refused_samples_total") == {0: 0, 1: 7, 2: 0, 3: 0}
    assert by_client(shown, "psofed_client_coverage")[1] == shown.rows()[1]["coverage"] == 0.895
    assert shown.rows()[4]["error"] is shown.rows()[4]["coverage"] is None
    assert [shown.rows()[k]["trusted"] for k in (1, 2, 4)] == [None, "ridge 80 %, own 20 %", None]
