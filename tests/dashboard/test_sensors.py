"""Sensors that fall silent or stick while their clients answer: alarm, metric, state, first line."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from helpers.loopback import K
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.samples import MalformedError, Sample


@pytest.fixture
def fleet(stage, monkeypatch):
    """`fleet(minutes, measuring)`: rounds each 15 s; each minute these clients have a sample."""
    shown, now = stage(deploy=Deploy(clock="live"), cohort=K), [0.0]
    monkeypatch.setattr("psofed.fleet.server_loop.monotonic", lambda: now[0])
    shown.join()
    rng = np.random.default_rng(0)

    def live(minutes, measuring=range(K)):
        for _ in range(4 * minutes):
            now[0] += 15
            for k in measuring if now[0] % 60 == 0 else ():
                shown.devices[k]._learn([Sample(rng.normal(size=4), rng.normal())])
            shown.play(1)

    live.shown = shown
    return live


def heading(page, text):
    page.get_by_role("heading", level=1).get_by_text(text).wait_for()


def test_silence_is_measured_by_what_is_usual_for_a_sensor_and_for_all(fleet, open_page):
    shown = fleet.shown
    fleet(10)
    assert shown.state()["alarms"] == {}
    fleet(4, range(1, K))
    told = shown.state()["alarms"]["sensors"]
    assert told.startswith("client 0: nothing learned for 4 min; look at")
    assert shown.rows()[0]["state"] == "silent"
    metrics = shown.metrics()
    assert metrics["psofed_alarm", "sensors"] == metrics["psofed_clients", "silent"] == 1
    counts = [metrics["psofed_client_samples_total", str(k)] for k in (0, 1)]
    assert counts == [8, 12], "the first two of each are too early to judge"
    page = open_page(shown)
    heading(page, "Client 0 is silent: nothing learned for 4 min.")
    fleet(2)
    assert shown.state()["alarms"] == {}
    fleet(4, ())
    assert shown.state()["alarms"]["sensors"].startswith("no client has learned anything for 4 min")
    heading(page, "No client has learned anything for 4 min, though they answer.")
    assert shown.metrics()["psofed_clients", "silent"] == K - 1, "0 is known for pauses"


def test_a_client_says_what_is_wrong_with_its_samples_and_with_its_certificate(fleet):
    shown, devices = fleet.shown, fleet.shown.devices
    for n in range(120):
        devices[0]._learn([Sample(np.full(4, n), 7.0)])
    devices[1].samples = [MalformedError("a value is not a number")] * 9
    devices[1]._read()
    devices[1]._take_samples()
    devices[2].link.ends["own"] = datetime.now(UTC) + timedelta(days=20)
    fleet(1, ())
    alarms, rows = shown.state()["alarms"], shown.rows()
    assert "client 0: the label stays the same while inputs change" in alarms["sensors"]
    assert "client 1: its samples have ended" in alarms["sensors"]
    assert "client 2 has a certificate that ends within 30 days" in alarms["expiry"]
    assert [rows[k]["state"] for k in range(3)] == ["stuck", "silent", "ok"]
    assert shown.metrics()["psofed_client_refused_samples_total", "1"] == 9, "without a report"
    for n in range(120):
        devices[3]._learn([Sample(np.full(4, n), 7.0)])
    fleet(1, ())
    assert shown.state()["alarms"]["sensors"].count("client") == 3
    assert shown.said[-1] == "Warning: stuck: client 3", "beside the others"
