"""Alarms: each has a line in the log, a metric and a place on the dashboard, and says the cause."""

import errno
import os
import re
from datetime import UTC, datetime, timedelta

import numpy as np

from helpers.loopback import connect, disk
from psofed.fleet import alarms
from psofed.fleet.mqtt import SHARE, Event
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.member import Member


def raised(shown, name):
    """The text of an alarm, once it is where it has to be: log, metric and dashboard."""
    text = shown.state()["alarms"][name]
    assert any(line.startswith(f"Alarm ({name}): ") for line in shown.said)
    assert shown.metrics()["psofed_alarm", name] == 1
    return text


def greet(shown, k, n):
    digest = shown.plan.digest
    shown.server._message(k, wire.encode(wire.Frame(wire.HELLO, digest, n)))


def test_a_disk_that_is_full_until_the_operator_has_seen_it(stage, monkeypatch):
    shown, full = stage(), [True]
    sync, tick = shown.folder.sync, shown.server.on_tick

    def refuse(name):
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{shown.folder.name}/{name}")
        sync(name)

    def mend():
        tick()
        if full and "disk" in shown.server.alarms.on:
            shown.server.on_tick = tick
            assert shown.metrics()["psofed_alarm", "disk"] == 1
            assert shown.server.coordinator.n == 0
            full.clear()

    monkeypatch.setattr(shown.folder, "sync", refuse)
    shown.server.on_tick = mend
    shown.play(3)
    why = "No space left on device: round 0 is held, and no other begins, until it can be written"
    assert f"Alarm (disk): {shown.folder.name}/new: {why}" in shown.said
    assert shown.state()["alarms"] == {}
    assert "Alarm over (disk)" in shown.said


def test_nobody_answers(stage, monkeypatch):
    monkeypatch.setattr(alarms, "SILENCE", 0.05)
    shown = stage()
    shown.play(2)
    shown.server.link.hand = lambda topic, data: None
    shown.server.deadline = 0.1
    shown.server.run(4)
    assert re.match(r"no client has answered for \d+ s", raised(shown, "silence"))
    connect(shown.server, shown.devices)
    shown.server.deadline = None
    shown.play(2)
    assert shown.state()["alarms"] == {}
    assert "Alarm over (silence)" in shown.said


def test_silence_without_a_broker_or_without_a_question_is_none(stage, monkeypatch):
    monkeypatch.setattr(alarms, "SILENCE", 0.0)
    shown = stage()
    shown.server.status.unanswered_since = None
    assert shown.state()["alarms"] == {}
    shown.server._ask()
    shown.server._handle(Event("down", data="gone"))
    assert shown.state()["alarms"] == {}


def test_one_client_that_claims_to_be_ahead(stage):
    shown = stage()
    greet(shown, 3, wire.LAST_ROUND)
    text = raised(shown, "ahead")
    assert "client 3 says that it has taken part in later rounds than 0" in text
    assert "give that client a new state folder" in text
    greet(shown, 3, 0)
    assert "ahead" not in shown.state()["alarms"]


def test_two_devices_with_one_number_by_their_greetings_and_their_answers(stage):
    shown = stage()
    for n in (7, 0):
        greet(shown, 2, n)
    assert shown.state()["alarms"] == {}, "one that has lost its state goes back once"
    for n in (7, 0):
        greet(shown, 2, n)
    text = raised(shown, "shared")
    assert text.startswith("client 2: ")
    assert "two devices had the same --id" in text
    other = stage("other")
    k = other.server.coordinator.missing[0]
    frame = other.server.coordinator.frames()[k]
    for bias in (0.0, 1.0):  # two sensors do not measure the same

        def source(start, stop, bias=bias):
            return np.ones((stop - start, 4)), np.full(stop - start, bias)

        other.server._message(k, Member(other.plan, k, disk(), source).take(frame)[0])
    assert raised(other, "shared").startswith(f"client {k}: ")


def test_messages_that_are_dropped_or_not_read(stage):
    shown = stage()
    for _ in range(SHARE + 7):
        shown.server.link.inbox.put(Event("message", "p/1/u", b"x"), 1)
    shown.server.link.retained, shown.server.link.oversized = 2, 3
    assert "7 of client 1" in raised(shown, "dropped")
    for name, count in (("dropped", 7), ("retained", 2), ("oversized", 3)):
        assert f"{count} " in raised(shown, name)
        assert shown.metrics()["psofed_ignored_total", name] == count
    assert shown.metrics()["psofed_client_dropped_total", "1"] == 7
    assert [shown.rows()[k]["dropped"] for k in range(3)] == [0, 7, 0]


def test_a_wrong_seal(stage):
    shown = stage()
    shown.state()
    shown.server.coordinator._secret = bytes(32)
    greet(shown, 0, 0)
    assert "wrong seal" in raised(shown, "forged")
    assert shown.metrics()["psofed_refused_total", "mac"] == 1
    row = shown.state()["clients"]["0"]
    assert row[:2] == ["refused", None], "it was not heard: somebody else may have sent it"


def test_a_certificate_that_ends_soon(stage):
    shown = stage()
    ends = shown.server.link.ends
    ends["own"] = datetime.now(UTC) + timedelta(days=29.5)
    ends["broker"] = datetime.now(UTC) + timedelta(days=30.5)
    text = raised(shown, "expiry")
    assert text.startswith("this machine's certificate ends in 29 days")
    assert "broker" not in text
    assert shown.metrics()["psofed_certificate_days", "own"] == 29
    assert shown.metrics()["psofed_certificate_days", "broker"] == 30
    ends["own"] = ends["broker"]
    assert shown.state()["alarms"] == {}
