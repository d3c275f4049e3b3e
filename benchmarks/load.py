"""Load: 1,000 connected clients on one mosquitto, cohorts of 4 and 100.

    python benchmarks/load.py [--clients 1000] [--rounds 2000] [--memory-rounds 10000]

The server is the deployed one, a process of its own (`psofed deploy serve`). The clients are real
MQTT connections with the deployed wire format in one process and one thread (asyncio, a few lines
of MQTT 3.1.1 of its own): they decode the invitation and send a valid upload at once, without
learning, so that what is measured is server and broker. Round latency is from one commit to the
next, as the server's log lines arrive. Memory is the server's resident set at 10 % and 100 %.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers import programs
from helpers.devices import Mosquitto
from helpers.processes import ENV
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.protocol import wire

SETTING = """
clients = {clients}
rounds = {rounds}
cohort = {cohort}
test_samples = 100
[[methods]]
name = "psofed"
shared = 5
"""


class Peer(asyncio.Protocol):
    """One client: CONNECT, SUBSCRIBE, and an upload for every invitation."""

    def __init__(self, k: int, digest: int, ready: asyncio.Future[None]) -> None:
        self.k, self.digest, self.ready, self.buffer = k, digest, ready, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        name = f"load-{self.k}".encode()
        head = b"\x00\x04MQTT\x04\x02\x00\x00" + _text(name)
        topic = _text(f"p/{self.k}/d".encode())
        self.transport.write(_packet(0x10, head) + _packet(0x82, b"\x00\x01" + topic + b"\x00"))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (found := _cut(self.buffer)) is not None:
            kind, body, self.buffer = found
            if kind == 0x90 and not self.ready.done():
                self.ready.set_result(None)
            elif kind & 0xF0 == 0x30:
                size = int.from_bytes(body[:2], "big")
                self._answer(wire.decode(body[2 + size :], 10_000))

    def _answer(self, frame: wire.Frame) -> None:
        upload = wire.Frame(wire.UPLOAD, self.digest, frame.n, 0, "float32", frame.body)
        topic = _text(f"p/{self.k}/u".encode())
        self.transport.write(_packet(0x30, topic + wire.encode(upload)))


def _text(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def _packet(kind: int, body: bytes) -> bytes:
    size, length = len(body), b""
    while True:
        size, low = divmod(size, 128)
        length += bytes([low | (0x80 if size else 0)])
        if not size:
            return bytes([kind]) + length + body


def _cut(data: bytes) -> tuple[int, bytes, bytes] | None:
    """The first whole packet and the rest; None if there is none."""
    size, shift, at = 0, 0, 1
    while at < len(data):
        size |= (data[at] & 127) << shift
        at, shift, more = at + 1, shift + 7, data[at] & 128
        if not more:
            end = at + size
            return (data[0], data[at:end], data[end:]) if len(data) >= end else None
    return None


@dataclass
class Result:
    """What was measured for one cohort size."""

    cohort: int
    rounds: int
    rate: float
    median: float
    p99: float
    memory: tuple[float, float]  # MB after 10 % and 100 % of the rounds
    answered: float


async def play(clients: int, cohort: int, rounds: int) -> Result:
    """All rounds of one setting."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "run.toml"
        file.write_text(SETTING.format(clients=clients, rounds=rounds, cohort=cohort))
        broker = Mosquitto(programs.find("mosquitto"), folder)
        loop, peers = asyncio.get_running_loop(), []
        try:
            digest = plans.read(file).digest
            for k in range(clients):
                ready: asyncio.Future[None] = loop.create_future()
                make = lambda k=k, ready=ready: Peer(k, digest, ready)  # noqa: E731
                peers.append((await loop.create_connection(make, "127.0.0.1", broker.port))[0])
                await ready
            return await _serve(file, folder, broker.url, cohort, rounds)
        finally:
            for peer in peers:
                peer.close()
            broker.stop()


async def _serve(file: Path, folder: Path, url: str, cohort: int, rounds: int) -> Result:
    command = [sys.executable, "-m", "psofed", "deploy", "serve", file, "--state", folder / "s",
               "--broker", url, "--set", "log=json", "--set", "deadline=10"]  # fmt: skip
    server = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV
    )
    assert server.stdout is not None
    times, memory, answered = [], [], 0
    async for line in server.stdout:
        times.append(time.monotonic())
        row = json.loads(line)
        answered = row["total_accepted"]
        if row["n"] + 1 in (rounds // 10, rounds):
            memory.append(_resident(server.pid))
    await server.wait()
    steps = np.diff(times) * 1000
    rate = 1000 / steps.mean()
    share = answered / (rounds * cohort)
    both = (memory[0], memory[-1])
    return Result(cohort, rounds, rate, np.median(steps), np.quantile(steps, 0.99), both, share)


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().split()
    return int(status[status.index("VmRSS:") + 1]) / 1024


def allow_connections() -> None:
    """Each client is an open file."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[1], 65_536), limits[1]))


def measure(quick: bool) -> dict[str, float]:
    """Rounds a second with cohorts of 4 and 100, and MB of the server."""
    allow_connections()
    found: dict[str, float] = {}
    for cohort, rounds in ((4, 10_000), (100, 1000)):
        result = asyncio.run(play(1000, cohort, rounds // 20 if quick else rounds))
        found |= {f"rate_{cohort}": result.rate, f"mb_{cohort}": result.memory[1]}
    return found


def main() -> None:
    """Both cohorts, then a long run for the memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--memory-rounds", type=int, default=10_000)
    args = parser.parse_args()
    allow_connections()
    print("| cohort | rounds | rounds/s | median ms | p99 ms | MB at 10 % | MB at end | answered |")
    print("|---" * 8 + "|")
    for cohort, rounds in ((4, args.memory_rounds), (100, args.rounds)):
        found = asyncio.run(play(args.clients, cohort, rounds))
        numbers = f"{found.rate:.0f} | {found.median:.1f} | {found.p99:.1f}"
        megabytes = f"{found.memory[0]:.1f} | {found.memory[1]:.1f}"
        rest = f"{megabytes} | {found.answered:.2%} |"
        print(f"| {cohort} | {rounds} | {numbers} | {rest}", flush=True)


if __name__ == "__main__":
    main()
