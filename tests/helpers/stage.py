"""A server without a network, in this process, and its dashboard."""

import http.client
import json

from helpers.loopback import Line, connect, disk, plan
from psofed.dashboard.screen import Dashboard
from psofed.deploy import mqtt
from psofed.deploy.client_loop import Device
from psofed.deploy.samples import replay
from psofed.deploy.server_loop import ServerLoop
from psofed.protocol.client import Member
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.store import StateFolder

TOKEN = "a-token-of-some-length"


class Stage:
    """A server without a network, in this process, and its dashboard."""

    def __init__(self, folder, token=None, shown=True, **changes):
        self.plan = plan(rounds=10_000, **changes)
        self.folder = StateFolder(folder)
        self.server = ServerLoop(Coordinator(self.plan, self.folder), Line())
        self.devices = {}
        self.dashboard = Dashboard("0", token) if shown else None
        self.mse = -1.5
        if shown:
            self.dashboard.open(self.server, self.folder.path, None)
            self.server.on_close = lambda closed: self.dashboard.watch.close(closed, self.mse)
        self.server._handle(mqtt.Event("up"))

    def play(self, rounds):
        """So many more rounds with all clients."""
        if not self.devices:
            given = self.plan
            for k in range(given.experiment.clients):
                member = Member(given, k, disk(), replay(given.experiment, k))
                self.devices[k] = Device(member, Line())
            connect(self.server, self.devices)
        self.server.run(self.server.coordinator.n + rounds)

    def get(self, path, method="GET", body=None, **headers):
        """The reply and its body."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            line.request(method, path, body, headers)
            reply = line.getresponse()
            return reply, reply.read().decode()
        finally:
            line.close()

    def state(self):
        self.server._handle(None)  # as the loop does all the time
        return json.loads(self.get("/state.json")[1])

    @property
    def port(self):
        return self.dashboard.listener.server_port

    @property
    def ledger(self):
        return self.server.coordinator.server.ledger

    def close(self):
        if self.dashboard is not None:
            self.dashboard.close()
        self.folder.close()
