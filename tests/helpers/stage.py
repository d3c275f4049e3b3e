"""A server without a network, in this process, and its dashboard."""

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor

from prometheus_client.parser import text_string_to_metric_families

from helpers.loopback import World, connect
from psofed.cli.serve import dashboard_page
from psofed.fleet import mqtt
from psofed.fleet.dashboard.board import COLUMNS, Board
from psofed.fleet.dashboard.listener import Dashboard
from psofed.fleet.protocol.store import StateFolder


class Stage:
    """A server without a network, in this process, its dashboard, and what its log was told."""

    def __init__(self, folder, shown=True, **changes):
        self.folder = StateFolder(folder)
        self.world = World(rounds=10_000, disks={-1: self.folder}, **changes)
        self.plan, self.devices, self.said, self.mse = self.world.plan, {}, [], -1.5
        self.server = self.world.loop(on_news=self.said.append)
        self.server.link.hand = lambda topic, data: None  # nobody is here yet
        self.dashboard = Dashboard("0") if shown else None
        if shown:
            self.board = Board(self.server)
            self.dashboard.open(self.board, dashboard_page("p"))
            self.server.on_close = lambda closed: self.board.close(closed, self.mse)
        self.server._handle(mqtt.Event("up"))

    def join(self):
        """All clients are here; on a live clock somebody gives them their samples."""
        self.sources, self.devices = self.world.streams, self.world.devices
        connect(self.server, self.devices)

    def play(self, rounds):
        """So many more rounds with all clients."""
        if not self.devices:
            self.join()
        self.server.run(self.server.coordinator.n + rounds)

    def get(self, path, method="GET", body=None, **headers):
        """The reply and its body, while the loop does what it does all the time."""
        with ThreadPoolExecutor(1) as other:
            asked = other.submit(self._request, path, method, body, headers)
            while not asked.done():
                self.server._handle(None)
                time.sleep(0.001)
            return asked.result()

    def _request(self, path, method, body, headers):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            line.request(method, path, body, headers)
            reply = line.getresponse()
            return reply, reply.read().decode()
        finally:
            line.close()

    def state(self):
        return json.loads(self.get("/state.json")[1])

    def metrics(self):
        """By name and labels: what a Prometheus reads, by its own parser."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        found = (sample for family in families for sample in family.samples)
        return {(each.name, *each.labels.values()): each.value for each in found}

    def rows(self):
        """By client: what is shown of it, by name."""
        clients = self.state()["clients"].items()
        return {int(k): dict(zip(COLUMNS, row, strict=True)) for k, row in clients}

    @property
    def port(self):
        return self.dashboard.server_port

    @property
    def url(self):
        return self.dashboard.url

    @property
    def ledger(self):
        return self.server.coordinator.server.ledger

    def close(self):
        if self.dashboard is not None:
            self.dashboard.close()
        self.folder.close()
