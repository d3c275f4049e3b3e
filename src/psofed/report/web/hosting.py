"""One page for the browsers of this machine, from memory: there is no file to be left over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

PATIENCE = 10.0  # seconds for a request


class Host(ThreadingTCPServer):
    """A server of one page on loopback, at a port that is free."""

    daemon_threads = True

    def __init__(self, text: str) -> None:
        self.page = text.encode()
        super().__init__(("127.0.0.1", 0), PageHandler)

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser closed its connection early: nothing to report."""


class PageHandler(BaseHTTPRequestHandler):
    """The page, and nothing else."""

    server: Host
    server_version, sys_version = "psofed", ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Read the page."""
        found = self.path.partition("?")[0] == "/"
        body = self.server.page if found else b"there is no such page\n"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", f"text/{'html' if found else 'plain'}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *arguments: Any) -> None:
        """The terminal stays quiet."""


@contextmanager
def hosting(text: str) -> Iterator[str]:
    """The address of the page `text`, which is there until the end of the block.

    >>> from urllib.request import urlopen
    >>> with hosting("<p>Hello</p>") as url:
    ...     urlopen(url).read()
    b'<p>Hello</p>'
    """
    with Host(text) as host:
        thread = threading.Thread(target=host.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield host.url
        finally:
            host.shutdown()
            thread.join()
