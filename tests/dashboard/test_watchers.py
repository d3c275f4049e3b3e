"""Watchers, however many and however slow, change nothing and block nobody."""

import http.client
import socket
import time

import pytest

from helpers.devices import wait_for
from psofed.dashboard import listener
from psofed.dashboard import screen as dashboards


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
    wait_for(lambda: len(shown.dashboard.listener._until) == 2)  # or its place would be missing
    idle = [socket.create_connection(("127.0.0.1", shown.port)) for _ in range(6)]
    wait_for(lambda: len(shown.dashboard.listener._until) == 4)
    for _ in range(3):
        assert shown.get("/metrics")[0].status == 200, "whoever holds the others"
    monkeypatch.setattr(listener, "CONNECTIONS", 2)  # all of which are watched
    for line in idle:
        line.close()
    wait_for(lambda: len(shown.dashboard.listener._until) == 2)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        shown.get("/state.json")
    assert len(shown.dashboard._hub._streams) == 2
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
