"""The playground: PSO-Fed in a browser, as one page that needs no server and no network."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from psofed.report.page import CHART_STYLES, CHARTS, asset, document

WORKER = ("algorithm.js", "play_random.js", "play_world.js", "play_worker.js")
SCRIPTS = (
    "play_settings.js", "play_picture.js", "play_reading.js", "play_words.js", "play_tour.js",
    "play_panel.js", "play_charts.js", "play_time.js", "play.js",
)  # fmt: skip


def render() -> str:
    """The whole page. It computes in a worker, whose text it carries in its data."""
    worker = "\n".join(asset(name) for name in WORKER)
    scripts, styles = (*CHARTS, *SCRIPTS), (*CHART_STYLES, "play.css")
    return document("PSO-Fed playground", {"worker": worker}, scripts, styles, works=True)


class _Host(ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser closed its connection early: nothing to report."""


@contextmanager
def hosting(text: str) -> Iterator[str]:
    """The address of the page `text` on this machine, from memory, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0  # seconds for a request

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *arguments: Any) -> None:
            """The terminal stays quiet."""

    with _Host(("127.0.0.1", 0), Handler) as host:
        thread = threading.Thread(target=host.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{host.server_address[1]}/"
        finally:
            host.shutdown()
            thread.join()
