"""Everything that can go wrong, many times: "0 of n" with the bound 3/n, and planted faults first.

    python benchmarks/campaign.py                 all of it, about half an hour on two cores
    python benchmarks/campaign.py --scale 0.01    a hundredth, as the tests run it
    python benchmarks/campaign.py --only fuzz     one part

Faults: each planted mistake must be caught by the checks that the other parts use.
Schedules: random lost, late, repeated and reordered messages in the virtual network, with and
without deadlines, against the onlooker's models and counters.
Kills: the same, with crashes of server and clients at every step of writing a record (in-process;
the disk forgets what was not made durable).
Damage: files of the store changed or cut; a record is whole, the older one or refused.
Fuzz: mutated and random bytes through the real decoder and ledger.
Processes: kill -9 of real processes on a real broker (needs mosquitto).

With 0 failures in n independent trials the probability of one is below 3/n, 95 % sure.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from faults import FAULTS

from psofed.deploy import store, wire
from psofed.deploy.coordinator import Coordinator
from psofed.deploy.network import Chance, Network, VirtualDisk, Weather
from psofed.deploy.onlooker import models
from psofed.deploy.plan import Deploy, Plan
from psofed.deploy.sources import replay
from psofed.experiment import Experiment, Features
from psofed.methods import psofed

ROUNDS, WORLDS = 8, 16
SCHEDULES, KILL_RUNS, DAMAGES, MESSAGES = 100_000, 4_000, 20_000, 1_000_000
PROCESS_KILLS = 40
BATCH = 250  # schedules of one task


@cache
def world(number: int) -> tuple[Plan, list[Any]]:
    """A small plan and its streams; the numbers of clients, features and entries vary."""
    clients, dim = 3 + number % 4, 5 + number % 5
    options = psofed.Options(
        shared=1 + number % 3, scheme=("uncoordinated", "coordinated")[number % 2]
    )
    features, cohort = Features(dim=dim), 1 + number % 3
    experiment = Experiment(clients=clients, cohort=cohort, rounds=ROUNDS, seed=number,
                            dtype="float64", features=features, methods=(options,))  # fmt: skip
    plan = Plan(experiment, Deploy(wire="float64"))
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
    server, heard = network.server.server, network.onlooker.heard[:-1]
    counts = server.ledger.counts
    same(counts, network.onlooker.counts(), "the ledger's counters")
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
    tally = Tally()
    for number in range(start, stop):
        tally.trials += 1
        try:
            servers, clients = play(seed, number, crashes)
        except Exception:
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


def _offer(server: Coordinator, plan: Plan, k: int, data: bytes) -> None:
    """One message: taken only if it is right, and nothing changes before the commit."""
    before, missing = server.server.state["w"].tobytes(), server.missing
    outcome = server.take(k, data)
    if server.server.state["w"].tobytes() != before:
        raise AssertionError(f"a message that was {outcome} changed the model")
    if (outcome == "accepted") != (k in missing and _right(server, plan, data)):
        raise AssertionError(f"the message {data!r} of client {k} was {outcome}")
    if server.missing != [m for m in missing if m != k or outcome != "accepted"]:
        raise AssertionError(f"a message that was {outcome} counted")


def _right(server: Coordinator, plan: Plan, data: bytes) -> bool:
    """What an upload must be, told independently of the decoder."""
    values = np.frombuffer(data[9:], "<f8") if len(data) % 8 == 1 and len(data) > 9 else []
    return (
        len(values) == server.server.method.shared  # type: ignore[attr-defined]
        and data[0] == 0b0001_01_11
        and data[1:5] == plan.digest.to_bytes(4, "little")
        and data[5:9] == server.n.to_bytes(4, "little")
        and all(-1e9 <= v <= 1e9 for v in values)
    )


def _honest(server: Coordinator, plan: Plan, chance: Any) -> bytes:
    body = chance.normal(size=server.server.method.shared).astype("<f8").tobytes()  # type: ignore[attr-defined]
    return wire.encode(wire.Frame(wire.UPLOAD, plan.digest, server.n, 0, "float64", body))


def _bad(chance: Any, honest: dict[int, bytes], plan: Plan) -> tuple[int, bytes]:
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


@contextmanager
def planted(fault: Callable[[], Any]) -> Iterator[None]:
    """A mistake in the code for a while."""
    undo = fault()
    try:
        yield
    finally:
        undo()


def caught(name: str | None) -> str:
    """What noticed a planted fault, or nothing; None plants nothing."""
    with planted(FAULTS[name] if name else lambda: lambda: None):
        for start in range(0, 1500, BATCH):
            for check in (
                lambda a=start: batch(7, a, a + BATCH // 5, True),
                lambda a=start: fuzz(7, a, a + BATCH * 4),
                lambda a=start: damage(7, a, a + BATCH // 5),
            ):
                tally = check()
                if tally.failures:
                    return f"after {start + tally.trials} trials: " + tally.first.splitlines()[-1]
    return ""


def report(name: str, what: str, tally: Tally, seconds: float) -> bool:
    """One line: 0 of n, and the bound."""
    bound = f"below {3 / max(tally.trials, 1):.1e}" if not tally.failures else "-"
    kills = f", {tally.server_kills} server and {tally.client_kills} client kills"
    more = kills if tally.server_kills else ""
    print(
        f"{name}: {tally.failures} of {tally.trials} {what}{more}; {bound}; {seconds:.0f} s",
        flush=True,
    )
    if tally.first:
        print(tally.first)
    return not tally.failures


def run_faults(scale: float, jobs: int) -> bool:
    """Every planted fault is caught, and without one nothing is."""
    with ProcessPoolExecutor(jobs) as pool:
        alarm = pool.submit(caught, None).result()
        print(f"no fault: {'FALSE ALARM ' + alarm if alarm else 'no alarm'}", flush=True)
        good = not alarm
        for name, how in zip(FAULTS, pool.map(caught, FAULTS), strict=True):
            print(f"fault {name!r}: {'caught ' + how if how else 'NOT CAUGHT'}", flush=True)
            good &= bool(how)
    print(f"faults: {len(FAULTS)} planted, {'all' if good else 'NOT all'} caught")
    return good


def spread(work: Callable[..., Tally], count: int, jobs: int, *rest: Any) -> tuple[Tally, float]:
    """`count` trials in batches over processes."""
    begin, total = time.monotonic(), Tally()
    with ProcessPoolExecutor(jobs) as pool:
        starts = range(0, count, BATCH)
        for done in [pool.submit(work, *a) for a in _batches(starts, count, rest)]:
            total.add(done.result())
    return total, time.monotonic() - begin


def _batches(starts: range, count: int, rest: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    seed, *more = rest
    for start in starts:
        yield (seed, start, min(start + BATCH, count), *more)


def run_schedules(scale: float, jobs: int) -> bool:
    """Bad networks, nobody crashes."""
    tally, seconds = spread(batch, round(SCHEDULES * scale), jobs, 1, False)
    return report("schedules", "wrong", tally, seconds)


def run_kills(scale: float, jobs: int) -> bool:
    """Bad networks, and server and clients crash while they write."""
    tally, seconds = spread(batch, round(KILL_RUNS * scale), jobs, 2, True)
    return report("kills", "runs wrong", tally, seconds)


def run_damage(scale: float, jobs: int) -> bool:
    """Files that rot."""
    tally, seconds = spread(damage, round(DAMAGES * scale), jobs, 4)
    return report("damage", "damaged records believed", tally, seconds)


def run_fuzz(scale: float, jobs: int) -> bool:
    """Bytes that nobody should send."""
    tally, seconds = spread(fuzz, round(MESSAGES * scale), jobs, 3)
    return report("fuzz", "messages did harm", tally, seconds)


def run_processes(scale: float, jobs: int) -> bool:
    """kill -9 on a real broker."""
    from processes import kills

    begin, total = time.monotonic(), Tally()
    wanted = max(round(PROCESS_KILLS * scale), 2)
    try:
        total.server_kills, total.client_kills, difference = kills(wanted)
        total.trials = total.server_kills + total.client_kills
        print(f"processes: largest difference to the engine {difference:.1e}")
        total.failures = int(not difference <= 1e-12)
    except FileNotFoundError as error:
        print(f"processes: skipped, {error}")
        return True
    return report("processes", "kills did harm", total, time.monotonic() - begin)


PARTS = {
    "faults": run_faults,
    "schedules": run_schedules,
    "kills": run_kills,
    "damage": run_damage,
    "fuzz": run_fuzz,
    "processes": run_processes,
}


def main() -> int:
    """The parts that were asked for; 0 only if nothing went wrong and all faults were caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--jobs", type=int, default=2)
    wishes = parser.parse_args()
    good = True
    for name in wishes.only or PARTS:
        good &= PARTS[name](wishes.scale, wishes.jobs)
    print("campaign: passed" if good else "campaign: FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
