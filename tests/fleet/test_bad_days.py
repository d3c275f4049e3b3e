"""What goes wrong around a fleet has a line that names the cause, and an alarm of the server."""

import re
import socket
import time

import pytest

from helpers.devices import free_port, wait_for
from helpers.loopback import Line, disk, plan
from helpers.runs import LIVE
from psofed.errors import InputError
from psofed.fleet import alarms, mqtt
from psofed.fleet.address import Address, unreached
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import replay
from psofed.fleet.server_loop import ServerLoop


def said(address):
    """What a link says of an address that cannot be reached."""
    link = mqtt.Link(address, "0", "p/0/d", 1000)
    link.open()
    try:
        return wait_for(lambda: link.get(1.0)).data
    finally:
        link.close()


def test_a_name_that_cannot_be_resolved_is_told_from_a_broker_that_is_not_there(monkeypatch):
    assert "nothing listens at that port" in said(Address("127.0.0.1", free_port()))

    def gone(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", gone)
    line = said(Address("broker.example", 1883))
    assert line.startswith("the name broker.example cannot be resolved (Name or service not known)")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError("timed out"), "does a firewall let this port pass"),
        (OSError(113, "No route to host"), "it cannot be reached: No route to host"),
        (None, "it cannot be reached, or its certificate is of another authority"),
    ],
)
def test_why_a_broker_is_not_reached(error, words):
    assert words in unreached(error, "b", tls=True)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_what_cannot_be_a_name_is_refused(host):
    with pytest.raises(InputError, match="use mqtt://HOST:PORT"):
        Address.parse(f"mqtt://{host}")


def test_a_server_without_a_broker_raises_an_alarm_with_the_cause(monkeypatch):
    server, lines = ServerLoop(Coordinator(plan(), disk()), Line()), []
    server.on_news = lines.append
    server._handle(mqtt.Event("up"))
    server._handle(mqtt.Event("down", data="the name nowhere cannot be resolved"))
    assert server.alarms.on == {}
    monkeypatch.setattr(alarms, "OFFLINE", 0.0)
    server.alarms._next = 0.0
    server._handle(None)
    text = "no broker at mqtt://nowhere:1: the name nowhere cannot be resolved"
    assert server.alarms.on == {"broker": text}
    assert f"Alarm (broker): {text}" in lines
    server._handle(mqtt.Event("up"))
    server.alarms._next = 0.0
    server._handle(None)
    assert server.alarms.on == {}


def test_of_two_servers_of_one_run_the_one_that_is_behind_is_told(broker, team, start, tmp_path):
    run = team(LIVE, broker.url, serve=("--every", "0.1"))
    for who in ("server", 0, 1, 2):
        run.start(who)
    wait_for(lambda: "round 5:" in run.log("server"))
    log = tmp_path / "second.log"
    with log.open("w") as file:
        to = ("--broker", broker.url, "--state", tmp_path / "second", "--deadline", 1)
        start("deploy", "serve", run.file, *to, stdout=file, stderr=file)
    line = wait_for(lambda: re.search(r"Alarm \(rival\): .*", log.read_text()))[0]
    assert "another server of this run is running" in line
    assert "Alarm (rival)" not in run.log("server")


def test_one_client_alone_is_no_sign_of_another_server():
    given = plan(cohort=5)
    server = ServerLoop(Coordinator(given, disk()), Line())
    server._handle(None)
    for k, count in ((1, 100), (2, 1)):
        assert server.alarms.on == {}
        server.coordinator.unasked[k] += count
        server.alarms._next = 0.0
        server._handle(None)
    assert list(server.alarms.on) == ["rival"]


def test_answers_to_rounds_of_long_ago_count_as_not_asked():
    coordinator = Coordinator(plan(cohort=5), disk())
    other = Coordinator(plan(cohort=5), disk())
    members = [Member(plan(cohort=5), k, disk(), replay(plan().experiment, k)) for k in range(5)]
    frame = other.frames()[0]
    answer = members[0].take(frame)[0]
    for _ in range(3):
        coordinator.commit()
    assert coordinator.take(0, answer) == "late"
    assert coordinator.unasked.total() == 0
    coordinator.settled = 2
    assert coordinator.take(0, answer) == "late"
    assert coordinator.unasked[0] == 1


def test_a_client_that_connects_again_and_again_is_named(monkeypatch):
    given = plan()
    server, member = ServerLoop(Coordinator(given, disk()), Line()), Member(given, 2, disk())
    for _ in range(alarms.RESTLESS[0]):
        server._handle(None)
        assert server.alarms.on == {}
        server._message(2, member.hello())
    server.alarms._next = 0.0
    server._handle(None)
    assert server.alarms.on["restless"].startswith("client 2 connects again and again: two devices")
    now = time.monotonic() + alarms.RESTLESS[1]
    monkeypatch.setattr(alarms, "monotonic", lambda: now)
    server._handle(None)
    assert "restless" not in server.alarms.on
