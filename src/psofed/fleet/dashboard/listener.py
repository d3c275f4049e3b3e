"""The dashboard's HTTP server: a page, its data as JSON, and metrics. It only reads.

It has no accounts, so it listens on loopback by default, and answers only those who have come by
an address or a name of this machine: any web page could read it otherwise, by pointing its
own name here (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

from psofed.errors import InputError
from psofed.extras import need
from psofed.fleet.alarms import ALARMS
from psofed.fleet.dashboard.board import COLUMNS, STATES, Board

CLIENTS = 200  # with more, there are no series by client: each would be a dozen
PATIENCE = 10.0  # seconds without a byte of a request
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Family = tuple[str, str, Any, tuple[str, ...]]  # name, meaning, a value or values by label, labels


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


# The figures for Prometheus.


def exposition(state: dict[str, Any]) -> tuple[bytes, str]:
    """The text of /metrics and its content type, from all that a board shows."""
    need("prometheus_client", "deploy", "metrics")
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    def collect() -> Iterator[Any]:
        names = {key: str(state["about"][key]) for key in ("run", "method", "clock")}
        yield InfoMetricFamily("psofed_run", "What is deployed.", names)
        found = [(GaugeMetricFamily, _gauges(state)), (CounterMetricFamily, _counters(state))]
        if len(state["clients"]) <= CLIENTS:
            by = {name: _column(state, name) for name in COLUMNS}
            found += [(GaugeMetricFamily, _client_gauges(state, by))]
            found += [(CounterMetricFamily, _client_counters(by))]
        for kind, families in found:
            for name, text, values, labels in families:
                family = kind(f"psofed_{name}", text, labels=labels)
                for label, value in (values if labels else {(): values}).items():
                    key = label if isinstance(label, tuple) else (label,)
                    family.add_metric([str(part) for part in key], float(value))
                yield family

    registry = cast(CollectorRegistry, SimpleNamespace(collect=collect))
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _column(state: dict[str, Any], name: str) -> dict[Any, Any]:
    """One figure of each client of which it is known, by its name or number."""
    j, names = COLUMNS.index(name), state["names"]
    return {names.get(k, k): row[j] for k, row in state["clients"].items() if row[j] is not None}


def _gauges(state: dict[str, Any]) -> Iterator[Family]:
    yield "round", "The round that is open.", state["n"], ()
    yield "server_start", "How often this server was started.", state["start"], ()
    if state["mse"] is not None:
        yield "mse_db", "Test error of the global model, in dB.", state["mse"], ()
    if state["closed"] is not None:
        text = "When the last round was committed."
        yield "last_commit_timestamp_seconds", text, state["closed"], ()
    yield "broker_connected", "1 if connected to the broker.", state["connected"], ()
    on = {name: name in state["alarms"] for name in ALARMS}
    yield "alarm", "1 if the alarm is on.", on, ("alarm",)
    text = "Whole days until a certificate ends: the own one, the broker's, the authority's."
    yield "certificate_days", text, state["certificates"], ("whose",)
    states = Counter(row[0] for row in state["clients"].values())
    yield "clients", "Clients, by state.", {one: states[one] for one in STATES}, ("state",)
    text = "Members that are not asked until they are heard again: they do not answer."
    yield "asleep", text, state["asleep"], ()
    if state["epsilon"] is not None:
        text = "Privacy budget: spent by a client at most, all of it, and that of a measurement."
        names = "spent", "budget", "measurement"
        spent = dict(zip(names, state["epsilon"], strict=False))
        yield "epsilon", text, spent, ("what",)
    text = "Clients whose answers are not folded in."
    yield "quarantined", text, len(state["quarantined"]), ()
    if state["seen"] is not None:
        db, spread, clients = state["seen"]
        yield "reported_error_db", "Error as clients report it, in dB: the median.", db, ()
        yield "reported_error_spread_db", "The median distance of clients to it, in dB.", spread, ()
        yield "reported_error_clients", "How many clients report it.", clients, ()


def _counters(state: dict[str, Any]) -> Iterator[Family]:
    text = "Bytes of frames in rounds that were closed."
    yield "bytes", text, {way: state[way] for way in ("up", "down")}, ("direction",)
    text = "Reconnections to the broker since this start."
    yield "broker_reconnects", text, state["reconnects"], ()
    yield "samples", "Samples that clients have learned since this start.", state["samples"], ()
    text = "Clients that came without the state that they had, since this start."
    yield "states_lost", text, state["blanks"], ()
    counts = state["counts"]
    yield "questions", "Members of cohorts that were asked.", counts["asked"], ()
    outcomes = {name: counts[name] for name in ("accepted", "refused", "lost")}
    yield "answers", "Outcomes of questions to members.", outcomes, ("outcome",)
    outcomes = {name: counts[name] for name in ("accepted", "repeated", "rejected")}
    yield "messages", "Outcomes of messages received.", outcomes, ("outcome",)
    yield "refused", "Messages that were refused, by reason.", state["reasons"], ("reason",)
    text = "Messages that were not read since this start."
    yield "ignored", text, state["ignored"], ("reason",)


def _client_gauges(state: dict[str, Any], by: dict[str, dict[Any, Any]]) -> Iterator[Family]:
    lags = {k: state["n"] - 1 - n for k, n in by["last"].items() if n >= 0}
    gone = {k: one == "gone" for k, one in by["state"].items()}
    for name, text, values in (
        ("last_contact_timestamp_seconds", "When the client was last heard.", by["contact"]),
        ("lag_rounds", "Rounds closed since an answer of the client was last accepted.", lags),
        ("gone", "1 if the client does not answer.", gone),
        ("coverage", "Reported share of labels inside their interval of 0.9.", by["coverage"]),
        ("score", "How far out its changes are; honest ones are below 1.", by["score"]),
        ("clipped", "Share of its answers that were clipped, lately.", by["clipped"]),
        ("quarantined", "1 if its answers are not folded in.", by["quarantined"]),
        ("reported_error_db", "Its error as it reports it, in dB.", by["error"]),
    ):
        yield f"client_{name}", text, values, ("client",)


def _client_counters(by: dict[str, dict[Any, Any]]) -> Iterator[Family]:
    text = "Messages of the client that were dropped since this start."
    yield "client_dropped", text, by["dropped"], ("client",)
    yield (
        "client_samples",
        "Samples that it has learned since this start.",
        by["learned"],
        ("client",),
    )
    text = "Samples that it has not learned as they were, as it says."
    yield "client_refused_samples", text, by["unlearned"], ("client",)
    outcomes = ("accepted", "refused", "lost")
    answers = {(k, name): count for name in outcomes for k, count in by[name].items()}
    yield "client_answers", "Outcomes of questions to it.", answers, ("client", "outcome")
