"""Memory of a server whose fleet never stops changing: 1 % of the clients go each round, 1 % come.

    python benchmarks/churn.py                   10,000 rounds, 1,000 clients
    python benchmarks/churn.py --rounds 500

Real handlers and a real state folder, without a network. Clients are not real: each answers with
random values of the right size, so that only the server has a memory.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np

from psofed.experiment import Experiment
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.signs import SIZE
from psofed.fleet.protocol.store import StateFolder
from psofed.methods import psofed
from psofed.stages.defences import clip

CLIENTS, COHORT, SHARED, PERCENT = 1000, 20, 5, 1
GROWTH = 1.1  # of the memory in the second half of the rounds, at most


class Churn:
    """A server, and members by number, the oldest first."""

    def __init__(self, path: Path, seed: int = 1) -> None:
        experiment = Experiment(clients=CLIENTS, cohort=COHORT, rounds=10**6, seed=seed,
                                methods=(psofed.Options(shared=SHARED),),
                                defence=clip.Options())  # fmt: skip
        self.plan = Deployment(experiment, Deploy(clock="live", wire="float32"))
        self.path, self.folder = path, StateFolder(path)
        self.server = Coordinator(self.plan, self.folder)
        self.chance = np.random.default_rng(seed)
        self.members, self.next = list(range(CLIENTS)), CLIENTS
        self.spent = {"changes": 0.0, "answers": 0.0, "commits": 0.0}

    def round(self) -> None:
        """Some go, as many come, all who are asked answer, and the round is closed."""
        begin = time.perf_counter()
        some = CLIENTS * PERCENT // 100
        gone = self.chance.choice(len(self.members), some, replace=False).tolist()
        self.server.change("remove", [self.members[i] for i in gone])
        new = list(range(self.next, self.next + some))
        self.server.change("add", new)
        self.members = [k for i, k in enumerate(self.members) if i not in set(gone)] + new
        self.next += some
        changed = time.perf_counter()
        for k in self.server.frames():
            if self.chance.random() < 0.5:  # others were connected before the server was started
                self.server.take(k, self.hello())
            self.server.take(k, self.answer(self.server.n - 1) if self.server.n else b"")
            if self.server.take(k, self.answer(self.server.n)) != "accepted":
                raise AssertionError(f"the answer of client {k} was not accepted")
        answered = time.perf_counter()
        self.server.commit()
        for name, seconds in zip(
            self.spent, (changed - begin, answered - changed, time.perf_counter() - answered),
            strict=True,
        ):  # fmt: skip
            self.spent[name] += seconds

    def hello(self) -> bytes:
        """As a client says it after each connect."""
        return wire.encode(wire.Frame(wire.HELLO, self.plan.digest, self.server.n))

    def answer(self, n: int) -> bytes:
        """To round n, which may be over; something of the right size."""
        body = self.chance.normal(scale=0.01, size=SHARED).astype("<f4").tobytes() + bytes(SIZE)
        frame = wire.Frame(wire.UPLOAD, self.plan.digest, n, 0, "float32", body)
        return wire.encode(frame)

    def sizes(self) -> dict[str, int]:
        """Bytes: in memory, of the newest record, of the log, of the whole folder."""
        files = {path.name: path.stat().st_size for path in self.path.iterdir()}
        record = max(files.get(name, 0) for name in ("record.0", "record.1"))
        return {"resident": resident(), "record": record, "log": files.get("fleet.jsonl", 0),
                "folder": sum(files.values()), "rows": len(self.server.server.table)}  # fmt: skip


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> int:
    """One line in a thousand rounds; 0 only if the memory does not grow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--top", action="store_true", help="what was allocated since, by line")
    args = parser.parse_args()
    each, found = max(args.rounds // 10, 1), []
    with tempfile.TemporaryDirectory() as name:
        churn = Churn(Path(name) / "state")
        for n in range(1, args.rounds + 1):
            churn.round()
            if n == each and args.top:
                tracemalloc.start()
                first = tracemalloc.take_snapshot()
            if n % each == 0:
                gc.collect()
                found.append(churn.sizes())
                spent = ", ".join(f"{k} {1e3 * s / each:.1f} ms" for k, s in churn.spent.items())
                churn.spent = dict.fromkeys(churn.spent, 0.0)
                sizes = ", ".join(
                    f"{k} {v}" if k == "rows" else f"{k} {v / 1e6:.2f} MB"
                    for k, v in found[-1].items()
                )
                print(f"round {n}: {sizes}; a round: {spent}", flush=True)
        if args.top:
            for line in tracemalloc.take_snapshot().compare_to(first, "lineno")[:10]:
                print(line)
        churn.folder.close()
    half = found[len(found) // 2]["resident"]
    flat = found[-1]["resident"] <= GROWTH * half
    counts = churn.server.server.ledger.counts
    told = counts["accepted"] + counts["refused"] + counts["lost"]
    print(f"churn: {churn.next - CLIENTS} came, as many went; {'flat' if flat else 'NOT flat'}")
    return 0 if flat and told == counts["asked"] == counts["accepted"] else 1


if __name__ == "__main__":
    sys.exit(main())
