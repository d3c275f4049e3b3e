"""What the defence of a deployment costs its server: the time of a commit with it and without.

    python benchmarks/defended.py [--rounds 1000]

The deployed coordinator on a real folder, D = 200, M = 5, cohorts of 4: answers come in, the round
is folded and made durable. With and without the defence take turns, round by round, because other
work shares the machine; the ratio is that of the means, records that are saved seldom included.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers.loopback import plan
from psofed.experiment import Features
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.signs import SIZE
from psofed.fleet.protocol.store import StateFolder
from psofed.methods import psofed
from psofed.stages.defences import none


def commit(server: Coordinator, values: np.ndarray) -> tuple[float, float]:
    """One round in which all answer: seconds by the clock and of the processor."""
    for k in list(server.missing):
        body = values.astype("<f4").tobytes() + bytes(SIZE * server.plan.signed)
        frame = wire.Frame(wire.UPLOAD, server.plan.digest, server.n, wire="float32", body=body)
        assert server.take(k, wire.encode(frame)) == "accepted"
    begun, worked = time.perf_counter(), time.process_time()
    server.commit()
    return time.perf_counter() - begun, time.process_time() - worked


def compare(clients: int, rounds: int) -> np.ndarray:
    """Mean milliseconds of a commit [without or with; by the clock, of the processor]."""
    settings = {"clients": clients, "cohort": 4, "features": Features(dim=200), "dtype": "float32"}
    methods, live = (psofed.Options(shared=5),), Deploy(clock="live")
    plans = [plan(live, methods=methods, **settings, **more)
             for more in ({"defence": none.Options()}, {})]  # fmt: skip
    rng, spent = np.random.default_rng(0), np.zeros((2, 2))
    with tempfile.TemporaryDirectory() as name:
        folders = [StateFolder(Path(name) / each) for each in ("without", "with")]
        servers = [Coordinator(*each) for each in zip(plans, folders, strict=True)]
        for _ in range(rounds):
            values = rng.standard_normal(5)
            for j, server in enumerate(servers):
                spent[j] += commit(server, values)
    return 1000 * spent / rounds


def measure(quick: bool) -> dict[str, float]:
    """Ratios of the time of a commit, by the clock."""
    found = {K: compare(K, 200 if quick else 1000) for K in (10, 1000)}
    return {f"ratio_{K}": float(times[1, 0] / times[0, 0]) for K, times in found.items()}


def main() -> None:
    """A row for each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    rounds = parser.parse_args().rounds
    print("| | ms without | ms with | ratio | CPU ms without | CPU ms with |")
    print("|---" * 6 + "|")
    for clients in (10, 1000):
        (without, cpu), (defended, more) = compare(clients, rounds)
        times = f"{without:.1f} | {defended:.1f} | {defended / without:.2f}"
        print(f"| {clients} clients | {times} | {cpu:.2f} | {more:.2f} |")


if __name__ == "__main__":
    main()
