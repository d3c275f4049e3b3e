"""The dashboard's HTTP server: a page, its data as JSON, and metrics. It only reads.

It has no accounts, so it listens on loopback unless told otherwise, and answers only those who have
come by an address or a name of this machine: any web page could read it otherwise, by pointing its
own name here (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from psofed.errors import InputError
from psofed.fleet.dashboard.board import Board
from psofed.fleet.dashboard.metrics import exposition

PATIENCE = 10.0  # seconds without a byte of a request
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def parse(where: str) -> tuple[str, int]:
    """Host and port, from [HOST:]PORT."""
    try:
        parts = urlsplit(f"//{where}" if ":" in where else f"//127.0.0.1:{where}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None or parts.path or "@" in where:
        right = "use PORT or HOST:PORT, e.g. 8080 or 127.0.0.1:8080"
        raise InputError("--dashboard", f"is {where!r}", right)
    return host, port


class Dashboard(ThreadingHTTPServer):
    """Listens from the start, so that a port in use is reported before anything else begins."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32
    board: Board
    page: bytes

    def __init__(self, where: str, plain: bool = False) -> None:
        self.host, port = parse(where)
        self.warning = ""
        if not _is_loopback(self.host):
            if not plain:
                right = "use 127.0.0.1 and a tunnel (ssh -L) or a proxy, or allow it with --plain"
                raise InputError("--dashboard", f"{where} can be read by everybody there", right)
            self.warning = "everybody who reaches the dashboard can read it, in plain text"
        self._thread = threading.Thread(target=self.serve_forever, daemon=True, name="dashboard")
        if ":" in self.host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((self.host, port), Handler)
        except (OSError, OverflowError) as error:
            found = f"cannot listen at {self.host}:{port}"
            found += f": {getattr(error, 'strerror', None) or error}"
            raise InputError("--dashboard", found, "give another port, or 0 for any") from None

    def server_bind(self) -> None:
        """As the base class, without asking a name server who we are."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.host, int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        host = self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    def open(self, board: Board, page: str) -> None:
        """Show a board, on this page."""
        self.board, self.page = board, page.encode()
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection was closed by the other end: nothing to report."""


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Dashboard
    server_version, sys_version = "psofed", ""
    timeout = PATIENCE
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Read something."""
        path = self.path.partition("?")[0]
        if not self._came_by_our_name():
            self._fail(403, "this machine does not have that name")
        elif path == "/":
            self._page()
        elif path == "/state.json":
            self._reply(200, json.dumps(self.server.board.ask()).encode(), "application/json")
        elif path == "/metrics":
            self._metrics()
        else:
            self._fail(404, "there is no such page")

    do_HEAD = do_GET  # noqa: N815

    def _only_reads(self) -> None:
        self._reply(405, b"this server is read-only\n", "text/plain", {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_PATCH = do_DELETE = _only_reads  # noqa: N815
    do_OPTIONS = do_TRACE = do_CONNECT = _only_reads  # noqa: N815

    def _came_by_our_name(self) -> bool:
        """By an address, "localhost" or the name that was given: others can be anybody's."""
        try:
            name = (urlsplit(f"//{self.headers.get('Host', '')}").hostname or "").lower()
            if name not in ("localhost", self.server.host.lower()):
                ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _page(self) -> None:
        body = self.server.page
        found = re.search(rb'Content-Security-Policy" content="([^"]*)"', body)
        assert found is not None
        policy = {"Content-Security-Policy": f"{found[1].decode()}; frame-ancestors 'none'"}
        self._reply(200, body, "text/html; charset=utf-8", policy)

    def _metrics(self) -> None:
        try:
            body, kind = exposition(self.server.board.ask())
        except InputError as error:
            self._fail(501, str(error))
            return
        self._reply(200, body, kind)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """As in the base class, but without quoting the request."""
        self._fail(code, "the request is not valid")

    def _fail(self, code: int, text: str) -> None:
        self._reply(code, f"{text}\n".encode(), "text/plain; charset=utf-8")

    def _reply(self, code: int, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(code)
        own = {"Content-Type": kind, "Content-Length": str(len(body))}
        for name, value in (HEADERS | own | (more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """No log of requests, which may hold private data."""
