"""Clients that do not answer: what they do to the pace of rounds, to the model and to fairness.

    python benchmarks/silence.py [pace] [model] [fair] [--clients 20] [--seconds 10]

pace: a server (`psofed serve`, live clock, `--every 0`) on a mosquitto and light clients with the
deployed wire format in one process. Phases take turns in one run: all are there, 10 % are gone, all
are back, 50 % are gone, all are back; then once more without patience, as it was before. Ratios are
to the phases in which all are there.

model: the deployed handlers without a network, PSO-Fed. Some clients fall asleep at a third of the
run. Mean square error of the global model in dB at the end, on the data of all clients.

fair: how often each client that is awake takes part; slow ones beside fast ones, with spare members.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers.devices import Mosquitto
from helpers.processes import ENV
from load import Peer, _packet, _text
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment
from psofed.methods import psofed
from psofed.protocol import deployment as plans
from psofed.protocol import membership, naps, wire
from psofed.protocol.client import Client
from psofed.protocol.deployment import Deploy, Deployment
from psofed.protocol.server import Server

SETTING = """
clients = {clients}
cohort = 4
[[methods]]
name = "psofed"
shared = 5
[deploy]
clock = "live"
"""
COHORT, SHARES = 4, (0.1, 0.5)


class Light(Peer):
    """A client that says hello, answers every invitation at once, and answers probes."""

    answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._hello()

    def _hello(self) -> None:
        frame = wire.encode(wire.Frame(wire.HELLO, self.digest, 0))
        self.transport.write(_packet(0x30, _text(f"p/{self.k}/u".encode()) + frame))

    def _answer(self, frame: wire.Frame) -> None:
        if frame.kind in wire.INVITATIONS:
            super()._answer(frame)
            self.answered += 1
        elif wire.word(frame.body) == wire.ASLEEP:
            self._hello()


class Fleet:
    """The light clients of one run, and the rounds of their server."""

    def __init__(self, file: Path, folder: Path, broker: Mosquitto, options: list[str]) -> None:
        self.digest, self.broker, self.peers = plans.read(file).digest, broker, {}
        self.command = [sys.executable, "-m", "psofed", "serve", file, "--state", folder / "s",
                        "--broker", broker.url, "--every", 0, "--log-json", *options]  # fmt: skip
        self.rows: list[tuple[float, dict[str, Any]]] = []

    async def start(self) -> None:
        self.server = await asyncio.create_subprocess_exec(
            *map(str, self.command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV
        )
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.server.stdout is not None
        async for line in self.server.stdout:
            self.rows.append((time.monotonic(), json.loads(line)))

    async def join(self, clients: list[int]) -> None:
        loop = asyncio.get_running_loop()
        for k in clients:
            ready: asyncio.Future[None] = loop.create_future()
            make = lambda k=k, ready=ready: Light(k, self.digest, ready)  # noqa: E731
            made = await loop.create_connection(make, "127.0.0.1", self.broker.port)
            self.peers[k] = made[1]
            await ready

    def leave(self, clients: list[int]) -> None:
        for k in clients:
            self.peers[k].transport.abort()

    async def rate(self, seconds: float) -> float:
        """Rounds a second from now on."""
        begun, count = time.monotonic(), len(self.rows)
        await asyncio.sleep(seconds)
        return (len(self.rows) - count) / (time.monotonic() - begun)

    async def steady(self, least: float, most: float = 60.0) -> float:
        """Seconds until there are again this many rounds in a second."""
        begun = time.monotonic()
        while time.monotonic() < begun + most:
            if await self.rate(1.0) >= least:
                return time.monotonic() - begun - 1.0
        return np.inf

    async def stop(self) -> None:
        self.leave(list(self.peers))
        with suppress(ProcessLookupError):
            self.server.terminate()
        await self.server.wait()
        await self.reader


async def phases(clients: int, seconds: float, options: list[str], steady: bool) -> dict[str, Any]:
    """The rates of the phases of one run, in their order."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "run.toml"
        file.write_text(SETTING.format(clients=clients))
        broker = Mosquitto(folder)
        fleet = Fleet(file, folder, broker, options)
        try:
            await fleet.start()
            await fleet.join(list(range(clients)))
            await fleet.rate(3.0)
            healthy = [await fleet.rate(seconds)]
            for share in SHARES:
                gone = list(range(int(share * clients)))
                fleet.leave(gone)
                back = await fleet.steady(0.8 * healthy[-1]) if steady else np.nan
                found[f"{share:.0%}"] = await fleet.rate(seconds), back
                await fleet.join(gone)
                found[f"{share:.0%} back"] = await all_back(fleet, gone)
                await fleet.rate(1.0)
                healthy.append(await fleet.rate(seconds))
            found["healthy"] = healthy
        finally:
            await fleet.stop()
            broker.stop()
    return found


