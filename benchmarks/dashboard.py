"""What a dashboard costs a server, and how soon it shows a commit.

    python benchmarks/dashboard.py [--clients 1000] [--cohort 4] [--rounds 1500]

`psofed serve` with the clients of `load.py` on one mosquitto: without a dashboard, with one that
nobody watches, with one that is watched and scraped. The three take turns, several times, because
other work shares the machine; rates are compared within one run, and CPU time of the server, which
other work disturbs least. The delay is from the line that
the server prints after a commit to the event that tells of the round, on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from load import SETTING, Peer

from helpers.devices import Mosquitto, free_port
from helpers.processes import ENV
from psofed.protocol import deployment as plans

WAYS = ("none", "unwatched", "watched")
SCRAPES = 5.0  # seconds between two requests for /metrics


class Reader:
    """Watches the events and notes when it hears of each round."""

    def __init__(self, port: int) -> None:
        self.port, self.heard, self.size, self.first = port, {}, 0, 0

    async def watch(self) -> None:
        """Until the server ends."""
        reader, writer = await self._ask("/events")
        await reader.readuntil(b"\r\n\r\n")
        while data := await _event(reader):
            now = time.monotonic()
            self.first = self.first or len(data)
            self.size += len(data)
            for row in json.loads(data).get("rows", []):
                self.heard.setdefault(row[0], now)
        writer.close()

    async def scrape(self) -> None:
        """As Prometheus does."""
        while True:
            await asyncio.sleep(SCRAPES)
            reader, writer = await self._ask("/metrics")
            await reader.read()
            writer.close()

    async def _ask(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in range(200):
            with contextlib.suppress(OSError):
                pair = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
                pair[1].write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                return pair
            await asyncio.sleep(0.05)
        raise RuntimeError("no dashboard")


async def _event(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(asyncio.IncompleteReadError):
        return (await reader.readuntil(b"\n\n")).partition(b"data: ")[2]
    return b""


@dataclass
class Result:
    """What was measured once."""

    rate: float  # rounds a second
    cpu: float  # milliseconds a round
    delays: list[float]
    reader: Reader


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def serve(file: Path, folder: Path, url: str, way: str, rounds: int) -> Result:
    """All rounds in one way."""
    reader = Reader(free_port())
    shown = [] if way == "none" else ["--dashboard", reader.port]
    command = [sys.executable, "-m", "psofed", "serve", file, "--state", folder, "--broker", url,
               "--log-json", "--deadline", "10", *shown]  # fmt: skip
    server = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env=ENV,
    )  # fmt: skip
    works = [reader.watch(), reader.scrape()] if way == "watched" else []
    tasks = [asyncio.create_task(work) for work in works]
    assert server.stdout is not None
    printed, cpu = {}, []
    async for line in server.stdout:
        n = json.loads(line)["n"]
        printed[n] = time.monotonic()
        if n in (rounds // 10, rounds - 1):
            cpu.append(_cpu(server.pid))
    await server.wait()
    if tasks:
        await tasks[0]
        tasks[1].cancel()
    steps = np.diff(list(printed.values()))
    delays = [reader.heard[n] - printed[n] for n in printed if n in reader.heard]
    spent = 1000 * (cpu[1] - cpu[0]) / (rounds - 1 - rounds // 10)
    return Result(1 / float(np.median(steps)), spent, delays, reader)


async def play(
    clients: int, cohort: int, rounds: int, turns: int
) -> tuple[dict[str, list[Result]], int]:
    """All ways in turn, and the bytes of a history."""
    found: dict[str, list[Result]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "run.toml"
        file.write_text(SETTING.format(clients=clients, rounds=rounds, cohort=cohort))
        broker, peers = Mosquitto(folder), []
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
            size = (place / "history").stat().st_size
        finally:
            for peer in peers:
                peer.close()
            broker.stop()
    return found, size


def measure(quick: bool) -> dict[str, float]:
    """CPU ms of the server in a round, by way, with 100 clients."""
    found, _ = asyncio.run(play(100, 4, 500, 1 if quick else 3))
    return {way: float(np.median([each.cpu for each in found[way]])) for way in WAYS}


def _print(
    clients: int, cohort: int, rounds: int, found: dict[str, list[Result]], size: int
) -> None:
    rates, cpu = (
        {way: np.array([getattr(r, name) for r in found[way]]) for way in WAYS}
        for name in ("rate", "cpu")
    )
    ratios = [f"{np.median(rates[way] / rates['none']):.2f}" for way in WAYS[1:]]
    spent = [f"{np.median(cpu[way]):.2f}" for way in WAYS]
    median, p99 = 1000 * np.quantile([d for r in found["watched"] for d in r.delays], [0.5, 0.99])
    reader = found["watched"][-1].reader
    sent = f"{reader.first / 1000:.0f} | {(reader.size - reader.first) / rounds:.0f}"
    print(f"| {clients} | {cohort} | {np.median(rates['none']):.0f} | {' | '.join(ratios)}"
          f" | {' / '.join(spent)} | {median:.0f} | {p99:.0f} | {sent} | {size / 1000:.0f} |",
          flush=True)  # fmt: skip


def main() -> None:
    """A few settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--cohort", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--turns", type=int, default=3)
    wishes = parser.parse_args()
    print("| clients | cohort | rounds/s without | ratio unwatched | ratio watched |"
          " CPU ms a round: none / unwatched / watched | delay ms | p99 ms | kB at first |"
          " bytes a round | kB of history |")  # fmt: skip
    print("|---" * 11 + "|")
    for clients in wishes.clients:
        found, size = asyncio.run(play(clients, wishes.cohort, wishes.rounds, wishes.turns))
        _print(clients, wishes.cohort, wishes.rounds, found, size)


if __name__ == "__main__":
    main()
