"""The dashboard's HTTP server: who may read, what can be read, and how much of it at once.

On loopback, all users of this machine may read, if the browser used a name of this machine.
(Otherwise any web page could read it, by pointing its own name here.) With a token, its holders.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from typing import Any, Protocol
from urllib.parse import urlsplit

from psofed.dashboard import guesses
from psofed.dashboard.access import Access, is_loopback, same
from psofed.dashboard.metrics import exposition
from psofed.errors import InputError
from psofed.web.page import CHART_STYLES, CHARTS, page

CONNECTIONS = 64
PATIENCE = 10.0  # seconds for a whole request, except for watchers
WATCHED = float("inf")
STALLED = 30.0  # seconds after which a watcher that reads nothing is disconnected
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Site(Protocol):
    """What there is to read."""

    def whole(self) -> dict[str, Any]: ...

    def join(self) -> Any: ...

    def leave(self, stream: Any) -> None: ...


class Listener(ThreadingHTTPServer):
    """A thread for each of a limited number of connections; stalled ones are closed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32
    site: Site

    def __init__(self, access: Access) -> None:
        self.access, self.guesses = access, guesses.Guesses()
        self.pages: dict[str, bytes] = {}
        self._until: dict[Any, float] = {}
        self._lock = threading.Lock()
        if ":" in access.host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((access.host, access.port), Handler)
        except (OSError, OverflowError) as error:
            found = f"cannot listen at {access.host}:{access.port}"
            found += f": {getattr(error, 'strerror', None) or error}"
            raise InputError("--dashboard", found, "give another port, or 0 for any") from None

    def server_bind(self) -> None:
        """As the base class, without asking a name server who we are."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.access.host, int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        host = self.access.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    @property
    def cookie(self) -> str:
        """The name of the cookie, by port: browsers share the cookies of all ports."""
        return f"psofed-{self.server_port}"

    def show(self, site: Site, run: str) -> None:
        """What to answer with."""
        self.site = site
        for name, scripts in (("dashboard", CHARTS), ("login", ("dom.js",))):
            styles = (*CHART_STYLES, "dashboard.css")
            text = page(f"psofed: {run}", {}, (*scripts, f"{name}.js"), styles, connects=True)
            self.pages[name] = text.encode()

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for it. If there are too many, the oldest has to go, unless it is a watcher's:
        so there is always one for /metrics, whoever holds the others open."""
        with self._lock:
            oldest = None
            if full := len(self._until) >= CONNECTIONS:
                oldest = next((r for r, end in self._until.items() if end < WATCHED), None)
                self._until.pop(oldest, None)
            if not full or oldest is not None:
                self._until[request] = monotonic() + PATIENCE
        if full and oldest is None:
            request.close()
            return
        if oldest is not None:
            _hang_up(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._until.pop(request, None)
        super().shutdown_request(request)

    def keep(self, request: Any) -> None:
        """This connection is a watcher's: it may stay open."""
        with self._lock:
            if request in self._until:
                self._until[request] = WATCHED

    def reap(self) -> None:
        """End the connections that have taken too long."""
        with self._lock:
            late = [request for request, until in self._until.items() if monotonic() > until]
        for request in late:
            _hang_up(request)

    def drain(self, seconds: float = 1.0) -> None:
        """Let the last events reach the watchers, but do not wait for those that do not read."""
        end = monotonic() + seconds
        while self._until and monotonic() < end:
            sleep(0.01)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection was closed by the other end: nothing to report."""


def _hang_up(request: Any) -> None:
    with suppress(OSError):  # it may have gone by itself
        request.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Listener
    server_version, sys_version = "psofed", ""
    timeout = PATIENCE
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Read something."""
        path = self.path.partition("?")[0]
        if not self._came_by_our_name():
            self._fail(403, "this machine does not have that name")
        elif not (proof := self._proof()):
            if path == "/":
                self._page("login")
            else:
                self._fail(401, "needs the token")
        elif not self._holds(proof):
            pass  # it was told so
        elif path == "/":
            self._page("dashboard")
        elif path == "/events":
            self._events()
        elif path == "/state.json":
            self._reply(200, json.dumps(self.server.site.whole()).encode(), "application/json")
        elif path == "/metrics":
            self._metrics()
        else:
            self._fail(404, "there is no such page")

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """The token for a cookie; nothing else can be changed from here."""
        if self.path != "/login" or self.server.access.token is None:
            self._only_reads()
            return
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > 1000:
            self._fail(400, "the request has no token, or it is too long")
        elif self._holds(("bearer", self.rfile.read(int(size)).decode(errors="replace"))):
            secure = "; Secure" if self.headers.get("X-Forwarded-Proto") == "https" else ""
            value = f"{self.server.cookie}={self.server.access.session}"
            rules = "Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"
            self._reply(204, b"", "text/plain", {"Set-Cookie": f"{value}; {rules}{secure}"})

    def _only_reads(self) -> None:
        self._reply(405, b"this server is read-only\n", "text/plain", {"Allow": "GET, HEAD"})

    do_PUT = do_PATCH = do_DELETE = _only_reads  # noqa: N815
    do_OPTIONS = do_TRACE = do_CONNECT = _only_reads  # noqa: N815

    def _came_by_our_name(self) -> bool:
        """Without a token, the browser must have used a name of this machine (DNS rebinding)."""
        if self.server.access.token is not None:
            return True
        try:
            name = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        except ValueError:
            return False
        return is_loopback(name or "")

    def _proof(self) -> tuple[str, str] | None:
        """What the request has to show: a token or a cookie, with what it is; None if nothing."""
        if self.server.access.token is None:
            return "nothing", ""  # nothing is asked for
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return "bearer", token.strip()
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return None
        return None if found is None else ("cookie", found.value)

    def _holds(self, proof: tuple[str, str]) -> bool:
        """Whether it is right. If not, this replies: late, and soon no more, to stop guessing."""
        access, wrong, address = self.server.access, self.server.guesses, self.client_address[0]
        kind, value = proof
        if kind == "nothing":
            return True
        if wrong.too_many(address):
            self._fail(429, "too many wrong tokens from this address: wait a minute")
            return False
        if access.knows(value) if kind == "bearer" else same(value, access.session):
            return True
        wrong.add(address)
        if wrong.sleepers.acquire(blocking=False):
            sleep(guesses.DELAY)
            wrong.sleepers.release()
        if kind == "cookie" and self.path == "/":
            self._page("login")  # a cookie of an older token
        else:
            self._fail(401, "the token is wrong")
        return False

    def _page(self, name: str) -> None:
        body = self.server.pages[name]
        found = re.search(rb'Content-Security-Policy" content="([^"]*)"', body)
        assert found is not None
        policy = f"{found[1].decode()}; frame-ancestors 'none'"
        more = {"Content-Security-Policy": policy}
        self._reply(200, body, "text/html; charset=utf-8", more)

    def _metrics(self) -> None:
        try:
            body, kind = exposition(self.server.site.whole())
        except InputError as error:
            self._fail(501, str(error))
            return
        self._reply(200, body, kind)

    def _events(self) -> None:
        stream = self.server.site.join()
        if stream is None:
            self._fail(503, "too many are watching")
            return
        self.server.keep(self.connection)
        self.connection.settimeout(STALLED)
        try:
            self._head(200, "text/event-stream", {})
            while self.command == "GET" and (data := stream.get()):
                self.wfile.write(data)
        except OSError:
            pass  # the watcher has gone, or reads nothing
        finally:
            self.server.site.leave(stream)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """As in the base class, but without quoting the request."""
        self._fail(code, "the request is not valid")

    def _fail(self, code: int, text: str) -> None:
        self._reply(code, f"{text}\n".encode(), "text/plain; charset=utf-8")

    def _reply(self, code: int, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self._head(code, kind, {"Content-Length": str(len(body)), **(more or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, code: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in (HEADERS | {"Content-Type": kind} | more).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """No log of requests, which may hold private data."""