async def all_back(fleet: Fleet, clients: list[int], most: float = 60.0) -> float:
    """Seconds until each of these has answered: its counter of answers has grown."""
    begun, before = time.monotonic(), {k: fleet.peers[k].answered for k in clients}
    while time.monotonic() < begun + most:
        if all(fleet.peers[k].answered > before[k] for k in clients):
            return time.monotonic() - begun
        await asyncio.sleep(0.01)
    return np.inf


def pace(clients: int, seconds: float) -> None:
    """The table of rates."""
    print(f"{clients} clients, cohorts of {COHORT}, rounds a second")
    print(
        "| | all there | 10 % gone | ratio | 50 % gone | ratio | steady after s | all back after s |"
    )
    print("|---" * 8 + "|")
    forms = {"no patience": (["--patience", "1e9"], False), "default": ([], True),
             "--patience 1": (["--patience", "1"], True), "--spare 4": (["--spare", "4"], True)}  # fmt: skip
    for name, (options, steady) in forms.items():
        row = asyncio.run(phases(clients, seconds, options, steady))
        h = row["healthy"]
        cells = [f"{np.mean(h):.0f}"]
        for i, share in enumerate(SHARES):
            rate = row[f"{share:.0%}"][0]
            cells += [f"{rate:.1f}", f"{rate / np.mean(h[i : i + 2]):.2f}"]
        cells += [" and ".join(f"{row[f'{s:.0%}'][1]:.0f}" for s in SHARES)]
        cells += [" and ".join(f"{row[f'{s:.0%} back']:.1f}" for s in SHARES)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def samples(clients: int, rounds: int, odd: int, number: int) -> tuple[Any, Any]:
    """Of each client: x [K, N, 4] and y [K, N]. The first `odd` ones have other inputs."""
    chance = Seeds(number).generator("silence")
    x = 0.7 * chance.standard_normal((clients, rounds, 4))
    x[:odd] += 1.0
    clean = np.sqrt(x[..., 0] ** 2 + np.sin(np.pi * x[..., 3]) ** 2)
    clean += (0.8 - 0.5 * np.exp(-(x[..., 1] ** 2))) * x[..., 2]
    return x, clean + 0.1 * chance.standard_normal((clients, rounds))


class Given:
    """Samples by number, as clients replay them."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __call__(self, start: int, stop: int) -> tuple[Any, Any]:
        return self.x[start:stop], self.y[start:stop]


def plan(clients: int, shared: int, rounds: int, number: int, cohort: int = COHORT) -> Deployment:
    """PSO-Fed with the paper's step and features."""
    methods = (psofed.Options(shared=shared),)
    experiment = Experiment(clients=clients, cohort=cohort, rounds=rounds, methods=methods,
                            seed=number, dtype="float64")  # fmt: skip
    return Deployment(experiment, Deploy(wire="float64"))


def error(shared: int, asleep: int, odd: int, number: int, clients: int, rounds: int) -> Any:
    """Mean square error at the end: on all clients' data, on that of the others, of sleepers."""
    given = plan(clients, shared, rounds, number)
    server = Server(given.method(), seated=given.seated)
    membership.seat(server)
    x, y = samples(clients, rounds, odd, number)
    members = [Client(given.method(), k, Given(x[k], y[k])) for k in range(clients)]
    for n in range(rounds):
        if n == rounds // 3 and asleep:
            naps.begin(server, range(asleep))
        for k, data in server.invite().items():
            server.collect(k, n, members[k].take_part(n, data))
        server.commit()
    tests, targets = samples(clients, 200, odd, number + 10**6)
    z = given.method().task.features(tests.reshape(-1, 4))
    square = (targets.ravel() - z @ server.model).reshape(clients, -1) ** 2
    first = square[: odd or asleep or 1]
    return square.mean(), square[len(first) :].mean(), first.mean()


def model(clients: int, rounds: int = 2000, runs: int = 10) -> None:
    """The table of errors."""
    print(f"{clients} clients, cohorts of {COHORT}, {rounds} rounds, {runs} runs: dB on the data of"
          " all, of those awake, of those asleep")  # fmt: skip
    print("| M | data of the sleepers | none asleep | 10 % asleep | 50 % asleep |")
    print("|---" * 5 + "|")
    for shared in (5, 40):
        for other in (False, True):
            cells = []
            for share in (0.0, *SHARES):
                count = int(share * clients)
                odd = (count or clients // 2) if other else 0
                found = [error(shared, count, odd, r, clients, rounds) for r in range(runs)]
                everybody, awake, asleep = 10 * np.log10(np.mean(found, axis=0))
                cells.append(f"{everybody:.2f} ({awake:.2f}, {asleep:.2f})")
            name = "other inputs" if other else "as the others"
            print(f"| {shared} | {name} | {' | '.join(cells)} |", flush=True)


def fair(clients: int = 100, rounds: int = 20_000) -> None:
    """How even participation is among those who are awake, and with slow clients and spares."""
    from scipy.stats import chi2

    for share in (0.0, *SHARES):
        given = plan(clients, 5, 1, 0)
        server = Server(given.method(), seated=given.seated)
        membership.seat(server)
        naps.begin(server, range(int(share * clients)))
        counts = np.zeros(clients, int)
        for n in range(1, rounds + 1):
            server.skip(n)
            counts[server.cohort] += 1
        awake = counts[int(share * clients) :]
        mean, left = awake.mean(), len(awake)
        # Cohorts are drawn without replacement: the counts vary less by (left - c) / (left - 1).
        found = ((awake - mean) ** 2).sum() / mean * (left - 1) / (left - COHORT)
        print(f"{share:.0%} of {clients} asleep, {rounds} rounds: each of the others {mean:.0f}"
              f" times, {awake.min()} to {awake.max()}; chi-square {found:.1f} with {left - 1}"
              f" degrees of freedom, p = {chi2.sf(found, left - 1):.2f}", flush=True)  # fmt: skip
    for spare in (0, 2, 4):
        print(f"spare {spare}: a client that takes 4 times as long takes part"
              f" {slow(spare, rounds):.2f} times as often as another", flush=True)  # fmt: skip


def slow(spare: int, rounds: int, clients: int = 20) -> float:
    """Half of the clients take 4 times as long; the first c answers of c + spare count."""
    chance = Seeds(1).generator("slow")
    scale = np.where(np.arange(clients) < clients // 2, 4.0, 1.0)
    counts = np.zeros(clients, int)
    for _ in range(rounds):
        asked = chance.choice(clients, COHORT + spare, replace=False)
        counts[asked[np.argsort(chance.exponential(scale[asked]))[:COHORT]]] += 1
    return float(counts[scale > 1].sum() / counts[scale == 1].sum())


def main() -> None:
    """The parts that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["pace", "model", "fair"])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=10)
    wishes = parser.parse_args()
    if "pace" in wishes.parts:
        pace(wishes.clients, wishes.seconds)
    if "model" in wishes.parts:
        model(wishes.clients, runs=wishes.runs)
    if "fair" in wishes.parts:
        fair()


if __name__ == "__main__":
    main()
