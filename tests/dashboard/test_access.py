"""Who may read the dashboard, what every reply forbids, and how many can hold it open."""

import http.client
import socket

import pytest

from psofed.errors import InputError
from psofed.fleet.dashboard import listener
from psofed.fleet.dashboard.listener import Dashboard, parse


def test_who_came_by_another_name_is_refused_and_every_reply_forbids_what_is_not_needed(stage):
    shown = stage()
    others = "evil.example", f"evil.example:{shown.port}", "", "127.0.0.1.evil.example", "[", "a@b"
    ours = "localhost", "127.0.0.1:1", "[::1]:80", "LOCALHOST:9"
    paths = {"/": 200, "/state.json": 200, "/metrics": 200, "/nothing": 404}
    for host in (*others, *ours):
        for path, status in paths.items():
            reply, _ = shown.get(path, Host=host)
            assert reply.status == (status if host in ours else 403), host
            assert reply.getheader("Cache-Control") == "no-store"
            assert reply.getheader("X-Content-Type-Options") == "nosniff"
            assert reply.getheader("Referrer-Policy") == "no-referrer"
            policy = reply.getheader("Content-Security-Policy")
            assert all(part in policy for part in ("default-src 'none'", "frame-ancestors 'none'"))
            assert "unsafe" not in policy
            assert reply.getheader("Access-Control-Allow-Origin") is None


def test_it_only_reads(stage):
    shown = stage()
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"):
        for path in ("/", "/state.json", "/login"):
            reply, text = shown.get(path, method, body="x" if method == "POST" else None)
            assert reply.status in (405, 501)
            assert "BREW" not in text
    assert shown.get("/state.json", "HEAD")[1] == ""


def test_beyond_this_machine_it_has_to_be_allowed_and_then_it_warns(monkeypatch):
    for where in ("0.0.0.0:0", "192.0.2.1:80", "[::]:80", "example.org:80"):
        with pytest.raises(InputError, match=r"can be read by everybody there; use 127\.0\.0\.1"):
            Dashboard(where)
    monkeypatch.setattr(listener, "_is_loopback", lambda host: False)
    shown = Dashboard("localhost:0", plain=True)
    assert "everybody who reaches the dashboard can read it" in shown.warning
    shown.close()


@pytest.mark.parametrize(
    "where", ["", "x", "host:", "127.0.0.1:99999", "127.0.0.1:1/x", "a@localhost:1", "[::1", "-1"]
)
def test_an_address_that_is_none_is_refused(where):
    with pytest.raises(InputError, match="--dashboard is"):
        parse(where)


def test_results_do_not_depend_on_being_watched(stage):
    plain, watched = stage("plain", shown=False), stage("watched")
    for each in (plain, watched):
        each.play(1)
    stalled = socket.create_connection(("127.0.0.1", watched.port))
    stalled.sendall(b"GET /state.json HTTP/1.0\r\nHost: localhost\r\n\r\n")
    for each in (plain, watched):
        each.play(60)
    assert watched.state()["n"] == 61
    stalled.close()
    for name in ("record.0", "record.1"):
        assert (plain.folder.path / name).read_bytes() == (watched.folder.path / name).read_bytes()


def test_a_loop_that_stands_still_keeps_nobody_waiting_for_long(stage, monkeypatch):
    monkeypatch.setattr("psofed.fleet.dashboard.board.WAIT", 0.05)
    shown = stage()
    shown.play(2)
    assert shown.state()["n"] == 2
    shown.play(1)
    line = http.client.HTTPConnection("127.0.0.1", shown.port, timeout=20)
    line.request("GET", "/state.json")
    assert b'"n": 2' in line.getresponse().read(), "what was shown last"
    line.close()
