"""What a dashboard costs a server.

    python benchmarks/dashboard.py [--clients 1000] [--cohort 4] [--rounds 1500]

`psofed deploy serve` with the clients of `load.py` on one mosquitto: without a dashboard, with one
that nobody watches, with one that a page asks once a second and that is scraped. The three take
turns, several times, because other work shares the machine, and what is compared is the CPU time
of the server, which other work disturbs least.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from load import SETTING, Peer

from helpers import programs
from helpers.devices import Mosquitto, free_port
from helpers.processes import ENV
from psofed.fleet.protocol import deployment as plans

WAYS = ("none", "unwatched", "watched")
ASKED = {"/state.json": 1.0, "/metrics": 5.0}  # seconds between two requests


class Reader:
    """Asks for the state as a page does, and for metrics as Prometheus does."""

    def __init__(self, port: int) -> None:
        self.port, self.sizes = port, dict.fromkeys(ASKED, 0)

    async def ask(self, path: str) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(ASKED[path])
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                self.sizes[path] = len(await reader.read()) or self.sizes[path]
                writer.close()


@dataclass
class Result:
    """What was measured once."""

    cpu: float  # milliseconds a round
    size: int  # bytes of a reply with the state


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def serve(file: Path, folder: Path, url: str, way: str, rounds: int) -> Result:
    """All rounds in one way."""
    reader = Reader(free_port())
    shown = [] if way == "none" else ["--dashboard", reader.port]
    command = [sys.executable, "-m", "psofed", "deploy", "serve", file, "--state", folder,
               "--broker", url, "--set", "log=json", "--set", "deadline=10", *shown]  # fmt: skip
    server = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env=ENV,
    )  # fmt: skip
    tasks = [asyncio.create_task(reader.ask(path)) for path in ASKED if way == "watched"]
    assert server.stdout is not None
    cpu = []
    async for line in server.stdout:
        n = json.loads(line)["n"]
        if n in (rounds // 10, rounds - 1):
            cpu.append(_cpu(server.pid))
    await server.wait()
    for task in tasks:
        task.cancel()
    spent = 1000 * (cpu[1] - cpu[0]) / (rounds - 1 - rounds // 10)
    return Result(spent, reader.sizes["/state.json"])


async def play(clients: int, cohort: int, rounds: int, turns: int) -> dict[str, list[Result]]:
    """All ways in turn."""
    found: dict[str, list[Result]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "run.toml"
        file.write_text(SETTING.format(clients=clients, rounds=rounds, cohort=cohort))
        broker, peers = Mosquitto(programs.find("mosquitto"), folder), []
        loop, digest = asyncio.get_running_loop(), plans.read(file).digest
        try:
            for k in range(clients):
                ready: asyncio.Future[None] = loop.create_future()
                make = lambda k=k, ready=ready: Peer(k, digest, ready)  # noqa: E731
                peers.append((await loop.create_connection(make, "127.0.0.1", broker.port))[0])
                await ready
            for turn in range(turns):
                for way in WAYS:
                    place = folder / f"{way}{turn}"
                    found[way].append(await serve(file, place, broker.url, way, rounds))
        finally:
            for peer in peers:
                peer.close()
            broker.stop()
    return found


def measure(quick: bool) -> dict[str, float]:
    """CPU ms of the server in a round, by way, with 100 clients."""
    found = asyncio.run(play(100, 4, 500, 1 if quick else 3))
    return {way: float(np.median([each.cpu for each in found[way]])) for way in WAYS}


def _print(clients: int, cohort: int, found: dict[str, list[Result]]) -> None:
    spent = [f"{np.median([each.cpu for each in found[way]]):.2f}" for way in WAYS]
    print(f"| {clients} | {cohort} | {' / '.join(spent)}"
          f" | {found['watched'][-1].size / 1000:.0f} |", flush=True)  # fmt: skip


def main() -> None:
    """A few settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--cohort", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    print("| clients | cohort | CPU ms a round: none / unwatched / watched | kB of a state |")
    print("|---" * 4 + "|")
    for clients in args.clients:
        found = asyncio.run(play(clients, args.cohort, args.rounds, args.turns))
        _print(clients, args.cohort, found)


if __name__ == "__main__":
    main()
