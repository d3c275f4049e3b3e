"""Real processes for tests and benchmarks: a mosquitto, a server, clients. Loopback only."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from helpers.processes import ENV, PSOFED, end, end_in_order, start

OPEN = "listener PORT 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\n"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, seconds=30.0, every=0.02):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(every)
    return found


def listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Mosquitto:
    """A broker of its own, which can be stopped and started again at the same port.

    `program` is where mosquitto is: in tests the fixture `broker` or `brokers` says so.
    """

    def __init__(self, program: str, folder: Path, config: str = ""):
        self.program, self.port, self.process = program, free_port(), None
        self.config = folder / "mosquitto.conf"
        self.config.write_text((config or OPEN).replace("PORT", str(self.port)))
        self.start()

    def start(self):
        # As root it would become another user, who may not read the folder of a test.
        command = [self.program, "-c", str(self.config)]
        with self.config.with_suffix(".log").open("ab") as log:
            self.process = start(*command, stdout=log, stderr=log)
        try:
            wait_for(lambda: listening(self.port))
        except AssertionError:
            end(self.process)
            raise

    def stop(self):
        end_in_order([self.process], 10)

    @property
    def url(self):
        return f"mqtt://127.0.0.1:{self.port}"


class Team:
    """A server and clients as processes; each can be killed and started again."""

    def __init__(self, folder: Path, file: Path, url: str, serve=(), client=()):
        self.folder, self.file, self.url = folder, file, url
        self.serve, self.more, self.running = serve, client, {}

    def start(self, *everybody):
        """Each is "server" or a client's number."""
        for who in everybody:
            self._start(who)

    def _start(self, who):
        more = self.more(who) if callable(self.more) else self.more
        verb = ["serve", self.file, *self.serve]
        if who != "server":
            verb = ["client", self.file, "--id", who, *more]
        broker = ["--broker", self.url] if self.url else []
        command = [*PSOFED, "deploy", *verb, "--state", self.folder / str(who), *broker]
        with (self.folder / f"{who}.log").open("ab") as log:
            self.running[who] = start(*command, stdout=log, stderr=log, env=ENV)

    def kill(self, who):
        """kill -9: whatever it was doing, it does no more."""
        end(self.running.pop(who))

    def stop(self):
        running, self.running = list(self.running.values()), {}
        end_in_order(running)

    def finish(self, seconds=60):
        """Once the server has ended by itself, all others end in order."""
        wait_for(lambda: self.running["server"].poll() is not None, seconds)
        self.stop()

    def log(self, who):
        return (self.folder / f"{who}.log").read_text()
