"""Clients that do not answer: what they do to the pace of rounds, to the model and to fairness.

    python benchmarks/silence.py [pace] [model] [fair] [--clients 20] [--seconds 10]

pace: a server (`psofed deploy serve`, live clock, `every = 0`) on a mosquitto and light clients
with the deployed wire format in one process, and beside them the same once more. In one fleet 10 %
of the clients are cut off and come back, then 50 %; in the other everybody stays. Ratios are
of the rounds of the two in the same seconds, so that other work of the machine concerns both.

model: the deployed handlers without a network, PSO-Fed. Some clients fall asleep at a third of the
run. Mean square error of the global model in dB at the end, on the data of all clients.

fair: how often each client that is awake takes part.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from load import Peer, _packet, _text

from helpers import programs
from helpers.devices import Mosquitto
from helpers.processes import ENV
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.protocol import durable, wire
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.server import Server
from psofed.fleet.protocol.signs import SIZE
from psofed.methods import psofed

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

    answered, last = 0, -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._hello()

    def _hello(self) -> None:
        frame = wire.encode(wire.Frame(wire.HELLO, self.digest, self.last + 1))
        self.transport.write(_packet(0x30, _text(f"p/{self.k}/u".encode()) + frame))

    def _answer(self, frame: wire.Frame) -> None:
        if frame.kind in wire.INVITATIONS:
            super()._answer(replace(frame, body=frame.body + bytes(SIZE)))
            self.answered, self.last = self.answered + 1, frame.n
        elif wire.word(frame.body) == wire.ASLEEP:
            self._hello()


class Fleet:
    """The light clients of one run, and the rounds of their server."""

    def __init__(self, folder: Path, clients: int, options: list[str]) -> None:
        folder.mkdir()
        file = folder / "run.toml"
        file.write_text(SETTING.format(clients=clients))
        self.digest, self.broker = (
            plans.read(file).digest,
            Mosquitto(programs.find("mosquitto"), folder),
        )
        self.peers: dict[int, Any] = {}
        self.command = [sys.executable, "-m", "psofed", "deploy", "serve", file, "--state",
                        folder / "s", "--broker", self.broker.url, "--set", "every=0",
                        *options]  # fmt: skip
        self.rounds = 0

    async def start(self, clients: int) -> None:
        self.server = await asyncio.create_subprocess_exec(
            *map(str, self.command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV
        )
        self.reader = asyncio.create_task(self._read())
        await self.join(range(clients))

    async def _read(self) -> None:
        assert self.server.stdout is not None
        async for _ in self.server.stdout:
            self.rounds += 1

    async def join(self, clients: Iterable[int]) -> None:
        loop = asyncio.get_running_loop()
        for k in clients:
            ready: asyncio.Future[None] = loop.create_future()
            make = lambda k=k, ready=ready: Light(k, self.digest, ready)  # noqa: E731
            made = await loop.create_connection(make, "127.0.0.1", self.broker.port)
            self.peers[k] = made[1]
            await ready

    def leave(self, clients: Iterable[int]) -> None:
        for k in clients:
            self.peers[k].transport.abort()

    async def stop(self) -> None:
        self.leave(self.peers)
        with suppress(ProcessLookupError):
            self.server.terminate()
        await self.server.wait()
        await self.reader
        self.broker.stop()


class Pair:
    """A fleet, and another one beside it in which everybody stays: it shows what is possible."""

    def __init__(self, folder: Path, clients: int, options: list[str]) -> None:
        self.fleet = Fleet(folder / "a", clients, options)
        self.other = Fleet(folder / "b", clients, options)

    async def rates(self, seconds: float) -> tuple[float, float]:
        """Rounds a second of both, from now on."""
        begun, both = time.monotonic(), (self.fleet.rounds, self.other.rounds)
        await asyncio.sleep(seconds)
        passed = time.monotonic() - begun
        return (self.fleet.rounds - both[0]) / passed, (self.other.rounds - both[1]) / passed

    async def steady(self, most: float = 40.0) -> float:
        """Seconds until the one has four fifths of the rounds of the other, in a second."""
        begun = time.monotonic()
        while time.monotonic() < begun + most:
            ours, theirs = await self.rates(1.0)
            if ours >= 0.8 * theirs:
                return time.monotonic() - begun - 1.0
        return np.inf


async def phases(clients: int, seconds: float, options: list[str]) -> list[str]:
    """The cells of one row."""
    cells = []
    with tempfile.TemporaryDirectory() as name:
        pair = Pair(Path(name), clients, options)
        try:
            for each in (pair.fleet, pair.other):
                await each.start(clients)
            await pair.rates(3.0)
            ours, theirs = await pair.rates(seconds)
            cells += [f"{ours:.0f}", f"{ours / theirs:.2f}"]
            for share in SHARES:
                gone = range(int(share * clients))
                pair.fleet.leave(gone)
                after = await pair.steady()
                ours, theirs = await pair.rates(seconds)
                await pair.fleet.join(gone)
                back = await all_back(pair.fleet, gone)
                cells += [f"{ours / theirs:.2f}", f"{after:.0f} s", f"{back:.1f} s"]
                await pair.rates(2.0)
        finally:
            for each in (pair.fleet, pair.other):
                await each.stop()
    return cells


async def all_back(fleet: Fleet, clients: Iterable[int], most: float = 60.0) -> float:
    """Seconds until each of these has answered, after they have connected."""
    begun = time.monotonic()
    while time.monotonic() < begun + most:
        if all(fleet.peers[k].answered for k in clients):
            return time.monotonic() - begun
        await asyncio.sleep(0.01)
    return np.inf


def pace(clients: int, seconds: float) -> None:
    """The table of rates."""
    print(f"{clients} clients, cohorts of {COHORT}")
    gone = " | ".join(f"{s:.0%} gone: ratio | steady after | back after" for s in SHARES)
    print(f"| | rounds/s, all there | ratio | {gone} |")
    print("|---" * 9 + "|")
    forms = {
        "no patience": ["--set", "patience=1e9"],
        "default": [],
        "`patience = 1`": ["--set", "patience=1"],
    }
    for name, options in forms.items():
        cells = asyncio.run(phases(clients, seconds, options))
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


def error(
    shared: int, asleep: int, odd: int, count: int, number: int, clients: int, rounds: int
) -> Any:
    """Mean square error at the end: on all data, without that of the first `count`, on theirs."""
    given = plan(clients, shared, rounds, number)
    server = Server(given.method(), bind=given.bind)
    server.become(durable.rebound(server, server.table))
    x, y = samples(clients, rounds, odd, number)
    members = [Client(given.method(), k, Given(x[k], y[k])) for k in range(clients)]
    for n in range(rounds):
        if n == rounds // 3 and asleep:
            server.sleep(range(asleep))
        for k, data in server.invite().items():
            server.collect(k, n, members[k].take_part(n, data))
        server.commit()
    tests, targets = samples(clients, 200, odd, number + 10**6)
    z = given.method().task.features(tests.reshape(-1, 4))
    square = (targets.ravel() - z @ server.model).reshape(clients, -1) ** 2
    return square.mean(), square[count:].mean(), square[:count].mean()


def model(clients: int, rounds: int = 2000, runs: int = 10) -> None:
    """The table of errors."""
    print(f"{clients} clients, cohorts of {COHORT}, {rounds} rounds, {runs} runs; dB")
    print("| M | asleep | their data | all awake | asleep | on the others' data | on their data |")
    print("|---" * 7 + "|")
    for shared in (5, 40):
        for share in SHARES:
            for other in (False, True):
                count = int(share * clients)
                odd = count if other else 0
                before, after = (
                    10 * np.log10(np.mean([error(shared, k, odd, count, r, clients, rounds)
                                           for r in range(runs)], axis=0))
                    for k in (0, count)
                )  # fmt: skip
                name = "other inputs" if other else "as the others'"
                parts = [f"{a:.2f} -> {b:.2f}" for a, b in zip(before[1:], after[1:], strict=True)]
                cells = [f"{before[0]:.2f}", f"{after[0]:.2f}", *parts]
                print(f"| {shared} | {share:.0%} | {name} | {' | '.join(cells)} |", flush=True)


def fair(clients: int = 100, rounds: int = 20_000) -> None:
    """How even participation is among those who are awake."""
    from scipy.stats import chi2

    for share in (0.0, *SHARES):
        given = plan(clients, 5, 1, 0)
        server = Server(given.method(), bind=given.bind)
        server.become(durable.rebound(server, server.table))
        server.sleep(range(int(share * clients)))
        counts = np.zeros(clients, int)
        for n in range(1, rounds + 1):
            server.become(server.now.skipped(n))
            counts[server.cohort] += 1
        awake = counts[int(share * clients) :]
        mean, left = awake.mean(), len(awake)
        # Cohorts are drawn without replacement: the counts vary less by (left - c) / (left - 1).
        found = ((awake - mean) ** 2).sum() / mean * (left - 1) / (left - COHORT)
        print(f"{share:.0%} of {clients} asleep, {rounds} rounds: each of the others {mean:.0f}"
              f" times, {awake.min()} to {awake.max()}; chi-square {found:.1f} with {left - 1}"
              f" degrees of freedom, p = {chi2.sf(found, left - 1):.2f}", flush=True)  # fmt: skip


def main() -> None:
    """The parts that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["pace", "model", "fair"])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=10)
    args = parser.parse_args()
    if "pace" in args.parts:
        pace(args.clients, args.seconds)
    if "model" in args.parts:
        model(args.clients, runs=args.runs)
    if "fair" in args.parts:
        fair()


if __name__ == "__main__":
    main()
