"""Who may read the dashboard, and what every reply forbids."""

import time

import pytest

from helpers.stage import TOKEN
from psofed.dashboard import access
from psofed.dashboard.access import Access
from psofed.dashboard.guesses import ADDRESSES, MOST, Guesses
from psofed.errors import InputError


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


@pytest.fixture
def patient(monkeypatch):
    """Wrong tokens cost no time, and may be many."""
    monkeypatch.setattr("psofed.dashboard.guesses.DELAY", 0.0)
    monkeypatch.setattr("psofed.dashboard.guesses.MOST", 1000)


def test_with_a_token_only_those_who_know_it_read(stage, patient):
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


@pytest.mark.parametrize("kind", ["bearer", "cookie", "login"])
def test_guesses_are_slow_and_soon_unheard_however_they_are_made(stage, monkeypatch, kind):
    monkeypatch.setattr("psofed.dashboard.guesses.DELAY", 0.05)
    shown = stage(token=TOKEN)

    def guess(token):
        if kind == "login":
            return shown.get("/login", "POST", body=token)[0].status
        if kind == "bearer":
            return shown.get("/metrics", Authorization=f"Bearer {token}")[0].status
        value = Access("127.0.0.1", 0, token).session
        return shown.get("/state.json", Cookie=f"psofed-{shown.port}={value}")[0].status

    begun = time.monotonic()
    assert [guess(f"guess number {n:08d}") for n in range(MOST)] == [401] * MOST
    assert time.monotonic() - begun >= MOST * 0.05
    assert guess("one more") == 429
    assert guess(TOKEN) == 429, "or the reply would tell which guess was right"
    assert shown.get("/")[0].status == 200, "the form is shown"
    guesses = shown.dashboard.listener.guesses
    assert (guesses.total, guesses.last) == (MOST, "127.0.0.1")
    monkeypatch.setattr("psofed.dashboard.guesses.WINDOW", 0.0)
    assert guess(TOKEN) in (200, 204)


def test_wrong_tokens_of_one_address_do_not_shut_out_another():
    guesses = Guesses()
    for n in range(3 * MOST):
        guesses.add("192.0.2.1")
        guesses.add(f"2001:db8::{n}")
    assert guesses.too_many("192.0.2.1")
    assert guesses.too_many("2001:db8::ffff"), "a network of IPv6 is one address"
    assert not guesses.too_many("192.0.2.2")
    assert not guesses.too_many("2001:db8:1::1")
    for n in range(ADDRESSES + 5):
        guesses.add(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")
    assert len(guesses._found) == ADDRESSES


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
