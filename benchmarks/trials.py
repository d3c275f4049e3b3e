"""The trials of the campaign: each is a function of a seed and a number, and says what it found."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from network import Network, Weather
from protocol_oracle import models

from helpers.virtual_disk import Chance, CrashError, VirtualDisk
from psofed.experiment import Experiment, Features
from psofed.fleet.protocol import store, wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.samples import replay
from psofed.methods import psofed

ROUNDS, WORLDS = 8, 16
BATCH = 250  # trials of one task


@cache
def world(number: int) -> tuple[Deployment, list[Any]]:
    """A small plan and its streams; the numbers of clients, features and entries vary."""
    clients, dim = 3 + number % 4, 5 + number % 5
    options = psofed.Options(
        shared=1 + number % 3, scheme=("uncoordinated", "coordinated")[number % 2]
    )
    features, cohort = Features(dim=dim), 1 + number % 3
    experiment = Experiment(clients=clients, cohort=cohort, rounds=ROUNDS, seed=number,
                            dtype="float64", features=features, methods=(options,))  # fmt: skip
    plan = Deployment(experiment, Deploy(wire="float64"))
    return plan, [_array(experiment, k) for k in range(clients)]


def _array(experiment: Experiment, k: int) -> Callable[[int, int], Any]:
    x, y = replay(experiment, k)(0, ROUNDS)
    return lambda start, stop: (x[start:stop], y[start:stop])


@cache
def undisturbed(number: int) -> tuple[Any, Any]:
    """The models of a run in which nothing goes wrong."""
    plan, streams = world(number)
    cohorts = [{int(k) for k in plan.method().task.cohorts.cohort(n)} for n in range(ROUNDS)]
    part = [{n for n in range(ROUNDS) if k in cohorts[n]} for k in range(len(streams))]
    return models(plan, cohorts, part, streams)


def weather(chance: Chance, crashes: bool) -> Weather:
    """Anything from fair to foul."""
    u = [chance.below(1000) / 1000 for _ in range(5)]
    deadline = None if chance(0.5) else 1 + chance.below(60)
    crash = {"server_crash": 0.3 * u[3], "client_crash": 0.3 * u[4]} if crashes else {}
    return Weather(0.5 * u[0], 0.5 * u[1], 0.8 * u[2], deadline=deadline, **crash)


def play(seed: int, number: int, crashes: bool) -> tuple[int, int]:
    """One run in one weather; an AssertionError if anything is not as it must be."""
    chance = Chance(seed, number)
    plan, streams = world(number % WORLDS)
    network = Network(plan, weather(chance, crashes), chance, streams)
    trace = network.run(ROUNDS)
    server, heard = network.server.server, network.reference.heard[:-1]
    counts = server.ledger.counts
    same(counts, network.reference.counts(), "the ledger's counters")
    same(counts["asked"], counts["accepted"] + counts["refused"] + counts["lost"], "the sum")
    same(server.n, ROUNDS, "the number of rounds")
    same(trace.stale, 0, "the answers to a server that was replaced")
    same(trace.sent, trace.delivered + trace.dropped, "the network's own sum")
    for (k, n), bodies in trace.answers.items():
        same(len(bodies), 1, f"the number of answers of client {k} to round {n}")
    w, local = models(plan, heard, trace.took_part, streams)
    close(server.state["w"], w, "the global model")
    for member in network.members:
        close(member.client.state["w"], local[member.k], "a local model")
    if network.weather.deadline is None:
        w, local = undisturbed(number % WORLDS)
        close(server.state["w"], w, "the global model of a patient server")
        for member in network.members:
            close(member.client.state["w"], local[member.k], "a local model of a patient server")
    return trace.server_crashes, trace.client_crashes


def same(found: Any, expected: Any, what: str) -> None:
    """Equal, or an AssertionError."""
    if found != expected:
        raise AssertionError(f"{what}: {found}, not {expected}")


def close(found: Any, expected: Any, what: str) -> None:
    """Equal to 1e-12, or an AssertionError; NaN is not."""
    if not np.abs(found - expected).max() <= 1e-12:
        raise AssertionError(f"{what} is off by {np.abs(found - expected).max():g}")


@dataclass
class Tally:
    """What a part of the campaign has counted."""

    trials: int = 0
    failures: int = 0
    server_kills: int = 0
    client_kills: int = 0
    first: str = ""

    def add(self, other: Tally) -> None:
        self.trials += other.trials
        self.failures += other.failures
        self.server_kills += other.server_kills
        self.client_kills += other.client_kills
        self.first = self.first or other.first


def batch(seed: int, start: int, stop: int, crashes: bool) -> Tally:
    """Some runs in a row."""
    return in_a_row(lambda number: play(seed, number, crashes), start, stop)


def in_a_row(run: Callable[[int], tuple[int, int]], start: int, stop: int) -> Tally:
    """Runs by number, each with the kills of servers and clients; what fails is counted."""
    tally = Tally()
    for number in range(start, stop):
        tally.trials += 1
        try:
            servers, clients = run(number)
        except (Exception, CrashError):
            tally.failures += 1
            tally.first = tally.first or f"number {number}:\n{traceback.format_exc(limit=-3)}"
        else:
            tally.server_kills += servers
            tally.client_kills += clients
    return tally


def damage(seed: int, start: int, stop: int) -> Tally:
    """A record that was changed or cut: the one before it is found, or none; never a mixture."""
    chance, tally = np.random.default_rng([seed, start]), Tally()
    for number in range(start, stop):
        disk = VirtualDisk("d", Chance(seed, number))
        kept = store.Store(disk, {"run": "p"})
        rows = [{"w": chance.normal(size=4), "n": np.array(n)} for n in range(3)]
        for row in rows:
            kept.save(row)
        name = store.SLOTS[int(chance.integers(2))]
        data = bytearray(disk.files[name])
        at = int(chance.integers(len(data)))
        data[at] ^= int(chance.integers(1, 256))
        disk.files[name] = bytes(data[:at] if chance.random() < 0.5 else data)
        tally.trials += 1
        try:
            found = store.Store(disk, {"run": "p"}).load() or {}
            expected = rows[1 if name == store.SLOTS[1] else 2]
            # Row 2 is the newest and in the first of the two files.
            good = all(np.array_equal(found.get(k), expected[k]) for k in expected)
        except Exception as error:
            good, tally.first = False, tally.first or repr(error)
        if not good:
            tally.failures += 1
            tally.first = tally.first or f"number {number}: {name} was changed at {at}, unnoticed"
    return tally


def fuzz(seed: int, start: int, stop: int) -> Tally:
    """Mutated and random messages, a few at each round, with honest ones in between."""
    chance, tally = np.random.default_rng([seed, start]), Tally()
    plan, _ = world(start // BATCH % WORLDS)
    server = Coordinator(plan, VirtualDisk("d", Chance(seed, start)))
    while tally.trials < stop - start:
        honest = {k: _honest(server, plan, chance) for k in server.missing}
        try:
            for _ in range(40):
                tally.trials += 1
                _offer(server, plan, *_bad(chance, honest, plan))
            for k, data in honest.items():
                server.take(k, data)
            server.commit()
            counts = server.server.ledger.counts
            told = counts["accepted"] + counts["refused"] + counts["lost"]
            same(told, counts["asked"], "the sum")
            if not np.isfinite(server.server.state["w"]).all():
                raise AssertionError("the model is not finite")
        except Exception:
            tally.failures += 1
            tally.first = tally.first or traceback.format_exc(limit=-3)
            return tally
    return tally


def _offer(server: Coordinator, plan: Deployment, k: int, data: bytes) -> None:
    """One message: taken only if it is right, and nothing changes before the commit."""
    before, missing = server.server.state["w"].tobytes(), server.missing
    outcome = server.take(k, data)
    if server.server.state["w"].tobytes() != before:
        raise AssertionError(f"a message that was {outcome} changed the model")
    if (outcome == "accepted") != (k in missing and _right(server, plan, data)):
        raise AssertionError(f"the message {data!r} of client {k} was {outcome}")
    if server.missing != [m for m in missing if m != k or outcome != "accepted"]:
        raise AssertionError(f"a message that was {outcome} counted")


def _right(server: Coordinator, plan: Deployment, data: bytes) -> bool:
    """What an upload must be, told independently of the decoder."""
    values = np.frombuffer(data[9:], "<f8") if len(data) % 8 == 1 and len(data) > 9 else []
    return (
        len(values) == server.server.method.shared  # type: ignore[attr-defined]
        and data[0] == 0b0001_01_11
        and data[1:5] == plan.digest.to_bytes(4, "little")
        and data[5:9] == server.n.to_bytes(4, "little")
        and all(-1e9 <= v <= 1e9 for v in values)
    )


def _honest(server: Coordinator, plan: Deployment, chance: Any) -> bytes:
    body = chance.normal(size=server.server.method.shared).astype("<f8").tobytes()  # type: ignore[attr-defined]
    return wire.encode(wire.Frame(wire.UPLOAD, plan.digest, server.n, 0, "float64", body))


def _bad(chance: Any, honest: dict[int, bytes], plan: Deployment) -> tuple[int, bytes]:
    """A message as an accident or an enemy would send it."""
    k = int(chance.choice([*honest, *range(plan.experiment.clients), -1, 10**6]))
    data = bytearray(honest.get(k, next(iter(honest.values()), bytes(20))))
    kind = chance.integers(9)
    if kind < 3:  # some bytes are others
        for at in chance.integers(len(data), size=1 + chance.integers(3)):
            data[at] = chance.integers(256)
    elif kind == 3:  # longer, shorter, empty
        size = int(chance.integers(2 * len(data) + 1))
        data = data[:size] + bytearray(chance.bytes(max(size - len(data), 0)))
    elif kind == 4:
        data = bytearray(chance.bytes(int(chance.integers(80))))
    elif kind == 5:  # a number that is none, or too large
        special = np.array([np.nan, np.inf, -np.inf, 1.7e308, -1e300, 5e-324, -0.0, 2e9])
        data[9:17] = chance.choice(special).astype("<f8").tobytes()
    elif kind == 6:  # a right frame of another round
        data[5:9] = int(chance.integers(2**32)).to_bytes(4, "little")
    elif kind == 7:  # one bit of the header
        data[int(chance.integers(9))] ^= 1 << int(chance.integers(8))
    # Else it is the right frame, from whoever.
    return k, bytes(data)
