"""What goes wrong around a fleet has a line that names the cause, and an alarm of the server."""

import socket
import ssl

import pytest

from helpers.devices import free_port, wait_for
from helpers.loopback import World
from psofed.errors import InputError
from psofed.fleet import alarms, mqtt
from psofed.fleet.broker import Address, unreached


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


@pytest.mark.parametrize(("error", "words"), [
    (TimeoutError("timed out"), "does a firewall let this port pass"),
    (OSError(113, "No route to host"), "it cannot be reached: No route to host"),
    (ssl.SSLCertVerificationError(1, "x"), "are the clock of this machine, --ca and the"),
])  # fmt: skip
def test_why_a_broker_is_not_reached(error, words):
    if isinstance(error, ssl.SSLError):
        error.verify_message = "certificate has expired"
    assert words in unreached(error, "b")


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_what_cannot_be_a_name_is_refused(host):
    with pytest.raises(InputError, match="use mqtt://HOST:PORT"):
        Address.parse(f"mqtt://{host}")


def test_a_server_without_a_broker_raises_an_alarm_with_the_cause(monkeypatch):
    lines = []
    server = World().loop(on_news=lines.append)
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
